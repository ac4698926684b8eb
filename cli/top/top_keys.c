/* Handles keys in `tidemark top`, and its turns. top_draw.c and the man page list the keys. */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "cli/top/top.h"

#define ESCAPE 27
#define OPEN_ROWS_MAX 10000u
#define DETAILS_STEP 5u

/* Interval of rebuilding the figures of a recording, and the largest share of time for it. */
#define BUILD_EVERY_NS 1000000000LL
#define BUILD_SHARE 4

static int no_memory(struct err *e)
{
    return err_no_memory(e, "the rows");
}

static void say(struct top *t, const char *text)
{
    snprintf(t->message, sizeof t->message, "%s", text);
}

/* ---- order and grouping */

static int sort_by(struct top *t, enum tree_metric metric, struct err *e)
{
    t->options.sort = metric;
    tree_sort(&t->tree, metric);
    return browser_show(&t->browser, &t->tree) ? 0 : no_memory(e);
}

static int group_by_next(struct top *t, struct err *e)
{
    char text[64];
    t->options.by = t->options.by == TREE_TYPE ? TREE_FUNCTION : t->options.by + 1;
    snprintf(text, sizeof text, "nodes by %s", tree_by_name(t->options.by));
    say(t, text);
    return top_build_tree(t, e);
}

static int turn_around(struct top *t, struct err *e)
{
    t->options.bottom_up = !t->options.bottom_up;
    say(t, t->options.bottom_up ? "bottom-up: allocating functions, their callers below"
                                : "top-down: outermost callers, what they call below");
    return top_build_tree(t, e);
}

/* Cycles through all pools together, then each one. */
static int choose_pool(struct top *t, bool forward, struct err *e)
{
    uint32_t last = (uint32_t)t->pools.len - 1;
    uint32_t next = forward ? t->pool + 1 : t->pool - 1; /* TREE_ALL_POOLS + 1 is 0 */
    if (t->pools.len == 0 || t->pool == (forward ? last : 0))
        next = TREE_ALL_POOLS;
    else if (!forward && t->pool == TREE_ALL_POOLS)
        next = last;
    return top_choose_pool(t, next, e);
}

/* ---- long work */

/* How long work for a key may be silent, and between changes of its progress. */
#define WORK_LOOK_NS 40000000LL

static bool is_time_to_show(struct top *t)
{
    long long now = monotonic_ns();
    if (t->work_look == 0 || now < t->work_look)
        return false;
    t->work_look = now + WORK_LOOK_NS;
    return true;
}

/* Counts the steps of a key's work in the last line. */
static void show_work(void *ctx)
{
    struct top *t = ctx;
    char steps[FORMAT_SIZE], text[64];
    if (t->search_works || !is_time_to_show(t))
        return;
    snprintf(text, sizeof text, " adding up call stacks: %s steps",
             format_count(steps, t->stacks.steps - t->work_before));
    top_draw_last(t, text);
}

static void begin_work(struct top *t)
{
    t->work_look = monotonic_ns() + WORK_LOOK_NS;
    t->work_before = t->stacks.steps;
    t->stacks.working = show_work;
    t->stacks.working_ctx = t;
}

/* ---- search */

/* Draws how far the search is; any key stops it. */
static bool still_searching(void *ctx, size_t done, size_t of)
{
    struct top *t = ctx;
    struct pollfd polled = {.fd = t->screen.fd, .events = POLLIN};
    char percent[FORMAT_SIZE], text[sizeof t->message];
    t->search_works = done < of;
    if (done == of || !is_time_to_show(t))
        return true;
    snprintf(text, sizeof text, " searching, %s; any key stops: %s",
             format_percent(percent, done, of), t->search);
    top_draw_last(t, text);
    return poll(&polled, 1, 0) == 0;
}

static int search_for(struct top *t, enum browser_to where, struct err *e)
{
    struct browser_match match;
    char at[FORMAT_SIZE], count[FORMAT_SIZE];
    if (!t->search[0]) {
        say(t, "nothing to search for: / asks");
        return 0;
    }
    t->browser.searching = still_searching;
    t->browser.searching_ctx = t;
    bool found = browser_find(&t->browser, t->search, where, &match);
    t->search_works = false;
    if (!found)
        return no_memory(e);
    if (match.stopped)
        snprintf(t->message, sizeof t->message, "stopped searching: %s", t->search);
    else if (match.count)
        snprintf(t->message, sizeof t->message, " %s of %s, heaviest first: %s",
                 format_count(at, match.at), format_count(count, match.count), t->search);
    else
        snprintf(t->message, sizeof t->message, "not found: %s", t->search);
    return 0;
}

static int search_key(struct top *t, int key, struct err *e)
{
    size_t n = strlen(t->search);
    if (key == SCREEN_ENTER || key == ESCAPE) {
        t->searching = false;
        return key == SCREEN_ENTER && n ? search_for(t, BROWSER_HEAVIEST, e) : 0;
    }
    if (key == SCREEN_BACKSPACE) {
        while (n && ((unsigned char)t->search[--n] & 0xc0) == 0x80)
            ;
        t->search[n] = 0;
    } else if (key >= ' ' && key < 0x100 && n + 1 < sizeof t->search) {
        t->search[n] = (char)key;
        t->search[n + 1] = 0;
    }
    return 0;
}

/* ---- the tree */

static int open_row(struct top *t, bool open, struct err *e)
{
    const struct browser_row *row = browser_row(&t->browser, t->browser.cursor);
    if (!open && (!row->open || !row->has_children || row->node == TREE_ROOT)) {
        browser_to_parent(&t->browser);
        return 0;
    }
    if (open && row->open && row->has_children) {
        browser_move(&t->browser, 1);
        return 0;
    }
    return browser_set_open(&t->browser, open) ? 0 : no_memory(e);
}

static int toggle_row(struct top *t, struct err *e)
{
    bool open = t->browser.rows.at[t->browser.cursor].open;
    return browser_set_open(&t->browser, !open) ? 0 : no_memory(e);
}

static int toggle_live(struct top *t, struct err *e)
{
    say(t, t->browser.only_live ? "all nodes" : "only nodes with live blocks");
    return browser_set_only_live(&t->browser, !t->browser.only_live) ? 0 : no_memory(e);
}

static int toggle_fold(struct top *t, struct err *e)
{
    say(t, t->browser.fold ? "a row for each node" : "chains of calls share a row");
    return browser_set_fold(&t->browser, !t->browser.fold) ? 0 : no_memory(e);
}

static ptrdiff_t page_of(const struct top *t)
{
    return t->screen.height > 6 ? (ptrdiff_t)t->screen.height - 5 : 1;
}

static bool move_key(struct top *t, int key)
{
    ptrdiff_t all = (ptrdiff_t)t->browser.rows.len;
    switch (key) {
    case SCREEN_UP:
    case 'k':
        browser_move(&t->browser, -1);
        return true;
    case SCREEN_DOWN:
    case 'j':
        browser_move(&t->browser, 1);
        return true;
    case SCREEN_PAGE_UP:
        browser_move(&t->browser, -page_of(t));
        return true;
    case SCREEN_PAGE_DOWN:
        browser_move(&t->browser, page_of(t));
        return true;
    case SCREEN_HOME:
    case 'g':
        browser_move(&t->browser, -all);
        return true;
    case SCREEN_END:
    case 'G':
        browser_move(&t->browser, all);
        return true;
    default:
        return false;
    }
}

/* ---- what else is shown */

static int freeze(struct top *t, struct err *e)
{
    if (!t->live) {
        say(t, "nothing is being recorded");
        return 0;
    }
    t->frozen = !t->frozen;
    say(t, t->frozen ? "figures stay as they are; f goes on" : "");
    return t->frozen ? 0 : top_build(t, e);
}

static int view_key(struct top *t, int key, struct err *e)
{
    switch (key) {
    case 'd':
        t->show_details = !t->show_details;
        return 0;
    case '[':
        t->details = t->details > DETAILS_STEP ? t->details - DETAILS_STEP : 0;
        return 0;
    case ']':
        t->details += DETAILS_STEP;
        return 0;
    case '?':
        t->show_help = true;
        return 0;
    case 'q':
        t->quit = true;
        return 0;
    case '/':
        t->searching = true;
        t->search[0] = 0;
        return 0;
    case 'n':
        return search_for(t, BROWSER_LIGHTER, e);
    case 'N':
        return search_for(t, BROWSER_HEAVIER, e);
    case 'f':
        return freeze(t, e);
    default:
        return 0;
    }
}

static int tree_key(struct top *t, int key, struct err *e)
{
    enum tree_metric metric = t->options.sort;
    if (key >= '1' && key < '1' + (int)tree_metric_count(&t->tree))
        return sort_by(t, (enum tree_metric)(key - '1'), e);
    switch (key) {
    case SCREEN_RIGHT:
    case 'l':
    case '+':
        return open_row(t, true, e);
    case SCREEN_LEFT:
    case 'h':
    case '-':
        return open_row(t, false, e);
    case SCREEN_ENTER:
    case ' ':
        return toggle_row(t, e);
    case '*':
        return browser_open_below(&t->browser, OPEN_ROWS_MAX) ? 0 : no_memory(e);
    case 'z':
        return browser_close_all(&t->browser) ? 0 : no_memory(e);
    case 's':
    case '>':
        return sort_by(t, metric + 1 == tree_metric_count(&t->tree) ? 0 : metric + 1, e);
    case 'S':
    case '<':
        return sort_by(t, metric == 0 ? tree_metric_count(&t->tree) - 1 : metric - 1, e);
    case 'b':
        return turn_around(t, e);
    case 'v':
        return group_by_next(t, e);
    case 'a':
        return toggle_live(t, e);
    case 'c':
        return toggle_fold(t, e);
    case 'p':
    case 'P':
        return choose_pool(t, key == 'p', e);
    default:
        return view_key(t, key, e);
    }
}

static int take_key(struct top *t, int key, struct err *e)
{
    t->message[0] = 0;
    if (key == SCREEN_RESIZE)
        return 0;
    if (t->show_help) {
        t->show_help = false;
        return 0;
    }
    if (t->searching)
        return search_key(t, key, e);
    if (key != '[' && key != ']')
        t->details = 0;
    return move_key(t, key) ? 0 : tree_key(t, key, e);
}

/* ---- turns */

/* Handles all pending keys. *any: whether there were some. */
static int take_keys(struct top *t, bool *any, struct err *e)
{
    for (;;) {
        int key = screen_key(&t->screen);
        if (key == SCREEN_NO_KEY || t->quit)
            return 0;
        *any = true;
        begin_work(t);
        if (take_key(t, key, e) != 0)
            return -1;
    }
}

/* A closed terminal is always ready, without data. */
static bool is_gone(const struct top *t, short ready)
{
    int n = 0;
    return (ready & (POLLHUP | POLLERR | POLLNVAL)) ||
           (ready & POLLIN && ioctl(t->screen.fd, FIONREAD, &n) == 0 && n == 0);
}

static bool is_time_to_build(const struct top *t)
{
    long long pause = BUILD_SHARE * t->build_cost;
    pause = pause > BUILD_EVERY_NS ? pause : BUILD_EVERY_NS;
    return t->live && !t->frozen && !t->quit && monotonic_ns() - t->built_at >= pause;
}

int top_turn(struct top *t, struct err *e)
{
    struct pollfd polled = {.fd = t->screen.fd, .events = POLLIN};
    bool any = false;
    if (poll(&polled, 1, 0) > 0 && is_gone(t, polled.revents))
        t->quit = true;
    if (take_keys(t, &any, e) != 0)
        return -1;
    bool build = is_time_to_build(t);
    if (build && top_build(t, e) != 0)
        return -1;
    if (any || build)
        top_draw(t);
    return 0;
}

int top_loop(struct top *t, struct stop *stop, struct err *e)
{
    struct pollfd polled[] = {{.fd = t->screen.fd, .events = POLLIN},
                              {.fd = stop->fd, .events = POLLIN}};
    sigset_t resized, before;
    bool any;
    int status = 0;
    /* A change of size is taken only while ppoll waits: before, it would not end the wait. */
    sigemptyset(&resized);
    sigaddset(&resized, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &resized, &before);
    while (!t->quit && status == 0) {
        top_draw(t);
        if (ppoll(polled, 2, NULL, &before) < 0)
            polled[0].revents = 0;
        if (stop_asked(stop) || is_gone(t, polled[0].revents))
            break;
        status = take_keys(t, &any, e);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
