#include "analysis/figures/only_state.h"

#include <stdlib.h>

/* Bytes of counters in memory. */
#define COUNTERS_BUDGET ((size_t)64 << 20)

/* Steps of a pool in its log, from which the log is begun anew: about 64 MiB. */
#define FOLD_STEPS ((uint64_t)1 << 24)

static int no_room(struct err *e)
{
    return err_no_memory(e, "figures of call stacks");
}

void only_release_log(struct feed *f)
{
    stream_log_release(&f->counting.log);
    if (f->has_spool)
        spool_release(&f->spool);
    f->has_spool = false;
}

static void release_feed(const struct only *o, struct feed *f)
{
    if (!f)
        return;
    only_release_log(f);
    map_release(&f->peaks);
    for (unsigned i = 0; i < FIGURES_PARTS_MAX; i++) {
        if (f->states[i])
            o->parts[i]->release(f->states[i]);
        buf_release(&f->bytes[i]);
    }
    for (unsigned i = 0; i < DIVISIONS; i++) {
        free(f->past[i].groups);
        map_release(&f->past[i].peaks);
    }
    free(f);
}

void only_forget(struct only *o)
{
    for (size_t i = 0; i < o->feeds.len; i++)
        release_feed(o, o->feeds.at[i]);
    vec_release(&o->feeds);
    stream_figures_release(&o->figures);
    o->sealed = false;
}

void only_release(void *figures)
{
    struct only *o = figures;
    only_forget(o);
    free(o);
}

void only_start(struct only *o)
{
    stream_figures_init(&o->figures, o->trace);
    o->figures.of_store = true;
    o->figures.counting.pageable.budget = COUNTERS_BUDGET;
}

struct only *only_new(struct trace *t, struct err *e)
{
    struct only *o = aligned_alloc(_Alignof(struct only), sizeof *o);
    if (!o) {
        no_room(e);
        return NULL;
    }
    *o = (struct only){.trace = t, .fold_steps = FOLD_STEPS};
    only_start(o);
    t->memory.only.is = true;
    t->memory.only.figures = o;
    t->memory.only.release = only_release;
    return o;
}

static bool begin_parts(const struct only *o, struct feed *f)
{
    for (size_t i = 0; i < o->part_count; i++) {
        if (!(f->states[i] = o->parts[i]->begin()))
            return false;
    }
    return true;
}

struct feed *only_feed(struct only *o, uint32_t pool, struct err *e)
{
    while (o->feeds.len <= pool) {
        if (!vec_push(&o->feeds, NULL)) {
            no_room(e);
            return NULL;
        }
    }
    if (o->feeds.at[pool])
        return o->feeds.at[pool];
    struct feed *f = aligned_alloc(_Alignof(struct feed), sizeof *f);
    if (!f) {
        no_room(e);
        return NULL;
    }
    *f = (struct feed){.now = INT64_MIN};
    const struct stream_pool p = {.number = pool};
    f->counting.account = accounting_add_pool(&o->figures.callstacks, pool, e);
    bool begun = f->counting.account && begin_parts(o, f);
    if (!begun || !vec_push(&o->figures.pools, p)) {
        release_feed(o, f);
        no_room(e);
        return NULL;
    }
    o->feeds.at[pool] = f;
    return f;
}
