#include "trace/ingest/carry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/saturate.h"
#include "trace/ingest/ingest_internal.h"
#include "trace/store/memory_steps.h"

/* ---- the store */

static int carry_pool(struct memory *m, uint32_t number, struct err *e)
{
    struct pool *p = m->pools.at[number];
    size_t n = p->live.count;
    struct live_block *blocks = live_set_list(&p->live);
    if (!blocks)
        return err_no_memory(e, "carrying live allocations over");
    column_clear(&p->allocs);
    column_clear(&p->frees);
    live_set_release(&p->live);
    live_set_init(&p->live);
    p->before = memory_pool_sums(p);
    p->before.allocations -= p->totals.live; /* the next part counts them */
    p->before.total_bytes = saturating_sub(p->before.total_bytes, p->totals.live_bytes);
    m->live_bytes = saturating_sub(m->live_bytes, p->totals.live_bytes);
    p->totals = (struct pool_totals){.low_address = UINT64_MAX};
    p->last_time = INT64_MIN;
    p->disorder = 0;
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        const struct memory_place at = {.thread = blocks[i].thread,
                                        .callstack = blocks[i].callstack};
        struct memory_aim aim;
        memory_aim_at(&aim, p, blocks[i].ptr);
        status = memory_alloc(m, &aim, blocks[i].size, at, e);
    }
    free(blocks);
    return status;
}

/*
 * The client's information and the locations of its images stay; Tidemark's facts describe one
 * part.
 */
static void carry_app_info(struct trace *t)
{
    static const char ours[] = "tidemark.", module[] = "tidemark.module=";
    size_t kept = 0;
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct view v = strings_get(&t->strings, t->app_info.at[i]);
        bool own = v.len >= sizeof ours - 1 && memcmp(v.p, ours, sizeof ours - 1) == 0;
        bool image = v.len >= sizeof module - 1 && memcmp(v.p, module, sizeof module - 1) == 0;
        if (!own || image)
            t->app_info.at[kept++] = t->app_info.at[i];
    }
    t->app_info.len = kept;
}

/* Turns the store into that of the next part. After an error it may only be released. */
static int carry_over(struct trace *t, struct err *e)
{
    struct memory *m = &t->memory;
    struct memory_observer observer = m->observer;
    spool_renew(&t->spool);
    if (observer.anew)
        observer.anew(observer.ctx);
    else
        m->observer.op = NULL; /* carried-over blocks are no new steps */
    m->stack_sums.len = 0;
    for (size_t i = 0; i < m->pools.len; i++) {
        if (carry_pool(m, (uint32_t)i, e) != 0)
            return -1;
    }
    m->observer = observer;
    m->faults.len = 0;
    map_release(&m->fault_numbers);
    m->unknown_frees = m->null_frees = m->double_allocations = m->pool_overflow = 0;
    sched_carry(&t->sched);
    samples_clear(&t->samples);
    messages_clear(&t->messages);
    frame_images_carry(&t->frame_images, t->frame_sets.list.at[FRAME_SET_BASE].count);
    plots_carry(&t->plots);
    page_looks_release(&t->looks);
    resident_stacks_release(&t->resident);
    t->system.crash = (struct system_crash){0};
    if (zones_carry(&t->zones, e) != 0 || frame_sets_carry(&t->frame_sets, e) != 0 ||
        sections_carry(&t->sections, e) != 0 || gpu_carry(&t->gpu, e) != 0 ||
        locks_carry(&t->locks, e) != 0)
        return -1;
    spool_forget_old(&t->spool); /* no column has data in the old file any more */
    carry_app_info(t);
    t->facts.last_time = 1;
    t->facts.init_end = 0;
    t->facts.on_demand_time = 0;
    return 0;
}

/* ---- the ingest */

int64_t ingest_far_time(struct ingest *in, int64_t time)
{
    int64_t t;
    if (__builtin_sub_overflow(time, in->time_base, &t))
        t = time < 0 ? INT64_MIN : INT64_MAX;
    if (t > in->time_limit || t < -in->time_limit) {
        in->time_overflow++;
        t = t < 0 ? -in->time_limit : in->time_limit;
    }
    return t < 0 && in->parts > 0 ? 0 : t; /* threads lag behind each other, also across parts */
}

/* The clock of this part has reached its limit: finishes it and begins the next one at `time`. */
static int next_part(struct ingest *in, int64_t time, struct err *e)
{
    if (in->part_full(in->part_full_ctx, e) != 0)
        return -1;
    in->torn = true;
    if (carry_over(in->trace, e) != 0)
        return -1;
    in->parts++;
    memset(in->recent_threads, 0, sizeof in->recent_threads);
    in->time_base = time;
    in->time_overflow = 0;
    in->gpu_strays = 0;
    in->fiber_leaves = 0;
    in->torn =
        trace_add_fact(in->trace, e, "part", "%u, begins %" PRId64 " ns after the client's start",
                       in->parts + 1, time) != 0;
    return in->torn ? -1 : 0;
}

int ingest_turn_part(struct ingest *in, int64_t time, struct err *e)
{
    bool beyond_end = time > in->time_base && time - in->time_base > in->time_limit;
    bool may = in->part_full && in->parts - in->parts_asked < INGEST_PARTS_MAX;
    return beyond_end && may ? next_part(in, time, e) : 0;
}

int64_t ingest_latest(const struct ingest *in)
{
    int64_t latest;
    if (__builtin_add_overflow(in->time_base, in->trace->facts.last_time, &latest))
        latest = INT64_MAX;
    return latest;
}

int ingest_begin_part(struct ingest *in, struct err *e)
{
    if (next_part(in, ingest_latest(in), e) != 0)
        return -1;
    in->parts_asked++;
    return 0;
}
