#include "analysis/stream_figures.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/accounting_parts.h"
#include "analysis/stream_parts.h"
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

#define AHEAD 8u /* steps */

#define BATCH 512u /* events whose frees are put into the queue before any is counted */

/*
 * Pages of counters that any file may take, and how many events must come for a further one: a file
 * of few events must not take much memory by naming call stacks far apart.
 */
#define PAGES_FREE 4096u
#define EVENTS_PER_PAGE 16u
#define PLACES_PER_PAGE (sizeof(struct counter_page) / sizeof(struct counter_page *))

void stream_figures_init(struct stream_figures *f, struct trace *t)
{
    *f = (struct stream_figures){.trace = t};
    accounting_init(&f->callstacks, NULL);
    column_init(&f->log, t->memory.spool, &log_layout, false);
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
    for (size_t i = 0; i < f->thread_count; i++)
        vec_release(&f->threads[i].candidates);
    free(f->threads);
    f->threads = NULL;
    f->thread_count = 0;
}

void stream_figures_release(struct stream_figures *f)
{
    forget_threads(f);
    accounting_release(&f->callstacks);
    vec_release(&f->pools);
    column_release(&f->log);
    due_queue_release(&f->frees);
    vec_release(&f->large);
    vec_release(&f->large_vacant);
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

/* ---- steps */

/* Whether a page may be made now; the places of pages before it count for some, too. */
static bool may_add_page(struct stream_figures *f, uint32_t number)
{
    size_t places = f->account->pages.len;
    f->counter_pages += 1 + (number > places ? (number - places) / PLACES_PER_PAGE : 0);
    return f->counter_pages <= PAGES_FREE + f->events / EVENTS_PER_PAGE;
}

static inline struct counter_page *page_of(struct stream_figures *f, uint32_t callstack,
                                           struct err *e)
{
    struct pool_account *p = f->account;
    uint32_t number = callstack >> COUNTER_PAGE_SHIFT;
    if (number < p->pages.len && p->pages.at[number])
        return p->pages.at[number];
    if (may_add_page(f, number))
        return pool_add_page(p, number, e);
    unsuited(f, e);
    return NULL;
}

/* Brings closer what a step of a call stack changes: memory is far slower than the work. */
static inline void expect_step(const struct stream_figures *f, uint32_t callstack)
{
    const struct pool_account *p = f->account;
    uint32_t number = callstack >> COUNTER_PAGE_SHIFT;
    if (number < p->pages.len && p->pages.at[number])
        __builtin_prefetch(&p->pages.at[number]->hot[callstack & (COUNTER_PAGE_KEYS - 1)], 1);
}

static inline int log_step(struct stream_figures *f, uint32_t callstack, uint32_t kind,
                           int64_t time, uint64_t size, struct err *e)
{
    struct log_step *s = column_append_sized(&f->log, sizeof *s, e);
    if (!s)
        return -1;
    s->what = callstack << 2 | kind | (time > f->step ? LOG_LATER : 0);
    s->size_low = (uint32_t)size;
    s->size_high = (uint16_t)(size >> 32);
    f->step = time;
    return 0;
}

/* A thread does something at `time`, later than before: its candidates freed right then it are. */
static __attribute__((noinline)) void judge(struct stream_figures *f, struct stream_thread *t,
                                            int64_t time)
{
    for (size_t i = 0; i < t->candidates.len; i++) {
        const struct stream_candidate *c = &t->candidates.at[i];
        if (c->freed != time)
            continue;
        struct counter_page *page = f->account->pages.at[c->callstack >> COUNTER_PAGE_SHIFT];
        counter_temporary(f->account, &page->cold[c->callstack & (COUNTER_PAGE_KEYS - 1)], c->size);
    }
}

static inline void thread_step(struct stream_figures *f, struct stream_thread *t, int64_t time)
{
    if (time <= t->latest)
        return;
    /* A candidate's free is a step of this thread, too: none is before this one. */
    if (t->soonest == time)
        judge(f, t, time);
    t->candidates.len = 0;
    t->soonest = INT64_MAX;
    t->latest = time;
}

static inline int free_block(struct stream_figures *f, int64_t time, uint16_t thread,
                             uint32_t callstack, uint64_t size, struct err *e)
{
    struct counter_page *page = f->account->pages.at[callstack >> COUNTER_PAGE_SHIFT];
    struct counter_hot *h = &page->hot[callstack & (COUNTER_PAGE_KEYS - 1)];
    pool_step(f->account, h, &page->cold[callstack & (COUNTER_PAGE_KEYS - 1)], time);
    counter_free(f->account, h, size);
    thread_step(f, &f->threads[thread], time);
    return log_step(f, callstack, LOG_FREE, time, size, e);
}

/* A block that is freed when it is allocated: nothing can come between. */
static int free_at_once(struct stream_figures *f, int64_t time, const struct rec_memory_event *r,
                        uint64_t size, struct err *e)
{
    struct counter_page *page = f->account->pages.at[r->callstack_alloc >> COUNTER_PAGE_SHIFT];
    if (r->thread_free == r->thread_alloc)
        counter_temporary(f->account, &page->cold[r->callstack_alloc & (COUNTER_PAGE_KEYS - 1)],
                          size);
    return free_block(f, time, r->thread_free, r->callstack_alloc, size, e);
}

static inline int alloc_block(struct stream_figures *f, int64_t time,
                              const struct rec_memory_event *r, struct err *e)
{
    uint64_t size = r->size & SIZE_MASK;
    uint32_t callstack = r->callstack_alloc;
    struct counter_page *page = page_of(f, callstack, e);
    if (!page)
        return -1;
    struct counter_hot *h = &page->hot[callstack & (COUNTER_PAGE_KEYS - 1)];
    struct counter_cold *c = &page->cold[callstack & (COUNTER_PAGE_KEYS - 1)];
    pool_step(f->account, h, c, time);
    counter_alloc(f->account, h, c, size);
    struct stream_thread *t = &f->threads[r->thread_alloc];
    thread_step(f, t, time);
    if (log_step(f, callstack, 0, time, size, e) != 0)
        return -1;
    if (r->time_free == -1)
        return 0;
    if (r->time_free <= time)
        return free_at_once(f, time, r, size, e);
    if (r->thread_free != r->thread_alloc)
        return 0;
    if (r->time_free < t->soonest)
        t->soonest = r->time_free;
    return vec_push(&t->candidates, (struct stream_candidate){r->time_free, size, callstack})
               ? 0
               : no_memory(e);
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

static int free_item(struct stream_figures *f, const struct due_item *item, struct err *e)
{
    uint64_t size = (item->value & ~SIZE_LARGE) >> VALUE_LOW;
    if (item->value & SIZE_LARGE && take_large(f, size, &size, e) != 0)
        return -1;
    return free_block(f, (int64_t)(item->key >> KEY_LOW), (uint16_t)item->key,
                      (uint32_t)(item->value & CALLSTACK_MASK), size, e);
}

/* ---- events */

/* Counts allocations, and every free up to `until` in its place: before those of its nanosecond. */
static int count_until(struct stream_figures *f, int64_t until, const struct rec_memory_event *r,
                       const int64_t *times, size_t n, struct err *e)
{
    const struct due_item *due;
    size_t due_count;
    size_t next = 0;
    do {
        if (due_queue_take(&f->frees, time_key(until) | UINT16_MAX, &due, &due_count, e) != 0)
            return -1;
        for (size_t i = 0; i < due_count; i++) {
            int64_t time = (int64_t)(due[i].key >> KEY_LOW);
            if (i + AHEAD < due_count)
                expect_step(f, (uint32_t)(due[i + AHEAD].value & CALLSTACK_MASK));
            for (; next < n && times[next] < time; next++) {
                if (next + AHEAD < n)
                    expect_step(f, r[next + AHEAD].callstack_alloc);
                if (alloc_block(f, times[next], &r[next], e) != 0)
                    return -1;
            }
            if (free_item(f, &due[i], e) != 0)
                return -1;
        }
    } while (due_count);
    for (; next < n; next++) {
        if (alloc_block(f, times[next], &r[next], e) != 0)
            return -1;
    }
    return 0;
}

static int take_batch(struct stream_figures *f, const struct rec_memory_event *r, size_t n,
                      struct err *e)
{
    struct pool_totals *totals = &f->pool->totals;
    int64_t times[BATCH];
    f->events += n;
    for (size_t i = 0; i < n; i++) {
        if (r[i].time_alloc < f->now) {
            f->disorder = true;
            f->pool->disorder++;
        } else {
            f->now = r[i].time_alloc;
        }
        times[i] = f->now;
        uint64_t end = saturating_add(r[i].ptr, r[i].size & SIZE_MASK);
        totals->low_address = r[i].ptr < totals->low_address ? r[i].ptr : totals->low_address;
        totals->high_address = end > totals->high_address ? end : totals->high_address;
        if (r[i].time_free > f->now && expect_free(f, &r[i], e) != 0)
            return -1;
    }
    return count_until(f, f->now, r, times, n, e);
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
    if (!f->threads) {
        f->thread_count = f->trace->threads.list.len;
        f->threads = calloc(f->thread_count + 1, sizeof *f->threads);
    }
    if (!f->threads) {
        f->thread_count = 0;
        return err_no_memory(e, "threads");
    }
    for (size_t i = 0; i < f->thread_count; i++) {
        f->threads[i].latest = INT64_MIN;
        f->threads[i].soonest = INT64_MAX;
        f->threads[i].candidates.len = 0;
    }
    return 0;
}

static int begin_pool(struct stream_figures *f, const struct rec_pool *r, struct err *e)
{
    uint32_t number;
    f->account = NULL;
    if (r->events == 0)
        return 0;
    if (memory_pool(&f->trace->memory, r->key, &number, e) != 0)
        return -1;
    if (name_is_taken(f, number) || (f->disorder && f->pools.len))
        return unsuited(f, e);
    f->pool = f->trace->memory.pools.at[number];
    f->account = accounting_add_pool(&f->callstacks, number, e);
    f->now = f->step = INT64_MIN;
    due_queue_restart(&f->frees);
    if (!f->account || begin_threads(f, e) != 0)
        return -1;
    return vec_push(&f->pools, (struct stream_pool){.number = number}) ? 0 : no_memory(e);
}

static int end_pool(struct stream_figures *f, struct err *e)
{
    if (!f->account)
        return 0;
    if (count_until(f, TIME_LAST, NULL, NULL, 0, e) != 0)
        return -1;
    if (f->disorder && f->pools.len > 1)
        return unsuited(f, e);
    uint64_t before = 0;
    for (size_t i = 0; i + 1 < f->pools.len; i++)
        before += f->pools.at[i].steps;
    f->pools.at[f->pools.len - 1].steps = f->log.len - before;
    const struct pool_figures *from = &f->account->figures;
    struct pool_totals *totals = &f->pool->totals;
    totals->allocations = from->allocations;
    totals->frees = from->frees;
    totals->live = from->live;
    totals->live_bytes = from->live_bytes;
    totals->total_bytes = from->total_bytes;
    f->account = NULL;
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
