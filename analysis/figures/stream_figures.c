#include "analysis/figures/stream_figures.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/figures/stream_parts.h"
#include "analysis/figures/stream_pipe.h"
#include "trace/file/record_takers.h"

#define TIME_LAST (INT64_MAX >> STEP_TIME)

/*
 * Events whose allocations are counted together with all frees due by then. The larger the batch,
 * the less often a free is moved before its time.
 */
#define BATCH 4096u

/* Larger sums are handled by callers that check for overflow. */
#define BYTES_MAX (UINT64_C(1) << 62)

/* Allocations that come after the frees of the previous portion. */
struct stream_room {
    struct stream_portion *to; /* the current portion */
    size_t n;
    struct due_item allocations[STREAM_ALLOCATIONS];
    int64_t freed[STREAM_ALLOCATIONS];
    struct stream_sizes large; /* their large sizes */
};

/* The number of events of a pool from which a separate thread is faster. */
#define EVENTS_FOR_A_THREAD 20000u

/* Bytes of pending frees unless stream_figures_bound sets less: six million. */
#define FREES_IN_MEMORY ((size_t)96 << 20)

/* Bytes of counters, and of blocks allocated in one nanosecond, unless it sets less. */
#define COUNTERS_IN_MEMORY ((size_t)64 << 20)

/* Bytes of everything for a trace that is loaded with its events, if its budget is not less. */
#define BESIDE_A_STORE ((size_t)32 << 20)

void stream_figures_init(struct stream_figures *f, struct trace *t)
{
    *f = (struct stream_figures){.trace = t};
    const struct accounting_options counters = {.pageable = &f->counting.pageable};
    const struct accounting_options by_thread = {.by_thread = true,
                                                 .pageable = &f->counting.pageable};
    accounting_init(&f->callstacks, &counters);
    accounting_init(&f->threads, &by_thread);
    stream_log_init(&f->counting.log, &f->spool);
    pageable_init(&f->counting.pageable, t->spool.dir, COUNTERS_IN_MEMORY);
    f->frees.loose = STEP_TIME;
    f->frees.bound = FREES_IN_MEMORY;
}

int stream_figures_bound(struct stream_figures *f, size_t bytes, struct err *e)
{
    f->memory = bytes;
    f->frees.bound = bytes / 3 + 1;
    if (bytes / 3 < COUNTERS_IN_MEMORY)
        f->counting.pageable.budget = bytes / 3;
    if (f->of_store)
        return 0;
    return spool_set_budget(&f->trace->spool, bytes / 3, e);
}

static void forget_threads(struct stream_figures *f)
{
    for (size_t i = 0; i < f->counting.thread_count; i++)
        pageable_vec_release(&f->counting.pageable, &f->counting.threads[i].more);
    free(f->counting.threads);
    f->counting.threads = NULL;
    f->counting.thread_count = 0;
}

void stream_figures_release(struct stream_figures *f)
{
    stream_pipe_close(f->pipe);
    forget_threads(f);
    accounting_release(&f->callstacks);
    accounting_release(&f->threads);
    pageable_release(&f->counting.pageable);
    vec_release(&f->pools);
    stream_log_release(&f->counting.log);
    if (f->has_spool)
        spool_release(&f->spool);
    due_queue_release(&f->frees);
    vec_release(&f->large);
    vec_release(&f->large_vacant);
    if (f->room)
        vec_release(&f->room->large);
    free(f->room);
    *f = (struct stream_figures){0};
}

static int unsuited(struct stream_figures *f, struct err *e)
{
    f->unsuited = true;
    return err_set(e, ERR_INPUT, "not to be counted while it is read");
}

/* ---- steps */

static uint64_t key_of(int64_t time, uint16_t thread)
{
    return (uint64_t)time << STEP_TIME | thread;
}

/* Puts a size that a value has no room for into the portion's list; the value gets the index. */
static int put_large(struct stream_portion *to, uint64_t *value, uint64_t size, struct err *e)
{
    if (!vec_push(&to->large, size))
        return err_no_memory(e, "figures of call stacks");
    *value = step_with_size(*value | STEP_LARGE, to->large.len - 1);
    return 0;
}

/* The same in the list of pending frees. */
static int keep_large(struct stream_figures *f, uint64_t *value, uint64_t size, struct err *e)
{
    uint64_t place;
    if (f->large_vacant.len) {
        place = f->large_vacant.at[--f->large_vacant.len];
    } else {
        if (!vec_push(&f->large, 0))
            return err_no_memory(e, "figures of call stacks");
        place = f->large.len - 1;
    }
    f->large.at[place] = size;
    *value = step_with_size(*value | STEP_LARGE, place);
    return 0;
}

/* Moves sizes from that list to a portion's. */
static int take_large(struct stream_figures *f, struct due_item *items, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t place = step_size(items[i].value);
        if (step_is_large(items[i].value) &&
            (!vec_push(&f->large_vacant, (uint32_t)place) ||
             put_large(f->room->to, &items[i].value, f->large.at[place], e) != 0))
            return err_no_memory(e, "figures of call stacks");
    }
    return 0;
}

static int counting_failed(struct stream_figures *f)
{
    f->unsuited |= f->counting.scattered;
    return -1;
}

/* ---- portions */

/* Moves the sizes of copied allocations to another list. */
static bool move_sizes(struct due_item *items, size_t n, const struct stream_sizes *from,
                       struct stream_sizes *to)
{
    to->len = 0;
    for (size_t i = 0; i < n; i++) {
        if (!step_is_large(items[i].value))
            continue;
        if (!vec_push(to, from->at[step_size(items[i].value)]))
            return false;
        items[i].value = step_with_size(items[i].value, to->len - 1);
    }
    return true;
}

/* Removes the allocations from `first` on from the current portion. */
static bool set_aside(struct stream_room *room, size_t first)
{
    struct stream_portion *from = room->to;
    room->n = from->allocation_count - first;
    memcpy(room->allocations, from->allocations + first, room->n * sizeof *room->allocations);
    memcpy(room->freed, from->freed + first, room->n * sizeof *room->freed);
    from->allocation_count = first;
    return move_sizes(room->allocations, room->n, &from->large, &room->large);
}

/* Begins the next portion with them. */
static bool put_back(struct stream_room *room)
{
    struct stream_portion *to = room->to;
    memcpy(to->allocations, room->allocations, room->n * sizeof *room->allocations);
    memcpy(to->freed, room->freed, room->n * sizeof *room->freed);
    to->allocation_count = room->n;
    return move_sizes(to->allocations, room->n, &room->large, &to->large);
}

static void next_portion(struct stream_figures *f)
{
    struct stream_portion *next = stream_pipe_room(f->pipe);
    next->allocation_count = next->free_count = next->large.len = 0;
    f->room->to = next;
}

/* Passes the current portion to the counter. */
static int hand_over(struct stream_figures *f, struct err *e)
{
    struct stream_portion *filled = f->room->to;
    filled->allocations[filled->allocation_count].key = UINT64_MAX;
    filled->frees[filled->free_count].key = UINT64_MAX;
    if (stream_pipe_put(f->pipe, e) != 0)
        return counting_failed(f);
    next_portion(f);
    return 0;
}

/* The same if further frees come before some of the allocations, or at the same time. */
static int hand_over_first(struct stream_figures *f, struct err *e)
{
    struct stream_portion *p = f->room->to;
    uint64_t until = p->frees[p->free_count - 1].key >> STEP_TIME;
    size_t n = 0;
    while (n < p->allocation_count && p->allocations[n].key >> STEP_TIME < until)
        n++;
    if (!set_aside(f->room, n))
        return err_no_memory(e, "figures of call stacks");
    if (hand_over(f, e) != 0)
        return -1;
    return put_back(f->room) ? 0 : err_no_memory(e, "figures of call stacks");
}

/* Appends frees, which are due before all later steps. */
static int add_frees(struct stream_figures *f, const struct due_item *due, size_t n, struct err *e)
{
    f->sums.totals.frees += n;
    while (n) {
        struct stream_portion *p = f->room->to;
        size_t room = STREAM_FREES - p->free_count;
        size_t part = n < room ? n : room;
        struct due_item *to = p->frees + p->free_count;
        memcpy(to, due, part * sizeof *due);
        p->free_count += part;
        if (f->large.len != f->large_vacant.len && take_large(f, to, part, e) != 0)
            return -1;
        if (p->free_count == STREAM_FREES && hand_over_first(f, e) != 0)
            return -1;
        due += part;
        n -= part;
    }
    return 0;
}

/* Ends a batch: every free up to `until`, the last allocation read, belongs to it. */
static int end_batch(struct stream_figures *f, int64_t until, struct err *e)
{
    const struct due_item *due;
    size_t n;
    do {
        if (due_queue_take(&f->frees, key_of(until, UINT16_MAX), &due, &n, e) != 0 ||
            add_frees(f, due, n, e) != 0)
            return -1;
    } while (n);
    return hand_over(f, e);
}

/* ---- events */

/* The steps of an event: an allocation, and its free if it is in the same nanosecond. */
static inline int add_event(struct stream_figures *f, struct stream_portion *to,
                            const struct rec_memory_event *r, struct err *e)
{
    uint64_t size = r->size & SIZE_MASK;
    uint64_t value = step_with_size(r->callstack_alloc, size);
    uint64_t waiting = value;
    bool later = r->time_free > f->sums.now;
    bool same_thread = r->thread_free == r->thread_alloc;
    bool tells_owner = f->by_thread && !same_thread && is_freed(r->time_free);
    if (__builtin_expect(size >> STEP_SIZE_ROOM != 0 || tells_owner, 0)) {
        uint64_t large = size | (uint64_t)r->thread_alloc << 48;
        value = waiting = r->callstack_alloc;
        if (put_large(to, &value, large, e) != 0 ||
            (later && keep_large(f, &waiting, large, e) != 0))
            return -1;
    }
    size_t n = to->allocation_count++;
    to->allocations[n] = (struct due_item){key_of(f->sums.now, r->thread_alloc), value};
    to->freed[n] = later && same_thread ? r->time_free : FREED_ELSEWHERE;
    if (later)
        return due_queue_put(&f->frees, key_of(r->time_free, r->thread_free), waiting, e);
    if (!is_freed(r->time_free))
        return 0;
    to->allocation_count++;
    to->allocations[n + 1] = (struct due_item){key_of(f->sums.now, r->thread_free), value};
    to->freed[n + 1] = same_thread ? FREES_TEMPORARY : FREES_ELSEWHERE;
    f->sums.totals.frees++;
    return 0;
}

TAKE_ALL(take_events, struct stream_figures *f, memory_event, r)
{
    struct pool_totals *totals = &f->sums.totals;
    for (size_t i = 0; i < n; i++) {
        /* A valid file's first times are never negative. */
        if (r[i].time_alloc < 0)
            return unsuited(f, e);
        if (r[i].time_alloc < f->sums.now) {
            f->disorder = true;
            f->sums.disorder++;
        } else {
            f->sums.now = r[i].time_alloc;
        }
        uint64_t end = saturating_add(r[i].ptr, r[i].size & SIZE_MASK);
        totals->low_address = r[i].ptr < totals->low_address ? r[i].ptr : totals->low_address;
        totals->high_address = end > totals->high_address ? end : totals->high_address;
        totals->total_bytes += r[i].size & SIZE_MASK;
        if (totals->total_bytes > BYTES_MAX)
            return unsuited(f, e);
        totals->allocations++;
        if (add_event(f, f->room->to, &r[i], e) != 0)
            return -1;
        if (f->room->to->allocation_count >= BATCH && end_batch(f, f->sums.now, e) != 0)
            return -1;
    }
    return 0;
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
        f->counting.threads[i].first.freed = INT64_MAX;
        f->counting.threads[i].more.len = 0;
    }
    return 0;
}

static int begin_spool(struct stream_figures *f, struct err *e)
{
    const struct spool *like = &f->trace->spool;
    size_t budget = f->memory ? f->memory / 3 : like->raw_budget + like->packed_budget;
    int status = spool_init(&f->spool, like->dir, budget, e);
    f->has_spool = status == 0;
    return status;
}

static void release_portion(void *portion)
{
    struct stream_portion *p = portion;
    vec_release(&p->large);
}

static int begin_steps(struct stream_figures *f, uint64_t events, struct err *e)
{
    static const struct stream_pipe_kind kind = {
        .size = sizeof(struct stream_portion), .take = stream_count, .release = release_portion};
    if (!f->has_spool && begin_spool(f, e) != 0)
        return -1;
    if (!f->room && !(f->room = calloc(1, sizeof *f->room)))
        return err_no_memory(e, "figures of call stacks");
    if (!f->pipe && stream_pipe_open(&f->pipe, &kind, &f->counting, e) != 0)
        return -1;
    if (events >= EVENTS_FOR_A_THREAD)
        stream_pipe_start(f->pipe);
    next_portion(f);
    return 0;
}

TAKE_EACH(begin_pool, struct stream_figures *f, pool, r)
{
    uint32_t number;
    f->counting.account = f->counting.by_thread = NULL;
    if (r->events == 0)
        return 0;
    if (memory_pool(&f->trace->memory, r->key, &number, e) != 0)
        return -1;
    if (name_is_taken(f, number) || (f->disorder && f->pools.len))
        return unsuited(f, e);
    f->pool = f->trace->memory.pools.at[number];
    f->counting.account = accounting_add_pool(&f->callstacks, number, e);
    if (f->by_thread)
        f->counting.by_thread = accounting_add_pool(&f->threads, number, e);
    f->sums = (struct stream_sums){.now = INT64_MIN, .totals.low_address = UINT64_MAX};
    due_queue_restart(&f->frees);
    if (!f->counting.account || (f->by_thread && !f->counting.by_thread) ||
        begin_threads(f, e) != 0)
        return -1;
    if (begin_steps(f, r->events, e) != 0)
        return -1;
    const struct stream_pool pool = {.number = number, .from = stream_log_end(&f->counting.log)};
    return vec_push(&f->pools, pool) ? 0 : err_no_memory(e, "figures of call stacks");
}

TAKE_EACH(end_pool, struct stream_figures *f, pool_end, r)
{
    if (!f->counting.account)
        return 0;
    if (end_batch(f, TIME_LAST, e) != 0)
        return -1;
    if (stream_pipe_drain(f->pipe, e) != 0)
        return counting_failed(f);
    if (f->disorder && f->pools.len > 1)
        return unsuited(f, e);
    f->pools.at[f->pools.len - 1].to = stream_log_end(&f->counting.log);
    struct pool_figures *figures = &f->counting.account->figures;
    struct pool_totals *totals = &f->sums.totals;
    figures->allocations = totals->allocations;
    figures->frees = totals->frees;
    figures->total_bytes = totals->total_bytes;
    totals->live = figures->live;
    totals->live_bytes = figures->live_bytes;
    if (f->by_thread) {
        f->counting.by_thread->figures = *figures;
        f->counting.by_thread->epoch = f->counting.account->epoch;
        f->counting.by_thread->now = f->counting.account->now;
    }
    if (!f->of_store) {
        f->pool->totals = *totals;
        f->pool->disorder = f->sums.disorder;
    }
    f->counting.account = NULL;
    return 0;
}

static const record_takers takers = {
    [REC_POOL] = begin_pool,
    [REC_MEMORY_EVENT] = take_events,
    [REC_POOL_END] = end_pool,
};

static int put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    return records_take(takers, ctx, type, recs, n, e);
}

struct record_sink stream_figures_sink(struct stream_figures *f)
{
    return (struct record_sink){f, put};
}

bool stream_figures_try(struct stream_figures *f, enum record_type type, const void *recs, size_t n)
{
    struct err ignored = {0};
    if (put(f, type, recs, n, &ignored) == 0)
        return true;
    stream_figures_release(f);
    return false;
}

void stream_figures_end(struct stream_figures *f)
{
    stream_pipe_close(f->pipe);
    f->pipe = NULL;
    forget_threads(f);
    due_queue_release(&f->frees);
    f->counted = true;
}

/* Gives the trace the sums by call stack that it would have with its events. */
static int sum_stacks(const struct stream_figures *f, struct err *e)
{
    struct trace *t = f->trace;
    for (size_t i = 0; i < f->pools.len; i++) {
        uint64_t iter = 0;
        uint32_t id;
        struct counter c;
        while (accounting_next(&f->callstacks, f->pools.at[i].number, &iter, &id, &c)) {
            if (id <= t->callstacks.list.len &&
                memory_sum_stack(&t->memory, id, c.count, c.bytes, e) != 0)
                return -1;
        }
    }
    return 0;
}

int stream_figures_beside(struct stream_figures *f, struct trace *t, bool *wanted, struct err *e)
{
    bool is_less = t->memory_budget && t->memory_budget < BESIDE_A_STORE;
    stream_figures_init(f, t);
    f->of_store = true;
    records_wanted(takers, wanted);
    return stream_figures_bound(f, is_less ? t->memory_budget : BESIDE_A_STORE, e);
}

int stream_figures_loaded(struct stream_figures *f, struct err *e)
{
    stream_figures_end(f);
    f->counted = !f->trace->memory.only.is;
    return sum_stacks(f, e);
}

int stream_figures_read(struct stream_figures *f, const char *path, struct trace_counts *counts,
                        struct trace_info *info, struct err *e)
{
    bool wanted[REC_TYPE_COUNT] = {false};
    const struct record_sink sink = stream_figures_sink(f);
    const struct trace_load_options options = {
        .no_events = true, .beside = &sink, .beside_wanted = wanted};
    records_wanted(takers, wanted);
    return trace_load_with(f->trace, path, &options, counts, info, e) == 0
               ? stream_figures_loaded(f, e)
               : -1;
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
    if (t->memory_budget && stream_figures_bound(f, t->memory_budget, e) != 0)
        return -1;
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
