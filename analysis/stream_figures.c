#include "analysis/stream_figures.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/accounting_parts.h"
#include "analysis/stream_parts.h"
#include "analysis/stream_pipe.h"
#include "trace/record.h"

static const struct pack_layout log_layout = {
    .element = sizeof(struct log_step),
    .count = 2,
    .fields = {{0, 4, PACK_OFFSET}, {4, 6, PACK_OFFSET}},
};

/*
 * An item of the queue: key is time << 16 | thread, value is size << 24 | call stack, or with
 * SIZE_LARGE, where `large` has the size. Times and sizes have 48 bits, call stacks 24.
 */
#define KEY_LOW 16
#define VALUE_LOW 24
#define CALLSTACK_MASK ((UINT64_C(1) << VALUE_LOW) - 1)
#define SIZE_LARGE (UINT64_C(1) << 63)
#define SIZE_ROOM 39 /* bits */
#define SIZE_MASK ((UINT64_C(1) << 48) - 1)

#define TIME_LAST (INT64_MAX >> KEY_LOW)

#define BATCH 512u /* events whose frees are put into the queue before any is counted */

#define RUN 256u /* frees that are counted together */

/* Sums beyond it are left to those who watch for what has no room. */
#define BYTES_MAX (UINT64_C(1) << 62)

/* Steps on the way from a batch, and from the queue, to a portion. */
struct stream_room {
    struct stream_step allocs[2 * BATCH + 1]; /* with frees in the same nanosecond, and an end */
    struct stream_step frees[RUN];
    struct stream_step *to; /* the portion at hand */
    size_t filled;
};

#define PORTION_FULL (STREAM_PORTION - 2 * BATCH - RUN)

/* Events of a pool for which a thread of its own pays. */
#define EVENTS_FOR_A_THREAD 20000u

void stream_figures_init(struct stream_figures *f, struct trace *t)
{
    *f = (struct stream_figures){.trace = t};
    accounting_init(&f->callstacks, NULL);
    column_init(&f->counting.log, t->memory.spool, &log_layout, false);
    f->frees.loose = KEY_LOW;
}

int stream_figures_bound(struct stream_figures *f, size_t bytes, struct err *e)
{
    f->memory = bytes;
    f->frees.bound = bytes / 2 + 1;
    return spool_set_budget(&f->trace->spool, bytes / 2, e);
}

static void forget_threads(struct stream_figures *f)
{
    for (size_t i = 0; i < f->counting.thread_count; i++)
        vec_release(&f->counting.threads[i].candidates);
    free(f->counting.threads);
    f->counting.threads = NULL;
    f->counting.thread_count = 0;
}

void stream_figures_release(struct stream_figures *f)
{
    stream_pipe_close(f->pipe);
    forget_threads(f);
    accounting_release(&f->callstacks);
    vec_release(&f->pools);
    column_release(&f->counting.log);
    due_queue_release(&f->frees);
    vec_release(&f->large);
    vec_release(&f->large_vacant);
    free(f->room);
    *f = (struct stream_figures){0};
}

static int unsuited(struct stream_figures *f, struct err *e)
{
    f->unsuited = true;
    return err_set(e, ERR_INPUT, "not to be counted while it is read");
}

static int no_memory(struct err *e)
{
    return err_no_memory(e, "figures of call stacks");
}

/* ---- frees to come */

static uint64_t time_key(int64_t time)
{
    return (uint64_t)time << KEY_LOW;
}

static int keep_large(struct stream_figures *f, uint64_t size, uint64_t *place, struct err *e)
{
    if (f->large_vacant.len) {
        *place = f->large_vacant.at[--f->large_vacant.len];
    } else {
        if (!vec_push(&f->large, 0))
            return no_memory(e);
        *place = f->large.len - 1;
    }
    f->large.at[*place] = size;
    return 0;
}

static int take_large(struct stream_figures *f, uint64_t place, uint64_t *size, struct err *e)
{
    *size = f->large.at[place];
    return vec_push(&f->large_vacant, (uint32_t)place) ? 0 : no_memory(e);
}

static inline int expect_free(struct stream_figures *f, const struct rec_memory_event *r,
                              struct err *e)
{
    uint64_t size = r->size & SIZE_MASK;
    uint64_t mark = 0;
    if (size >> SIZE_ROOM) {
        if (keep_large(f, size, &size, e) != 0)
            return -1;
        mark = SIZE_LARGE;
    }
    return due_queue_put(&f->frees, time_key(r->time_free) | r->thread_free,
                         mark | size << VALUE_LOW | r->callstack_alloc, e);
}

static inline int step_of(struct stream_figures *f, const struct due_item *item,
                          struct stream_step *s, struct err *e)
{
    uint64_t size = (item->value & ~SIZE_LARGE) >> VALUE_LOW;
    if (item->value & SIZE_LARGE && take_large(f, size, &size, e) != 0)
        return -1;
    *s = (struct stream_step){.time = (int64_t)(item->key >> KEY_LOW),
                              .freed = INT64_MAX,
                              .size = size,
                              .callstack = (uint32_t)(item->value & CALLSTACK_MASK),
                              .thread = (uint16_t)item->key,
                              .kind = STEP_FREE};
    return 0;
}

/* ---- events */

static int counting_failed(struct stream_figures *f)
{
    f->unsuited |= f->counting.scattered;
    return -1;
}

/* Hands the portion at hand over to those who count. */
static int hand_over(struct stream_figures *f, struct err *e)
{
    if (stream_pipe_put(f->pipe, f->room->filled, e) != 0)
        return counting_failed(f);
    f->room->to = stream_pipe_room(f->pipe);
    f->room->filled = 0;
    return 0;
}

/*
 * Appends frees to the portion, and the allocations before them, from *allocs on. Which comes next
 * cannot be foreseen: nothing branches on it.
 */
static void merge(struct stream_figures *f, const struct stream_step *frees, size_t n,
                  const struct stream_step **allocs)
{
    struct stream_step *to = f->room->to + f->room->filled;
    const struct stream_step *end = frees + n;
    const struct stream_step *alloc = *allocs;
    while (frees < end) {
        size_t is_free = frees->time <= alloc->time;
        *to++ = *(__builtin_expect_with_probability((long)is_free, 1, 0.5) ? frees : alloc);
        frees += is_free;
        alloc += 1 - is_free;
    }
    f->room->filled = (size_t)(to - f->room->to);
    *allocs = alloc;
}

/* Frees that are due, and the allocations before them. */
static int merge_run(struct stream_figures *f, const struct due_item *due, size_t n,
                     const struct stream_step **allocs, struct err *e)
{
    struct stream_step *frees = f->room->frees;
    f->sums.frees += n;
    while (n) {
        size_t part = n < RUN ? n : RUN;
        for (size_t i = 0; i < part; i++) {
            if (step_of(f, &due[i], &frees[i], e) != 0)
                return -1;
        }
        merge(f, frees, part, allocs);
        if (f->room->filled >= PORTION_FULL && hand_over(f, e) != 0)
            return -1;
        due += part;
        n -= part;
    }
    return 0;
}

/* Brings the batch's `n` steps, and every free up to `until`, in order. */
static int merge_until(struct stream_figures *f, int64_t until, size_t n, struct err *e)
{
    const struct stream_step *next = f->room->allocs;
    const struct due_item *due;
    size_t due_count;
    f->room->allocs[n].time = INT64_MAX;
    do {
        if (due_queue_take(&f->frees, time_key(until) | UINT16_MAX, &due, &due_count, e) != 0 ||
            merge_run(f, due, due_count, &next, e) != 0)
            return -1;
    } while (due_count);
    size_t left = (size_t)(f->room->allocs + n - next);
    memcpy(f->room->to + f->room->filled, next, left * sizeof *next);
    f->room->filled += left;
    return f->room->filled >= PORTION_FULL ? hand_over(f, e) : 0;
}

/* Gives the steps of an allocation: two when it is freed in the same nanosecond. */
static inline struct stream_step *
add_steps(struct stream_figures *f, const struct rec_memory_event *r, struct stream_step *to)
{
    bool same_thread = r->thread_free == r->thread_alloc;
    *to = (struct stream_step){.time = f->sums.now,
                               .freed = r->time_free > f->sums.now && same_thread ? r->time_free
                                                                                  : INT64_MAX,
                               .size = r->size & SIZE_MASK,
                               .callstack = r->callstack_alloc,
                               .thread = r->thread_alloc};
    if (r->time_free > f->sums.now || r->time_free == -1)
        return to + 1;
    to[1] = to[0];
    to[1].thread = r->thread_free;
    to[1].kind = STEP_FREE | (same_thread ? STEP_TEMPORARY : 0);
    f->sums.frees++;
    return to + 2;
}

static int take_batch(struct stream_figures *f, const struct rec_memory_event *r, size_t n,
                      struct err *e)
{
    struct pool_totals *totals = &f->pool->totals;
    struct stream_step *to = f->room->allocs;
    for (size_t i = 0; i < n; i++) {
        if (r[i].time_alloc < f->sums.now) {
            f->disorder = true;
            f->pool->disorder++;
        } else {
            f->sums.now = r[i].time_alloc;
        }
        uint64_t end = saturating_add(r[i].ptr, r[i].size & SIZE_MASK);
        totals->low_address = r[i].ptr < totals->low_address ? r[i].ptr : totals->low_address;
        totals->high_address = end > totals->high_address ? end : totals->high_address;
        f->sums.total_bytes += r[i].size & SIZE_MASK;
        if (r[i].time_free > f->sums.now && expect_free(f, &r[i], e) != 0)
            return -1;
        to = add_steps(f, &r[i], to);
    }
    f->sums.allocations += n;
    if (f->sums.total_bytes > BYTES_MAX)
        return unsuited(f, e);
    return merge_until(f, f->sums.now, (size_t)(to - f->room->allocs), e);
}

static int take_events(struct stream_figures *f, const struct rec_memory_event *r, size_t n,
                       struct err *e)
{
    /* A file's first times are never below 0; if they are, then something is wrong with it. */
    for (size_t i = 0; i < n; i++) {
        if (r[i].time_alloc < 0)
            return unsuited(f, e);
    }
    for (; n > BATCH; r += BATCH, n -= BATCH) {
        if (take_batch(f, r, BATCH, e) != 0)
            return -1;
    }
    return take_batch(f, r, n, e);
}

/* ---- pools */

static bool name_is_taken(const struct stream_figures *f, uint32_t number)
{
    const struct trace *t = f->trace;
    char room[32], other[32];
    struct view name = trace_pool_name(t, t->memory.pools.at[number], room);
    for (size_t i = 0; i < f->pools.len; i++) {
        const struct pool *p = t->memory.pools.at[f->pools.at[i].number];
        if (f->pools.at[i].number == number || view_equal(name, trace_pool_name(t, p, other)))
            return true;
    }
    return false;
}

static int begin_threads(struct stream_figures *f, struct err *e)
{
    if (!f->counting.threads) {
        f->counting.thread_count = f->trace->threads.list.len;
        f->counting.threads = calloc(f->counting.thread_count + 1, sizeof *f->counting.threads);
    }
    if (!f->counting.threads) {
        f->counting.thread_count = 0;
        return err_no_memory(e, "threads");
    }
    for (size_t i = 0; i < f->counting.thread_count; i++) {
        f->counting.threads[i].latest = INT64_MIN;
        f->counting.threads[i].soonest = INT64_MAX;
        f->counting.threads[i].candidates.len = 0;
    }
    return 0;
}

static int begin_steps(struct stream_figures *f, uint64_t events, struct err *e)
{
    if (!f->room && !(f->room = malloc(sizeof *f->room)))
        return no_memory(e);
    if (!f->pipe && stream_pipe_open(&f->pipe, stream_count, &f->counting, e) != 0)
        return -1;
    if (events >= EVENTS_FOR_A_THREAD)
        stream_pipe_start(f->pipe);
    f->room->to = stream_pipe_room(f->pipe);
    f->room->filled = 0;
    return 0;
}

static int begin_pool(struct stream_figures *f, const struct rec_pool *r, struct err *e)
{
    uint32_t number;
    f->counting.account = NULL;
    if (r->events == 0)
        return 0;
    if (memory_pool(&f->trace->memory, r->key, &number, e) != 0)
        return -1;
    if (name_is_taken(f, number) || (f->disorder && f->pools.len))
        return unsuited(f, e);
    f->pool = f->trace->memory.pools.at[number];
    f->counting.account = accounting_add_pool(&f->callstacks, number, e);
    f->sums = (struct stream_sums){.now = INT64_MIN};
    due_queue_restart(&f->frees);
    if (!f->counting.account || begin_threads(f, e) != 0)
        return -1;
    if (begin_steps(f, r->events, e) != 0)
        return -1;
    return vec_push(&f->pools, (struct stream_pool){.number = number}) ? 0 : no_memory(e);
}

static int end_pool(struct stream_figures *f, struct err *e)
{
    if (!f->counting.account)
        return 0;
    if (merge_until(f, TIME_LAST, 0, e) != 0 || hand_over(f, e) != 0)
        return -1;
    if (stream_pipe_drain(f->pipe, e) != 0)
        return counting_failed(f);
    if (f->disorder && f->pools.len > 1)
        return unsuited(f, e);
    uint64_t before = 0;
    for (size_t i = 0; i + 1 < f->pools.len; i++)
        before += f->pools.at[i].steps;
    f->pools.at[f->pools.len - 1].steps = f->counting.log.len - before;
    struct pool_figures *from = &f->counting.account->figures;
    from->allocations = f->sums.allocations;
    from->frees = f->sums.frees;
    from->total_bytes = f->sums.total_bytes;
    struct pool_totals *totals = &f->pool->totals;
    totals->allocations = from->allocations;
    totals->frees = from->frees;
    totals->live = from->live;
    totals->live_bytes = from->live_bytes;
    totals->total_bytes = from->total_bytes;
    f->counting.account = NULL;
    return 0;
}

static int put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct stream_figures *f = ctx;
    switch (type) {
    case REC_POOL:
        return begin_pool(f, recs, e);
    case REC_MEMORY_EVENT:
        return take_events(f, recs, n, e);
    case REC_POOL_END:
        return end_pool(f, e);
    default:
        return 0;
    }
}

struct record_sink stream_figures_sink(struct stream_figures *f)
{
    return (struct record_sink){f, put};
}

int stream_figures_read(struct stream_figures *f, const char *path, struct trace_counts *counts,
                        struct trace_info *info, struct err *e)
{
    static const bool wanted[REC_TYPE_COUNT] = {
        [REC_POOL] = true, [REC_MEMORY_EVENT] = true, [REC_POOL_END] = true};
    const struct record_sink sink = stream_figures_sink(f);
    const struct trace_load_options options = {
        .no_events = true, .beside = &sink, .beside_wanted = wanted};
    int status = trace_load_with(f->trace, path, &options, counts, info, e);
    f->counted = status == 0;
    stream_pipe_close(f->pipe);
    f->pipe = NULL;
    forget_threads(f);
    due_queue_release(&f->frees);
    return status;
}

static bool can_be_read_again(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int stream_figures_load(struct stream_figures *f, const char *path, struct trace_counts *counts,
                        struct trace_info *info, struct err *e)
{
    struct trace *t = f->trace;
    if (!can_be_read_again(path))
        return trace_load(t, path, counts, info, e);
    int status = stream_figures_read(f, path, counts, info, e);
    if (status == 0 || !f->unsuited)
        return status;
    const struct trace_options again = {.resident_budget = f->memory};
    stream_figures_release(f);
    trace_release(t);
    *e = (struct err){0};
    stream_figures_init(f, t);
    return trace_init(t, &again, e) != 0 ? -1 : trace_load(t, path, counts, info, e);
}
