/* Builds the view of `tidemark top`. */

#include "base/monotonic.h"
#include "cli/top/top.h"

#include <stdlib.h>
#include <string.h>

/* When a rebuild after a key takes longer, the user sees a message. */
#define SLOW_NS 300000000LL

/* ---- building */

static void forget_pools(struct top *t)
{
    for (size_t i = 0; i < t->pools.len; i++)
        free(t->pools.at[i]);
    t->pools.len = 0;
}

/* Lists all pools that can be chosen; needs a selection of all pools. */
static int list_pools(struct top *t, const struct selection *s, struct err *e)
{
    if (t->pool)
        return 0;
    forget_pools(t);
    for (size_t i = 0; i < s->pools.len; i++) {
        char *name = strndup(s->pools.at[i].name.p, s->pools.at[i].name.len);
        if (!name || !vec_push(&t->pools, name)) {
            free(name);
            return err_no_memory(e, "the names of pools");
        }
    }
    return 0;
}

static int open_selection(struct top *t, struct selection *s, struct err *e)
{
    struct selection_options options = t->only;
    if (t->pool)
        options.pool = t->pool;
    return selection_init(s, t->trace, &options, e);
}

/* `also`: another observer of the sweep; NULL: none. */
static int replace_tree(struct top *t, struct selection *s, const struct memory_observer *also,
                        struct err *e)
{
    struct tree fresh;
    struct tree old = t->tree;
    struct tree_options options = t->options;
    options.also = also;
    if (tree_build(&fresh, s, &options, e) != 0)
        return -1;
    fresh.options.also = NULL;
    t->tree = fresh;
    bool shown = browser_show(&t->browser, &t->tree);
    if (t->built)
        tree_release(&old);
    t->built = true;
    return shown ? 0 : err_no_memory(e, "the rows");
}

/* Builds tree and usage line in one sweep. */
static int replace_all(struct top *t, struct selection *s, struct err *e)
{
    struct timeline fresh;
    const struct timeline_options options = {
        .begin = 0, .end = selection_end(s) + 1, .buckets = TOP_SPARKS, .together = true};
    if (timeline_begin(&fresh, s, &options, e) != 0)
        return -1;
    const struct memory_observer also = timeline_observer(&fresh);
    if (replace_tree(t, s, &also, e) != 0) {
        timeline_release(&fresh);
        return -1;
    }
    timeline_finish(&fresh);
    timeline_release(&t->usage);
    t->usage = fresh;
    return 0;
}

int top_build(struct top *t, struct err *e)
{
    struct selection s;
    long long began = monotonic_ns();
    if (open_selection(t, &s, e) != 0)
        return -1;
    int status = list_pools(t, &s, e);
    if (status == 0)
        status = replace_all(t, &s, e);
    selection_release(&s);
    t->built_at = monotonic_ns();
    t->build_cost = t->built_at - began;
    return status;
}

int top_build_tree(struct top *t, struct err *e)
{
    struct selection s;
    if (t->build_cost > SLOW_NS)
        top_draw_wait(t);
    if (open_selection(t, &s, e) != 0)
        return -1;
    int status = replace_tree(t, &s, NULL, e);
    selection_release(&s);
    return status;
}

/* ---- open, close */

int top_open(struct top *t, bool stdin_taken, struct err *e)
{
    t->browser.fold = true;
    if (top_build(t, e) != 0)
        return -1;
    return screen_open(&t->screen, stdin_taken, e);
}

void top_close(struct top *t)
{
    screen_close(&t->screen);
    browser_release(&t->browser);
    if (t->built)
        tree_release(&t->tree);
    t->built = false;
    timeline_release(&t->usage);
    forget_pools(t);
    vec_release(&t->pools);
    free(t->pool);
    t->pool = NULL;
}
