#include "trace/load/load_replay.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/file/reader.h"
#include "trace/file/record_takers.h"
#include "trace/store/memory_steps.h"

struct replay {
    struct trace *trace;
    struct memory *memory;
    int fd;
    char *name;
    /* During a sweep: */
    struct memory_sweep *to;
    int64_t only;
    uint64_t pools_left; /* from the current one on */
    uint32_t pool;
    bool wanted;    /* the pool is */
    uint64_t index; /* of its next event */
    bool done;      /* all pools were read */
};

static int changed(const struct replay *r, struct err *e)
{
    return err_set(e, ERR_INPUT, "%s changed while it was read", r->name);
}

TAKE_EACH(begin_pools, struct replay *r, pools, pools)
{
    r->pools_left = pools->n;
    return 0;
}

TAKE_EACH(begin_pool, struct replay *r, pool, pool)
{
    const uint64_t *number = map_find(&r->memory->pool_numbers, pool->key);
    r->wanted = number && (r->only < 0 || (uint64_t)r->only == *number);
    r->pool = number ? (uint32_t)*number : 0;
    r->index = 0;
    return number || pool->events == 0 ? 0 : changed(r, e);
}

TAKE_EACH(take_event, struct replay *r, memory_event, recorded)
{
    struct rec_memory_event ev = *recorded;
    ev.size &= MEMORY_BITS48;
    return r->wanted ? memory_sweep_take(r->to, r->pool, r->index++, &ev, e) : 0;
}

/* After the last pool stops the reading by an error that is none. */
TAKE_EACH(end_pool, struct replay *r, pool_end, end)
{
    r->done = --r->pools_left == 0 || (r->wanted && r->only >= 0);
    if (r->wanted && memory_sweep_end(r->to, e) != 0)
        return -1;
    return r->done ? -1 : 0;
}

static const record_takers takers = {
    [REC_POOLS] = begin_pools,
    [REC_POOL] = begin_pool,
    [REC_MEMORY_EVENT] = take_event,
    [REC_POOL_END] = end_pool,
};

static int put_step(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    return records_take(takers, ctx, type, recs, n, e);
}

static int run(void *ctx, int64_t only, struct memory_sweep *to, struct err *e)
{
    struct replay *r = ctx;
    const struct record_sink sink = {r, put_step};
    bool wanted[REC_TYPE_COUNT] = {false};
    const struct trace_read_options options = {.wanted = wanted,
                                               .ahead = true,
                                               .progress = r->trace->loading,
                                               .progress_ctx = r->trace->loading_ctx};
    struct trace_info info;
    records_wanted(takers, wanted);
    r->to = to;
    r->only = only;
    r->done = false;
    if (lseek(r->fd, 0, SEEK_SET) != 0)
        return err_errno(e, ERR_INPUT, "%s", r->name);
    int status = trace_read(r->fd, r->name, &sink, &options, &info, e);
    trace_loaded(r->trace);
    if (status == 0)
        return changed(r, e); /* it ended without its pools */
    return r->done && !e->code ? 0 : -1;
}

static void release(void *ctx)
{
    struct replay *r = ctx;
    close(r->fd);
    free(r->name);
    free(r);
}

/* ---- which traces */

static bool name_is_shared(const struct trace *t, size_t pool)
{
    char room[32], other[32];
    struct view name = trace_pool_name(t, t->memory.pools.at[pool], room);
    for (size_t i = 0; i < pool; i++) {
        if (view_equal(name, trace_pool_name(t, t->memory.pools.at[i], other)))
            return true;
    }
    return false;
}

/* Whether a sweep pool by pool is one in order of time, as far as questions see. */
static bool fits(const struct trace *t, bool in_turn)
{
    const struct memory *m = &t->memory;
    bool disorder = false;
    size_t used = 0;
    for (size_t i = 0; i < m->pools.len; i++) {
        disorder |= m->pools.at[i]->disorder != 0;
        used += m->pools.at[i]->totals.allocations != 0;
        if (name_is_shared(t, i))
            return false;
    }
    return used <= 1 || (in_turn && !disorder);
}

bool trace_replay(struct trace *t, int fd, const char *name, bool in_turn)
{
    struct replay *r = fits(t, in_turn) ? malloc(sizeof *r) : NULL;
    char *copy = r ? strdup(name) : NULL;
    if (!copy) {
        free(r);
        return false;
    }
    *r = (struct replay){.trace = t, .memory = &t->memory, .fd = fd, .name = copy};
    t->memory.replay = (struct memory_replay){.ctx = r, .run = run, .release = release};
    return true;
}
