/* What csvexport is made of: the order of official hash maps, sums in their order, percentiles,
 * texts of zones beyond what fits memory. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/csvexport/hash_order.h"
#include "analysis/csvexport/pool_use.h"
#include "analysis/csvexport/zone_groups.h"
#include "analysis/csvexport/zone_stats.h"
#include "analysis/names/names.h"
#include "analysis/tables/zone_texts.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 20;
}

/* ---- order of hash maps: the expected orders and digests come from the official header */

static void test_order_of_few_keys(void **state)
{
    static const int expected[] = {-2, 4, 8, 3, -3, 1, -1, 5, 6, 7, 2, -4};
    struct hash_order h;
    struct err e = {0};
    (void)state;
    assert_int_equal(hash_order_init(&h, 12, &e), 0);
    for (int i = 1; i <= 8; i++)
        assert_int_equal(hash_order_add(&h, (uint64_t)i, NULL, &e), 0);
    for (int i = 1; i <= 4; i++)
        assert_int_equal(hash_order_add(&h, (uint64_t)(int64_t)-i, NULL, &e), 0);
    size_t iter = 0;
    uint64_t key;
    for (size_t i = 0; i < 12; i++) {
        assert_true(hash_order_next(&h, &iter, &key));
        assert_int_equal((int64_t)key, expected[i]);
    }
    assert_false(hash_order_next(&h, &iter, &key));
    hash_order_release(&h);
}

static uint64_t order_digest(size_t reserved, size_t n, bool narrow, size_t *count)
{
    struct hash_order h;
    struct err e = {0};
    uint64_t random = n, digest = 14695981039346656037u, key;
    size_t iter = 0, fresh_count = 0;
    assert_int_equal(hash_order_init(&h, reserved, &e), 0);
    for (size_t i = 0; i < n; i++) {
        bool fresh;
        uint64_t r = next_random(&random);
        r = narrow ? (uint64_t)(int64_t)(int16_t)r : r;
        assert_int_equal(hash_order_add(&h, r, &fresh, &e), 0);
        fresh_count += fresh;
    }
    for (*count = 0; hash_order_next(&h, &iter, &key); (*count)++) {
        digest ^= narrow ? (uint16_t)key : key;
        digest *= 1099511628211u;
    }
    assert_int_equal(*count, fresh_count);
    hash_order_release(&h);
    return digest;
}

static void test_order_of_many_keys(void **state)
{
    static const struct {
        size_t reserved, n;
        bool narrow;
        size_t count;
        uint64_t digest;
    } expected[] = {
        {0, 7, true, 7, 0x7972842d89072e7a},
        {0, 100, true, 100, 0xc2a87231414c0daf},
        {0, 1000, true, 997, 0x69fbe6dcc6bea39a},
        {0, 30000, true, 24100, 0xc7ed3ee9d303ae72},
        {100, 100, true, 100, 0xc2a87231414c0daf},
        {1000, 1000, true, 997, 0x69fbe6dcc6bea39a},
        {30000, 30000, true, 24100, 0x8d7682357fc3899a},
        {0, 7, false, 7, 0xc63cc44db2c406ce},
        {0, 100, false, 100, 0xa78c08376f2258fd},
        {0, 1000, false, 1000, 0x6775a4f59230ad92},
        {0, 100000, false, 100000, 0x271bdf96ba6e40d6},
    };
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        size_t count;
        uint64_t digest =
            order_digest(expected[i].reserved, expected[i].n, expected[i].narrow, &count);
        assert_int_equal(count, expected[i].count);
        assert_int_equal(digest, expected[i].digest);
    }
}

/* ---- figures of zones */

#define ZONES 20000

struct made_zone {
    int16_t srcloc;
    int64_t start, end;
    bool counts;
};

/* Random nested zones; what a plain walk in order of beginnings makes of them is what is wanted. */
static size_t make_zones(struct zone_stats *s, struct made_zone *made, uint64_t seed)
{
    struct zone_walk walk = {0};
    struct err e = {0};
    uint64_t random = seed;
    int64_t now = 0;
    size_t n = 0, open[64], depth = 0;
    while (n < ZONES || depth > 0) {
        now += (int64_t)(next_random(&random) % 3000000000u) + 1;
        bool begin = n < ZONES && depth < 64 && (depth == 0 || next_random(&random) % 2);
        if (begin) {
            /* location 1 is never nested into itself, others are */
            int16_t srcloc = (int16_t)(depth == 0 ? 1 : 2 + (int)(next_random(&random) % 5) - 4);
            struct rec_zone_begin r = {.srcloc = srcloc == 1 && depth ? 2 : srcloc, .start = now};
            made[n] = (struct made_zone){r.srcloc, now, -1, false};
            open[depth++] = n++;
            assert_int_equal(zone_walk_begin(&walk, &r, &e), 0);
            struct walked_zone *open_zone = &walk.open.at[walk.open.len - 1];
            assert_int_equal(open_zone->number, n - 1);
            assert_int_equal(zone_stats_begin(s, r.srcloc, &open_zone->number, &e), 0);
        } else {
            bool ended = next_random(&random) % 50 != 0;
            struct rec_zone_end r = {ended ? now : -1};
            struct walked_zone z = zone_walk_end(&walk, &r);
            struct made_zone *m = &made[open[--depth]];
            m->end = r.end;
            m->counts = ended;
            assert_int_equal(zone_stats_end(s, &z, &e), 0);
        }
    }
    zone_walk_release(&walk);
    return n;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* `waiting_max`: durations that may wait in memory; 0: as many as usual. */
static void check_figures(size_t waiting_max)
{
    static struct made_zone made[ZONES];
    static int64_t spans[ZONES];
    struct zone_stats s;
    struct err e = {0};
    assert_int_equal(zone_stats_init(&s, 75, false, NULL, &e), 0);
    s.waiting_max = waiting_max ? waiting_max : s.waiting_max;
    size_t n = make_zones(&s, made, 5);
    assert_false(zone_stats_of(&s, 1)->sorted);
    assert_int_equal(zone_stats_of(&s, 2)->sorted, waiting_max != 0);
    assert_int_equal(s.waiting, 0);
    assert_int_equal(zone_stats_finish(&s, &e), 0);
    for (int16_t srcloc = -4; srcloc < 6; srcloc++) {
        const struct zone_figures *f = zone_stats_of(&s, srcloc);
        double squares = 0;
        int64_t total = 0;
        size_t count = 0;
        for (size_t i = 0; i < n; i++) {
            if (made[i].srcloc != srcloc || !made[i].counts)
                continue;
            int64_t span = made[i].end - made[i].start;
            squares += (double)span * (double)span;
            total += span;
            spans[count++] = span;
        }
        assert_int_equal(f->count, count);
        assert_int_equal(f->total, total);
        assert_true(f->sum_squares == squares); /* to the last bit */
        if (count == 0)
            continue;
        qsort(spans, count, sizeof *spans, by_value);
        assert_int_equal(f->min, spans[0]);
        assert_int_equal(f->max, spans[count - 1]);
        double at = 0.75 * ((double)count - 1);
        size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
        double bound =
            (double)spans[low] + ((double)spans[high] - (double)spans[low]) * (at - (double)low);
        assert_int_equal(f->percentile, (int64_t)llround(bound));
        int64_t sum = 0, counted = 0;
        while (counted < (int64_t)count && (double)spans[counted] <= bound)
            sum += spans[counted++];
        assert_int_equal(f->truncated_mean, sum / counted);
    }
    zone_stats_release(&s);
}

static void test_figures_are_summed_in_order(void **state)
{
    (void)state;
    check_figures(0);
}

/* In the same order, though they are sorted in part or all. */
static void test_figures_without_room(void **state)
{
    (void)state;
    for (size_t room = 1; room <= 64; room *= 4)
        check_figures(room);
}

/* ---- the use of a pool */

#define POOL_EVENTS 60000

static int by_time(const void *a, const void *b)
{
    const struct listed_point *x = a, *y = b;
    return x->time < y->time ? -1 : x->time > y->time;
}

static void take_points(struct column *c, struct listed_point *points)
{
    struct column_reader reader;
    const struct listed_point *run;
    struct err e = {0};
    size_t n, at = 0;
    column_reader_init(&reader, c);
    while ((run = column_reader_next(&reader, &n, &e)) && n > 0) {
        memcpy(points + at, run, n * sizeof *run);
        at += n;
    }
    column_reader_release(&reader);
    assert_int_equal(e.code, ERR_NONE);
}

/*
 * Points of a pool, of which `bound` bytes wait in memory. Two pools, one after the other. *filed:
 * a file was needed.
 */
static size_t use_pool(size_t bound, struct listed_point *points, bool *filed)
{
    static const struct pack_layout layout = {
        sizeof(struct listed_point), 2, {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}}};
    struct spool spool;
    struct column column;
    struct pool_use u;
    struct err e = {0};
    uint64_t random = 9;
    assert_int_equal(spool_init(&spool, NULL, 1 << 20, &e), 0);
    column_init(&column, &spool, &layout, false);
    pool_use_init(&u, &column, NULL);
    u.frees.bound = bound;
    for (int pool = 0; pool < 2; pool++) {
        int64_t now = 0;
        assert_int_equal(pool_use_begin(&u, 7, &e), 0);
        for (int i = 0; i < POOL_EVENTS; i++) {
            now += (int64_t)(next_random(&random) % 4); /* often the same time */
            uint64_t life = next_random(&random) % 4 ? 400000 : 3;
            struct rec_memory_event r = {.time_alloc = now,
                                         .size = next_random(&random) % 1000,
                                         .time_free = now + (int64_t)(next_random(&random) % life)};
            r.time_free = next_random(&random) % 10 ? r.time_free : -1;
            assert_int_equal(pool_use_add(&u, &r, 1, &e), 0);
        }
        *filed = u.frees.file.is_open;
        assert_int_equal(pool_use_end(&u, &e), 0);
    }
    size_t n = (size_t)column.len;
    take_points(&column, points);
    pool_use_release(&u);
    column_release(&column);
    spool_release(&spool);
    return n;
}

static void test_use_of_a_pool(void **state)
{
    static struct listed_point points[4 * POOL_EVENTS + 2], other[4 * POOL_EVENTS + 2];
    static struct listed_point ordered[4 * POOL_EVENTS + 2];
    bool filed;
    (void)state;
    size_t n = use_pool(0, points, &filed);
    assert_false(filed);
    assert_true(n > 3 * POOL_EVENTS);
    assert_true(points[0].time == 7 && points[0].value == 0);
    size_t second = 1;
    while (second < n && !(points[second].time == 7 && points[second].value == 0))
        second++;
    assert_true(second < n);
    memcpy(ordered, points + 1, (second - 1) * sizeof *points);
    qsort(ordered, second - 1, sizeof *points, by_time);
    for (size_t i = 1; i < second; i++) {
        assert_int_equal(points[i].time, ordered[i - 1].time);
        /* Frees of a time, which lower the use, precede its allocations. */
        if (i > 2 && points[i].time == points[i - 2].time)
            assert_false(points[i - 1].value > points[i - 2].value &&
                         points[i].value < points[i - 1].value);
    }
    assert_int_equal(use_pool(1, other, &filed), n);
    assert_true(filed);
    assert_memory_equal(points, other, n * sizeof *points);
}

static void test_percentiles_of_few_values(void **state)
{
    static const struct {
        double part;
        size_t n;
        int64_t values[4];
        int64_t percentile, mean;
    } cases[] = {
        {0.9, 1, {7}, 7, 7},         {0.5, 2, {10, 20}, 15, 10},
        {0.99, 2, {10, 20}, 20, 10}, /* 19.9 rounds to 20, but is less than 20 */
        {0.5, 3, {1, 5, 9}, 5, 3},   {0.5, 4, {4, 4, 4, 4}, 4, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct percentile p;
        percentile_start(&p, cases[i].part, cases[i].n);
        for (size_t k = 0; k < cases[i].n; k++)
            percentile_add(&p, cases[i].values[k]);
        assert_int_equal(percentile_value(&p), cases[i].percentile);
        assert_int_equal(percentile_truncated_mean(&p), cases[i].mean);
    }
}

/* ---- texts */

static void test_texts_beyond_memory(void **state)
{
    const uint32_t n = ZONE_TEXTS_PAGE * (ZONE_TEXTS_CACHED * 2 + 3) + 5;
    struct zone_texts t;
    struct err e = {0};
    uint32_t text;
    uint64_t random = 1;
    (void)state;
    zone_texts_init(&t, NULL);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(zone_texts_add(&t, i * 7 + 1, &e), 0);
    for (int i = 0; i < 2000; i++) {
        uint32_t extra = (uint32_t)(next_random(&random) % n);
        assert_int_equal(zone_texts_get(&t, extra, &text, &e), 0);
        assert_int_equal(text, extra * 7 + 1);
    }
    assert_int_equal(zone_texts_get(&t, n, &text, &e), 0);
    assert_int_equal(text, 0);
    zone_texts_release(&t);
}

static void test_texts_without_a_folder(void **state)
{
    struct zone_texts t;
    struct err e = {0};
    int status = 0;
    (void)state;
    zone_texts_init(&t, "/nonexistent/folder");
    for (uint32_t i = 0; status == 0 && i < ZONE_TEXTS_PAGE * (ZONE_TEXTS_CACHED + 2); i++)
        status = zone_texts_add(&t, i, &e);
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    zone_texts_release(&t);
}

/* ---- names */

static void test_filter(void **state)
{
    struct name_filter any = {NULL, false}, part = {"Zo", false}, exact = {"Zo", true};
    (void)state;
    assert_true(name_filter_takes(&any, view_of("")));
    assert_true(name_filter_takes(&part, view_of("a zone")));
    assert_true(name_filter_takes(&exact, view_of("a Zone")));
    assert_false(name_filter_takes(&exact, view_of("a zone")));
    assert_false(name_filter_takes(&part, view_of("z")));
    assert_false(name_filter_takes(&part, view_of("")));
}

static void test_names(void **state)
{
    struct names n;
    struct err e = {0};
    (void)state;
    names_init(&n);
    struct rec_string one = {10, {"first\0hidden", 12}}, two = {11, {"second", 6}};
    struct rec_pair pointers[] = {{100, 10}, {100, 11}, {101, 12}};
    assert_int_equal(names_put(&n, REC_STRING, &one, 1, &e), 0);
    assert_int_equal(names_put(&n, REC_STRING, &two, 1, &e), 0);
    assert_int_equal(names_put(&n, REC_STRING_POINTER, pointers, 3, &e), 0);
    assert_true(view_equal(names_pointer(&n, 100), view_of("first")));
    assert_true(view_equal(names_pointer(&n, 101), view_of("???")));
    struct rec_string_ref index = {1, 3}, beyond = {2, 1}, none = {0, 0};
    assert_true(view_equal(names_ref(&n, &index), view_of("second")));
    assert_true(view_equal(names_ref(&n, &beyond), view_of("???")));
    assert_true(view_equal(names_ref(&n, &none), view_of("???")));
    assert_null(names_location(&n, 3));
    assert_null(names_location(&n, -3));
    assert_null(names_location(&n, INT16_MIN));
    assert_true(view_equal(names_location_name(&n, NULL), view_of("???")));
    uint32_t number;
    struct rec_id threads[] = {{0}, {77}};
    assert_int_equal(names_put(&n, REC_LOCAL_THREAD, threads, 2, &e), 0);
    assert_int_equal(names_add_thread(&n, 77, &number, &e), 0);
    assert_int_equal(number, 1);
    assert_int_equal(names_add_thread(&n, 5, &number, &e), 0);
    assert_int_equal(number, 2);
    assert_int_equal(names_add_thread(&n, 6, &number, &e), 0);
    assert_int_equal(number, 3);
    assert_int_equal(names_add_thread(&n, 5, &number, &e), 0);
    assert_int_equal(number, 2);
    names_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_few_keys),
        cmocka_unit_test(test_order_of_many_keys),
        cmocka_unit_test(test_figures_are_summed_in_order),
        cmocka_unit_test(test_figures_without_room),
        cmocka_unit_test(test_use_of_a_pool),
        cmocka_unit_test(test_percentiles_of_few_values),
        cmocka_unit_test(test_texts_beyond_memory),
        cmocka_unit_test(test_texts_without_a_folder),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
