/* The use of pools over time against a plain list of random allocations. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/questions/usage.h"
#include "base/vec.h"
#include "test/unit/random_history.h"

struct points {
    VEC(struct usage_point) list;
};

static int take(void *ctx, const struct usage_point *p, struct err *e)
{
    struct points *to = ctx;
    (void)e;
    assert_true(vec_push(&to->list, *p));
    return 0;
}

static void walk(struct random_history *h, uint64_t points, struct points *out)
{
    static const struct selection_options all = {0};
    struct selection s;
    struct err e = {0};
    assert_int_equal(selection_init(&s, &h->trace, &all, &e), 0);
    assert_int_equal(usage_walk(&s, points, take, out, &e), 0);
    selection_release(&s);
}

/* Key 0 is the default pool's, 16 that of the first of the twins, which are one. */
static bool in_pool(const struct rh_block *b, uint64_t key)
{
    return (b->pool != 0) == (key != 0);
}

static bool changes_at(const struct random_history *h, uint64_t key, int64_t time)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        if (in_pool(b, key) && (b->start == time || b->end == time))
            return true;
    }
    return false;
}

static struct usage_point use_at(const struct random_history *h, uint64_t key, int64_t time)
{
    struct usage_point p = {.key = key, .time = time};
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        if (in_pool(b, key) && b->start <= time && b->end > time) {
            p.bytes += b->size;
            p.count++;
        }
    }
    return p;
}

static void expect_point(const struct usage_point *got, const struct usage_point *want)
{
    assert_int_equal(got->time, want->time);
    assert_int_equal(got->bytes, want->bytes);
    assert_int_equal(got->count, want->count);
}

static void test_every_change(void **state)
{
    (void)state;
    static struct random_history h;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct points got = {0};
        rh_make(&h, seed);
        walk(&h, 0, &got);
        size_t seen = 0;
        for (uint64_t key = 0; key <= 16; key += 16) {
            size_t at = 0;
            for (int64_t time = 0; time <= h.now; time++) {
                if (!changes_at(&h, key, time))
                    continue;
                while (at < got.list.len && got.list.at[at].key != key)
                    at++;
                assert_true(at < got.list.len);
                const struct usage_point want = use_at(&h, key, time);
                expect_point(&got.list.at[at++], &want);
                seen++;
            }
        }
        assert_int_equal(seen, got.list.len);
        vec_release(&got.list);
        rh_release(&h);
    }
}

/* Of the points of a stretch: the first lowest, the first highest, the last, each once. */
static void check_stretch(const struct usage_point *all, size_t n, const struct usage_point **got,
                          const struct usage_point *end)
{
    const struct usage_point *low = all;
    const struct usage_point *high = all;
    for (size_t i = 1; i < n; i++) {
        low = all[i].bytes < low->bytes ? &all[i] : low;
        high = all[i].bytes > high->bytes ? &all[i] : high;
    }
    const struct usage_point *first = low < high ? low : high;
    const struct usage_point *second = low < high ? high : low;
    const struct usage_point *wanted[] = {first, second, &all[n - 1]};
    for (size_t i = 0; i < 3; i++) {
        if (i > 0 && wanted[i] <= wanted[i - 1])
            continue;
        assert_true(*got < end);
        expect_point((*got)++, wanted[i]);
    }
}

static void of_key(const struct points *all, uint64_t key, struct points *out)
{
    for (size_t i = 0; i < all->list.len; i++) {
        if (all->list.at[i].key == key)
            assert_true(vec_push(&out->list, all->list.at[i]));
    }
}

static void check_coarse(struct random_history *h, uint64_t points)
{
    struct points every = {0};
    struct points coarse = {0};
    int64_t width = h->now / (int64_t)points > 0 ? h->now / (int64_t)points : 1;
    walk(h, 0, &every);
    walk(h, points, &coarse);
    for (uint64_t key = 0; key <= 16; key += 16) {
        struct points fine = {0};
        struct points few = {0};
        of_key(&every, key, &fine);
        of_key(&coarse, key, &few);
        const struct usage_point *got = few.list.at;
        for (size_t i = 0, n; i < fine.list.len; i += n) {
            int64_t stretch = fine.list.at[i].time / width;
            for (n = 1; i + n < fine.list.len && fine.list.at[i + n].time / width == stretch;)
                n++;
            check_stretch(&fine.list.at[i], n, &got, few.list.at + few.list.len);
        }
        assert_ptr_equal(got, few.list.at + few.list.len);
        vec_release(&fine.list);
        vec_release(&few.list);
    }
    vec_release(&every.list);
    vec_release(&coarse.list);
}

static void test_stretches(void **state)
{
    (void)state;
    static struct random_history h;
    static const uint64_t points[] = {1, 2, 7, 50, 1000000};
    rh_make(&h, 9);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        check_coarse(&h, points[i]);
    rh_release(&h);
}

static int refuse(void *ctx, const struct usage_point *p, struct err *e)
{
    (void)ctx, (void)p;
    return err_set(e, ERR_OUTPUT, "full");
}

static void test_an_error_stops(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options all = {0};
    struct selection s;
    struct err e = {0};
    rh_make(&h, 2);
    assert_int_equal(selection_init(&s, &h.trace, &all, &e), 0);
    assert_int_equal(usage_walk(&s, 3, refuse, NULL, &e), -1);
    assert_string_equal(e.text, "full");
    selection_release(&s);
    rh_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_change),
        cmocka_unit_test(test_stretches),
        cmocka_unit_test(test_an_error_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
