/*
 * What single calls of zones cost, and which frames stand apart: random histories with random
 * zones and frames, held against sums made the slow way.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/outliers.h"
#include "analysis/figures/summary.h"
#include "random_history.h"

#define LABELS 4u
#define ZONES_MAX 4000u
#define FRAMES_MAX 400u

/* One time that a zone was open. */
struct call {
    int64_t begin, end;
    unsigned label;
    uint16_t thread;
    int parent;                          /* in the list, -1: none */
    uint64_t count[2], bytes[2];         /* of its own, by pool as the summary has them */
    uint64_t all_count[2], all_bytes[2]; /* with those inside */
};

struct world {
    struct random_history h;
    struct call calls[ZONES_MAX];
    size_t n;
    int64_t frames[FRAMES_MAX];
    size_t frame_count;
};

static const char *const labels[LABELS] = {"load", "draw", "step", "idle"};

/* Zones of a thread, inside one another. What begins ends at another time than others begin. */
static void make_zones(struct world *w, uint16_t thread, struct err *e)
{
    struct zones *z = &w->h.trace.zones;
    int open = -1;
    int64_t time = 0;
    bool found;
    while (time < w->h.now && w->n < ZONES_MAX - 1) {
        time += 1 + (int64_t)rh_rnd(&w->h, 9);
        if (open >= 0 && rh_rnd(&w->h, 2)) {
            assert_int_equal(zones_end(z, thread, time, &found, e), 0);
            assert_true(found);
            w->calls[open].end = time;
            open = w->calls[open].parent;
            time += rh_rnd(&w->h, 4) != 0; /* else the next one begins where this one ended */
            continue;
        }
        struct call c = {.begin = time,
                         .end = INT64_MAX,
                         .label = (unsigned)rh_rnd(&w->h, LABELS),
                         .thread = thread,
                         .parent = open};
        assert_int_equal(zones_begin(z, thread, time, (int16_t)(c.label + 1), 0, e), 0);
        w->calls[w->n] = c;
        open = (int)w->n++;
    }
}

static void make_world(struct world *w, uint64_t seed)
{
    struct err e = {0};
    rh_make(&w->h, seed);
    w->n = w->frame_count = 0;
    for (unsigned i = 0; i < LABELS; i++) {
        struct trace_location l = {.name = 0x1000 + i, .known = true};
        assert_int_equal(strings_bind(&w->h.trace.strings, l.name, rh_text(&w->h, labels[i]), &e),
                         0);
        assert_true(vec_push(&w->h.trace.locations, l));
    }
    for (uint16_t thread = 0; thread < RH_THREADS - 1; thread++)
        make_zones(w, thread, &e);
    assert_int_equal(zones_settle(&w->h.trace.zones, &e), 0);
    for (int64_t time = 10; time < w->h.now && w->frame_count < FRAMES_MAX;
         time += 1 + (int64_t)rh_rnd(&w->h, 30)) {
        assert_int_equal(frame_sets_mark(&w->h.trace.frame_sets, 0, time, &e), 0);
        w->frames[w->frame_count++] = time;
    }
}

/* The innermost call at a time: where one ends as another begins, the later one. */
static int call_at(const struct world *w, uint16_t thread, int64_t time)
{
    int found = -1;
    for (size_t i = 0; i < w->n; i++) {
        const struct call *c = &w->calls[i];
        if (c->thread == thread && c->begin <= time && time <= c->end)
            found = (int)i;
    }
    return found;
}

static unsigned pool_of(const struct rh_block *b)
{
    return b->pool ? 1 : 0; /* both others are called "twin" */
}

static bool is_selected(const struct rh_block *b, const struct selection_options *o)
{
    if (o->has_range && (b->start < o->begin || b->start >= o->end))
        return false;
    return !o->has_size || (b->size >= o->size_min && b->size <= o->size_max);
}

static void count_by_hand(struct world *w, const struct selection_options *o)
{
    for (size_t i = 0; i < w->n; i++) {
        struct call *c = &w->calls[i];
        memset(c->count, 0, sizeof c->count);
        memset(c->bytes, 0, sizeof c->bytes);
        memset(c->all_count, 0, sizeof c->all_count);
        memset(c->all_bytes, 0, sizeof c->all_bytes);
    }
    for (size_t i = 0; i < w->h.n; i++) {
        const struct rh_block *b = &w->h.blocks[i];
        unsigned pool = pool_of(b);
        int at = is_selected(b, o) ? call_at(w, b->thread, b->start) : -1;
        if (at >= 0) {
            w->calls[at].count[pool]++;
            w->calls[at].bytes[pool] += b->size;
        }
        for (; at >= 0; at = w->calls[at].parent) {
            w->calls[at].all_count[pool]++;
            w->calls[at].all_bytes[pool] += b->size;
        }
    }
}

static void check_zone(const struct world *w, const struct summary *s, unsigned pool,
                       unsigned label, const struct selection_options *o)
{
    struct zone_cost want = {0};
    uint64_t count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct call *c = &w->calls[i];
        if (c->label != label)
            continue;
        want.calls += !o->has_range || (c->begin < o->end && c->end >= o->begin);
        count += c->count[pool];
        bytes += c->bytes[pool];
        want.allocating += c->count[pool] != 0;
        want.count_max = c->count[pool] > want.count_max ? c->count[pool] : want.count_max;
        want.bytes_max = c->bytes[pool] > want.bytes_max ? c->bytes[pool] : want.bytes_max;
        want.all_count += c->all_count[pool];
        want.all_bytes += c->all_bytes[pool];
        if (c->all_count[pool] > want.all_count_max)
            want.all_count_max = c->all_count[pool];
        if (c->all_bytes[pool] > want.all_bytes_max)
            want.all_bytes_max = c->all_bytes[pool];
    }
    const struct summary_row *row = NULL;
    for (size_t i = 0; i < s->groups.len; i++) {
        if (s->groups.at[i].pool == pool &&
            view_equal(s->groups.at[i].name, view_of(labels[label])))
            row = &s->groups.at[i];
    }
    if (count == 0 && !row)
        return;
    assert_non_null(row);
    assert_int_equal(row->figures.count, count);
    assert_int_equal(row->figures.bytes, bytes);
    assert_int_not_equal(row->cost, 0);
    const struct zone_cost *got = &s->zone_costs.at[row->cost - 1];
    assert_int_equal(got->calls, want.calls);
    assert_int_equal(got->allocating, want.allocating);
    assert_int_equal(got->count_max, want.count_max);
    assert_int_equal(got->bytes_max, want.bytes_max);
    assert_int_equal(got->all_count, want.all_count);
    assert_int_equal(got->all_bytes, want.all_bytes);
    assert_int_equal(got->all_count_max, want.all_count_max);
    assert_int_equal(got->all_bytes_max, want.all_bytes_max);
}

static void test_calls_of_zones(void **state)
{
    (void)state;
    static struct world w;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        make_world(&w, seed);
        const struct selection_options questions[] = {
            {.match = NULL},
            {.has_range = true, .begin = w.h.now / 4, .end = w.h.now / 2},
            {.has_size = true, .size_min = 100, .size_max = 1000},
        };
        for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
            struct err e = {0};
            struct summary s;
            const struct summary_options options = {.by = GROUP_ZONE, .only = &questions[q]};
            count_by_hand(&w, &questions[q]);
            assert_int_equal(summary_build(&s, &w.h.trace, &options, &e), 0);
            assert_int_equal(s.pools.len, 2);
            for (unsigned label = 0; label < LABELS; label++) {
                check_zone(&w, &s, 0, label, &questions[q]);
                check_zone(&w, &s, 1, label, &questions[q]);
            }
            for (size_t i = 0; i < s.groups.len; i++) {
                if (view_equal(s.groups.at[i].name, view_of("[no zone]")))
                    assert_int_equal(s.groups.at[i].cost, 0);
            }
            summary_release(&s);
        }
        rh_release(&w.h);
    }
}

/* ---- frames */

static int compare_reals(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static double median_by_hand(const double *values, size_t n)
{
    static double sorted[FRAMES_MAX];
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, compare_reals);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double score_by_hand(const double *values, size_t n, double x)
{
    static double distances[FRAMES_MAX];
    double median = median_by_hand(values, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        distances[i] = values[i] > median ? values[i] - median : median - values[i];
        sum += distances[i];
    }
    double mad = median_by_hand(distances, n);
    if (n < OUTLIERS_LEAST)
        return 0;
    return mad > 0   ? 0.6745 * (x - median) / mad
           : sum > 0 ? (x - median) / (1.2533 * sum / (double)n)
                     : 0;
}

static void test_outlier_scores(void **state)
{
    (void)state;
    struct err e = {0};
    struct random_history h = {.seed = 5};
    for (int round = 0; round < 400; round++) {
        uint64_t list[64];
        double all[128] = {0};
        size_t count = (size_t)rh_rnd(&h, 60);
        size_t n = count + (size_t)rh_rnd(&h, 60);
        uint64_t most = 1 + rh_rnd(&h, round % 2 ? 4 : 1000);
        for (size_t i = 0; i < count; i++) {
            list[i] = 1 + rh_rnd(&h, most);
            all[i] = (double)list[i];
        }
        struct outlier_scale s;
        assert_int_equal(outlier_scale_find(&s, list, count, n, &e), 0);
        for (uint64_t x = 0; x < most + 3; x += 1 + most / 7)
            assert_true(outlier_score(&s, x) - score_by_hand(all, n, (double)x) < 1e-9 &&
                        score_by_hand(all, n, (double)x) - outlier_score(&s, x) < 1e-9);
    }
}

static void check_frames(struct world *w, const struct summary_frames *f, const struct summary *s)
{
    static double counts[FRAMES_MAX], bytes[FRAMES_MAX];
    size_t n = w->frame_count;
    size_t outliers = 0;
    size_t empty = 0;
    memset(counts, 0, sizeof counts);
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < w->h.n; i++) {
        const struct rh_block *b = &w->h.blocks[i];
        size_t frame = 0;
        while (frame < n && w->frames[frame] <= b->start)
            frame++;
        if (frame && pool_of(b) == f->pool) {
            counts[frame - 1]++;
            bytes[frame - 1] += (double)b->size;
        }
    }
    for (size_t i = 0; i < n; i++) {
        double p = score_by_hand(counts, n, counts[i]);
        double q = score_by_hand(bytes, n, bytes[i]);
        empty += counts[i] == 0;
        outliers += counts[i] > 0 && (outlier_is_one(p) || outlier_is_one(q));
    }
    assert_int_equal(f->frames, n);
    assert_int_equal(f->empty, empty);
    assert_true(f->count.median == median_by_hand(counts, n));
    assert_true(f->bytes.median == median_by_hand(bytes, n));
    assert_int_equal(f->outlier_count, outliers);
    for (size_t i = 0; i < outliers; i++) {
        const struct summary_row *r = &s->outliers.at[f->first_outlier + i];
        double p = score_by_hand(counts, n, counts[r->key - 1]);
        assert_true(p - (double)r->count_score < 1e-3 && (double)r->count_score - p < 1e-3);
    }
}

/* An on-demand client's frames go on from those before the connection: the profiler's numbers. */
static void test_frame_numbers(void **state)
{
    static struct world w;
    struct err e = {0};
    struct summary s;
    (void)state;
    make_world(&w, 11);
    w.h.trace.facts.frame_offset = 101;
    const struct summary_options by_frame = {.by = GROUP_FRAME};
    assert_int_equal(summary_build(&s, &w.h.trace, &by_frame, &e), 0);
    for (size_t i = 0; i < s.groups.len; i++) {
        char name[32];
        const struct summary_row *r = &s.groups.at[i];
        snprintf(name, sizeof name, "frame %u", r->key + 99);
        assert_true(r->key == 0 || view_equal(r->name, view_of(name)));
    }
    summary_release(&s);
    for (unsigned wrong = 0; wrong < 3; wrong++) {
        const uint64_t numbers[] = {99, 100 + w.frame_count, 0};
        const struct selection_options only = {.has_frame = true, .frame = numbers[wrong]};
        const struct summary_options options = {.only = &only};
        assert_int_equal(summary_build(&s, &w.h.trace, &options, &e), -1);
        assert_int_equal(e.code, ERR_USAGE);
        assert_non_null(strstr(e.text, "from 100 on"));
        e = (struct err){0};
    }
    const struct selection_options only = {.has_frame = true, .frame = 103};
    const struct summary_options options = {.only = &only};
    assert_int_equal(summary_build(&s, &w.h.trace, &options, &e), 0);
    assert_int_equal(s.selection.begin, w.frames[3]);
    summary_release(&s);
    rh_release(&w.h);
}

static void test_frames(void **state)
{
    (void)state;
    static struct world w;
    size_t outliers = 0;
    for (uint64_t seed = 11; seed <= 18; seed++) {
        struct err e = {0};
        struct summary s;
        make_world(&w, seed);
        const struct summary_options options = {.by = GROUP_FRAME};
        assert_int_equal(summary_build(&s, &w.h.trace, &options, &e), 0);
        assert_int_equal(s.frames.len, 2);
        for (size_t i = 0; i < s.frames.len; i++)
            check_frames(&w, &s.frames.at[i], &s);
        outliers += s.outliers.len;
        summary_release(&s);
        /* One frame alone is no outlier. */
        const struct selection_options only = {.has_frame = true, .frame = 3};
        const struct summary_options one = {.by = GROUP_FRAME, .only = &only};
        assert_int_equal(summary_build(&s, &w.h.trace, &one, &e), 0);
        for (size_t i = 0; i < s.frames.len; i++)
            assert_int_equal(s.frames.at[i].frames, 1);
        assert_int_equal(s.outliers.len, 0);
        summary_release(&s);
        rh_release(&w.h);
    }
    assert_true(outliers > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_of_zones),
        cmocka_unit_test(test_outlier_scores),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_frame_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
