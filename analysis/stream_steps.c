/*
 * What a step changes in the figures of analysis/stream_figures.h. Allocations and frees alternate
 * at random, so what they have in common is done without asking which of them a step is.
 */

#include "analysis/accounting_parts.h"
#include "analysis/stream_parts.h"

/*
 * Pages of counters that any file may take, and how many steps must come for a further one: a file
 * of few steps must not take much memory by naming call stacks far apart.
 */
#define PAGES_FREE 4096u
#define STEPS_PER_PAGE 16u
#define PLACES_PER_PAGE (sizeof(struct counter_page) / sizeof(struct counter_page *))

/* Figures of the pool at hand, while some steps are counted. */
struct tally {
    int64_t now;
    uint64_t live, live_bytes;
    uint64_t peak_live, peak_bytes; /* not yet of the nanosecond `now` */
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

/* The nanosecond `now` is over: was it a peak? */
static inline void tally_advance(struct tally *k, int64_t time)
{
    bool peak = k->live_bytes > k->peak_bytes;
    k->peak_time = peak ? k->now : k->peak_time;
    k->peak_bytes = peak ? k->live_bytes : k->peak_bytes;
    k->epoch += peak;
    k->peak_live = k->live > k->peak_live ? k->live : k->peak_live;
    k->now = time;
}

/* ---- counters of call stacks */

/* Whether a page may be made now; the places of pages before it count for some, too. */
static bool may_add_page(struct stream_counting *c, uint32_t number)
{
    size_t places = c->account->pages.len;
    c->counter_pages += 1 + (number > places ? (number - places) / PLACES_PER_PAGE : 0);
    return c->counter_pages <= PAGES_FREE + c->log.len / STEPS_PER_PAGE;
}

static __attribute__((noinline)) struct counter_page *add_page(struct stream_counting *c,
                                                               uint32_t number, struct err *e)
{
    if (may_add_page(c, number))
        return pool_add_page(c->account, number, e);
    c->scattered = true;
    err_set(e, ERR_INPUT, "call stacks far apart");
    return NULL;
}

static inline struct counter_page *find_page(const struct stream_counting *c, uint32_t callstack)
{
    const struct pool_account *p = c->account;
    uint32_t number = callstack >> COUNTER_PAGE_SHIFT;
    return number < p->pages.len ? p->pages.at[number] : NULL;
}

/*
 * Brings closer what a step of a call stack changes: memory is far slower than the work. A compiler
 * that has not inlined it by then finds it without effect and drops it.
 */
static inline __attribute__((always_inline)) void expect_step(const struct stream_counting *c,
                                                              uint32_t callstack)
{
    const struct counter_page *page = find_page(c, callstack);
    if (page)
        __builtin_prefetch(&page->hot[callstack & (COUNTER_PAGE_KEYS - 1)], 1);
}

static inline void count_hot(struct counter_hot *h, struct counter_cold *c, const struct tally *k,
                             const struct stream_step *s)
{
    uint64_t is_free = s->kind & STEP_FREE;
    uint64_t held = h->last_time != k->now ? h->live_bytes : 0;
    if (h->epoch != k->epoch) {
        c->at_peak_bytes = h->live_bytes;
        c->at_peak_count = h->live_count;
        h->epoch = k->epoch;
    }
    if (h->count == 0)
        c->first_time = k->now;
    h->peak_bytes = held > h->peak_bytes ? held : h->peak_bytes;
    h->last_time = k->now;
    h->count += 1 - is_free;
    h->bytes += s->size & (is_free - 1);
    h->live_count += 1 - 2 * is_free;
    h->live_bytes += (s->size ^ -is_free) + is_free;
    h->largest = s->size > h->largest ? s->size : h->largest;
}

/* ---- what is temporary */

/* A thread does something at `time`, later than before: its candidates freed right then it are. */
static __attribute__((noinline)) void judge(struct stream_counting *c, struct stream_thread *t,
                                            int64_t time)
{
    for (size_t i = 0; i < t->candidates.len; i++) {
        const struct stream_candidate *block = &t->candidates.at[i];
        if (block->freed != time)
            continue;
        struct counter_page *page = find_page(c, block->callstack);
        counter_temporary(c->account, &page->cold[block->callstack & (COUNTER_PAGE_KEYS - 1)],
                          block->size);
    }
}

/* False when memory is short. */
static inline bool count_thread(struct stream_counting *c, const struct stream_step *s)
{
    struct stream_thread *t = &c->threads[s->thread];
    if (s->time != t->latest) {
        /* A candidate's free is a step of this thread, too: none is before this one. */
        if (t->soonest == s->time)
            judge(c, t, s->time);
        t->candidates.len = 0;
        t->soonest = INT64_MAX;
        t->latest = s->time;
    }
    /* The place behind the last one is written in any case. */
    if (t->candidates.len == t->candidates.cap &&
        !vec_reserve(&t->candidates, t->candidates.len + 1))
        return false;
    t->candidates.at[t->candidates.len] =
        (struct stream_candidate){s->freed, s->size, s->callstack};
    t->candidates.len += s->freed != INT64_MAX;
    t->soonest = s->freed < t->soonest ? s->freed : t->soonest;
    return true;
}

/* ---- steps */

static inline int log_step(struct stream_counting *c, const struct stream_step *s, bool later,
                           struct err *e)
{
    struct log_step *l = column_append_sized(&c->log, sizeof *l, e);
    if (!l)
        return -1;
    l->what = s->callstack << 2 | (s->kind & STEP_FREE) * LOG_FREE | later;
    l->size_low = (uint32_t)s->size;
    l->size_high = (uint16_t)(s->size >> 32);
    return 0;
}

static inline __attribute__((always_inline)) int
count_step(struct stream_counting *c, struct tally *k, const struct stream_step *s, struct err *e)
{
    struct counter_page *page = find_page(c, s->callstack);
    if (__builtin_expect(!page, 0) && !(page = add_page(c, s->callstack >> COUNTER_PAGE_SHIFT, e)))
        return -1;
    uint32_t place = s->callstack & (COUNTER_PAGE_KEYS - 1);
    uint64_t is_free = s->kind & STEP_FREE;
    bool later = s->time != k->now;
    if (later)
        tally_advance(k, s->time);
    count_hot(&page->hot[place], &page->cold[place], k, s);
    k->live += 1 - 2 * is_free;
    k->live_bytes += (s->size ^ -is_free) + is_free;
    if (__builtin_expect(s->kind & STEP_TEMPORARY, 0))
        counter_temporary(c->account, &page->cold[place], s->size);
    /* Soon it may turn out to be temporary. */
    __builtin_prefetch(
        s->freed == INT64_MAX ? (void *)&page->hot[place] : (void *)&page->cold[place], 1);
    if (!count_thread(c, s))
        return err_no_memory(e, "figures of call stacks");
    return log_step(c, s, later, e);
}

int stream_count(void *ctx, const struct stream_step *steps, size_t n, struct err *e)
{
    struct stream_counting *c = ctx;
    struct tally k = tally_begin(c->account);
    for (size_t i = 0; i < n; i++) {
        expect_step(c, steps[i + STEPS_AHEAD].callstack);
        if (count_step(c, &k, &steps[i], e) != 0)
            return -1;
    }
    tally_end(&k, c->account);
    return 0;
}
