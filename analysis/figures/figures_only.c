#include "analysis/figures/figures_only.h"

#include <stdlib.h>
#include <unistd.h>

#include "analysis/figures/only_state.h"
#include "analysis/figures/sites.h"
#include "analysis/figures/stream_figures.h"
#include "analysis/figures/stream_parts.h"
#include "analysis/names/program_frames.h"
#include "analysis/names/types.h"
#include "trace/file/appendix.h"

/* Sizes are summed without a check for overflow. */
#define BYTES_MAX (UINT64_C(1) << 62)

#define LOG_BUDGET ((size_t)16 << 20) /* bytes of the first pool's log in memory */

static int no_memory(struct err *e)
{
    return err_no_memory(e, "figures of call stacks");
}

static int begin_log(struct only *o, struct feed *f, struct err *e)
{
    /* With any number of pools, the logs take about ten times the budget at most. */
    size_t budget = LOG_BUDGET / o->figures.pools.len;
    if (spool_init(&f->spool, o->trace->spool.dir, budget, e) != 0)
        return -1;
    f->has_spool = true;
    stream_log_init(&f->counting.log, &f->spool);
    return 0;
}

/* ---- steps */

/* Counts the waiting steps of a pool, and takes its sums from the store. */
static int flush(struct only *o, uint32_t pool, struct err *e)
{
    struct feed *f = o->feeds.at[pool];
    struct pool_figures *figures = &f->counting.account->figures;
    const struct pool_totals *totals = &o->trace->memory.pools.at[pool]->totals;
    if (f->counting.run.steps.n && stream_count_run(&f->counting, e) != 0)
        return -1;
    figures->allocations = totals->allocations;
    figures->frees = totals->frees;
    figures->total_bytes = totals->total_bytes;
    return 0;
}

/* ---- the peaks of groups */

/* Takes the peaks of a pool's groups in one of the divisions: `division` says which. */
typedef int take_division(struct only *o, uint32_t pool, unsigned division,
                          const struct stream_grouping *grouping, struct err *e);

static int take_sites(struct only *o, uint32_t pool, unsigned division,
                      struct program_frames *program, take_division *take, struct err *e)
{
    static const enum site_detail details[] = {SITE_BY_LINE, SITE_BY_FUNCTION};
    int status = 0;
    for (unsigned i = 0; i < 2 && status == 0; i++) {
        struct sites sites = {0};
        status = sites_build_from(&sites, program, details[i], e);
        const struct stream_grouping by = {sites.of_callstack, sites.callstack_count, NULL};
        if (status == 0)
            status = take(o, pool, division + i, &by, e);
        sites_release(&sites);
    }
    return status;
}

static int divide_by_rules(struct only *o, uint32_t pool, unsigned division,
                           const struct skiplist *skip, take_division *take, struct err *e)
{
    struct program_frames program = {0};
    struct types types = {0};
    int status = program_frames_init(&program, o->trace, skip, e);
    if (status == 0)
        status = take_sites(o, pool, division, &program, take, e);
    if (status == 0)
        status = types_build(&types, &program, e);
    const struct stream_grouping by = {types.of_callstack, types.callstack_count, NULL};
    if (status == 0)
        status = take(o, pool, division + 2, &by, e);
    types_release(&types);
    program_frames_release(&program);
    return status;
}

/* Divides the call stacks of a pool as frames are named now. */
static int divide(struct only *o, uint32_t pool, take_division *take, struct err *e)
{
    static const struct skiplist names = {.names_alone = true};
    const struct stream_grouping one = {0};
    return take(o, pool, 0, &one, e) == 0 && divide_by_rules(o, pool, 1, NULL, take, e) == 0
               ? divide_by_rules(o, pool, 4, &names, take, e)
               : -1;
}

static int find_peaks(struct only *o, uint32_t pool, unsigned division,
                      const struct stream_grouping *grouping, bool by_hash, struct map *peaks,
                      struct err *e)
{
    struct feed *f = o->feeds.at[pool];
    const struct past *p = &f->past[division];
    const struct stream_past past = {p->groups, p->count, &p->peaks};
    return stream_figures_peaks(&o->figures, pool, &f->counting.log, grouping,
                                p->groups ? &past : NULL, by_hash, peaks, e);
}

static int keep_by_hash(struct only *o, uint32_t pool, unsigned division,
                        const struct stream_grouping *grouping, struct err *e)
{
    return find_peaks(o, pool, division, grouping, true, &o->feeds.at[pool]->peaks, e);
}

static int keep_by_group(struct only *o, uint32_t pool, unsigned division,
                         const struct stream_grouping *grouping, struct err *e)
{
    struct past *p = &o->feeds.at[pool]->past[division];
    struct past fresh = {.count = o->trace->callstacks.list.len + 1};
    fresh.groups = calloc(fresh.count, sizeof *fresh.groups);
    if (!fresh.groups)
        return no_memory(e);
    if (find_peaks(o, pool, division, grouping, false, &fresh.peaks, e) != 0) {
        map_release(&fresh.peaks);
        free(fresh.groups);
        return -1;
    }
    for (size_t i = 0; i < fresh.count && i < grouping->group_count; i++)
        fresh.groups[i] = grouping->groups[i];
    free(p->groups);
    map_release(&p->peaks);
    *p = fresh;
    return 0;
}

/* Between two nanoseconds of a pool: keeps the peaks so far, and begins the log anew. */
static int fold(struct only *o, uint32_t pool, struct err *e)
{
    struct feed *f = o->feeds.at[pool];
    if (o->name)
        o->name(o->name_ctx, o->trace);
    if (flush(o, pool, e) != 0 || divide(o, pool, keep_by_group, e) != 0)
        return -1;
    only_release_log(f);
    return begin_log(o, f, e);
}

/* Finds the peaks as frames are named now. */
static int seal(struct only *o, struct err *e)
{
    for (uint32_t i = 0; i < o->feeds.len; i++) {
        if (!o->feeds.at[i])
            continue;
        map_release(&o->feeds.at[i]->peaks);
        if (flush(o, i, e) != 0 || divide(o, i, keep_by_hash, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < o->figures.pools.len; i++)
        o->figures.pools.at[i].peaks = &o->feeds.at[o->figures.pools.at[i].number]->peaks;
    o->figures.counted = o->sealed = true;
    return 0;
}

/* ---- taking steps */

static bool is_temporary(const struct memory_op *op, const struct account_thread *t)
{
    return op->kind == MEMORY_FREE && op->block.thread == op->thread &&
           t->previous <= op->block.time;
}

static int take_parts(const struct only *o, const struct feed *f, const struct memory_op *op,
                      bool temporary, struct err *e)
{
    struct memory_op step = *op;
    step.pool = 0;
    step.temporary = temporary;
    step.time = op->time > 0 ? op->time : 0;
    for (size_t i = 0; i < o->part_count; i++) {
        if (o->parts[i]->take(f->states[i], &step, e) != 0)
            return -1;
    }
    return 0;
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct only *o = ctx;
    const uint32_t callstack = op->block.callstack, at = callstack & (COUNTER_PAGE_KEYS - 1);
    struct feed *f = only_feed(o, op->pool, e);
    if (!f || (!f->has_spool && begin_log(o, f, e) != 0))
        return -1;
    if (o->trace->memory.pools.at[op->pool]->totals.total_bytes > BYTES_MAX)
        return err_set(e, ERR_INPUT, "allocations of 2^62 bytes cannot be counted");
    struct counter_page *page = pool_page(f->counting.account, callstack, e);
    struct account_thread *thread = pool_thread(f->counting.account, op->thread, e);
    if (!page || !thread || accounting_op(&o->figures.threads, op, e) != 0)
        return -1;
    const int64_t time = op->time > 0 ? op->time : 0;
    const bool later = time > f->now;
    if (later && __builtin_expect(f->counting.log.len >= o->fold_steps, 0) &&
        fold(o, op->pool, e) != 0)
        return -1;
    f->now = later ? time : f->now;
    struct stream_run *r = &f->counting.run;
    o->sealed = false;
    thread_step(thread, f->now);
    const bool temporary = is_temporary(op, thread);
    if (temporary)
        counter_temporary(f->counting.account, &page->cold[at], op->block.size);
    if (take_parts(o, f, op, temporary, e) != 0)
        return -1;
    r->key[r->steps.n] = (uint64_t)f->now << STEP_TIME | op->thread;
    r->steps.size[r->steps.n] = op->block.size;
    r->steps.what[r->steps.n] =
        callstack << 2 | (op->kind == MEMORY_FREE ? LOG_FREE : 0) | (later ? LOG_LATER : 0);
    return ++r->steps.n == LOG_RUN ? stream_count_run(&f->counting, e) : 0;
}

static void anew(void *ctx)
{
    struct only *o = ctx;
    only_forget(o);
    only_start(o);
}

/* Encodes the parts of a pool that are still counted. */
static int put_part(const struct only *o, uint32_t pool, unsigned part, struct err *e)
{
    struct feed *f = o->feeds.at[pool];
    struct buf *out = &f->bytes[part];
    if (!f->states[part])
        return 0;
    buf_clear(out);
    int status = o->parts[part]->put(f->states[part], o->trace->memory.pools.at[pool], out, e);
    return status == 0 && out->failed ? no_memory(e) : status;
}

static int append(void *figures, int fd, struct err *e)
{
    struct only *o = figures;
    struct buf bytes = {0};
    int status = o->sealed ? 0 : seal(o, e);
    for (uint32_t i = 0; i < o->feeds.len; i++) {
        for (unsigned k = 0; o->feeds.at[i] && k < o->part_count && status == 0; k++)
            status = put_part(o, i, k, e);
    }
    if (status == 0)
        status = only_encode(o, &bytes, e);
    if (status == 0)
        status = appendix_write(fd, buf_view(&bytes), e);
    buf_release(&bytes);
    return status == 0 ? 0 : err_prefix(e, "figures behind the trace");
}

/* ---- for callers */

int figures_only_begin(struct trace *t, const struct figures_part *const *parts, size_t n,
                       struct err *e)
{
    struct only *o = only_new(t, e);
    if (!o)
        return -1;
    o->parts = parts;
    o->part_count = n;
    t->callstacks.limit = FIGURES_CALLSTACKS;
    t->memory.observer = (struct memory_observer){.ctx = o, .op = take, .anew = anew};
    t->memory.only.append = append;
    return 0;
}

void figures_only_fold_after(struct trace *t, uint64_t steps)
{
    struct only *o = t->memory.only.figures;
    o->fold_steps = steps;
}

void figures_only_name_by(struct trace *t, void (*name)(void *ctx, struct trace *t), void *ctx)
{
    struct only *o = t->memory.only.figures;
    if (!t->memory.only.append)
        return;
    o->name = name;
    o->name_ctx = ctx;
}

int figures_only_note(struct trace *t, struct err *e)
{
    return t->memory.only.append ? trace_add_fact(t, e, FIGURES_FACT, FIGURES_ONLY) : 0;
}

int figures_only_load(struct trace *t, struct err *e)
{
    if (!t->memory.only.is || t->memory.only.figures)
        return 0;
    if (t->memory.only.bytes.len == 0)
        return memory_refuse(t->memory.only.piped
                                 ? "figures are read from a regular file, not from a pipe"
                                 : "and the figures are not behind the trace any more",
                             e);
    struct only *o = only_new(t, e);
    if (!o)
        return -1;
    if (only_decode(o, buf_view(&t->memory.only.bytes), e) != 0) {
        only_release(o);
        t->memory.only.figures = NULL;
        t->memory.only.release = NULL;
        return -1;
    }
    buf_release(&t->memory.only.bytes);
    return 0;
}

/* Whether no two pools with steps have one name. */
static bool are_apart(const struct only *o)
{
    const struct trace *t = o->trace;
    for (size_t i = 0; i < o->figures.pools.len; i++) {
        for (size_t k = 0; k < i; k++) {
            char room[32], other[32];
            const struct pool *a = t->memory.pools.at[o->figures.pools.at[i].number];
            const struct pool *b = t->memory.pools.at[o->figures.pools.at[k].number];
            if (view_equal(trace_pool_name(t, a, room), trace_pool_name(t, b, other)))
                return false;
        }
    }
    return true;
}

int figures_only_pools(struct trace *t, struct err *e)
{
    if (figures_only_load(t, e) != 0)
        return -1;
    if (!are_apart(t->memory.only.figures))
        return memory_refuse(
            "several pools have one name, and their figures together are not known", e);
    return 0;
}

int figures_only_find(struct trace *t, struct stream_figures **f, struct err *e)
{
    if (figures_only_pools(t, e) != 0)
        return -1;
    struct only *o = t->memory.only.figures;
    if (!o->sealed && seal(o, e) != 0)
        return -1;
    *f = &o->figures;
    return 0;
}

int figures_only_part(struct trace *t, uint32_t pool, unsigned part, struct view *bytes,
                      struct err *e)
{
    const struct only *o = t->memory.only.figures;
    *bytes = (struct view){"", 0};
    if (pool >= o->feeds.len || !o->feeds.at[pool])
        return 0;
    if (put_part(o, pool, part, e) != 0)
        return -1;
    *bytes = buf_view(&o->feeds.at[pool]->bytes[part]);
    return bytes->len ? 0 : memory_refuse("an older release stored fewer figures", e);
}
