/* The queue of what becomes due, held against a plain list. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/due_queue.h"

struct random {
    uint64_t seed;
};

static uint64_t rnd(struct random *r, uint64_t below)
{
    r->seed = r->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (r->seed >> 20) % below;
}

/* Items that wait; which of them have come out is marked. */
struct list {
    VEC(struct due_item) items;
    VEC(bool) taken;
};

static void put(struct due_queue *q, struct list *l, uint64_t key)
{
    struct err e = {0};
    if (due_queue_put(q, key, l->items.len, &e) != 0)
        fail_msg("%s", e.text);
    assert_true(vec_push(&l->items, (struct due_item){key, l->items.len}));
    assert_true(vec_push(&l->taken, false));
}

/*
 * Takes all that is due: in order, each once, nothing too early and nothing left. Items of one key
 * come out in the order in which they were put, which `value` is.
 */
static void take(struct due_queue *q, struct list *l, uint64_t until)
{
    const struct due_item *items;
    struct due_item before = {0};
    size_t n;
    do {
        assert_int_equal(due_queue_take(q, until, &items, &n, NULL), 0);
        for (size_t i = 0; i < n; i++) {
            assert_true(items[i].value < l->items.len);
            assert_true(items[i].key == l->items.at[items[i].value].key);
            assert_false(l->taken.at[items[i].value]);
            assert_true(items[i].key >> q->loose >= before.key >> q->loose);
            assert_true(items[i].key != before.key || items[i].value >= before.value);
            assert_true(items[i].key <= until);
            before = items[i];
            l->taken.at[items[i].value] = true;
        }
    } while (n);
    size_t left = 0;
    for (size_t i = 0; i < l->items.len; i++) {
        assert_true(l->taken.at[i] || l->items.at[i].key > until);
        left += !l->taken.at[i];
    }
    assert_int_equal(q->count, left);
}

static void forget(struct list *l)
{
    vec_release(&l->items);
    vec_release(&l->taken);
    *l = (struct list){0};
}

/* Steps of some width, lifetimes of others, now and then many items at once. */
static void test_random(void **state)
{
    (void)state;
    static const uint64_t widths[] = {2, 17, 1000, 1 << 20, UINT64_C(1) << 40};
    for (unsigned round = 0; round < 60; round++) {
        struct random r = {round};
        struct due_queue q = {.loose = round % 2 ? 0 : 8};
        struct list l = {0};
        uint64_t now = rnd(&r, widths[round % 5]);
        for (unsigned step = 0; step < 40; step++) {
            size_t n = rnd(&r, 20) ? rnd(&r, 40) : 3000;
            for (size_t i = 0; i < n; i++)
                put(&q, &l, now + rnd(&r, widths[rnd(&r, 5)]) + 1);
            now += rnd(&r, widths[rnd(&r, 4)]);
            take(&q, &l, now);
        }
        take(&q, &l, UINT64_MAX);
        due_queue_release(&q);
        forget(&l);
    }
}

static void test_many_of_one_key(void **state)
{
    (void)state;
    struct due_queue q = {0};
    struct list l = {0};
    for (unsigned i = 0; i < 20000; i++)
        put(&q, &l, i % 3 ? 77 : 78);
    take(&q, &l, 76);
    take(&q, &l, 77);
    put(&q, &l, 78);
    take(&q, &l, 78);
    due_queue_release(&q);
    forget(&l);
}

/* What comes out between two runs of one call stays in order with what is put in then. */
static void test_put_between_runs(void **state)
{
    (void)state;
    struct due_queue q = {0};
    const struct due_item *items;
    size_t n;
    for (uint64_t i = 0; i < 10000; i++)
        assert_int_equal(due_queue_put(&q, 10 * i, 0, NULL), 0);
    uint64_t before = 0;
    size_t all = 0;
    for (;;) {
        assert_int_equal(due_queue_take(&q, UINT64_MAX, &items, &n, NULL), 0);
        if (n == 0)
            break;
        assert_true(items[0].key >= before);
        before = items[n - 1].key;
        all += n;
        if (before < 50000)
            assert_int_equal(due_queue_put(&q, before + 1, 0, NULL), 0);
    }
    assert_true(all > 10000);
    due_queue_release(&q);
}

static void test_the_past_and_the_ends(void **state)
{
    (void)state;
    struct due_queue q = {0};
    const struct due_item *items;
    size_t n;
    assert_int_equal(due_queue_take(&q, UINT64_MAX, &items, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(due_queue_put(&q, 0, 1, NULL), 0);
    assert_int_equal(due_queue_put(&q, 1000, 4, NULL), 0);
    assert_int_equal(due_queue_put(&q, UINT64_MAX, 2, NULL), 0);
    assert_int_equal(due_queue_take(&q, 1000, &items, &n, NULL), 0);
    assert_int_equal(n, 2);
    /* Below what came out: it is due at once. */
    assert_int_equal(due_queue_put(&q, 5, 3, NULL), 0);
    assert_int_equal(due_queue_take(&q, 1000, &items, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(items[0].value, 3);
    assert_int_equal(due_queue_take(&q, UINT64_MAX, &items, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(items[0].value, 2);
    due_queue_restart(&q);
    assert_int_equal(due_queue_put(&q, 7, 5, NULL), 0);
    assert_int_equal(due_queue_take(&q, 6, &items, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(due_queue_take(&q, 7, &items, &n, NULL), 0);
    assert_int_equal(n, 1);
    due_queue_release(&q);
}

/* Memory follows what waits, and is used again. */
static void test_memory(void **state)
{
    (void)state;
    struct due_queue q = {0};
    const struct due_item *items;
    size_t n;
    struct random r = {1};
    for (uint64_t now = 0; now < 200; now++) {
        for (unsigned i = 0; i < 1000; i++)
            assert_int_equal(due_queue_put(&q, now * 1000 + 1 + rnd(&r, 10000), 0, NULL), 0);
        do
            assert_int_equal(due_queue_take(&q, (now + 1) * 1000, &items, &n, NULL), 0);
        while (n);
    }
    /* About 10,000 wait at a time: 160 KB, the rest is room of buckets that are not full. */
    assert_true(q.slabs.len * 64 * 1024 <= 512 * 1024);
    assert_true(q.run.cap <= 8192 && q.room.cap <= 8192);
    due_queue_release(&q);
}

/* ---- beyond a bound */

/* Bytes of chunks, as many as there ever were at once. */
static size_t held(const struct due_queue *q)
{
    return q->slabs.len * 64 * 1024;
}

#define ABOVE_THE_BOUND ((size_t)64 << 10) /* one slab is cut at a time */

/* Lifetimes of all lengths, put and taken by turns, with far more waiting than may be held. */
static void test_bound_random(void **state)
{
    (void)state;
    static const uint64_t widths[] = {3, 5000, 1 << 20, UINT64_C(1) << 33, UINT64_C(1) << 58};
    for (unsigned round = 0; round < 8; round++) {
        struct random r = {round};
        struct due_queue q = {.loose = round % 2 ? 0 : 8, .bound = DUE_BOUND_LEAST + round * 40000};
        struct list l = {0};
        uint64_t now = 0;
        for (unsigned step = 0; step < 20; step++) {
            for (unsigned i = 0; i < 12000; i++)
                put(&q, &l, now + 1 + rnd(&r, widths[1 + rnd(&r, 4)]));
            now += rnd(&r, widths[rnd(&r, 4)]);
            take(&q, &l, now);
            assert_true(held(&q) <= q.bound + ABOVE_THE_BOUND);
        }
        assert_true(q.file.is_open);
        take(&q, &l, UINT64_MAX);
        due_queue_release(&q);
        forget(&l);
    }
}

/* Chunks of one key go to the file, too, and come back a few thousand items at a time. */
static void test_bound_of_one_key(void **state)
{
    (void)state;
    struct due_queue q = {.bound = 1};
    struct list l = {0};
    const struct due_item *items;
    size_t n = 0, all = 0;
    for (unsigned i = 0; i < 150000; i++)
        assert_int_equal(due_queue_put(&q, UINT64_MAX, i, NULL), 0);
    assert_true(held(&q) <= DUE_BOUND_LEAST + ABOVE_THE_BOUND);
    assert_int_equal(due_queue_take(&q, UINT64_MAX - 1, &items, &n, NULL), 0);
    assert_int_equal(n, 0);
    do {
        assert_int_equal(due_queue_take(&q, UINT64_MAX, &items, &n, NULL), 0);
        assert_true(n <= DUE_EXTENT + 2048);
        all += n;
    } while (n);
    assert_int_equal(all, 150000);
    due_queue_release(&q);
    forget(&l);
}

/* Extents that were read are written again: the file does not grow with what passes through it. */
static void test_the_file_is_used_again(void **state)
{
    (void)state;
    struct due_queue q = {.bound = DUE_BOUND_LEAST};
    const struct due_item *items;
    struct random r = {5};
    size_t n, most = 0;
    for (uint64_t now = 0; now < 60; now++) {
        for (unsigned i = 0; i < 20000; i++)
            assert_int_equal(due_queue_put(&q, now * 1000 + 1 + rnd(&r, 10000), 0, NULL), 0);
        do
            assert_int_equal(due_queue_take(&q, (now + 1) * 1000, &items, &n, NULL), 0);
        while (n);
        if (now == 20)
            most = q.file.extents.len;
    }
    assert_true(most > 0);
    assert_true(q.file.extents.len <= most + most / 2 + 8);
    assert_true(held(&q) <= DUE_BOUND_LEAST + ABOVE_THE_BOUND);
    due_queue_release(&q);
}

static void test_no_place_for_the_file(void **state)
{
    (void)state;
    struct due_queue q = {.bound = 1, .file.dir = "/nowhere/at/all"};
    struct err e = {0};
    int status = 0;
    for (unsigned i = 0; i < 100000 && status == 0; i++)
        status = due_queue_put(&q, i * 1000, i, &e);
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_non_null(strstr(e.text, "/nowhere/at/all"));
    due_queue_release(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many_of_one_key),
        cmocka_unit_test(test_put_between_runs),
        cmocka_unit_test(test_the_past_and_the_ends),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_bound_random),
        cmocka_unit_test(test_bound_of_one_key),
        cmocka_unit_test(test_the_file_is_used_again),
        cmocka_unit_test(test_no_place_for_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
