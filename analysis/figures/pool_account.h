#pragma once

/*
 * The figures of one pool and its counters, and how a step changes them. For accounting.h, and for
 * callers that know the counters of a step without a struct memory_op.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pageable.h"
#include "base/saturate.h"
#include "base/vec.h"

/* The figures of one (pool, key). Sizes in bytes. */
struct counter {
    uint64_t count; /* allocations */
    uint64_t bytes; /* of all of them */
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t peak_bytes;    /* its highest live_bytes */
    uint64_t at_peak_bytes; /* its live_bytes at the pool's peak */
    uint64_t at_peak_count;
    uint64_t temporary; /* see struct pool_figures */
    uint64_t temporary_bytes;
    uint64_t largest;   /* the largest block */
    int64_t first_time; /* ns; of its first allocation */
    int64_t last_time;  /* ns; of its last step, allocation or free */
};

struct pool_figures {
    uint64_t allocations;
    uint64_t frees;
    uint64_t live; /* live blocks */
    uint64_t live_bytes;
    uint64_t total_bytes;
    uint64_t peak_bytes;
    int64_t peak_time;  /* ns; first time of peak_bytes, -1 while it is 0 */
    uint64_t peak_live; /* highest number of live blocks (not always at peak_time) */
    /*
     * Blocks freed by the thread that allocated them, with no other step of that thread in the pool
     * at a time between.
     */
    uint64_t temporary;
};

/* The part that nearly every step accesses: one cache line. */
struct counter_hot {
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t peak_bytes; /* without the nanosecond last_time */
    uint64_t count;
    uint64_t bytes;
    uint64_t largest;
    int64_t last_time;
    uint64_t epoch; /* the pool's peak of at_peak_*, if there was a step since */
};

struct counter_cold {
    uint64_t at_peak_bytes;
    uint64_t at_peak_count;
    uint64_t temporary;
    uint64_t temporary_bytes;
    int64_t first_time;
};

#define COUNTER_PAGE_SHIFT 6
#define COUNTER_PAGE_KEYS (1u << COUNTER_PAGE_SHIFT)

struct counter_page {
    struct counter_hot hot[COUNTER_PAGE_KEYS];
    struct counter_cold cold[COUNTER_PAGE_KEYS];
};

/* The newest two nanoseconds with a step of a thread in a pool. */
struct account_thread {
    int64_t latest;
    int64_t previous;
};

#define THREADS_PER_PAGE 64u

/* Counter pages that were allocated together. */
struct counter_chunk {
    void *at;
    size_t size;
};

struct pool_account {
    struct pool_figures figures; /* peaks without the nanosecond `now` */
    int64_t now;
    uint64_t epoch;            /* number of the newest peak */
    struct pageable *pageable; /* of the counter pages */
    VEC(struct counter_chunk) chunks;
    struct counter_page *vacant; /* the rest of the newest chunk, … */
    size_t vacant_count;         /* … its pages, … */
    size_t page_count;           /* … and the pages of all chunks */
    VEC(struct counter_page *) pages;
    VEC(struct account_thread *) threads;
};

/*
 * For a pool without steps. Its counters come from `pageable`, which must outlive it; NULL: the
 * heap. NULL with `e` if memory is short.
 */
struct pool_account *pool_account_new(struct pageable *pageable, struct err *e);
void pool_account_free(struct pool_account *p); /* may be NULL */

/* Figures up to and including the newest step. */
struct pool_figures pool_account_figures(const struct pool_account *p);

/* The counter at the end of the pool's newest nanosecond. False if the key has no step. */
bool pool_account_counter(const struct pool_account *p, uint32_t key, struct counter *out);

/* Allocates the counters, or threads, of that number. NULL with `e` if memory is short. */
struct counter_page *pool_add_page(struct pool_account *p, uint32_t number, struct err *e);
struct account_thread *pool_add_threads(struct pool_account *p, uint32_t number, struct err *e);

/* The counters of a key and its neighbours. */
static inline struct counter_page *pool_page(struct pool_account *p, uint32_t key, struct err *e)
{
    uint32_t number = key >> COUNTER_PAGE_SHIFT;
    if (number < p->pages.len && p->pages.at[number])
        return p->pages.at[number];
    return pool_add_page(p, number, e);
}

/* The state of a thread in the pool. NULL with `e` if memory is short. */
static inline struct account_thread *pool_thread(struct pool_account *p, uint16_t thread,
                                                 struct err *e)
{
    uint32_t number = thread / THREADS_PER_PAGE;
    struct account_thread *threads = number < p->threads.len && p->threads.at[number]
                                         ? p->threads.at[number]
                                         : pool_add_threads(p, number, e);
    return threads ? &threads[thread % THREADS_PER_PAGE] : NULL;
}

static inline void thread_step(struct account_thread *t, int64_t now)
{
    if (now > t->latest) {
        t->previous = t->latest;
        t->latest = now;
    }
}

/* Ends the nanosecond `now` of the pool, which may be a peak. */
static inline void pool_advance(struct pool_account *p, int64_t time)
{
    struct pool_figures *f = &p->figures;
    if (f->live_bytes > f->peak_bytes) {
        f->peak_bytes = f->live_bytes;
        f->peak_time = p->now;
        p->epoch++;
    }
    if (f->live > f->peak_live)
        f->peak_live = f->live;
    p->now = time;
}

static inline void counter_alloc(struct pool_account *p, struct counter_hot *h,
                                 struct counter_cold *c, uint64_t size)
{
    if (h->count == 0)
        c->first_time = p->now;
    h->count++;
    h->bytes = saturating_add(h->bytes, size);
    h->live_count++;
    h->live_bytes = saturating_add(h->live_bytes, size);
    if (size > h->largest)
        h->largest = size;
    p->figures.allocations++;
    p->figures.total_bytes = saturating_add(p->figures.total_bytes, size);
    p->figures.live++;
    p->figures.live_bytes = saturating_add(p->figures.live_bytes, size);
}

static inline void counter_free(struct pool_account *p, struct counter_hot *h, uint64_t size)
{
    h->live_count--;
    h->live_bytes = saturating_sub(h->live_bytes, size);
    p->figures.frees++;
    p->figures.live--;
    p->figures.live_bytes = saturating_sub(p->figures.live_bytes, size);
}

/* Counts the block of a free as temporary. */
static inline void counter_temporary(struct pool_account *p, struct counter_cold *c, uint64_t size)
{
    c->temporary++;
    c->temporary_bytes = saturating_add(c->temporary_bytes, size);
    p->figures.temporary++;
}

/* Call it before each change of a counter: advances the time and saves the values of a peak. */
static inline void pool_step(struct pool_account *p, struct counter_hot *h, struct counter_cold *c,
                             int64_t time)
{
    if (time > p->now)
        pool_advance(p, time);
    if (h->epoch != p->epoch) {
        c->at_peak_bytes = h->live_bytes;
        c->at_peak_count = h->live_count;
        h->epoch = p->epoch;
    }
    if (p->now > h->last_time) {
        if (h->live_bytes > h->peak_bytes)
            h->peak_bytes = h->live_bytes;
        h->last_time = p->now;
    }
}
