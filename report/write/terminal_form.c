#include "report/write/terminal_form.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/format.h"

#define WIDTH_LEAST 20u
#define HOT_PERCENT 50u
#define WARM_PERCENT 10u

bool terminal_takes_colors(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
}

unsigned terminal_width(FILE *out)
{
    struct winsize size;
    if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) != 0 ||
        size.ws_col < WIDTH_LEAST)
        return 80;
    return size.ws_col;
}

struct terminal_form terminal_form_of(FILE *out)
{
    if (!isatty(fileno(out)))
        return (struct terminal_form){0};
    return (struct terminal_form){terminal_width(out), terminal_takes_colors(out)};
}

/* ---- colours */

static const char *const tints[] = {
    [TINT_NONE] = "",         [TINT_HOT] = "\033[31m",  [TINT_WARM] = "\033[33m",
    [TINT_GOOD] = "\033[32m", [TINT_FAINT] = "\033[2m", [TINT_TITLE] = "\033[1m"};

void tint(struct buf *b, struct terminal_form form, enum tint which)
{
    buf_puts(b, form.colors ? tints[which] : "");
}

void tint_end(struct buf *b, struct terminal_form form, enum tint which)
{
    buf_puts(b, form.colors && which != TINT_NONE ? "\033[0m" : "");
}

static bool reaches(uint64_t part, uint64_t whole, unsigned percent)
{
    return whole && (unsigned __int128)part * 100 >= (unsigned __int128)whole * percent;
}

enum tint share_tint(uint64_t part, uint64_t whole)
{
    return reaches(part, whole, HOT_PERCENT)    ? TINT_HOT
           : reaches(part, whole, WARM_PERCENT) ? TINT_WARM
                                                : TINT_NONE;
}

/* ---- cells */

void cell_bar(struct buf *b, struct terminal_form form, enum tint which, uint64_t part,
              uint64_t whole)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    unsigned most = BAR_WIDTH * 8;
    part = part < whole ? part : whole;
    unsigned filled = whole ? (unsigned)((unsigned __int128)part * most / whole) : 0;
    filled = part && !filled ? 1 : filled;
    buf_puts(b, "  ");
    tint(b, form, which);
    for (unsigned i = 0; i < BAR_WIDTH; i++) {
        unsigned here = filled > i * 8 ? filled - i * 8 : 0;
        buf_puts(b, eighths[here < 8 ? here : 8]);
    }
    tint_end(b, form, which);
}

/* The bytes that the first `columns` characters of well-formed UTF-8 take. */
static size_t bytes_of_columns(struct view text, size_t columns)
{
    size_t i = 0;
    while (i < text.len) {
        if (((uint8_t)text.p[i] & 0xc0) != 0x80 && columns-- == 0)
            break;
        i++;
    }
    return i;
}

size_t put_shortened(struct buf *b, struct view text, size_t width)
{
    struct buf plain = {0};
    format_terminal(&plain, text);
    struct view all = buf_view(&plain);
    size_t columns = format_width(all);
    if (columns <= width) {
        buf_put(b, all.p, all.len);
    } else {
        size_t head = (width - 1) / 2;
        size_t tail = bytes_of_columns(all, columns - (width - 1 - head));
        buf_put(b, all.p, bytes_of_columns(all, head));
        buf_puts(b, "…");
        buf_put(b, all.p + tail, all.len - tail);
        columns = width;
    }
    buf_end(&plain, &b->failed);
    return columns;
}

/* ---- columns */

unsigned names_least(unsigned width)
{
    unsigned least = width * 3 / 8;
    least = least < 24 ? 24 : least;
    return least < width / 2 ? least : width / 2;
}

unsigned fit_columns(struct fitted_column *columns, size_t n, unsigned room)
{
    for (size_t i = 0; i < n; i++) {
        columns[i].shown = columns[i].width <= room;
        room -= columns[i].shown ? columns[i].width : 0;
    }
    return room;
}

/* ---- lines */

/* The length of an escape sequence at the begin of the text; 0: there is none. */
static size_t escape_length(struct view text)
{
    if (text.len < 2 || text.p[0] != '\033' || text.p[1] != '[')
        return 0;
    size_t n = 2;
    while (n < text.len && (text.p[n] < '@' || text.p[n] > '~'))
        n++;
    return n < text.len ? n + 1 : n;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * The length of what fits into `columns`, up to a blank behind a word, if possible not that between
 * a number and its unit; all of it if it fits. A word that does not fit alone is not broken.
 */
static size_t fitting(struct view line, size_t columns)
{
    size_t used = 0, last = 0;
    bool word = false;
    for (size_t i = 0; i < line.len;) {
        size_t escape = escape_length((struct view){line.p + i, line.len - i});
        if (escape) {
            i += escape;
            continue;
        }
        bool unit = last && is_digit(line.p[i - 1]) && i + 1 < line.len && !is_digit(line.p[i + 1]);
        if (line.p[i] == ' ' && word && !unit)
            last = i;
        word |= line.p[i] != ' ';
        used += ((uint8_t)line.p[i] & 0xc0) != 0x80;
        if (used > columns && last)
            return last;
        i++;
    }
    return line.len;
}

static void write_line(unsigned width, struct view line, FILE *out)
{
    size_t indent = 0;
    while (indent < line.len && line.p[indent] == ' ')
        indent++;
    indent = indent + 2 < width / 2 ? indent + 2 : 2;
    size_t n = fitting(line, width);
    (void)fwrite(line.p, 1, n, out); /* ferror reports it at the end */
    while (n < line.len) {
        line = (struct view){line.p + n, line.len - n};
        while (line.len && line.p[0] == ' ')
            line = (struct view){line.p + 1, line.len - 1};
        if (line.len == 0)
            break;
        (void)fprintf(out, "\n%*s", (int)indent, "");
        n = fitting(line, width - indent);
        (void)fwrite(line.p, 1, n, out);
    }
}

void write_folded(struct terminal_form form, struct view text, FILE *out)
{
    if (form.width == 0) {
        (void)fwrite(text.p, 1, text.len, out); /* ferror reports it at the end */
        return;
    }
    while (text.len) {
        const char *end = memchr(text.p, '\n', text.len);
        size_t n = end ? (size_t)(end - text.p) : text.len;
        write_line(form.width, (struct view){text.p, n}, out);
        n += end != NULL;
        if (end)
            (void)fputc('\n', out);
        text = (struct view){text.p + n, text.len - n};
    }
}
