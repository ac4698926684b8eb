/* The live set, pools, faults and the sweep, against brute force on random histories. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_steps.h"
#include "trace/store/store.h"

#define POOLS 3
#define ADDRESSES 400

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

struct model_block {
    bool live;
    uint64_t size;
    int64_t time;
    uint32_t callstack;
};

struct model {
    struct model_block blocks[POOLS][ADDRESSES];
    struct pool_totals totals[POOLS];
    uint64_t unknown, twice, peak;
};

static uint64_t model_live(const struct model *m)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < POOLS; i++)
        sum += m->totals[i].live_bytes;
    return sum;
}

static uint64_t address(unsigned i)
{
    return UINT64_C(0x7f0000001000) + (uint64_t)i * 16;
}

static void model_end(struct model *m, unsigned pool, unsigned i)
{
    struct model_block *b = &m->blocks[pool][i];
    b->live = false;
    m->totals[pool].frees++;
    m->totals[pool].live--;
    m->totals[pool].live_bytes -= b->size;
}

static void model_alloc(struct model *m, unsigned pool, unsigned i, uint64_t size, int64_t time,
                        uint32_t callstack)
{
    struct pool_totals *t = &m->totals[pool];
    if (m->blocks[pool][i].live) {
        m->twice++;
        model_end(m, pool, i);
    }
    m->blocks[pool][i] = (struct model_block){true, size, time, callstack};
    t->allocations++;
    t->live++;
    t->live_bytes += size;
    m->peak = model_live(m) > m->peak ? model_live(m) : m->peak;
    t->total_bytes += size;
    if (t->low_address == 0 || address(i) < t->low_address)
        t->low_address = address(i);
    if (address(i) + size > t->high_address)
        t->high_address = address(i) + size;
}

static void assert_totals(const struct pool_totals *a, const struct pool_totals *b)
{
    assert_true(a->allocations == b->allocations);
    assert_true(a->frees == b->frees);
    assert_true(a->live == b->live);
    assert_true(a->live_bytes == b->live_bytes);
    assert_true(a->total_bytes == b->total_bytes);
    assert_true(a->low_address == b->low_address);
    assert_true(a->high_address == b->high_address);
}

static void assert_live_sets(const struct model *m, const struct memory *memory)
{
    for (unsigned pool = 0; pool < POOLS; pool++) {
        size_t iter = 0, n = 0;
        struct live_block b;
        while (live_set_next(&memory->pools.at[pool]->live, &iter, &b)) {
            const struct model_block *x = &m->blocks[pool][(b.ptr - address(0)) / 16];
            assert_true(x->live && x->size == b.size && x->time == b.time &&
                        x->callstack == b.callstack);
            n++;
        }
        assert_true(n == m->totals[pool].live);
    }
}

/* What the live observer saw and what the sweep saw: equal sums weighted by everything in a step.
 */
struct digest {
    uint64_t ops[2];
    uint64_t sum;
    int64_t last_time;
    bool ordered;
    uint64_t usage[POOLS], peak[POOLS];
    int64_t usage_time;
};

static int digest_op(void *ctx, const struct memory_op *op, struct err *e)
{
    (void)e;
    struct digest *d = ctx;
    d->ops[op->kind]++;
    d->sum += ((uint64_t)op->time * 31 + op->block.ptr * 7 + op->block.size + op->callstack * 3u +
               op->thread + op->block.callstack * 5u + op->block.index + op->pool * 11u) *
              (op->kind == MEMORY_ALLOC ? 1 : 13);
    d->ordered = d->ordered && op->time >= d->last_time;
    d->last_time = op->time;
    return 0;
}

static void histories_agree_with_brute_force(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct trace t;
        struct trace_options small = {.resident_budget = 1u << 20};
        struct err e = {0};
        struct model *m = calloc(1, sizeof *m);
        struct digest live = {.ordered = true, .last_time = INT64_MIN};
        struct digest swept = live;
        uint64_t random = seed;
        int64_t now = -50; /* times before the zero of the trace are legal */
        assert_int_equal(trace_init(&t, &small, &e), 0);
        for (unsigned i = 0; i < POOLS; i++) {
            uint32_t number;
            assert_int_equal(memory_pool(&t.memory, i * 4096, &number, &e), 0);
            assert_int_equal(number, i);
        }
        t.memory.observer = (struct memory_observer){.ctx = &live, .op = digest_op};
        for (int step = 0; step < 120000; step++) {
            unsigned pool = (unsigned)(next_random(&random) % POOLS);
            unsigned i = (unsigned)(next_random(&random) % ADDRESSES);
            struct memory_place at = {.thread = (uint16_t)(next_random(&random) % 5),
                                      .callstack = (uint32_t)(next_random(&random) % 9)};
            bool flag;
            now += (int64_t)(next_random(&random) % 4) + 1;
            at.time = now;
            uint64_t dice = next_random(&random) % 1000;
            if (dice == 0) {
                for (unsigned k = 0; k < ADDRESSES; k++) {
                    if (m->blocks[pool][k].live)
                        model_end(m, pool, k);
                }
                assert_int_equal(memory_discard(&t.memory, pool, at, &e), 0);
            } else if (dice < 500) {
                uint64_t size = next_random(&random) % 5000;
                bool twice = m->blocks[pool][i].live;
                model_alloc(m, pool, i, size, now, at.callstack);
                assert_int_equal(alloc_in(&t.memory, pool, address(i), size, at, &flag, &e), 0);
                assert_int_equal(flag, twice);
            } else {
                bool known = m->blocks[pool][i].live;
                if (known)
                    model_end(m, pool, i);
                else
                    m->unknown++;
                assert_int_equal(free_in(&t.memory, pool, address(i), at, true, &flag, &e), 0);
                assert_int_equal(flag, known);
            }
        }
        for (unsigned i = 0; i < POOLS; i++)
            assert_totals(&m->totals[i], &t.memory.pools.at[i]->totals);
        assert_live_sets(m, &t.memory);
        assert_true(t.memory.live_bytes == model_live(m));
        assert_true(t.memory.peak_bytes == m->peak);
        assert_true(t.memory.unknown_frees == m->unknown);
        assert_true(t.memory.double_allocations == m->twice);
        uint64_t faults = 0;
        for (size_t i = 0; i < t.memory.faults.len; i++)
            faults += t.memory.faults.at[i].count;
        assert_true(faults == m->unknown + m->twice);

        struct memory_observer observer = {.ctx = &swept, .op = digest_op};
        assert_int_equal(memory_sweep(&t.memory, -1, &observer, &e), 0);
        assert_true(live.ordered && swept.ordered);
        assert_true(live.ops[0] == swept.ops[0] && live.ops[1] == swept.ops[1]);
        assert_true(live.sum == swept.sum);
        trace_release(&t);
        free(m);
    }
}

static int collect_op(void *ctx, const struct memory_op *op, struct err *e)
{
    (void)e;
    char *text = ctx;
    size_t len = strlen(text);
    snprintf(text + len, 256 - len, "%c%llu@%lld ", op->kind == MEMORY_ALLOC ? 'a' : 'f',
             (unsigned long long)op->block.ptr, (long long)op->time);
    return 0;
}

/* Frees come before allocations of the same time, but never before their own allocation. */
static void sweep_breaks_ties_as_defined(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    uint32_t pool;
    const struct rec_memory_event events[] = {
        {.ptr = 1, .size = 8, .time_alloc = 10, .time_free = 20},
        {.ptr = 2, .size = 8, .time_alloc = 20, .time_free = 20},
        {.ptr = 3, .size = 8, .time_alloc = 20, .time_free = -1},
        {.ptr = 4, .size = 8, .time_alloc = 15, .time_free = 30}, /* out of order */
        {.ptr = 5,
         .size = 8,
         .time_alloc = 40,
         .time_free = 35}, /* freed before: at the same time */
    };
    char text[256] = "";
    struct memory_observer observer = {.ctx = text, .op = collect_op};
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(memory_pool(&t.memory, 0, &pool, &e), 0);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        assert_int_equal(memory_append(&t.memory, pool, &events[i], &e), 0);
    assert_int_equal(t.memory.pools.at[0]->disorder, 1);
    assert_int_equal(memory_sweep(&t.memory, 0, &observer, &e), 0);
    assert_string_equal(text, "a1@10 f1@20 a2@20 f2@20 a3@20 a4@20 f4@30 a5@40 f5@40 ");
    assert_int_equal(t.memory.pools.at[0]->totals.live, 1);
    trace_release(&t);
}

static void extreme_values_survive(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    uint32_t pool;
    bool fault, found;
    const int64_t latest = (INT64_C(1) << 47) - 1;
    struct memory_place at = {.time = latest, .thread = 65535, .callstack = 0xffffff};
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(memory_pool(&t.memory, UINT64_MAX, &pool, &e), 0);
    assert_int_equal(alloc_in(&t.memory, pool, UINT64_MAX, (UINT64_C(1) << 48) - 1, at, &fault, &e),
                     0);
    assert_int_equal(alloc_in(&t.memory, pool, 0, 0, at, &fault, &e), 0);
    assert_false(fault);
    const struct live_set *live = &t.memory.pools.at[pool]->live;
    struct live_slot *slot = live_set_find(live, UINT64_MAX, live_set_hash(live, UINT64_MAX));
    assert_non_null(slot);
    struct live_block b = live_slot_block(slot);
    assert_true(b.size == (UINT64_C(1) << 48) - 1 && b.time == latest && b.thread == 65535);
    assert_true(t.memory.pools.at[pool]->totals.high_address == UINT64_MAX);
    assert_int_equal(free_in(&t.memory, pool, 0, at, true, &found, &e), 0);
    assert_true(found);
    assert_int_equal(free_in(&t.memory, pool, 0, at, true, &found, &e), 0);
    assert_false(found); /* free(NULL) is no fault */
    assert_int_equal(t.memory.null_frees, 1);
    assert_int_equal(t.memory.faults.len, 0);
    trace_release(&t);
}

/* Look-ups ask for no room first: a set that has none answers as a vacant one. */
static void a_set_without_room_is_vacant(void **state)
{
    (void)state;
    struct live_set set;
    struct live_block b;
    size_t iter = 0;
    live_set_init(&set);
    for (uint64_t ptr = 0; ptr < 1000; ptr++) {
        uint64_t hash = live_set_hash(&set, ptr * 0x1001);
        live_set_prefetch_tags(&set, hash);
        assert_null(live_set_find(&set, ptr * 0x1001, hash));
        assert_null(live_set_taken(&set, live_set_prefetch_slot(&set, hash, true), set.groups));
        assert_null(live_set_taken(&set, live_set_prefetch_slot(&set, hash, false), set.groups));
        assert_null(live_set_claim(&set, hash));
    }
    assert_false(live_set_next(&set, &iter, &b));
    struct live_slot *slot = live_set_add(&set, live_set_hash(&set, 0));
    assert_non_null(slot);
    live_slot_fill(slot, &(struct live_block){.ptr = 0, .size = 7});
    size_t number = live_set_prefetch_slot(&set, live_set_hash(&set, 0), true);
    assert_ptr_equal(live_set_taken(&set, number, set.groups), slot);
    /* A slot of a set that was larger, or of which nothing is known. */
    assert_null(live_set_taken(&set, set.groups * LIVE_STRIDE, set.groups + 1));
    assert_null(live_set_taken(&set, number, 0));
    live_set_remove_near(&set, number);
    assert_null(live_set_taken(&set, number, set.groups));
    assert_int_equal(set.count, 0);
    live_set_release(&set);
    live_set_init(&set);
    assert_null(live_set_find(&set, 0, live_set_hash(&set, 0)));
    live_set_release(&set);
}

/*
 * A slot is claimed where one look says that the address is new: never one of a live address, and
 * what is claimed is found like what was added.
 */
static void claimed_slots_are_found(void **state)
{
    (void)state;
    enum { BLOCKS = 20000 };
    struct live_set set;
    size_t claimed = 0;
    live_set_init(&set);
    for (uint64_t ptr = 0; ptr < BLOCKS; ptr++) {
        uint64_t hash = live_set_hash(&set, ptr);
        struct live_slot *slot = live_set_claim(&set, hash);
        claimed += slot != NULL;
        if (!slot)
            slot = live_set_add(&set, hash);
        assert_non_null(slot);
        live_slot_fill(slot, &(struct live_block){.ptr = ptr, .size = ptr});
        assert_null(live_set_claim(&set, hash));
        assert_int_equal(set.count, ptr + 1);
    }
    assert_in_range(claimed, BLOCKS / 2, BLOCKS - 1);
    for (uint64_t ptr = 0; ptr < BLOCKS; ptr++) {
        uint64_t hash = live_set_hash(&set, ptr);
        size_t number = live_set_prefetch_slot(&set, hash, true);
        struct live_slot *near = live_set_taken(&set, number, set.groups);
        struct live_slot *slot = live_set_find(&set, ptr, hash);
        assert_non_null(slot);
        assert_int_equal(live_slot_block(slot).size, ptr);
        if (near && near->ptr == ptr)
            live_set_remove_near(&set, number);
        else
            live_set_remove(&set, slot, hash);
        assert_null(live_set_find(&set, ptr, hash));
    }
    assert_int_equal(set.count, 0);
    for (size_t i = 0; i < set.groups; i++)
        assert_int_equal(set.tags[i].passed, 0);
    live_set_release(&set);
}

static void pools_have_a_ceiling(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    uint32_t pool, other;
    char room[32];
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    for (uint64_t i = 0; i < POOLS_MAX - 1; i++) {
        assert_int_equal(memory_pool(&t.memory, i, &pool, &e), 0);
        assert_int_equal(pool, i);
    }
    assert_int_equal(trace_note_other_pools(&t, &e), 0);
    assert_int_equal(t.app_info.len, 0);
    /* All further ones are one, which has a name. */
    assert_int_equal(memory_pool(&t.memory, POOLS_MAX, &other, &e), 0);
    assert_int_equal(other, POOLS_MAX - 1);
    assert_int_equal(memory_pool(&t.memory, POOLS_MAX + 1, &pool, &e), 0);
    assert_int_equal(pool, other);
    assert_int_equal(t.memory.pool_overflow, 2);
    assert_true(
        view_equal(trace_pool_name(&t, t.memory.pools.at[other], room), view_of("(other pools)")));
    assert_int_equal(memory_pool(&t.memory, 7, &pool, &e), 0);
    assert_int_equal(pool, 7);
    /* Equal addresses of different pools are no faults there. */
    struct memory_place at = {.time = 1};
    bool fault, found;
    assert_int_equal(alloc_in(&t.memory, other, 0x1000, 16, at, &fault, &e), 0);
    assert_int_equal(alloc_in(&t.memory, other, 0x1000, 32, at, &fault, &e), 0);
    assert_false(fault);
    assert_int_equal(free_in(&t.memory, other, 0x1000, at, true, &found, &e), 0);
    assert_true(found);
    assert_int_equal(free_in(&t.memory, other, 0x1000, at, true, &found, &e), 0);
    assert_false(found);
    assert_int_equal(t.memory.faults.len, 0);
    assert_int_equal(t.memory.pools.at[other]->totals.allocations, 2);
    assert_int_equal(trace_note_other_pools(&t, &e), 0);
    assert_true(view_equal(trace_fact(&t, "overflow.pools", 0), view_of("2")));
    assert_int_not_equal(strings_at_pointer(&t.strings, POOL_OTHER), 0);
    trace_release(&t);
}

/* 2^17 live blocks of nearly 2^48 bytes each are twice what 64 bits can count. */
static void sums_stop_at_the_top(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    uint32_t pool;
    const uint64_t size = (UINT64_C(1) << 48) - 1, count = 1 << 17;
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(memory_pool(&t.memory, 0, &pool, &e), 0);
    struct memory_place at = {.time = 1};
    bool flag;
    for (uint64_t i = 1; i <= count; i++)
        assert_int_equal(alloc_in(&t.memory, pool, i << 4, size, at, &flag, &e), 0);
    const struct pool_totals *totals = &t.memory.pools.at[pool]->totals;
    assert_true(totals->total_bytes == UINT64_MAX);
    assert_true(totals->live_bytes == UINT64_MAX);
    assert_int_equal(free_in(&t.memory, pool, 16, at, true, &flag, &e), 0);
    assert_true(totals->live_bytes == UINT64_MAX);
    assert_int_equal(totals->live, count - 1);
    trace_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histories_agree_with_brute_force),
        cmocka_unit_test(sweep_breaks_ties_as_defined),
        cmocka_unit_test(extreme_values_survive),
        cmocka_unit_test(a_set_without_room_is_vacant),
        cmocka_unit_test(claimed_slots_are_found),
        cmocka_unit_test(pools_have_a_ceiling),
        cmocka_unit_test(sums_stop_at_the_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
