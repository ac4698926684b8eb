/*
 * The comparison of several runs on recorded figures (fixtures/noise.tsv, by bench/noise.py):
 * 10,000 times 5 runs are drawn against 5. The figures of a run as JSON, which are input like any
 * other.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/questions/budgets.h"
#include "analysis/runs/runs_budgets.h"
#include "analysis/runs/runs_diff.h"
#include "report/runs_report.h"

/* False alarms that the level of 1 % allows in so many samples. */
enum { RECORDED = 64, SIDE = 5, SAMPLES = 10000, ALARMS = 100 };

static const struct runs_diff_options usual = {.metric = DIFF_PEAK,
                                               .noise = {.level = 0.01, .unstable = 0.1}};

/* ---- recorded runs */

struct program {
    struct run_figures runs[RECORDED];
    VEC(char *) names;
};

static void add_total(struct summary_pool *p, const char *key, uint64_t value)
{
    for (size_t i = 0; i < DIFF_POOL_FIGURES; i++) {
        if (strcmp(diff_pool_figures[i].key, key) == 0) {
            memcpy((char *)&p->figures + diff_pool_figures[i].offset, &value, sizeof value);
            return;
        }
    }
    fail_msg("no figure %s", key);
}

static void add_figure(struct run_figures *f, char *name, uint64_t value)
{
    if (f->summary.pools.len == 0)
        assert_true(vec_push(&f->summary.pools, (struct summary_pool){.name = view_of("default")}));
    if (strncmp(name, "total ", 6) == 0) {
        add_total(&f->summary.pools.at[0], name + 6, value);
    } else if (value) {
        const struct summary_row row = {.frame = {.function = view_of(name)},
                                        .figures = {.count = 1, .peak_bytes = value}};
        assert_true(vec_push(&f->summary.sites, row));
    }
}

static void load(struct program *p, const char *program)
{
    char *line = NULL;
    size_t room = 0, rows = 0;
    FILE *in = fopen("fixtures/noise.tsv", "r");
    assert_non_null(in);
    *p = (struct program){0};
    while (getline(&line, &room, in) > 0) {
        char *rest = NULL;
        if (strcmp(strtok_r(line, "\t", &rest), program) != 0)
            continue;
        char *name = strdup(strtok_r(NULL, "\t", &rest));
        assert_true(name && vec_push(&p->names, name));
        for (size_t i = 0; i < RECORDED; i++)
            add_figure(&p->runs[i], name, strtoull(strtok_r(NULL, "\t\n", &rest), NULL, 10));
        assert_null(strtok_r(NULL, "\t\n", &rest));
        rows++;
    }
    assert_true(rows > DIFF_POOL_FIGURES);
    free(line);
    fclose(in);
}

static void release(struct program *p)
{
    for (size_t i = 0; i < RECORDED; i++)
        run_figures_release(&p->runs[i]);
    for (size_t i = 0; i < p->names.len; i++)
        free(p->names.at[i]);
    vec_release(&p->names);
}

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Copies `n` runs drawn without replacement. */
static void draw(struct program *p, struct run_figures *to, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++) {
        size_t with = i + (size_t)(next(seed) % (RECORDED - i));
        struct run_figures one = p->runs[i];
        p->runs[i] = p->runs[with];
        p->runs[with] = one;
    }
    memcpy(to, p->runs, n * sizeof *to);
}

struct outcomes {
    unsigned any, peak, function; /* samples in which these are reported as changed */
    unsigned naive;               /* in which the means of the peak differ by more than 5 % */
};

/* Samples `base` against `now`, or against itself: then every report is a false alarm. */
static struct outcomes sample(struct program *base, struct program *now, const char *function)
{
    struct outcomes found = {0};
    uint64_t seed = UINT64_C(88172645463325252);
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct run_figures drawn[2 * SIDE];
        struct runs_diff d;
        struct err e = {0};
        bool any = false, changed = false;
        draw(base, drawn, now ? SIDE : 2 * SIDE, &seed);
        if (now)
            draw(now, drawn + SIDE, SIDE, &seed);
        assert_int_equal(runs_diff_build(&d, drawn, (size_t[]){SIDE, SIDE}, &usual, &e), 0);
        const struct noise_row *totals = d.pools.at[0].totals;
        for (size_t k = 0; k < DIFF_POOL_FIGURES; k++)
            any |= totals[k].changed;
        for (size_t k = 0; k < d.rows.len; k++) {
            const struct runs_row *r = &d.rows.at[k];
            any |= r->kind != DIFF_SAME;
            changed |= r->kind == DIFF_GROWN && view_equal(r->function, view_of(function));
        }
        found.any += any;
        found.peak += totals[0].changed && totals[0].change > 0;
        found.naive += fabs(totals[0].change) > totals[0].mean[0] * 0.05;
        found.function += changed;
        runs_diff_release(&d);
    }
    return found;
}

static void peak_range(const struct program *p, double *least, double *most)
{
    *least = INFINITY;
    *most = 0;
    for (size_t i = 0; i < RECORDED; i++) {
        double peak = (double)p->runs[i].summary.pools.at[0].figures.peak_bytes / 1e6;
        *least = fmin(*least, peak);
        *most = fmax(*most, peak);
    }
}

static void test_false_alarms(void **state)
{
    struct program p;
    double least, most;
    (void)state;
    load(&p, "queue");
    peak_range(&p, &least, &most);
    assert_true(least < 15 && most > 55 && most < 61);
    struct outcomes o = sample(&p, NULL, "");
    printf("queue, peak %.1f to %.1f MB: %u false alarms in %d samples, %u by a limit of 5 %%\n",
           least, most, o.any, SAMPLES, o.naive);
    assert_in_range(o.any, 1, ALARMS);
    /* What a plain limit of 5 % reports of the same samples. */
    assert_true(o.naive > SAMPLES / 2);
    release(&p);
    load(&p, "stable");
    o = sample(&p, NULL, "");
    printf("stable: %u false alarms\n", o.any);
    assert_in_range(o.any, 0, ALARMS);
    release(&p);
}

static void test_planted(void **state)
{
    struct program base, now;
    (void)state;
    load(&base, "stable");
    load(&now, "stable+5%");
    struct outcomes o = sample(&base, &now, "site_7");
    printf("stable +5 %%: peak found in %u samples, function in %u\n", o.peak, o.function);
    assert_true(o.peak >= SAMPLES / 100 * 99 && o.function >= SAMPLES / 100 * 99);
    release(&now);
    load(&now, "function+5%");
    o = sample(&base, &now, "site_0");
    printf("function +5 %%: function found in %u samples\n", o.function);
    assert_true(o.function >= SAMPLES / 100 * 99);
    release(&now);
    release(&base);
}

/* ---- budgets */

static struct budget_checks checked(const struct run_figures *runs, const size_t count[2],
                                    const char *expression)
{
    struct budgets list = {0};
    struct budget_checks out;
    struct err e = {0};
    assert_true(budgets_add(&list, "--fail-if", expression, false, &e));
    out = (struct budget_checks){0};
    assert_int_equal(runs_budgets_check(&out, runs, count,
                                        (struct budget_list){list.list.at, list.list.len},
                                        &usual.noise, &e),
                     0);
    assert_int_equal(out.list.len, 1);
    budgets_release(&list);
    return out;
}

static void test_budgets(void **state)
{
    struct program base, now;
    struct run_figures runs[2 * SIDE];
    static const struct {
        const char *expression;
        size_t count[2];
        bool same, holds;
        const char *why;
    } cases[] = {
        {"peak>+1%", {5, 5}, false, false, "was"},
        {"peak>+20%", {5, 5}, false, true, "was"},
        {"peak>+1%", {5, 5}, true, true, "within the noise"},
        {"peak>+1%", {1, 1}, false, false, "unknown: 1 against 1 runs"},
        {"peak>+1%", {4, 4}, true, false, "unknown: 4 against 4 runs"},
        {"peak>1G", {1, 1}, false, true, "peak is"}, /* no change is asked for */
        {"peak>1M", {5, 5}, true, false, "peak is"},
    };
    (void)state;
    load(&base, "stable");
    load(&now, "stable+5%");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(runs, base.runs, sizeof runs);
        if (!cases[i].same)
            memcpy(runs + cases[i].count[0], now.runs, SIDE * sizeof *runs);
        struct budget_checks out = checked(runs, cases[i].count, cases[i].expression);
        assert_int_equal(out.list.at[0].holds, cases[i].holds);
        assert_non_null(strstr(out.list.at[0].detail, cases[i].why));
        vec_release(&out.list);
    }
    release(&base);
    release(&now);
}

/* ---- figures as JSON */

static char *written(const struct run_figures *f)
{
    char *text;
    size_t len;
    struct err e = {0};
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(run_figures_write(f, out, &e), 0);
    fclose(out);
    return text;
}

static void test_round_trip(void **state)
{
    struct program p;
    struct run_figures again;
    struct err e = {0};
    (void)state;
    load(&p, "queue");
    struct run_figures *f = &p.runs[0];
    f->program = strdup("queue \"x\"");
    f->summary.sites.at[0].frame.line = 7;
    f->summary.sites.at[0].figures.bytes = UINT64_MAX;
    assert_true(vec_push(&f->summary.faults,
                         (struct summary_fault){.pool = view_of("default"), .count = 3}));
    char *text = written(f);
    assert_true(run_figures_is_json(view_of(text)));
    assert_int_equal(run_figures_read(&again, "a.json", view_of(text), &e), 0);
    assert_string_equal(again.name, "a.json");
    assert_string_equal(again.program, "queue \"x\"");
    assert_int_equal(again.summary.sites.len, f->summary.sites.len);
    assert_memory_equal(&again.summary.sites.at[0].figures, &f->summary.sites.at[0].figures,
                        sizeof(struct counter));
    assert_int_equal(again.summary.sites.at[0].frame.line, 7);
    char *twice = written(&again);
    assert_string_equal(text, twice);
    free(text);
    free(twice);
    run_figures_release(&again);
    free(f->program);
    f->program = NULL;
    release(&p);
}

#define HEAD "{\"schema\": \"tidemark.figures/1\", \"verdict\": \"\", \"empty\": false, "
#define POOL                                                                                       \
    "{\"name\": \"a\", \"counted\": true, \"allocations\": 1, \"frees\": 0, "                      \
    "\"live_allocations\": 1, \"live_bytes\": 8, \"permanent_allocations\": 0, "                   \
    "\"permanent_bytes\": 0, \"peak_bytes\": 8, \"total_bytes\": 8, "                              \
    "\"temporary_allocations\": 0}"
#define SITE(POOL_NUMBER, COUNT)                                                                   \
    "{\"pool\": " POOL_NUMBER ", \"function\": null, \"file\": null, \"line\": 0, \"image\": "     \
    "null, \"permanent\": 0, \"count\": " COUNT ", \"bytes\": 8, \"live_count\": 1, "              \
    "\"live_bytes\": 8, \"peak_bytes\": 8, \"at_peak_bytes\": 8, \"temporary\": 0, "               \
    "\"largest\": 8}"
#define DOCUMENT(POOLS, SITES)                                                                     \
    HEAD "\"pools\": [" POOLS "], \"sites\": [" SITES "], \"faults\": []}"

static void test_refused(void **state)
{
    static const struct {
        const char *text, *why; /* NULL: it is read */
    } cases[] = {
        {DOCUMENT(POOL, SITE("0", "1")), NULL},
        {DOCUMENT(POOL, SITE("0", "1e300")), NULL}, /* beyond 64 bits: as many as fit */
        {"{", "not valid JSON"},
        {"[]", "not the figures of a run"},
        {"{\"schema\": \"tidemark.report/1\"}", "not the figures of a run"},
        {HEAD "\"pools\": 1}", "pools is no list"},
        {HEAD "\"pools\": [1], \"sites\": []}", "pools[0].counted is no boolean"},
        {DOCUMENT(POOL, SITE("1", "1")), "sites[0].pool is no number of a pool"},
        {DOCUMENT(POOL, SITE("0", "-1")), "sites[0].count is no count"},
        {DOCUMENT(POOL, SITE("0", "\"1\"")), "sites[0].count is no count"},
        {DOCUMENT(POOL, SITE("0", "null")), "sites[0].count is no count"},
        {HEAD "\"pools\": [], \"sites\": []}", "faults is no list"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_figures f;
        struct err e = {0};
        int status = run_figures_read(&f, "x.json", view_of(cases[i].text), &e);
        assert_int_equal(status, cases[i].why ? -1 : 0);
        if (cases[i].why) {
            assert_int_equal(e.code, ERR_INPUT);
            assert_non_null(strstr(e.text, cases[i].why));
        } else {
            run_figures_release(&f);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_false_alarms), cmocka_unit_test(test_planted),
        cmocka_unit_test(test_budgets),      cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
