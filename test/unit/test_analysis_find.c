/* Finding allocations by address and time, against a plain list of random ones. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/questions/find.h"
#include "test/unit/random_history.h"

static bool covers(const struct rh_block *b, uint64_t low, uint64_t high)
{
    struct interval i = interval_of_block(b->ptr, b->size, 0);
    return i.first <= high && i.last >= low;
}

/* The number of the block in the list that was found. */
static size_t number_of(const struct random_history *h, const struct history_block *b)
{
    uint32_t index = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (h->blocks[i].pool == b->pool && index++ == b->index)
            return i;
    }
    fail_msg("no such allocation");
    return 0;
}

static void check_block(const struct random_history *h, const struct found_block *f)
{
    const struct rh_block *b = &h->blocks[number_of(h, &f->block)];
    assert_int_equal(f->block.ptr, b->ptr);
    assert_int_equal(f->block.size, b->size);
    assert_int_equal(f->block.time, b->start);
    assert_int_equal(f->block.freed, b->end == INT64_MAX ? -1 : b->end);
    assert_int_equal(f->thread, b->thread);
    assert_int_equal(f->callstack, h->stacks[b->stack].id);
    if (b->end != INT64_MAX)
        assert_int_equal(f->free_thread, b->free_thread);
}

/* What the list says of a question without a time. */
static void check_any(const struct random_history *h, const struct history *index, uint64_t low,
                      uint64_t high, uint64_t limit)
{
    struct err e = {0};
    struct find_result r;
    const struct find_options o = {.low = low, .high = high, .limit = limit};
    uint64_t total = 0;
    uint64_t live = 0;
    for (size_t i = 0; i < h->n; i++) {
        total += covers(&h->blocks[i], low, high);
        live += covers(&h->blocks[i], low, high) && h->blocks[i].end == INT64_MAX;
    }
    assert_int_equal(find_run(&r, index, &o, &e), 0);
    assert_int_equal(r.total, total);
    assert_int_equal(r.live, live);
    assert_int_equal(r.list.len, limit && limit < total ? limit : total);
    size_t newest = h->n;
    for (size_t i = r.list.len; i-- > 0;) {
        check_block(h, &r.list.at[i]);
        assert_int_equal(r.list.at[i].when, FIND_ANY);
        /* The list's blocks are in order of time: none that fits was left out on the way. */
        size_t at = number_of(h, &r.list.at[i].block);
        for (size_t k = at + 1; k < newest && h->blocks[at].start != h->blocks[k].start; k++)
            assert_true(!covers(&h->blocks[k], low, high) ||
                        (newest < h->n && h->blocks[k].start == h->blocks[newest].start));
        newest = at;
    }
    find_release(&r);
}

/* The neighbours of one pool that the list has. */
static void check_at(const struct random_history *h, const struct history *index, uint64_t low,
                     uint64_t high, int64_t time)
{
    struct err e = {0};
    struct find_result r;
    const struct find_options o = {.low = low, .high = high, .has_time = true, .time = time};
    size_t want = 0;
    size_t got = 0;
    bool before[RH_POOLS] = {0};
    bool after[RH_POOLS] = {0};
    int64_t freed[RH_POOLS] = {0};
    int64_t next[RH_POOLS];
    for (size_t i = 0; i < RH_POOLS; i++)
        next[i] = INT64_MAX;
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        if (!covers(b, low, high))
            continue;
        want += b->start <= time && b->end > time;
        before[b->pool] |= b->end <= time;
        after[b->pool] |= b->start > time;
        if (b->end <= time && b->end > freed[b->pool])
            freed[b->pool] = b->end;
        if (b->start > time && b->start < next[b->pool])
            next[b->pool] = b->start;
    }
    assert_int_equal(find_run(&r, index, &o, &e), 0);
    for (size_t i = 0; i < r.list.len; i++) {
        const struct found_block *f = &r.list.at[i];
        check_block(h, f);
        assert_true(covers(&h->blocks[number_of(h, &f->block)], low, high));
        got += f->when == FIND_AT;
        assert_int_equal(history_is_live(&f->block, time), f->when == FIND_AT);
        if (f->when == FIND_BEFORE) {
            assert_true(before[f->block.pool]);
            assert_int_equal(f->block.freed, freed[f->block.pool]);
            before[f->block.pool] = false;
        } else if (f->when == FIND_AFTER) {
            assert_true(after[f->block.pool]);
            assert_int_equal(f->block.time, next[f->block.pool]);
            after[f->block.pool] = false;
        }
    }
    assert_int_equal(got, want);
    for (size_t i = 0; i < RH_POOLS; i++)
        assert_false(before[i] || after[i]);
    find_release(&r);
}

static void test_random(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options all = {0};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct err e = {0};
        struct selection s;
        struct history index;
        rh_make(&h, seed);
        assert_int_equal(selection_init(&s, &h.trace, &all, &e), 0);
        assert_int_equal(history_build(&index, &s, &e), 0);
        for (int i = 0; i < 300; i++) {
            uint64_t at = 0x10000 + rh_rnd(&h, 600 * 64);
            if (i % 10 == 0)
                at += UINT64_MAX - 0x1ffff;
            uint64_t room = rh_rnd(&h, 2) ? 0 : rh_rnd(&h, 3000);
            uint64_t high = at + room < at ? UINT64_MAX : at + room;
            check_any(&h, &index, at, high, rh_rnd(&h, 2) ? 0 : 1 + rh_rnd(&h, 9));
            check_at(&h, &index, at, high, (int64_t)rh_rnd(&h, (uint64_t)h.now + 10));
        }
        check_any(&h, &index, 0, UINT64_MAX, 0);
        check_at(&h, &index, 0, UINT64_MAX, h.now / 2);
        check_any(&h, &index, UINT64_MAX, UINT64_MAX, 0);
        check_any(&h, &index, 0, 0x100, 0);
        history_release(&index);
        selection_release(&s);
        rh_release(&h);
    }
}

/* One address again and again, and one block over all others: what makes the tree degenerate. */
static void test_hot_address(void **state)
{
    (void)state;
    struct err e = {0};
    struct trace t;
    static const struct selection_options all = {0};
    uint32_t pool;
    struct selection s;
    struct history index;
    struct find_result r;
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(memory_pool(&t.memory, 0, &pool, &e), 0);
    enum { N = 200000 };
    for (int64_t i = 0; i < N; i++) {
        struct rec_memory_event in = {
            .ptr = 0x1000, .size = 16, .time_alloc = 2 * i, .time_free = 2 * i + 1};
        if (i == 77)
            in = (struct rec_memory_event){
                .ptr = 0, .size = (UINT64_C(1) << 48) - 1, .time_alloc = 2 * i, .time_free = -1};
        assert_int_equal(memory_append(&t.memory, pool, &in, &e), 0);
    }
    t.facts.last_time = 2 * N;
    assert_int_equal(selection_init(&s, &t, &all, &e), 0);
    assert_int_equal(history_build(&index, &s, &e), 0);
    struct find_options o = {.low = 0x1008, .high = 0x1008, .has_time = true, .time = 100000};
    assert_int_equal(find_run(&r, &index, &o, &e), 0);
    assert_int_equal(r.total, N);
    assert_int_equal(r.list.len, 4); /* before, two at the time, after */
    assert_int_equal(r.list.at[0].block.ptr, 0);
    assert_int_equal(r.list.at[0].when, FIND_AT);
    assert_int_equal(r.list.at[1].block.time, 99998);
    assert_int_equal(r.list.at[1].when, FIND_BEFORE);
    assert_int_equal(r.list.at[2].block.time, 100000);
    assert_int_equal(r.list.at[3].when, FIND_AFTER);
    find_release(&r);
    o = (struct find_options){.low = 0x2000, .high = 0x2000};
    assert_int_equal(find_run(&r, &index, &o, &e), 0);
    assert_int_equal(r.total, 1);
    find_release(&r);
    history_release(&index);
    selection_release(&s);
    trace_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_hot_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
