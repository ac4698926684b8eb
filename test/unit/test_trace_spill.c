/* Sorting in bounded memory: any size against any capacity, order of equals kept. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "trace/store/spill.h"

struct thing {
    int64_t time;
    uint64_t number;
    uint64_t check;
};

struct seen {
    uint64_t n;
    struct thing last;
    bool numbers[20000];
};

static int check_order(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct seen *s = ctx;
    const struct thing *t = recs;
    (void)e;
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        if (s->n > 0) {
            assert_true(t[i].time >= s->last.time);
            if (t[i].time == s->last.time)
                assert_true(t[i].number > s->last.number);
        }
        assert_int_equal(t[i].check, (uint64_t)t[i].time * 3 + t[i].number);
        assert_false(s->numbers[t[i].number]);
        s->numbers[t[i].number] = true;
        s->last = t[i];
        s->n++;
    }
    return 0;
}

static void sort_things(struct spill *s, size_t n, unsigned spread, size_t batch, uint64_t seed)
{
    static struct seen seen;
    struct thing things[100];
    struct err e = {0};
    uint64_t x = seed * 2654435761u + 88172645463325252u;
    memset(&seen, 0, sizeof seen);
    for (size_t done = 0; done < n;) {
        size_t part = n - done < batch ? n - done : batch;
        for (size_t i = 0; i < part; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            things[i].time = (int64_t)(x >> 20) % spread - (int64_t)spread / 2;
            things[i].number = done + i;
            things[i].check = (uint64_t)things[i].time * 3 + things[i].number;
        }
        assert_int_equal(spill_add(s, things, part, &e), 0);
        done += part;
    }
    assert_int_equal(spill_drain(s, check_order, &seen, &e), 0);
    assert_int_equal(seen.n, n);
}

static void test_sizes_and_capacities(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 1000, 19999};
    static const size_t capacities[] = {1, 2, 16, 37, 1024, 30000};
    for (size_t c = 0; c < sizeof capacities / sizeof capacities[0]; c++) {
        struct spill s;
        spill_init(&s, sizeof(struct thing), capacities[c], NULL);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            sort_things(&s, sizes[i], 7, 100, i);           /* many equal ones */
            sort_things(&s, sizes[i], 1u << 30, 13, i + 1); /* few */
        }
        assert_int_equal(s.fd >= 0, capacities[c] < 19999);
        spill_release(&s);
    }
}

static void test_a_folder_that_is_not_there(void **state)
{
    (void)state;
    struct spill s;
    struct err e = {0};
    struct thing things[3] = {{0}};
    spill_init(&s, sizeof(struct thing), 2, "/nonexistent/folder");
    assert_int_equal(spill_add(&s, things, 3, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_string_equal(e.text, "cannot make a temporary file in /nonexistent/folder: "
                                "No such file or directory");
    spill_release(&s);
}

static int refuse(void *ctx, const void *recs, size_t n, struct err *e)
{
    (void)ctx, (void)recs, (void)n;
    return err_set(e, ERR_OUTPUT, "no");
}

static void test_an_error_of_the_taker(void **state)
{
    (void)state;
    struct thing things[30] = {{0}};
    for (size_t capacity = 5; capacity < 100; capacity += 45) {
        struct spill s;
        struct err e = {0};
        spill_init(&s, sizeof(struct thing), capacity, NULL);
        assert_int_equal(spill_add(&s, things, 30, &e), 0);
        assert_int_equal(spill_drain(&s, refuse, NULL, &e), -1);
        assert_string_equal(e.text, "no");
        spill_release(&s);
    }
}

/* Records of the sizes that have copies of their own, long enough to be sorted digit by digit. */
struct wide {
    int64_t time;
    uint64_t number;
    uint64_t check;
    uint64_t filler;
};

struct width {
    size_t size, n;
    int64_t last;
    uint64_t last_number;
};

static int check_width(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct width *w = ctx;
    (void)e;
    for (size_t i = 0; i < n; i++) {
        struct wide r = {0};
        memcpy(&r, (const uint8_t *)recs + i * w->size, w->size);
        assert_true(w->n == 0 || r.time >= w->last);
        if (w->size > 8 && w->n > 0 && r.time == w->last)
            assert_true(r.number > w->last_number);
        if (w->size > 16)
            assert_int_equal(r.check, (uint64_t)r.time ^ r.number);
        w->last = r.time;
        w->last_number = r.number;
        w->n++;
    }
    return 0;
}

static void test_long_lists_of_each_size(void **state)
{
    static const int64_t spreads[] = {1, 7, 5000, INT64_C(1) << 46, INT64_MAX};
    (void)state;
    for (size_t size = 8; size <= 32; size += 8) {
        for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
            struct spill s;
            struct err e = {0};
            struct width w = {.size = size};
            uint64_t x = 88172645463325252u + k;
            spill_init(&s, size, k % 2 ? 7000 : 0, NULL);
            for (uint64_t i = 0; i < 30000; i++) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                struct wide r = {.time = (int64_t)(x >> 1) % spreads[k], .number = i};
                r.time = x & 1 ? -r.time : r.time;
                r.check = (uint64_t)r.time ^ i;
                assert_int_equal(spill_add(&s, &r, 1, &e), 0);
            }
            assert_int_equal(spill_drain(&s, check_width, &w, &e), 0);
            assert_int_equal(w.n, 30000);
            spill_release(&s);
        }
    }
}

static int count_in_order(void *ctx, const void *recs, size_t n, struct err *e)
{
    const struct wide *r = recs;
    uint64_t *seen = ctx;
    (void)e;
    for (size_t i = 0; i < n; i++, (*seen)++) {
        assert_int_equal(r[i].time, 1000 * *seen);
        assert_int_equal(r[i].number, *seen);
        assert_int_equal(r[i].check, UINT64_MAX);
    }
    return 0;
}

/* Frames, plots and the like, millions of which a few KiB of a stream can hold. */
static void test_steady_records_take_little_of_the_disk(void **state)
{
    (void)state;
    const uint64_t n = 200000;
    struct spill s;
    struct err e = {0};
    uint64_t seen = 0;
    spill_init(&s, sizeof(struct wide), 10000, NULL);
    for (uint64_t i = 0; i < n; i++) {
        struct wide r = {.time = (int64_t)(1000 * i), .number = i, .check = UINT64_MAX};
        assert_int_equal(spill_add(&s, &r, 1, &e), 0);
    }
    assert_in_range(s.end, 1, n * sizeof(struct wide) / 4);
    assert_int_equal(spill_drain(&s, count_in_order, &seen, &e), 0);
    assert_int_equal(seen, n);
    spill_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_and_capacities),
        cmocka_unit_test(test_long_lists_of_each_size),
        cmocka_unit_test(test_steady_records_take_little_of_the_disk),
        cmocka_unit_test(test_a_folder_that_is_not_there),
        cmocka_unit_test(test_an_error_of_the_taker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
