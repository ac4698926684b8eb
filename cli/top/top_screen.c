#define NCURSES_WIDECHAR 1
#include "cli/top/top_screen.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/top/top_terminfo.h"

/* How long an escape may be the first byte of a key, ms. */
#define ESCAPE_MS 50

enum { PAIR_WARM = 1, PAIR_HOT, PAIR_BAR };

/* ---- open, close */

static void start_colours(struct screen *s)
{
    const char *no_color = getenv("NO_COLOR");
    s->colours = !(no_color && *no_color) && has_colors() && start_color() == OK;
    if (!s->colours)
        return;
    short ground = use_default_colors() == OK ? -1 : COLOR_BLACK;
    init_pair(PAIR_WARM, COLOR_YELLOW, ground);
    init_pair(PAIR_HOT, COLOR_RED, ground);
    init_pair(PAIR_BAR, COLOR_CYAN, ground);
}

static int no_terminal(struct screen *s, struct err *e, const char *why)
{
    if (s->tty)
        fclose(s->tty);
    s->tty = NULL;
    return err_set(e, ERR_USAGE, "top needs a terminal%s; `tidemark tree` prints the same", why);
}

int screen_open(struct screen *s, bool stdin_taken, struct err *e)
{
    const char *term = getenv("TERM");
    *s = (struct screen){.fd = STDIN_FILENO};
    if (stdin_taken) {
        s->tty = fopen("/dev/tty", "r+e");
        s->fd = s->tty ? fileno(s->tty) : -1;
    }
    if (s->fd < 0 || !isatty(s->fd) || !isatty(STDOUT_FILENO))
        return no_terminal(s, e, "");
    /* Only LC_CTYPE: numbers keep the C locale's format. */
    setlocale(LC_CTYPE, "");
    s->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (!term || !*term)
        return no_terminal(s, e, ", and TERM says nothing about this one");
    /* Checked first, since a screen that cannot be created leaks. */
    if (terminfo_knows(STDOUT_FILENO))
        s->terminal = newterm(NULL, stdout, s->tty ? s->tty : stdin);
    if (!s->terminal)
        return no_terminal(s, e, " that terminfo knows");
    set_term(s->terminal);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    start_colours(s);
    s->width = (unsigned)COLS;
    s->height = (unsigned)LINES;
    return 0;
}

void screen_close(struct screen *s)
{
    if (s->terminal) {
        endwin();
        delscreen(s->terminal);
    }
    if (s->tty)
        fclose(s->tty);
    s->terminal = NULL;
    s->tty = NULL;
}

/* ---- keys */

int screen_key(struct screen *s)
{
    static const struct {
        int curses, ours;
    } keys[] = {
        {KEY_UP, SCREEN_UP},       {KEY_DOWN, SCREEN_DOWN},     {KEY_LEFT, SCREEN_LEFT},
        {KEY_RIGHT, SCREEN_RIGHT}, {KEY_PPAGE, SCREEN_PAGE_UP}, {KEY_NPAGE, SCREEN_PAGE_DOWN},
        {KEY_HOME, SCREEN_HOME},   {KEY_END, SCREEN_END},       {KEY_ENTER, SCREEN_ENTER},
        {'\r', SCREEN_ENTER},      {'\n', SCREEN_ENTER},        {KEY_BACKSPACE, SCREEN_BACKSPACE},
        {0x7f, SCREEN_BACKSPACE},  {'\b', SCREEN_BACKSPACE},    {KEY_RESIZE, SCREEN_RESIZE},
    };
    int key = getch();
    s->width = (unsigned)COLS;
    s->height = (unsigned)LINES;
    if (key == ERR)
        return SCREEN_NO_KEY;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (keys[i].curses == key)
            return keys[i].ours;
    }
    return key < 0x100 ? key : SCREEN_OTHER;
}

/* ---- drawing */

static attr_t attributes(const struct screen *s, enum screen_style style)
{
    switch (style) {
    case SCREEN_BOLD:
        return A_BOLD;
    case SCREEN_DIM:
        return s->colours ? COLOR_PAIR(PAIR_BAR) : A_NORMAL;
    case SCREEN_BAR:
    case SCREEN_CHOSEN:
        return A_REVERSE;
    case SCREEN_WARM:
        return s->colours ? COLOR_PAIR(PAIR_WARM) : A_NORMAL;
    case SCREEN_HOT:
        return (s->colours ? COLOR_PAIR(PAIR_HOT) : A_NORMAL) | A_BOLD;
    default:
        return A_NORMAL;
    }
}

void screen_clear(struct screen *s)
{
    (void)s;
    erase();
}

/* Without UTF-8, "?" replaces each non-ASCII character. */
static unsigned put_ascii(unsigned columns, struct view text)
{
    unsigned used = 0;
    for (size_t i = 0; i < text.len && used < columns; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if ((c & 0xc0) == 0x80)
            continue;
        addch(c >= 0x20 && c < 0x7f ? c : '?');
        used++;
    }
    return used;
}

static unsigned put_wide(unsigned columns, struct view text)
{
    mbstate_t state = {0};
    unsigned used = 0;
    for (size_t at = 0; at < text.len;) {
        wchar_t c[2] = {0};
        size_t n = mbrtowc(c, text.p + at, text.len - at, &state);
        int wide = n == 0 || n > text.len - at ? -1 : wcwidth(c[0]);
        if (wide < 0) {
            /*
             * The text is escaped and well-formed: the C library does not know a newer character.
             */
            state = (mbstate_t){0};
            for (n = 1; at + n < text.len && ((unsigned char)text.p[at + n] & 0xc0) == 0x80;)
                n++;
            c[0] = L'?';
            wide = 1;
        }
        if (used + (unsigned)wide > columns)
            break;
        addwstr(c);
        used += (unsigned)wide;
        at += n;
    }
    return used;
}

unsigned screen_text(struct screen *s, unsigned line, unsigned column, unsigned columns,
                     enum screen_style style, struct view text)
{
    if (line >= s->height || column >= s->width)
        return 0;
    if (columns > s->width - column)
        columns = s->width - column;
    attrset(attributes(s, style));
    move((int)line, (int)column);
    unsigned used = s->utf8 ? put_wide(columns, text) : put_ascii(columns, text);
    attrset(A_NORMAL);
    return used;
}

void screen_fill(struct screen *s, unsigned line, unsigned column, enum screen_style style)
{
    attrset(attributes(s, style));
    for (; line < s->height && column < s->width; column++)
        mvaddch((int)line, (int)column, ' ');
    attrset(A_NORMAL);
}

void screen_show(struct screen *s, int line, unsigned column)
{
    curs_set(line >= 0 ? 1 : 0);
    if (line >= 0 && (unsigned)line < s->height && column < s->width)
        move(line, (int)column);
    refresh();
}
