/* Builds the view of `tidemark top`. */

#include "base/monotonic.h"
#include "cli/top/top.h"

#include <stdlib.h>
#include <string.h>

/* ---- building */

static void forget_pools(struct top *t)
{
    for (size_t i = 0; i < t->pools.len; i++)
        free(t->pools.at[i]);
    t->pools.len = 0;
}

static int list_pools(struct top *t, const struct selection *s, struct err *e)
{
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

/* Figures and use over time of all pools and of each one, in one sweep. */
struct counted {
    struct tree_stacks stacks;
    struct timeline usage, pool_usage;
};

static int count(struct top *t, struct selection *s, struct counted *c, struct err *e)
{
    size_t each = TOP_POOL_SPARKS / (s->pools.len + 1);
    struct timeline_options window = {
        .begin = 0, .end = selection_end(s) + 1, .buckets = TOP_SPARKS, .together = true};
    if (timeline_begin(&c->usage, s, &window, e) != 0)
        return -1;
    window.together = false;
    window.buckets = each < TOP_SPARKS ? each + 1 : TOP_SPARKS;
    if (timeline_begin(&c->pool_usage, s, &window, e) != 0)
        return -1;
    const struct memory_observer also[] = {timeline_observer(&c->usage),
                                           timeline_observer(&c->pool_usage)};
    const struct tree_stacks_options options = {.tree = &t->options,
                                                .by_thread = true,
                                                .by_type = true,
                                                .each_pool = true,
                                                .also = also,
                                                .also_count = 2};
    if (tree_stacks_init(&c->stacks, s, &options, e) != 0)
        return -1;
    timeline_finish(&c->usage);
    timeline_finish(&c->pool_usage);
    return 0;
}

/* What was resident may not be known of what is shown now. */
static int open_tree(struct top *t, struct tree *fresh, struct tree_options *options, struct err *e)
{
    if (options->sort == TREE_RESIDENT && (!t->stacks.has_resident || options->by == TREE_THREAD))
        options->sort = TREE_PEAK_BYTES;
    return tree_open(fresh, &t->stacks, options, e);
}

int top_build_tree(struct top *t, struct err *e)
{
    struct tree fresh;
    struct tree old = t->tree;
    if (open_tree(t, &fresh, &t->options, e) != 0)
        return -1;
    t->tree = fresh;
    bool shown = browser_show(&t->browser, &t->tree);
    tree_release(&old);
    return shown ? 0 : err_no_memory(e, "the rows");
}

int top_choose_pool(struct top *t, uint32_t pool, struct err *e)
{
    t->pool = pool;
    tree_stacks_choose(&t->stacks, pool);
    return top_build_tree(t, e);
}

/* The number that the name of the chosen pool has by now. */
static uint32_t find_pool(const struct top *t, const struct selection *s)
{
    if (t->pool == TREE_ALL_POOLS)
        return TREE_ALL_POOLS;
    for (uint32_t i = 0; i < s->pools.len; i++) {
        if (view_equal(s->pools.at[i].name, view_of(t->pools.at[t->pool])))
            return i;
    }
    return TREE_ALL_POOLS;
}

static int replace(struct top *t, struct selection *s, struct err *e)
{
    struct counted c = {0};
    uint32_t pool = find_pool(t, s);
    if (list_pools(t, s, e) != 0 || count(t, s, &c, e) != 0) {
        timeline_release(&c.usage);
        timeline_release(&c.pool_usage);
        return -1;
    }
    struct counted old = {t->stacks, t->usage, t->pool_usage};
    t->stacks = c.stacks;
    t->usage = c.usage;
    t->pool_usage = c.pool_usage;
    int status = pool == TREE_ALL_POOLS ? top_build_tree(t, e) : top_choose_pool(t, pool, e);
    t->pool = pool;
    tree_stacks_release(&old.stacks);
    timeline_release(&old.usage);
    timeline_release(&old.pool_usage);
    return status;
}

int top_build(struct top *t, struct err *e)
{
    struct selection s;
    long long began = monotonic_ns();
    if (selection_init(&s, t->trace, &t->only, e) != 0)
        return -1;
    int status = replace(t, &s, e);
    selection_release(&s);
    t->built_at = monotonic_ns();
    t->build_cost = t->built_at - began;
    return status;
}

const struct timeline_series *top_usage(const struct top *t, const struct timeline **of)
{
    bool all = t->pool == TREE_ALL_POOLS;
    size_t at = all ? 0 : t->pool;
    *of = all ? &t->usage : &t->pool_usage;
    return at < (*of)->series.len ? &(*of)->series.at[at] : NULL;
}

/* ---- open, close */

int top_open(struct top *t, bool stdin_taken, struct err *e)
{
    t->browser.fold = true;
    t->options.most = TOP_CHILDREN;
    t->pool = TREE_ALL_POOLS;
    if (top_build(t, e) != 0)
        return -1;
    return screen_open(&t->screen, stdin_taken, e);
}

void top_close(struct top *t)
{
    screen_close(&t->screen);
    browser_release(&t->browser);
    tree_release(&t->tree);
    tree_stacks_release(&t->stacks);
    timeline_release(&t->usage);
    timeline_release(&t->pool_usage);
    forget_pools(t);
    vec_release(&t->pools);
}
