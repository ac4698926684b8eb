#ifndef TIDEMARK_TEST_RANDOM_HISTORY_H
#define TIDEMARK_TEST_RANDOM_HISTORY_H

/*
 * A trace of random allocations and a plain list of them, which answers any question the slow way:
 * several pools and threads, call stacks with inlined functions, many steps in one nanosecond,
 * addresses used again. Include after cmocka.h.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_steps.h"
#include "trace/store/store.h"

#define RH_POOLS 3
#define RH_THREADS 4
#define RH_STACKS 40
#define RH_BLOCKS 1200
#define RH_DEPTH 6
#define RH_FUNCTIONS 12

struct rh_block {
    uint32_t pool, stack;
    uint16_t thread, free_thread;
    uint64_t size, ptr;
    int64_t start, end; /* end = INT64_MAX while live */
};

/* A call stack as the test knows it: names innermost first. */
struct rh_stack {
    uint32_t id; /* 0: none */
    unsigned n;
    const char *names[RH_DEPTH * 3];
    bool outermost[RH_DEPTH * 3]; /* of its frame: nothing is inlined around it */
};

struct random_history {
    struct trace trace;
    struct rh_block blocks[RH_BLOCKS];
    size_t n;
    struct rh_stack stacks[RH_STACKS];
    uint64_t seed;
    int64_t now;
};

static inline uint64_t rh_rnd(struct random_history *h, uint64_t below)
{
    h->seed = h->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (h->seed >> 33) % below;
}

static const char *const rh_names[RH_FUNCTIONS] = {"main",
                                                   "parse(int)",
                                                   "load",
                                                   "Scene::draw()",
                                                   "decode",
                                                   "step",
                                                   "helper",
                                                   "push<int>",
                                                   "visit",
                                                   "grow",
                                                   "operator new(unsigned long)",
                                                   "malloc"};

static inline uint32_t rh_text(struct random_history *h, const char *s)
{
    struct err e = {0};
    uint32_t number = strings_intern(&h->trace.strings, view_of(s), &e);
    assert_int_not_equal(number, 0);
    return number;
}

/* The frame at an address: one to three functions, always the same. */
static inline unsigned rh_frame(struct random_history *h, uint64_t address, unsigned functions[3])
{
    struct err e = {0};
    char file[32];
    char image[32];
    struct rec_inline_frame in[3];
    unsigned n = 1 + (unsigned)(address / 16 % 3);
    for (unsigned i = 0; i < n; i++) {
        functions[i] = (unsigned)((address / 16 + 5 * i) % (RH_FUNCTIONS - 2));
        snprintf(file, sizeof file, "/src/f%u.cpp", functions[i] / 3);
        in[i] = (struct rec_inline_frame){.function = rh_text(h, rh_names[functions[i]]),
                                          .file = rh_text(h, file),
                                          .line = 10 + (uint32_t)(address % 7)};
    }
    snprintf(image, sizeof image, "/lib/i%u.so", (unsigned)(address / 16 % 2));
    assert_int_equal(
        callstacks_resolve(&h->trace.callstacks, address, rh_text(h, image), in, n, &e), 0);
    return n;
}

/* A frame of the allocator alone, to stand innermost. */
static inline uint64_t rh_allocator_frame(struct random_history *h, unsigned which)
{
    struct err e = {0};
    struct rec_inline_frame in = {.function = rh_text(h, rh_names[RH_FUNCTIONS - 1 - which])};
    uint64_t address = 0x900000 + which;
    assert_int_equal(
        callstacks_resolve(&h->trace.callstacks, address, rh_text(h, "/lib/libc.so.6"), &in, 1, &e),
        0);
    return address;
}

static inline void rh_make_stack(struct random_history *h, struct rh_stack *s)
{
    struct err e = {0};
    uint64_t frames[RH_DEPTH];
    uint32_t depth = 0;
    bool fresh;
    s->n = 0;
    if (rh_rnd(h, 3)) {
        unsigned which = (unsigned)rh_rnd(h, 2);
        frames[depth++] = rh_allocator_frame(h, which);
        s->names[s->n] = rh_names[RH_FUNCTIONS - 1 - which];
        s->outermost[s->n++] = true;
    }
    for (uint32_t n = 1 + (uint32_t)rh_rnd(h, RH_DEPTH - 1); n; n--) {
        unsigned functions[3];
        uint64_t address = 0x400000 + rh_rnd(h, 8) * 16;
        unsigned inlines = rh_frame(h, address, functions);
        frames[depth++] = address;
        for (unsigned i = 0; i < inlines; i++) {
            s->names[s->n] = rh_names[functions[i]];
            s->outermost[s->n++] = i + 1 == inlines;
        }
    }
    assert_int_equal(callstacks_intern(&h->trace.callstacks, frames, depth, &s->id, &fresh, &e), 0);
}

static inline void rh_alloc(struct random_history *h)
{
    struct err e = {0};
    bool fault;
    struct rh_block *b = &h->blocks[h->n];
    *b = (struct rh_block){.pool = (uint32_t)rh_rnd(h, RH_POOLS),
                           .stack = (uint32_t)rh_rnd(h, rh_rnd(h, 2) ? 4 : RH_STACKS),
                           .thread = (uint16_t)rh_rnd(h, RH_THREADS),
                           .size = rh_rnd(h, 8) ? 1 + rh_rnd(h, 256) : 0,
                           .start = h->now,
                           .end = INT64_MAX};
    /* An address of the pool that is not live there; places lie close, so that blocks overlap. */
    for (bool taken = true; taken;) {
        b->ptr = 0x10000 + rh_rnd(h, 600) * 64 + (rh_rnd(h, 40) ? 0 : UINT64_MAX - 0x1ffff);
        taken = false;
        for (size_t i = 0; i < h->n; i++)
            taken |= h->blocks[i].pool == b->pool && h->blocks[i].ptr == b->ptr &&
                     h->blocks[i].end == INT64_MAX;
    }
    struct memory_place at = {h->now, b->thread, h->stacks[b->stack].id};
    assert_int_equal(alloc_in(&h->trace.memory, b->pool, b->ptr, b->size, at, &fault, &e), 0);
    assert_false(fault);
    h->n++;
}

static inline void rh_free(struct random_history *h)
{
    struct err e = {0};
    bool found;
    size_t back = 1 + (size_t)rh_rnd(h, rh_rnd(h, 2) ? 2 : 60);
    struct rh_block *b = back <= h->n ? &h->blocks[h->n - back] : NULL;
    if (!b || b->end != INT64_MAX)
        return;
    b->end = h->now;
    b->free_thread = rh_rnd(h, 4) ? b->thread : (uint16_t)rh_rnd(h, RH_THREADS);
    struct memory_place at = {h->now, b->free_thread, 0};
    assert_int_equal(free_in(&h->trace.memory, b->pool, b->ptr, at, true, &found, &e), 0);
    assert_true(found);
}

/*
 * Pool 0 is the default one, pools 1 and 2 are called so. `begin` may prepare the empty trace;
 * NULL: nothing does.
 */
static inline void rh_make_with(struct random_history *h, uint64_t seed, const char *one,
                                const char *two, int (*begin)(struct trace *t, struct err *e))
{
    struct err e = {0};
    memset(h, 0, sizeof *h);
    h->seed = seed;
    assert_int_equal(trace_init(&h->trace, NULL, &e), 0);
    if (begin)
        assert_int_equal(begin(&h->trace, &e), 0);
    for (uint32_t i = 0; i < RH_POOLS; i++) {
        uint32_t number;
        assert_int_equal(memory_pool(&h->trace.memory, 16 * i, &number, &e), 0);
        if (i)
            assert_int_equal(
                strings_bind(&h->trace.strings, 16 * i, rh_text(h, i == 1 ? one : two), &e), 0);
    }
    for (uint16_t i = 0; i < RH_THREADS; i++) {
        char name[16];
        uint16_t number;
        assert_int_equal(trace_thread_number(&h->trace, i ? 100u + i : 0, &number, &e), 0);
        assert_int_equal(number, i);
        snprintf(name, sizeof name, "worker %u", i);
        h->trace.threads.list.at[i].name = i == 2 ? 0 : rh_text(h, name);
    }
    for (size_t i = 1; i < RH_STACKS; i++)
        rh_make_stack(h, &h->stacks[i]);
    h->now = 5;
    while (h->n < RH_BLOCKS) {
        if (rh_rnd(h, 3) == 0)
            h->now += 1 + (int64_t)rh_rnd(h, 3);
        if (rh_rnd(h, 9) < 5)
            rh_alloc(h);
        else
            rh_free(h);
    }
    h->trace.facts.last_time = h->now;
}

static inline void rh_make_pools(struct random_history *h, uint64_t seed, const char *one,
                                 const char *two)
{
    rh_make_with(h, seed, one, two, NULL);
}

static inline void rh_make(struct random_history *h, uint64_t seed)
{
    rh_make_pools(h, seed, "twin", "twin");
}

static inline void rh_release(struct random_history *h)
{
    trace_release(&h->trace);
}

/* ---- the slow answers */

static inline bool rh_same_pool(uint32_t a, uint32_t b)
{
    return a == b || (a && b); /* the twins */
}

/*
 * Whether the thread that allocated the block freed it, with nothing of its own in the pool at a
 * time between, as far as is seen before `end`.
 */
static inline bool rh_temporary(const struct random_history *h, const struct rh_block *b)
{
    if (b->end == INT64_MAX || b->thread != b->free_thread)
        return false;
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *o = &h->blocks[i];
        if (!rh_same_pool(o->pool, b->pool))
            continue;
        if (o->thread == b->thread && o->start > b->start && o->start < b->end)
            return false;
        if (o->end != INT64_MAX && o->free_thread == b->thread && o->end > b->start &&
            o->end < b->end)
            return false;
    }
    return true;
}

/* When the blocks marked in `chosen` together were highest; steps from `end` on do not count. */
static inline int64_t rh_peak_time(const struct random_history *h, const bool *chosen, int64_t end)
{
    uint64_t highest = 0;
    int64_t at = -1;
    for (int64_t time = 0; time <= h->now && time < end; time++) {
        uint64_t use = 0;
        for (size_t i = 0; i < h->n; i++) {
            const struct rh_block *b = &h->blocks[i];
            if (chosen[i] && b->start <= time && b->end > time)
                use += b->size;
        }
        if (use > highest) {
            highest = use;
            at = time;
        }
    }
    return at;
}

#endif
