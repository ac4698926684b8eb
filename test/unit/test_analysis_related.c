/*
 * Which plots and messages moved with memory: the statistics against slow ones and against chance,
 * and traces whose answers are known.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/questions/correlation.h"
#include "analysis/questions/related.h"
#include "analysis_fixture.h"

#define N 120u

static uint64_t seed;

static double random_real(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(seed >> 11) / 9007199254740992.0;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9 * (1 + fabs(a) + fabs(b));
}

/* ---- statistics */

static double pearson_by_hand(const double *x, const double *y, size_t n)
{
    double sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        sx += x[i];
        sy += y[i];
    }
    for (size_t i = 0; i < n; i++) {
        double u = x[i] - sx / (double)n;
        double v = y[i] - sy / (double)n;
        xx += u * u;
        yy += v * v;
        xy += u * v;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static void ranks_by_hand(const double *x, double *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ranks[i] = 0;
        for (size_t k = 0; k < n; k++)
            ranks[i] += x[k] < x[i] ? 1 : !(x[k] > x[i]) ? 0.5 : 0;
    }
}

static void test_correlation(void **state)
{
    (void)state;
    struct err e = {0};
    double x[N], y[N], rx[N], ry[N];
    for (seed = 1; seed < 200; seed += 7) {
        uint64_t kept = seed;
        size_t n = 2 + (size_t)(random_real() * (N - 2));
        double grain = random_real() < 0.5 ? 4 : 1e6; /* with ties, and without */
        for (size_t i = 0; i < n; i++) {
            x[i] = floor(random_real() * grain);
            y[i] = floor(random_real() * grain) + (kept % 3 ? x[i] : 0);
        }
        struct correlation c;
        assert_int_equal(correlation_find(&c, x, y, n, &e), 0);
        ranks_by_hand(x, rx, n);
        ranks_by_hand(y, ry, n);
        assert_true(near(c.pearson, pearson_by_hand(x, y, n)));
        assert_true(near(c.spearman, pearson_by_hand(rx, ry, n)));
        assert_true(c.effective <= (double)n && c.p >= 0 && c.p <= 1);
        seed = kept;
    }
    for (size_t i = 0; i < N; i++) {
        x[i] = (double)i;
        y[i] = -exp((double)i / 10);
    }
    struct correlation c;
    assert_int_equal(correlation_find(&c, x, y, N, &e), 0);
    assert_true(near(c.spearman, -1) && c.pearson > -0.9);
    memset(y, 0, sizeof y);
    assert_int_equal(correlation_find(&c, x, y, N, &e), 0);
    assert_true(near(c.spearman, 0) && near(c.p, 1));
}

/* Of independent series, as many have a low probability as it says: also of such that drift. */
static void test_chance(void **state)
{
    (void)state;
    struct err e = {0};
    seed = 3;
    for (int drift = 0; drift < 2; drift++) {
        unsigned low = 0;
        for (unsigned round = 0; round < 2000; round++) {
            double x[N], y[N], u = 0, v = 0;
            for (size_t i = 0; i < N; i++) {
                u = (drift ? 0.8 * u : 0) + random_real() - 0.5;
                v = (drift ? 0.8 * v : 0) + random_real() - 0.5;
                x[i] = u;
                y[i] = v;
            }
            struct correlation c;
            assert_int_equal(correlation_find(&c, x, y, N, &e), 0);
            low += c.p < 0.05;
        }
        assert_in_range(low, 60, 150); /* 100 are expected */
    }
}

static void test_combined_probability(void **state)
{
    (void)state;
    assert_true(near(combined_probability(log(0.03), 1), 0.03));
    assert_true(near(combined_probability(log(0.2) + log(0.1), 2), 0.02 * (1 - log(0.02))));
    assert_true(near(combined_probability(0, 3), 1));
    assert_true(combined_probability(9000 * log(0.01), 9000) < 1e-300);
    seed = 9;
    unsigned low = 0;
    for (unsigned round = 0; round < 2000; round++) {
        double sum = 0;
        for (int i = 0; i < 30; i++)
            sum += log(1 - random_real());
        low += combined_probability(sum, 30) < 0.05;
    }
    assert_in_range(low, 70, 130);
}

static void test_holm(void **state)
{
    (void)state;
    const double p[] = {0.01, 0.04, 0.03, 0.005};
    double adjusted[4];
    size_t order[4];
    holm_adjust(p, adjusted, order, 4);
    assert_true(near(adjusted[3], 0.02) && near(adjusted[0], 0.03));
    assert_true(near(adjusted[2], 0.06) && near(adjusted[1], 0.06));
    assert_int_equal(order[0], 3);
}

/* ---- traces */

struct world {
    struct fixture f;
    struct related_input input;
    int64_t *times; /* of steps of the default pool, and its use from there on */
    uint64_t *use;
    size_t n;
};

static void at(struct world *w, int64_t time)
{
    w->f.now = time - 1;
}

static void put_plot(struct world *w, const char *name)
{
    struct rec_plot plot = {.name = (uint64_t)(uintptr_t)name};
    assert_int_equal(
        strings_bind(&w->f.trace.strings, plot.name, fixture_text(&w->f, name), &w->f.e), 0);
    assert_int_equal(related_input_put(&w->input, REC_PLOT, &plot, 1, &w->f.e), 0);
}

static void put_point(struct world *w, int64_t time, double value)
{
    struct rec_plot_point p = {.time = time, .value = value};
    assert_int_equal(related_input_put(&w->input, REC_PLOT_POINT, &p, 1, &w->f.e), 0);
}

static void put_message(struct world *w, int64_t time, const char *text)
{
    struct rec_message m = {.time = time,
                            .text = {fixture_text(&w->f, text) - 1u, STRING_REF_INDEX}};
    assert_int_equal(related_input_put(&w->input, REC_MESSAGE, &m, 1, &w->f.e), 0);
}

#define STEPS 4000u
#define STEP 1000 /* ns */

/*
 * The default pool grows in bursts after the message "level loaded" and shrinks now and then; the
 * pool "gpu" holds what the plot "textures" says. Others come at random.
 */
static void make_world(struct world *w)
{
    *w = (struct world){.n = 0};
    fixture_init(&w->f);
    assert_int_equal(
        related_input_init(&w->input, &w->f.trace, NULL, RELATED_INPUT_BUDGET, &w->f.e), 0);
    uint32_t gpu = fixture_pool(&w->f, 0x100, "gpu");
    w->times = calloc(STEPS, sizeof *w->times);
    w->use = calloc(STEPS, sizeof *w->use);
    double *textures = calloc(STEPS, sizeof *textures);
    assert_true(w->times && w->use && textures);
    uint64_t live[64] = {0};
    unsigned count = 0;
    uint64_t next = 0x1000;
    uint64_t use = 0;
    double held = 0;
    seed = 77;
    for (size_t i = 0; i < STEPS; i++) {
        int64_t time = 1000 + (int64_t)i * STEP;
        bool burst = i % 320 >= 20 && i % 320 < 24; /* right after a message at i % 320 == 20 */
        if (i % 320 == 20)
            put_message(w, time - 5, "level loaded");
        if (random_real() < 0.05)
            put_message(w, time, random_real() < 0.5 ? "tick" : "frame done");
        uint64_t size = burst ? 50000 : 100 + (uint64_t)(random_real() * 100);
        if (count < 64 && (burst || random_real() < 0.5)) {
            at(w, time);
            fixture_alloc(&w->f, 0, next += 0x100000, size, 0);
            live[count++] = next | size << 48;
            use += size;
        } else if (count) {
            at(w, time);
            count--;
            fixture_free(&w->f, 0, live[count] & 0xffffffffffff, 0);
            use -= live[count] >> 48;
        }
        w->times[w->n] = time;
        w->use[w->n++] = use;
        if (random_real() < 0.3) {
            uint64_t texture = 1 + (uint64_t)(random_real() * 1000);
            at(w, time + 1);
            fixture_alloc(&w->f, gpu, next += 0x100000, texture, 0);
            held += (double)texture;
        }
        textures[i] = held;
    }
    put_plot(w, "textures");
    for (size_t i = 0; i < STEPS; i++)
        put_point(w, w->times[i] + 2, textures[i]);
    put_plot(w, "free room"); /* the other way round, and with a start of its own */
    for (size_t i = 0; i < STEPS; i++)
        put_point(w, w->times[i] + 2, 1e9 - 3 * textures[i]);
    put_plot(w, "noise");
    for (size_t i = 0; i < STEPS; i++)
        put_point(w, w->times[i], random_real());
    put_plot(w, "still");
    for (size_t i = 0; i < STEPS; i++)
        put_point(w, w->times[i], 5);
    put_plot(w, "once");
    put_point(w, w->times[3], 1);
    put_point(w, w->times[9], NAN);
    put_plot(w, "empty");
    w->f.trace.facts.last_time = w->times[w->n - 1] + 10;
    free(textures);
}

static void release_world(struct world *w)
{
    related_input_release(&w->input);
    fixture_release(&w->f);
    free(w->times);
    free(w->use);
}

static const struct related_plot *plot_row(const struct related *r, const char *name, uint32_t pool)
{
    for (size_t i = 0; i < r->plots.len; i++) {
        if (r->plots.at[i].pool == pool && view_equal(r->plots.at[i].name, view_of(name)))
            return &r->plots.at[i];
    }
    fail_msg("no row of plot %s", name);
    return NULL;
}

static const struct related_message *message_row(const struct related *r, const char *text,
                                                 uint32_t pool)
{
    for (size_t i = 0; i < r->messages.len; i++) {
        if (r->messages.at[i].pool == pool && view_equal(r->messages.at[i].text, view_of(text)))
            return &r->messages.at[i];
    }
    fail_msg("no row of message %s", text);
    return NULL;
}

static void test_what_moved(void **state)
{
    (void)state;
    struct world w;
    struct selection s;
    struct related r;
    const struct selection_options all = {.pool = NULL};
    make_world(&w);
    assert_int_equal(selection_init(&s, &w.f.trace, &all, &w.f.e), 0);
    const struct related_options options = {.window = 8 * STEP};
    assert_int_equal(related_build(&r, &s, &w.input, &options, &w.f.e), 0);
    assert_int_equal(s.pools.len, 2); /* default, gpu */
    assert_int_equal(r.plots.len, 12);
    const struct related_plot *textures = plot_row(&r, "textures", 1);
    const struct related_plot *room = plot_row(&r, "free room", 1);
    assert_true(textures->spearman > 0.99 && related_is_one(textures->adjusted));
    assert_true(room->spearman < -0.99 && related_is_one(room->adjusted));
    assert_int_equal(textures->points, STEPS);
    assert_int_equal(textures->n, RELATED_STEPS - 1);
    for (size_t i = 2; i < r.plots.len; i++)
        assert_false(related_is_one(r.plots.at[i].adjusted));
    assert_true(plot_row(&r, "noise", 1)->p > 0.001);
    assert_true(plot_row(&r, "still", 1)->p < 0 && plot_row(&r, "once", 1)->p < 0);
    assert_int_equal(plot_row(&r, "empty", 0)->n, 0);
    const struct related_message *level = message_row(&r, "level loaded", 0);
    assert_int_equal(level->count, 13);
    assert_int_equal(level->n, 13);
    assert_in_range(level->steep, 11, 13);
    assert_true(level->expected < 1 && level->rise > 100000 && related_is_one(level->adjusted));
    for (size_t i = 0; i < r.messages.len; i++) {
        if (&r.messages.at[i] != level)
            assert_false(related_is_one(r.messages.at[i].adjusted));
    }
    related_release(&r);
    selection_release(&s);
    release_world(&w);
}

/* Use of the default pool at the end of a nanosecond. */
static uint64_t use_at(const struct world *w, int64_t time)
{
    uint64_t use = 0;
    for (size_t i = 0; i < w->n && w->times[i] <= time; i++)
        use = w->use[i];
    return use;
}

/* The first nanosecond of a cell. */
static int64_t cell_begin(const struct related *r, size_t cell)
{
    uint64_t length = (uint64_t)(r->end - r->begin);
    return r->begin + (int64_t)((length * cell + r->cells - 1) / r->cells);
}

static double rise_by_hand(const struct world *w, const struct related *r, size_t cell)
{
    size_t window = (size_t)((uint64_t)r->window * r->cells / (uint64_t)(r->end - r->begin) + 1);
    while ((int64_t)((uint64_t)(r->end - r->begin) * window / r->cells) > r->window)
        window--;
    size_t end = cell + window < r->cells ? cell + window : r->cells - 1;
    return (double)use_at(w, cell_begin(r, end + 1) - 1) -
           (double)use_at(w, cell_begin(r, cell) - 1);
}

/* One message alone: what came after it, and how rare that is. With a range, too. */
static void test_one_message(void **state)
{
    (void)state;
    const struct selection_options questions[] = {
        {.pool = "default"},
        {.pool = "default", .has_range = true, .begin = 0, .end = 500000},
    };
    for (size_t q = 0; q < 2; q++) {
        struct world w;
        struct selection s;
        struct related r;
        make_world(&w);
        put_message(&w, 345678, "alone");
        put_message(&w, 345679, "alone"); /* sees the same rise */
        put_message(&w, 9999999, "too late");
        assert_int_equal(selection_init(&s, &w.f.trace, &questions[q], &w.f.e), 0);
        const struct related_options options = {.window = 20000};
        assert_int_equal(related_build(&r, &s, &w.input, &options, &w.f.e), 0);
        const struct related_message *alone = message_row(&r, "alone", 0);
        size_t cell = 0;
        while (cell_begin(&r, cell + 1) <= 345678)
            cell++;
        double rise = rise_by_hand(&w, &r, cell);
        double usual = 0;
        size_t as_high = 0;
        for (size_t i = 0; i < r.cells; i++) {
            double other = rise_by_hand(&w, &r, i);
            usual += other / (double)r.cells;
            as_high += other >= rise;
        }
        assert_int_equal(alone->count, 2);
        assert_int_equal(alone->n, 1);
        assert_true(near(alone->rise, rise));
        assert_true(fabs(alone->usual - usual) < 1e-6 * (1 + fabs(usual)));
        assert_true(near(alone->p, (double)as_high / (double)r.cells));
        for (size_t i = 0; i < r.messages.len; i++)
            assert_false(view_equal(r.messages.at[i].text, view_of("too late")));
        if (q == 1) {
            assert_int_equal(r.begin, 1000); /* when the first thing happened */
            assert_int_equal(r.end, 500000);
        }
        related_release(&r);
        selection_release(&s);
        release_world(&w);
    }
}

static void test_nothing_to_compare(void **state)
{
    (void)state;
    struct fixture f;
    struct related_input input;
    struct selection s;
    struct related r;
    const struct selection_options all = {.pool = NULL};
    const struct related_options options = {.window = 0};
    fixture_init(&f);
    assert_int_equal(related_input_init(&input, &f.trace, NULL, RELATED_INPUT_BUDGET, &f.e), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(selection_init(&s, &f.trace, &all, &f.e), 0);
        assert_int_equal(related_build(&r, &s, &input, &options, &f.e), 0);
        assert_int_equal(r.plots.len + r.messages.len, 0);
        related_release(&r);
        selection_release(&s);
        fixture_alloc(&f, 0, 0x1000, 10, 0); /* a trace of one nanosecond */
    }
    related_input_release(&input);
    fixture_release(&f);
}

static void test_too_many_pools(void **state)
{
    (void)state;
    struct fixture f;
    struct related_input input;
    struct selection s;
    struct related r;
    const struct selection_options all = {.pool = NULL};
    const struct related_options options = {.window = 0};
    fixture_init(&f);
    assert_int_equal(related_input_init(&input, &f.trace, NULL, RELATED_INPUT_BUDGET, &f.e), 0);
    for (unsigned i = 0; i <= RELATED_POOLS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "pool %u", i);
        fixture_alloc(&f, fixture_pool(&f, 0x100 + i, name), 0x1000, 8, 0);
    }
    assert_int_equal(selection_init(&s, &f.trace, &all, &f.e), 0);
    assert_int_equal(related_build(&r, &s, &input, &options, &f.e), -1);
    assert_int_equal(f.e.code, ERR_USAGE);
    assert_non_null(strstr(f.e.text, "--pool"));
    selection_release(&s);
    related_input_release(&input);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_correlation),          cmocka_unit_test(test_chance),
        cmocka_unit_test(test_combined_probability), cmocka_unit_test(test_holm),
        cmocka_unit_test(test_what_moved),           cmocka_unit_test(test_one_message),
        cmocka_unit_test(test_nothing_to_compare),   cmocka_unit_test(test_too_many_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
