/* Draws `tidemark top`. */

#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "base/saturate.h"
#include "cli/top/top.h"
#include "report/write/text_cells.h"

#define HEAD_LINES 3u
#define NAME_LEAST 30u
#define HOT_PERCENT 50u
#define WARM_PERCENT 10u

static struct view bytes_of(const struct buf *b)
{
    return (struct view){b->data ? (const char *)b->data : "", b->len};
}

static unsigned put(struct top *t, unsigned line, unsigned column, enum screen_style style,
                    const char *text)
{
    return screen_text(&t->screen, line, column, t->screen.width, style, view_of(text));
}

/* Text from the trace, escaped. */
static unsigned put_harmless(struct top *t, unsigned line, unsigned column, enum screen_style style,
                             struct view text)
{
    struct buf plain = {0};
    format_terminal(&plain, text);
    unsigned used = screen_text(&t->screen, line, column, t->screen.width, style, bytes_of(&plain));
    buf_release(&plain);
    return used;
}

static const struct tree_figures *whole(const struct top *t)
{
    return &t->tree.nodes.at[TREE_ROOT].inclusive;
}

/* ---- head */

static void draw_bar(struct top *t)
{
    char bytes[FORMAT_SIZE];
    char count[FORMAT_SIZE];
    char peak[FORMAT_SIZE];
    char text[4 * FORMAT_SIZE];
    struct view program = strings_get(&t->trace->strings, t->trace->facts.program);
    unsigned x = put(t, 0, 0, SCREEN_BAR, " ");
    if (t->file) {
        struct view name = view_base_name(view_of(t->file));
        x += put_harmless(t, 0, x, SCREEN_BAR, name);
        x += put(t, 0, x, SCREEN_BAR, ": ");
    }
    if (t->live)
        x += put(t, 0, x, SCREEN_BAR, t->frozen ? "frozen: " : "live: ");
    else if (t->end)
        x += put(t, 0, x, SCREEN_BAR, t->end);
    x += t->end && !t->live ? put(t, 0, x, SCREEN_BAR, ": ") : 0;
    x += put_harmless(t, 0, x, SCREEN_BAR, program.len ? program : view_of("a program"));
    x += put(t, 0, x, SCREEN_BAR, t->pool == TREE_ALL_POOLS ? ", all pools" : ", pool ");
    if (t->pool != TREE_ALL_POOLS)
        x += put_harmless(t, 0, x, SCREEN_BAR, view_of(t->pools.at[t->pool]));
    snprintf(text, sizeof text, ": %s live in %s, peak %s",
             format_bytes(bytes, whole(t)->at[TREE_LIVE_BYTES]),
             format_counted(count, whole(t)->at[TREE_LIVE_COUNT], "block"),
             format_bytes(peak, whole(t)->at[TREE_PEAK_BYTES]));
    x += put(t, 0, x, SCREEN_BAR, text);
    screen_fill(&t->screen, 0, x, SCREEN_BAR);
}

/* The highest use within column `i` of `n`. */
static uint64_t spark(const struct timeline_series *s, size_t count, unsigned i, unsigned n)
{
    size_t from = count * i / n;
    size_t to = count * (i + 1) / n;
    uint64_t most = 0;
    for (size_t k = from; k < to || k == from; k++)
        most = s->buckets[k].high > most ? s->buckets[k].high : most;
    return most;
}

static void draw_sparks(struct top *t)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {" ", "_", ".", ":", "-", "=", "+", "*", "#"};
    const struct timeline *u;
    const struct timeline_series *s = top_usage(t, &u);
    char label[FORMAT_SIZE];
    char time[FORMAT_SIZE];
    char text[3 * FORMAT_SIZE];
    uint64_t most = s ? spark(s, u->count, 0, 1) : 0;
    snprintf(text, sizeof text, " use in %s, up to %s ", format_duration(time, u->end),
             format_bytes(label, most));
    unsigned x = put(t, 1, 0, SCREEN_DIM, text);
    unsigned n = t->screen.width > x + 1 ? t->screen.width - x - 1 : 0;
    for (unsigned i = 0; i < n && most; i++) {
        uint64_t value = spark(s, u->count, i, n);
        size_t level = (size_t)((unsigned __int128)value * 8 / most);
        level = level == 0 && value ? 1 : level;
        x += put(t, 1, x, SCREEN_DIM, t->screen.utf8 ? blocks[level] : letters[level]);
    }
}

/* ---- columns */

enum column_kind { COLUMN_METRIC, COLUMN_SHARE, COLUMN_OWN };

struct column_shown {
    enum column_kind kind;
    enum tree_metric metric;
    unsigned width; /* including the space before it */
};

#define COLUMNS_MAX (TREE_METRICS + 2)

static unsigned metric_width(enum tree_metric m)
{
    return tree_metric_is_bytes(m) ? 10 : 12;
}

/*
 * The sort column with its share and the nodes' own figure, then as many others as leave room for
 * names.
 */
static unsigned choose_columns(const struct top *t, struct column_shown out[COLUMNS_MAX])
{
    static const enum tree_metric others[] = {TREE_LIVE_BYTES, TREE_LIVE_COUNT, TREE_BYTES,
                                              TREE_COUNT,      TREE_PEAK_BYTES, TREE_TEMPORARY};
    enum tree_metric m = t->options.sort;
    const struct column_shown first[] = {{COLUMN_METRIC, m, metric_width(m)},
                                         {COLUMN_SHARE, m, 8},
                                         {COLUMN_OWN, m, metric_width(m)}};
    unsigned n = 0;
    unsigned used = 0;
    unsigned names = t->screen.width / 2;
    names = names > NAME_LEAST ? names : NAME_LEAST;
    unsigned room = t->screen.width > names ? t->screen.width - names : 0;
    for (size_t i = 0; i < 3 && used + first[i].width <= room; i++) {
        used += first[i].width;
        out[n++] = first[i];
    }
    for (size_t i = 0; i < sizeof others / sizeof *others && n >= 3; i++) {
        if (others[i] == m || used + metric_width(others[i]) > room)
            continue;
        used += metric_width(others[i]);
        out[n++] = (struct column_shown){COLUMN_METRIC, others[i], metric_width(others[i])};
    }
    return n;
}

static void put_right(struct top *t, unsigned line, unsigned column, unsigned width,
                      enum screen_style style, const char *text)
{
    unsigned n = (unsigned)format_width(view_of(text));
    put(t, line, column + (width > n ? width - n : 0), style, text);
}

static void draw_titles(struct top *t, const struct column_shown *columns, unsigned n)
{
    static const char *const titles[] = {
        [TREE_BYTES] = "Size",           [TREE_COUNT] = "Count",
        [TREE_LIVE_BYTES] = "Live size", [TREE_LIVE_COUNT] = "Live",
        [TREE_PEAK_BYTES] = "At peak",   [TREE_PEAK_COUNT] = "At peak",
        [TREE_TEMPORARY] = "Temporary",  [TREE_RESIDENT] = "Resident"};
    char name[64];
    unsigned x = 0;
    for (unsigned i = 0; i < n; i++) {
        const char *title = columns[i].kind == COLUMN_SHARE ? "Share"
                            : columns[i].kind == COLUMN_OWN ? "Own"
                                                            : titles[columns[i].metric];
        put_right(t, 2, x, columns[i].width, i ? SCREEN_PLAIN : SCREEN_BOLD, title);
        x += columns[i].width;
    }
    snprintf(name, sizeof name, "By %s, %s%s", tree_by_name(t->options.by),
             t->options.bottom_up ? "bottom-up" : "top-down",
             t->browser.only_live ? ", live only" : "");
    put(t, 2, x + 2, SCREEN_BOLD, name);
}

static const char *column_text(char out[FORMAT_SIZE], const struct top *t,
                               const struct column_shown *c, const struct browser_row *row)
{
    const struct tree_node *nodes = t->tree.nodes.at;
    uint64_t value = nodes[row->node].inclusive.at[c->metric];
    if (c->kind == COLUMN_OWN) {
        value = nodes[row->head].exclusive.at[c->metric];
        for (uint32_t at = row->node; at != row->head; at = nodes[at].parent)
            value = saturating_add(value, nodes[at].exclusive.at[c->metric]);
    }
    if (c->kind == COLUMN_SHARE)
        return format_percent(out, value, whole(t)->at[c->metric]);
    return tree_metric_is_bytes(c->metric) ? format_bytes(out, value) : format_count(out, value);
}

/* ---- rows */

static enum screen_style style_of(const struct top *t, const struct tree_node *n)
{
    enum tree_metric m = t->options.sort;
    unsigned __int128 value = (unsigned __int128)n->inclusive.at[m] * 100;
    unsigned __int128 all = whole(t)->at[m];
    if (n->depth == 0 || value == 0)
        return SCREEN_PLAIN;
    return value >= all * HOT_PERCENT    ? SCREEN_HOT
           : value >= all * WARM_PERCENT ? SCREEN_WARM
                                         : SCREEN_PLAIN;
}

/* Indents by depth while names have room; then prints the depth as a number. */
static void put_indent(struct buf *b, unsigned depth, unsigned room)
{
    unsigned most = room / 5;
    for (unsigned i = 0; i < depth && i < most; i++)
        buf_puts(b, "  ");
    if (depth > most)
        buf_printf(b, "(%u) ", depth);
}

static void put_label(struct top *t, struct buf *b, const struct tree_node *n, bool bare)
{
    const struct tree_label *l = &t->tree.labels.at[n->label];
    struct buf name = {0};
    char count[FORMAT_SIZE];
    if (n->depth == 0) {
        buf_puts(b, "all");
        return;
    }
    if (n->others) {
        buf_printf(b, "%s others", format_count(count, n->others));
        return;
    }
    (bare ? tree_label_bare : tree_label_name)(&name, &t->tree, l);
    if (t->options.by == TREE_LINE)
        frame_source(&name, &l->frame);
    format_terminal(b, bytes_of(&name));
    buf_release(&name);
}

#define LABEL_LEAST 8u /* columns */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t less(size_t from, size_t by)
{
    return from > by ? from - by : 0;
}

/* What is between the first and the last node of a folded chain. */
static void put_middle(const struct top *t, struct buf *b, unsigned between)
{
    const char *arrow = t->screen.utf8 ? (t->options.bottom_up ? " ← " : " → ")
                                       : (t->options.bottom_up ? " < " : " > ");
    buf_puts(b, arrow);
    if (between)
        buf_printf(b, "(%u)%s", between, arrow);
}

/*
 * The label of a row: of a folded chain the first and the last node, and how many are between. If
 * short of room, bare names of functions; the node that allocates has two thirds of the room, and
 * what one does not need the other one has.
 */
static void put_row_label(struct top *t, struct buf *b, const struct browser_row *row, size_t room)
{
    struct buf first = {0}, last = {0}, middle = {0};
    const struct tree_node *n = &t->tree.nodes.at[row->node];
    const struct tree_node *head = &t->tree.nodes.at[row->head];
    if (n != head)
        put_middle(t, &middle, n->depth - head->depth - 1);
    room = less(room, format_width(bytes_of(&middle)));
    for (int bare = 0; bare < 2; bare++) {
        buf_clear(&first);
        buf_clear(&last);
        put_label(t, &last, n, bare);
        if (n != head)
            put_label(t, &first, head, bare);
        if (format_width(bytes_of(&first)) + format_width(bytes_of(&last)) <= room)
            break;
    }
    size_t share = t->options.bottom_up ? room - room / 3 : room / 3; /* of the first */
    share = larger(share, less(room, format_width(bytes_of(&last))));
    size_t used = n != head ? put_shortened(b, bytes_of(&first), larger(share, LABEL_LEAST)) : 0;
    buf_put(b, middle.data, middle.len);
    put_shortened(b, bytes_of(&last), larger(less(room, used), LABEL_LEAST));
    b->failed |= first.failed | last.failed | middle.failed;
    buf_release(&first);
    buf_release(&last);
    buf_release(&middle);
}

static void draw_row(struct top *t, unsigned line, size_t at, const struct column_shown *columns,
                     unsigned n)
{
    const struct browser_row *row = browser_row(&t->browser, at);
    const struct tree_node *node = &t->tree.nodes.at[row->node];
    bool chosen = at == t->browser.cursor;
    enum screen_style style = chosen ? SCREEN_CHOSEN : style_of(t, node);
    struct buf text = {0};
    char number[FORMAT_SIZE];
    unsigned x = 0;
    if (chosen)
        screen_fill(&t->screen, line, 0, SCREEN_CHOSEN);
    for (unsigned i = 0; i < n; i++) {
        put_right(t, line, x, columns[i].width, style, column_text(number, t, &columns[i], row));
        x += columns[i].width;
    }
    x += 2;
    put_indent(&text, row->depth, t->screen.width > x ? t->screen.width - x : 0);
    if (!row->has_children)
        buf_puts(&text, "  ");
    else if (t->screen.utf8)
        buf_puts(&text, row->open ? "▾ " : "▸ ");
    else
        buf_puts(&text, row->open ? "- " : "+ ");
    size_t used = x + format_width(bytes_of(&text));
    put_row_label(t, &text, row, t->screen.width > used ? t->screen.width - used : 0);
    screen_text(&t->screen, line, x, t->screen.width, chosen ? SCREEN_CHOSEN : SCREEN_PLAIN,
                bytes_of(&text));
    buf_release(&text);
}

/* Chooses the rows that are shown, and completes them, which may take long. */
static void place_rows(struct top *t, unsigned lines)
{
    struct browser *b = &t->browser;
    if (b->cursor < t->first)
        t->first = b->cursor;
    if (lines && b->cursor >= t->first + lines)
        t->first = b->cursor - lines + 1;
    /* Scrolls back rather than leave lines empty. */
    if (t->first + lines > b->rows.len)
        t->first = b->rows.len > lines ? b->rows.len - lines : 0;
    for (unsigned i = 0; i < lines && t->first + i < b->rows.len; i++)
        (void)browser_row(b, t->first + i);
}

static void draw_rows(struct top *t, unsigned from, unsigned lines)
{
    struct column_shown columns[COLUMNS_MAX];
    unsigned n = choose_columns(t, columns);
    const struct browser *b = &t->browser;
    if (from)
        draw_titles(t, columns, n);
    for (unsigned i = 0; i < lines && t->first + i < b->rows.len; i++)
        draw_row(t, from + i, t->first + i, columns, n);
}

/* ---- details */

static void detail_figures(struct top *t, unsigned line, const struct tree_node *n)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    char text[4 * FORMAT_SIZE];
    const uint64_t *f = n->inclusive.at;
    snprintf(text, sizeof text, " %s in %s, ", format_bytes(a, f[TREE_BYTES]),
             format_counted(b, f[TREE_COUNT], "allocation"));
    unsigned x = put(t, line, 0, SCREEN_PLAIN, text);
    snprintf(text, sizeof text, "%s temporary", format_count(a, f[TREE_TEMPORARY]));
    put(t, line, x, SCREEN_PLAIN, text);
    snprintf(text, sizeof text, " live: %s in %s; ", format_bytes(a, f[TREE_LIVE_BYTES]),
             format_counted(b, f[TREE_LIVE_COUNT], "block"));
    x = put(t, line + 1, 0, SCREEN_PLAIN, text);
    snprintf(text, sizeof text, "at the peak: %s in %s", format_bytes(a, f[TREE_PEAK_BYTES]),
             format_counted(b, f[TREE_PEAK_COUNT], "block"));
    put(t, line + 1, x, SCREEN_PLAIN, text);
}

/* "file.cpp:12"; the path is shortened to the room beside the name. */
static void put_place(struct buf *b, const struct frame_view *f, unsigned room)
{
    bool failed = false;
    bool whole_path = text_width(f->file, &failed) + 8 <= room;
    format_terminal(b, whole_path ? f->file : view_base_name(f->file));
    if (f->file.len && f->line)
        buf_printf(b, ":%u", f->line);
    if (f->file.len == 0 && f->function.len)
        format_terminal(b, view_base_name(f->image));
}

/* A frame of a call stack: its location has to be visible, however long its name is. */
static void draw_frame(struct top *t, unsigned line, const struct frame_view *f)
{
    struct buf raw = {0};
    struct buf name = {0};
    struct buf place = {0};
    unsigned width = t->screen.width;
    unsigned begin = 7;
    frame_name(&raw, f);
    format_terminal(&name, bytes_of(&raw));
    size_t used = format_width(bytes_of(&name));
    put_place(&place, f, width > begin + used + 2 ? (unsigned)(width - begin - used - 2) : 0);
    size_t needed = format_width(bytes_of(&place)) + 2;
    unsigned most = width > begin + needed ? (unsigned)(width - begin - needed) : 0;
    if (f->is_inline)
        put(t, line, 2, SCREEN_DIM, "inl.");
    if (used > most && most > 20) {
        unsigned x =
            begin + screen_text(&t->screen, line, begin, most - 3, SCREEN_PLAIN, bytes_of(&name));
        begin = x + put(t, line, x, SCREEN_PLAIN, "...");
    } else {
        begin += screen_text(&t->screen, line, begin, width, SCREEN_PLAIN, bytes_of(&name));
    }
    screen_text(&t->screen, line, begin + 2, width, SCREEN_DIM, bytes_of(&place));
    buf_release(&raw);
    buf_release(&name);
    buf_release(&place);
}

/* The call stack with the most bytes through the chosen node, innermost frame first. */
static void draw_details(struct top *t, unsigned from, unsigned lines)
{
    const struct browser_row *row = browser_row(&t->browser, t->browser.cursor);
    const struct tree_node *n = &t->tree.nodes.at[row->node];
    struct frame_walk walk = frame_walk_start(t->trace, n->callstack);
    struct frame_view f;
    struct buf name = {0};
    char bytes[FORMAT_SIZE];
    char text[3 * FORMAT_SIZE];
    size_t at = 0;
    if (lines < 5)
        return;
    put_label(t, &name, n, false);
    unsigned x = put(t, from, 0, SCREEN_BAR, " ");
    x += screen_text(&t->screen, from, x, t->screen.width, SCREEN_BAR, bytes_of(&name));
    screen_fill(&t->screen, from, x, SCREEN_BAR);
    buf_release(&name);
    detail_figures(t, from + 1, n);
    snprintf(text, sizeof text, " the call stack with most bytes through here (%s):",
             format_bytes(bytes, n->callstack_bytes));
    put(t, from + 3, 0, SCREEN_BOLD, text);
    for (unsigned i = 4; frame_walk_next(&walk, &f);) {
        if (at++ >= t->details && i < lines)
            draw_frame(t, from + i++, &f);
    }
    t->details = at && t->details >= at ? at - 1 : t->details;
    if (at == 0)
        put(t, from + 4, 7, SCREEN_PLAIN, "[no call stack]");
}

/* ---- last line, help */

/* The most useful keys, as many as there is room for. Returns the width used. */
static unsigned draw_keys(struct top *t, unsigned line)
{
    static const char *const keys[] = {"q quit", "? help",        "/ search",  "enter open",
                                       "s sort", "b turn around", "d details", "p pool",
                                       "v by",   "a live only",   "c chains"};
    unsigned x = 0;
    if (t->live)
        x += put(t, line, x, SCREEN_BAR, " f freeze ");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (x + strlen(keys[i]) + 2 > t->screen.width && i)
            break;
        x += put(t, line, x, SCREEN_BAR, " ");
        x += put(t, line, x, SCREEN_BAR, keys[i]);
        x += put(t, line, x, SCREEN_BAR, " ");
    }
    return x;
}

static void draw_last(struct top *t, unsigned line)
{
    unsigned x;
    if (t->searching) {
        x = put(t, line, 0, SCREEN_PLAIN, "/");
        put_harmless(t, line, x, SCREEN_PLAIN, view_of(t->search));
        return;
    }
    if (t->message[0]) {
        x = put_harmless(t, line, 0, SCREEN_BAR, view_of(t->message));
    } else {
        x = draw_keys(t, line);
    }
    screen_fill(&t->screen, line, x, SCREEN_BAR);
}

static void draw_help(struct top *t)
{
    static const char *const lines[] = {
        "up, down, k, j       a row up or down; page up, page down; home, end, g, G",
        "right, l, +          open a node, or go into it",
        "left, h, -           close it, or go to its caller",
        "enter, space         open or close it; on \"N others\": the next 1000 of them",
        "*                    open all below it",
        "z                    close all",
        "s, S, >, <           sort by the next column, or the one before",
        "1 to 7               by size, count, live size, live, size at peak, count at peak,",
        "                     temporary",
        "b                    bottom-up or top-down",
        "v                    nodes by function, line, file, image, module, thread or type",
        "p, P                 the next pool, or the one before",
        "a                    only nodes with live blocks, or all",
        "c                    chains of calls in one row, or a row for each node",
        "/, n, N              search in names, files and images: the heaviest; next; previous",
        "d                    details of the node: its largest call stack; [ and ] scroll it",
        "f                    while recording: freeze the figures, or go on",
        "q                    quit",
    };
    put(t, 0, 0, SCREEN_BAR, " tidemark top: keys");
    screen_fill(&t->screen, 0, 19, SCREEN_BAR);
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
        put(t, i + 2, 2, SCREEN_PLAIN, lines[i]);
    if (t->screen.height > sizeof lines / sizeof *lines + 3)
        put(t, (unsigned)(sizeof lines / sizeof *lines) + 3, 2, SCREEN_BOLD, "any key goes back");
}

void top_draw_last(struct top *t, const char *text)
{
    unsigned line = t->screen.height - 1;
    if (t->screen.height <= 2)
        return;
    screen_fill(&t->screen, line, put_harmless(t, line, 0, SCREEN_BAR, view_of(text)), SCREEN_BAR);
    screen_show(&t->screen, -1, 0);
}

void top_draw(struct top *t)
{
    unsigned height = t->screen.height;
    if (t->show_help) {
        screen_clear(&t->screen);
        draw_help(t);
        screen_show(&t->screen, -1, 0);
        return;
    }
    /* If lines are short, rows take precedence over the head, the last line over the details. */
    unsigned head = height > HEAD_LINES + 1 ? HEAD_LINES : 0;
    unsigned last = height > 2 ? 1 : 0;
    unsigned details = t->show_details && height >= 12 ? height / 2 : 0;
    unsigned rows = height - head - last - details;
    place_rows(t, rows);
    t->work_look = 0;
    screen_clear(&t->screen);
    draw_rows(t, head, rows);
    if (head) {
        draw_bar(t);
        draw_sparks(t);
    }
    if (details)
        draw_details(t, head + rows, details);
    if (last)
        draw_last(t, height - 1);
    int at = t->searching && last ? (int)height - 1 : -1;
    screen_show(&t->screen, at, (unsigned)format_width(view_of(t->search)) + 1);
}
