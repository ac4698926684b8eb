/* The timeline and the memory map against a plain list of random allocations. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/questions/memory_map.h"
#include "analysis/questions/timeline.h"
#include "test/unit/random_history.h"

/* The pools that the selection has: the default one and the twins. */
static bool in_series(const struct rh_block *b, size_t series)
{
    return (b->pool != 0) == (series != 0);
}

static uint64_t use_at(const struct random_history *h, size_t series, int64_t time, uint64_t *live)
{
    uint64_t use = 0;
    *live = 0;
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        if (in_series(b, series) && b->start <= time && b->end > time) {
            use += b->size;
            ++*live;
        }
    }
    return use;
}

static void check_bucket(const struct random_history *h, size_t series, int64_t begin, int64_t end,
                         const struct timeline_bucket *got)
{
    struct timeline_bucket want = {.low = UINT64_MAX};
    bool first = true;
    for (int64_t time = begin; time < end; time++) {
        uint64_t live;
        uint64_t use = use_at(h, series, time, &live);
        want.low = use < want.low ? use : want.low;
        if (first || use > want.high) {
            want.high = use;
            want.high_time = time;
        }
        want.high_live = live > want.high_live ? live : want.high_live;
        want.last = use;
        want.last_live = live;
        first = false;
    }
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        bool came = in_series(b, series) && b->start >= begin && b->start < end;
        bool went = in_series(b, series) && b->end >= begin && b->end < end;
        want.allocations += came;
        want.frees += went;
        want.allocated += came ? b->size : 0;
        want.freed += went ? b->size : 0;
    }
    assert_memory_equal(got, &want, sizeof want);
}

static void test_timeline(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options all = {0};
    static const struct {
        int64_t begin, end;
        size_t count, want;
    } windows[] = {{0, 500, 7, 7}, {100, 137, 64, 37}, {0, 100000, 10, 10},
                   {-50, 3, 5, 5}, {300, 300, 9, 1},   {0, 1000, 1, 1}};
    rh_make(&h, 3);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        struct err e = {0};
        struct selection s;
        struct timeline t;
        assert_int_equal(selection_init(&s, &h.trace, &all, &e), 0);
        const struct timeline_options window = {
            .begin = windows[w].begin, .end = windows[w].end, .buckets = windows[w].count};
        assert_int_equal(timeline_build(&t, &s, &window, &e), 0);
        assert_int_equal(t.count, windows[w].want);
        assert_int_equal(t.series.len, 2);
        assert_int_equal(timeline_time(&t, 0), windows[w].begin);
        for (size_t i = 0; i < t.count; i++) {
            assert_true(timeline_time(&t, i) < timeline_time(&t, i + 1));
            for (size_t k = 0; k < 2; k++)
                check_bucket(&h, k, timeline_time(&t, i), timeline_time(&t, i + 1),
                             &t.series.at[k].buckets[i]);
        }
        timeline_release(&t);
        selection_release(&s);
    }
    rh_release(&h);
}

static void test_peaks(void **state)
{
    (void)state;
    /* highs and lows of buckets: a hill of 50, one of 80 that a valley of 30 parts from 70. */
    static const uint64_t highs[] = {10, 50, 20, 80, 60, 70, 70, 10, 0, 5};
    static const uint64_t lows[] = {0, 10, 10, 20, 30, 60, 60, 5, 0, 0};
    struct timeline_bucket buckets[10] = {0};
    struct timeline t = {.begin = 0, .end = 100, .count = 10};
    struct timeline_series s = {.buckets = buckets};
    struct timeline_peak *list;
    size_t n;
    for (size_t i = 0; i < 10; i++)
        buckets[i] = (struct timeline_bucket){
            .low = lows[i], .high = highs[i], .high_time = (int64_t)(10 * i + 3)};
    assert_true(timeline_peaks(&t, &s, 0, &list, &n));
    static const struct timeline_peak want[] = {
        {13, 50, 40}, {33, 80, 80}, {53, 70, 40}, {93, 5, 5}};
    assert_int_equal(n, 4);
    assert_memory_equal(list, want, sizeof want);
    free(list);
    assert_true(timeline_peaks(&t, &s, 41, &list, &n));
    assert_int_equal(n, 1);
    assert_int_equal(list[0].time, 33);
    free(list);
}

/* ---- the map */

#define LOW 0x10000u
#define ROOM (600u * 64u + 512u)

/* Which bytes near LOW are in a live block, and how old the one is that begins first. */
struct picture {
    bool covered[ROOM];
    int64_t since[ROOM];
    uint64_t blocks, bytes;
};

static int by_address(const void *a, const void *b)
{
    const struct rh_block *x = a;
    const struct rh_block *y = b;
    if (x->ptr != y->ptr)
        return x->ptr < y->ptr ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

static void paint(struct picture *p, const struct random_history *h, size_t series, int64_t time)
{
    static struct rh_block live[RH_BLOCKS];
    size_t n = 0;
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        if (in_series(b, series) && b->start <= time && b->end > time && b->ptr < LOW + ROOM)
            live[n++] = *b;
    }
    qsort(live, n, sizeof *live, by_address);
    for (size_t i = 0; i < n; i++) {
        p->blocks++;
        p->bytes += live[i].size;
        for (uint64_t k = 0; k < (live[i].size ? live[i].size : 1); k++) {
            size_t at = (size_t)(live[i].ptr - LOW + k);
            if (!p->covered[at])
                p->since[at] = live[i].start;
            p->covered[at] = true;
        }
    }
}

static void check_sample(const struct picture *p, const struct map_sample *s)
{
    uint64_t covered = 0;
    uint64_t pages = 0;
    uint64_t holes = 0;
    uint64_t hole_bytes = 0;
    size_t last = ROOM;
    for (size_t i = 0; i < ROOM; i++) {
        if (!p->covered[i])
            continue;
        covered++;
        if (last == ROOM)
            assert_int_equal(s->low, LOW + i);
        pages += last == ROOM || i / MAP_PAGE != last / MAP_PAGE;
        if (last != ROOM && i > last + 1 && i / MAP_PAGE <= last / MAP_PAGE + 1) {
            holes++;
            hole_bytes += i - last - 1;
        }
        last = i;
    }
    assert_int_equal(s->blocks, p->blocks);
    assert_int_equal(s->bytes, p->bytes);
    assert_int_equal(s->covered, covered);
    assert_int_equal(s->pages, pages);
    assert_int_equal(s->holes, holes);
    assert_int_equal(s->hole_bytes, hole_bytes);
    if (covered)
        assert_int_equal(s->high, LOW + last);
}

static void check_lines(const struct picture *p, const struct map_pool *pool, unsigned columns,
                        int64_t time)
{
    uint64_t drawn = 0;
    uint64_t covered = 0;
    for (size_t i = 0; i < pool->lines.len; i++) {
        const struct map_line *line = &pool->lines.at[i];
        assert_int_equal(line->address % (columns * pool->cell), 0);
        assert_true(i == 0 || line[-1].address < line->address);
        for (unsigned c = 0; c < columns; c++) {
            uint64_t used = 0;
            int64_t age = 0;
            for (uint64_t k = 0; k < pool->cell; k++) {
                uint64_t at = line->address + c * pool->cell + k - LOW;
                if (at < ROOM && p->covered[at]) {
                    used++;
                    age += time - p->since[at];
                }
            }
            assert_int_equal(line->cells[c].used, used);
            if (used) /* each addition rounds down */
                assert_true(labs((long)(line->cells[c].age - (uint64_t)age / used)) <= 3);
            drawn += used;
        }
    }
    for (size_t i = 0; i < ROOM; i++)
        covered += p->covered[i];
    assert_int_equal(drawn, covered);
}

/* Blocks at both ends of the address space in one map. */
static void test_map(void **state)
{
    (void)state;
    static struct random_history h;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct err e = {0};
        struct selection s;
        struct memory_map m;
        rh_make(&h, seed);
        struct selection_options o = {.has_at = false};
        const struct map_options options = {
            .columns = seed == 2 ? 16 : 64, .lines = seed == 3 ? 4 : 40, .samples = 5};
        assert_int_equal(selection_init(&s, &h.trace, &o, &e), 0);
        assert_int_equal(memory_map_build(&m, &s, &options, &e), 0);
        assert_int_equal(m.pools.len, 2);
        for (size_t i = 0; i < 2; i++) {
            const struct map_pool *pool = &m.pools.at[i];
            uint64_t top = 0;
            assert_int_equal(pool->samples.len, 5);
            for (size_t k = 0; k < h.n; k++)
                top += h.blocks[k].ptr > UINT64_MAX / 2;
            assert_true(top > 0);
            assert_int_equal(pool->samples.at[4].time, h.now);
            assert_true(pool->lines.len <= options.lines);
        }
        memory_map_release(&m);
        selection_release(&s);
        rh_release(&h);
    }
}

/* The same without blocks at the top, whose addresses the picture has no place for. */
static void test_map_exactly(void **state)
{
    (void)state;
    static struct random_history h;
    static struct picture p;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct err e = {0};
        struct selection s;
        struct memory_map m;
        struct trace t;
        static const struct selection_options all = {0};
        const struct map_options options = {
            .columns = seed == 2 ? 16 : 64, .lines = seed == 3 ? 4 : 40, .samples = 5};
        rh_make(&h, seed);
        assert_int_equal(trace_init(&t, NULL, &e), 0);
        for (size_t i = 0; i < h.n; i++) {
            struct rh_block *b = &h.blocks[i];
            uint32_t pool;
            if (b->ptr > UINT64_MAX / 2)
                b->start = b->end = INT64_MAX;
            struct rec_memory_event in = {.ptr = b->ptr,
                                          .size = b->size,
                                          .time_alloc = b->start,
                                          .time_free = b->end == INT64_MAX ? -1 : b->end};
            assert_int_equal(memory_pool(&t.memory, b->pool ? 16 : 0, &pool, &e), 0);
            if (b->start != INT64_MAX)
                assert_int_equal(memory_append(&t.memory, pool, &in, &e), 0);
        }
        t.facts.last_time = h.now;
        assert_int_equal(selection_init(&s, &t, &all, &e), 0);
        assert_int_equal(memory_map_build(&m, &s, &options, &e), 0);
        for (size_t i = 0; i < 2; i++) {
            const struct map_pool *pool = &m.pools.at[i];
            size_t series = view_equal(pool->name, view_of("default")) ? 0 : 1;
            for (size_t k = 0; k < 5; k++) {
                paint(&p, &h, series, pool->samples.at[k].time);
                check_sample(&p, &pool->samples.at[k]);
            }
            check_lines(&p, pool, options.columns, m.time);
        }
        memory_map_release(&m);
        selection_release(&s);
        trace_release(&t);
        rh_release(&h);
    }
}

/* Stretches without events are left out where the RSS stays as it is. */
static void test_columns(void **state)
{
    (void)state;
    /* e: an event; the figure below: RSS in MiB, 0: unknown. */
    static const char *const events = "e....e......ee.e............";
    static const uint8_t resident[] = {0,  0,  0,  0,  0,  90, 90, 91, 90, 90, 50, 50, 50, 50,
                                       50, 50, 50, 50, 50, 50, 90, 90, 90, 90, 90, 90, 90, 90};
    static const int wanted[] = {0, -1, 5, -1, 10, 11, 12, 13, 14, 15, -1, 20, -1};
    struct timeline_bucket buckets[28] = {{0}};
    struct kernel_bucket kernel[28] = {{.known = false}};
    struct timeline_series series = {.buckets = buckets};
    struct timeline t = {.end = 28, .count = 28, .kernel = {.buckets = kernel, .count = 28}};
    size_t columns[28], gaps;
    for (size_t i = 0; i < 28; i++) {
        buckets[i].frees = events[i] == 'e';
        kernel[i].known = resident[i] != 0;
        kernel[i].high.resident = (uint64_t)resident[i] << 20;
    }
    assert_true(vec_push(&t.series, series));
    assert_int_equal(timeline_columns(&t, 4, columns, &gaps), sizeof wanted / sizeof *wanted);
    assert_int_equal(gaps, 4);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_true(columns[i] == (wanted[i] < 0 ? TIMELINE_GAP : (size_t)wanted[i]));
    /* Shorter ones stay. */
    assert_int_equal(timeline_columns(&t, 9, columns, &gaps), 28);
    assert_int_equal(gaps, 0);
    vec_release(&t.series);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeline), cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_map),      cmocka_unit_test(test_map_exactly),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
