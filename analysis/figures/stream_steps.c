/*
 * How a step changes the figures of analysis/figures/stream_figures.h. Allocations and frees
 * alternate at random, so their common part is computed without a branch.
 */

#include <stddef.h>

#include "analysis/figures/pool_account.h"
#include "analysis/figures/stream_parts.h"

/*
 * The number of counter pages that any file may use, and the number of steps required for a further
 * one: a file with few steps must not take much memory by using distant call stack numbers.
 */
#define PAGES_FREE 4096u
#define STEPS_PER_PAGE 16u
#define PLACES_PER_PAGE (sizeof(struct counter_page) / sizeof(struct counter_page *))

/* Figures of the current pool, while a run of steps is counted. */
struct tally {
    int64_t now;
    uint64_t live, live_bytes;
    uint64_t peak_live, peak_bytes; /* without the nanosecond `now` */
    int64_t peak_time;
    uint64_t epoch;
};

static struct tally tally_begin(const struct pool_account *p)
{
    const struct pool_figures *g = &p->figures;
    return (struct tally){.now = p->now,
                          .live = g->live,
                          .live_bytes = g->live_bytes,
                          .peak_live = g->peak_live,
                          .peak_bytes = g->peak_bytes,
                          .peak_time = g->peak_time,
                          .epoch = p->epoch};
}

static void tally_end(const struct tally *k, struct pool_account *p)
{
    struct pool_figures *g = &p->figures;
    p->now = k->now;
    p->epoch = k->epoch;
    g->live = k->live;
    g->live_bytes = k->live_bytes;
    g->peak_live = k->peak_live;
    g->peak_bytes = k->peak_bytes;
    g->peak_time = k->peak_time;
}

/* Ends the nanosecond `now`, which may be a peak. */
static inline void tally_advance(struct tally *k, int64_t time)
{
    bool peak = k->live_bytes > k->peak_bytes;
    k->peak_time = peak ? k->now : k->peak_time;
    k->peak_bytes = peak ? k->live_bytes : k->peak_bytes;
    k->epoch += peak;
    k->peak_live = k->live > k->peak_live ? k->live : k->peak_live;
    k->now = time;
}

static inline uint64_t is_free(uint32_t what)
{
    return what / LOG_FREE & 1;
}

/* Minus `size` for a free, else plus. */
static inline uint64_t change(uint64_t size, uint64_t freed)
{
    return (size ^ -freed) + freed;
}

/* `a` if `first` is 1, `b` if it is 0, without a branch. */
static inline uint64_t choose(uint64_t first, uint64_t a, uint64_t b)
{
    return b ^ ((a ^ b) & -first);
}

static inline int64_t time_of(uint64_t key)
{
    return (int64_t)(key >> STEP_TIME);
}

static void count_pool(struct stream_run *r, struct pool_account *account)
{
    struct tally k = tally_begin(account);
    for (uint32_t i = 0; i < r->steps.n; i++) {
        uint32_t what = r->steps.what[i];
        uint64_t freed = is_free(what);
        if (what & LOG_LATER)
            tally_advance(&k, time_of(r->key[i]));
        r->epoch[i] = k.epoch;
        k.live += 1 - 2 * freed;
        k.live_bytes += change(r->steps.size[i], freed);
    }
    tally_end(&k, account);
}

/* ---- counters of call stacks */

/* Whether a page may be allocated now; page pointers before it count, too. */
static bool may_add_page(struct stream_counting *c, const struct pool_account *account,
                         uint32_t number)
{
    size_t places = account->pages.len;
    c->counter_pages += 1 + (number > places ? (number - places) / PLACES_PER_PAGE : 0);
    return c->counter_pages <= PAGES_FREE + c->log.len / STEPS_PER_PAGE;
}

static __attribute__((noinline)) int
add_page(struct stream_counting *c, struct pool_account *account, uint32_t number, struct err *e)
{
    if (may_add_page(c, account, number))
        return pool_add_page(account, number, e) ? 0 : -1;
    c->scattered = true;
    return err_set(e, ERR_INPUT, "call stacks far apart");
}

/* The pages of counters. */
struct pages {
    struct counter_page **at;
    size_t len;
};

static struct pages pages_of(const struct pool_account *account)
{
    return (struct pages){account->pages.at, account->pages.len};
}

static inline struct counter_page *find_page(const struct pages *p, uint32_t key)
{
    uint32_t number = key >> COUNTER_PAGE_SHIFT;
    return number < p->len ? p->at[number] : NULL;
}

static inline void count_hot(struct counter_hot *h, struct counter_cold *c,
                             const struct stream_run *r, uint32_t i)
{
    int64_t now = time_of(r->key[i]);
    uint64_t size = r->steps.size[i];
    uint64_t freed = is_free(r->steps.what[i]);
    uint64_t held = h->last_time != now ? h->live_bytes : 0;
    if (h->epoch != r->epoch[i]) {
        c->at_peak_bytes = h->live_bytes;
        c->at_peak_count = h->live_count;
        h->epoch = r->epoch[i];
    }
    if (h->count == 0)
        c->first_time = now;
    h->peak_bytes = held > h->peak_bytes ? held : h->peak_bytes;
    h->last_time = now;
    h->count += 1 - freed;
    h->bytes += size & (freed - 1);
    h->live_count += 1 - 2 * freed;
    h->live_bytes += change(size, freed);
    h->largest = size > h->largest ? size : h->largest;
}

/* Counts a run, whose keys all have counters: call stacks, or the threads that allocated. */
static inline void count_keys(const struct stream_run *r, const struct pool_account *account,
                              bool by_thread)
{
    struct counter_page **pages = account->pages.at;
    for (uint32_t i = 0; i < r->steps.n; i++) {
        uint32_t key = by_thread ? r->owner[i] : r->steps.what[i] >> 2;
        struct counter_page *page = pages[key >> COUNTER_PAGE_SHIFT];
        uint32_t place = key & (COUNTER_PAGE_KEYS - 1);
        count_hot(&page->hot[place], &page->cold[place], r, i);
    }
}

static void count_callstacks(const struct stream_run *r, const struct pool_account *account)
{
    count_keys(r, account, false);
}

static void count_owners(const struct stream_run *r, const struct pool_account *account)
{
    count_keys(r, account, true);
}

/* ---- temporary blocks */

static void count_temporary(struct pool_account *account, uint32_t key, uint64_t size)
{
    struct counter_page *page = account->pages.at[key >> COUNTER_PAGE_SHIFT];
    counter_temporary(account, &page->cold[key & (COUNTER_PAGE_KEYS - 1)], size);
}

/* Counts a temporary block of a thread. */
static void add_temporary(struct stream_counting *c, uint16_t thread, uint32_t callstack,
                          uint64_t size)
{
    count_temporary(c->account, callstack, size);
    if (c->by_thread)
        count_temporary(c->by_thread, thread, size);
}

static void judge_one(struct stream_counting *c, uint16_t thread,
                      const struct stream_candidate *block, int64_t time)
{
    if (block->freed == time)
        add_temporary(c, thread, block->callstack, block->size);
}

/*
 * A thread has a step at `time`, later than before: its candidates that are freed right then are
 * temporary.
 */
static __attribute__((noinline)) void judge(struct stream_counting *c, uint16_t thread,
                                            int64_t time)
{
    const struct stream_thread *t = &c->threads[thread];
    judge_one(c, thread, &t->first, time);
    for (size_t i = 0; i < t->more.len; i++)
        judge_one(c, thread, &t->more.at[i], time);
}

/* A thread has another step in one nanosecond. False if memory is short. */
static __attribute__((noinline)) bool add_candidate(struct stream_counting *c,
                                                    struct stream_thread *t,
                                                    const struct stream_run *r, uint32_t i)
{
    const struct stream_candidate block = {r->freed[i], r->steps.size[i], r->steps.what[i] >> 2};
    if (block.freed == INT64_MAX)
        return true;
    t->soonest = block.freed < t->soonest ? block.freed : t->soonest;
    return pageable_push(&c->pageable, &t->more, block);
}

static int count_threads(struct stream_counting *c, const struct stream_run *r, struct err *e)
{
    for (uint32_t i = 0; i < r->steps.n; i++) {
        int64_t time = time_of(r->key[i]);
        struct stream_thread *t = &c->threads[(uint16_t)r->key[i]];
        if (__builtin_expect(time == t->latest, 0)) {
            if (!add_candidate(c, t, r, i))
                return err_no_memory(e, "figures of call stacks");
            continue;
        }
        /* A candidate's free is a step of this thread, too: none is before this one. */
        if (__builtin_expect(t->soonest == time, 0))
            judge(c, (uint16_t)r->key[i], time);
        t->latest = time;
        t->soonest = r->freed[i];
        t->first.freed = r->freed[i];
        t->first.size = r->steps.size[i];
        t->first.callstack = r->steps.what[i] >> 2;
        t->more.len = 0;
    }
    return 0;
}

/* ---- merging */

/* The next allocation and the next free of a portion. */
struct cursor {
    const struct due_item *alloc, *free;
    const int64_t *freed;
    const uint64_t *large;
};

/* Prefetches the counters of a step, the cold ones if its block may be temporary. */
static inline void expect_step(const struct counter_page *page, uint32_t place, int64_t freed)
{
    uint64_t candidate = freed != FREED_ELSEWHERE;
    size_t cold = offsetof(struct counter_page, cold) + place * sizeof *page->cold;
    __builtin_prefetch(&page->hot[place], 1);
    __builtin_prefetch((const char *)page + (candidate ? cold : place * sizeof *page->hot), 1);
}

/* The next allocation if `alloc` is 1, the next free if it is 0, without a branch. */
static inline const struct due_item *choose_item(const struct cursor *at, uint64_t alloc)
{
    const char *from = (const char *)at->free;
    ptrdiff_t apart = (const char *)at->alloc - from; /* both are in one portion */
    return (const void *)(from + (apart & -(ptrdiff_t)alloc));
}

static __attribute__((noinline)) int make_page(struct stream_counting *c,
                                               struct pool_account *account, struct pages *pages,
                                               uint32_t key, struct err *e)
{
    if (add_page(c, account, key >> COUNTER_PAGE_SHIFT, e) != 0)
        return -1;
    *pages = pages_of(account);
    return 0;
}

/* A free among the allocations: its block was allocated by the previous step. */
static __attribute__((noinline)) void take_free_at_once(struct stream_counting *c, uint32_t i)
{
    struct stream_run *r = &c->run;
    if (r->freed[i] == FREES_TEMPORARY)
        add_temporary(c, r->owner[i], r->steps.what[i] >> 2, r->steps.size[i]);
    r->steps.what[i] |= LOG_FREE;
    r->freed[i] = FREED_ELSEWHERE;
}

/*
 * Merges the next `n` steps, at most a run. Which one is next cannot be predicted, since
 * allocations and frees alternate at random, so nothing branches on it. Meanwhile the counters of
 * their call stacks are prefetched, since memory is far slower than the work.
 */
static int merge_run(struct stream_counting *c, struct cursor *cursor, uint32_t n, struct err *e)
{
    struct stream_run *r = &c->run;
    struct pages pages = pages_of(c->account);
    struct pages threads = c->by_thread ? pages_of(c->by_thread) : (struct pages){0};
    struct cursor at = *cursor;
    int64_t now = c->account->now;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t later = at.free->key >> STEP_TIME > at.alloc->key >> STEP_TIME;
        const struct due_item *item = choose_item(&at, later);
        uint64_t key = item->key;
        uint32_t callstack = (uint32_t)(item->value & STEP_CALLSTACK);
        r->key[i] = key;
        r->freed[i] = (int64_t)choose(later, (uint64_t)*at.freed, FREED_ELSEWHERE);
        r->steps.size[i] = step_size(item->value);
        r->steps.what[i] =
            callstack << 2 | (uint32_t)(1 - later) * LOG_FREE | (time_of(key) != now) * LOG_LATER;
        now = time_of(key);
        at.free += 1 - later;
        at.alloc += later;
        at.freed += later;
        const struct counter_page *page = find_page(&pages, callstack);
        if (__builtin_expect(page != NULL, 1))
            expect_step(page, callstack & (COUNTER_PAGE_KEYS - 1), r->freed[i]);
        else if (make_page(c, c->account, &pages, callstack, e) != 0)
            return -1;
        r->owner[i] = (uint16_t)key;
        if (__builtin_expect(step_is_large(item->value), 0)) {
            uint64_t large = at.large[r->steps.size[i]];
            r->owner[i] = (uint16_t)(large >> 48);
            r->steps.size[i] = large & SIZE_MASK;
        }
        if (c->by_thread && !find_page(&threads, r->owner[i]) &&
            make_page(c, c->by_thread, &threads, r->owner[i], e) != 0)
            return -1;
        if (__builtin_expect(later & (uint64_t)r->freed[i] >> 63, 0))
            take_free_at_once(c, i);
    }
    *cursor = at;
    r->steps.n = n;
    return 0;
}

static void sum_bits(struct log_steps *s)
{
    uint32_t what = 0;
    uint64_t size = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        what |= s->what[i];
        size |= s->size[i];
    }
    s->any_what = what;
    s->any_size = size;
}

int stream_count_run(struct stream_counting *c, struct err *e)
{
    count_pool(&c->run, c->account);
    count_callstacks(&c->run, c->account);
    sum_bits(&c->run.steps);
    return stream_log_put(&c->log, &c->run.steps, e);
}

int stream_count(void *ctx, void *portion, struct err *e)
{
    struct stream_counting *c = ctx;
    const struct stream_portion *p = portion;
    struct cursor at = {p->allocations, p->frees, p->freed, p->large.at};
    size_t left = p->allocation_count + p->free_count;
    while (left) {
        uint32_t n = left < LOG_RUN ? (uint32_t)left : LOG_RUN;
        if (merge_run(c, &at, n, e) != 0)
            return -1;
        count_pool(&c->run, c->account);
        count_callstacks(&c->run, c->account);
        if (c->by_thread)
            count_owners(&c->run, c->by_thread);
        if (count_threads(c, &c->run, e) != 0)
            return -1;
        sum_bits(&c->run.steps);
        if (stream_log_put(&c->log, &c->run.steps, e) != 0)
            return -1;
        left -= n;
    }
    return 0;
}
