/* Results of libtidetrace: their pages, and rows as structs against the JSON form. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/unit/library_test.h"

/* ---- all kinds of results */

struct kind {
    const char *name;
    const char *list; /* of rows in its JSON form */
    int (*make)(struct tidetrace *t, struct tidetrace_result **r);
};

static int make_sites(struct tidetrace *t, struct tidetrace_result **r)
{
    return tidetrace_report(t, NULL, r, &error);
}

static int make_groups(struct tidetrace *t, struct tidetrace_result **r)
{
    struct tidetrace_report_options o = {.struct_size = sizeof o, .by = TIDETRACE_BY_THREAD};
    return tidetrace_report(t, &o, r, &error);
}

static int make_leaks(struct tidetrace *t, struct tidetrace_result **r)
{
    return tidetrace_leaks(t, NULL, r, &error);
}

static int make_growth(struct tidetrace *t, struct tidetrace_result **r)
{
    struct tidetrace_growth_options o = {.struct_size = sizeof o, .from = 0, .to = INT64_MAX};
    return tidetrace_growth(t, &o, r, &error);
}

static int make_patterns(struct tidetrace *t, struct tidetrace_result **r)
{
    return tidetrace_patterns(t, NULL, r, &error);
}

static int make_tree(struct tidetrace *t, struct tidetrace_result **r)
{
    struct tidetrace_tree_options o = {
        .struct_size = sizeof o, .depth = 6, .min_share = 0.01, .flags = TIDETRACE_TREE_BOTTOM_UP};
    return tidetrace_tree(t, &o, r, &error);
}

static int make_found(struct tidetrace *t, struct tidetrace_result **r)
{
    struct tidetrace_find_options o = {.struct_size = sizeof o, .high = UINT64_MAX, .limit = 40};
    return tidetrace_find(t, &o, r, &error);
}

static int make_diff(struct tidetrace *t, struct tidetrace_result **r)
{
    struct tidetrace *older = open_trace(OLDER, 0);
    static const char *const fail_if[] = {"peak>+1000%", "count>0"};
    struct tidetrace_diff_options o = {
        .struct_size = sizeof o, .fail_if = fail_if, .fail_if_count = 2};
    struct tidetrace_check check = {.struct_size = sizeof check};
    int status = tidetrace_diff(older, t, &o, r, &error);
    assert_int_equal(tidetrace_diff_check(*r, 0, &check, &error), TIDETRACE_OK);
    assert_true(check.holds && check.detail.size > 0);
    assert_int_equal(tidetrace_diff_check(*r, 1, &check, &error), TIDETRACE_OK);
    assert_false(check.holds);
    assert_int_equal(tidetrace_diff_check(*r, 2, &check, &error), TIDETRACE_USAGE);
    tidetrace_close(older);
    return status;
}

static int make_checks(struct tidetrace *t, struct tidetrace_result **r)
{
    static const char *const expect[] = {"peak<1G", "leaked=0"};
    struct tidetrace_verify_options o = {.struct_size = sizeof o,
                                         .flags = TIDETRACE_VERIFY_CALLSTACKS,
                                         .expect = expect,
                                         .expect_count = 2};
    return tidetrace_verify(t, &o, r, &error);
}

static const struct kind kinds[] = {
    {"sites", "sites", make_sites},       {"groups", "groups", make_groups},
    {"leaks", "leaks", make_leaks},       {"tree", "nodes", make_tree},
    {"find", "allocations", make_found},  {"diff", "rows", make_diff},
    {"verify", "checks", make_checks},    {"growth", "sites", make_growth},
    {"patterns", "sites", make_patterns},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static struct tidetrace_result *make(const struct kind *k, struct tidetrace *t)
{
    struct tidetrace_result *r;
    if (k->make(t, &r) != TIDETRACE_OK)
        fail_msg("%s: %s", k->name, error.text);
    return r;
}

/* Pages of any length hold together what the whole holds, in its order. */
static void check_pages(const struct kind *k, struct tidetrace_result *r, const json_t *rows,
                        uint64_t length)
{
    size_t at = 0;
    for (uint64_t first = 0; first < tidetrace_result_rows(r); first += length) {
        json_t *page = json_of(r, first, length);
        const json_t *part = json_object_get(page, k->list);
        size_t i;
        json_t *row;
        json_array_foreach(part, i, row)
        {
            if (!json_equal(row, json_array_get(rows, at++)))
                fail_msg("%s: row %zu of a page of %d", k->name, at - 1, (int)length);
        }
        json_decref(page);
    }
    assert_int_equal(at, json_array_size(rows));
}

static void test_pages(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct tidetrace_result *r = make(&kinds[i], t);
        json_t *whole = json_of(r, 0, UINT64_MAX);
        const json_t *rows = json_object_get(whole, kinds[i].list);
        if (!json_is_array(rows) || json_array_size(rows) != tidetrace_result_rows(r))
            fail_msg("%s: %zu rows of %d", kinds[i].name, json_array_size(rows),
                     (int)tidetrace_result_rows(r));
        assert_true(json_array_size(rows) > 1);
        check_pages(&kinds[i], r, rows, 1);
        check_pages(&kinds[i], r, rows, 7);
        json_t *beyond = json_of(r, UINT64_MAX, 5);
        assert_int_equal(json_array_size(json_object_get(beyond, kinds[i].list)), 0);
        json_decref(beyond);
        json_decref(whole);
        tidetrace_result_free(r);
    }
    tidetrace_close(t);
}

/* ---- rows as structs are those of the JSON form */

static void check_figures(const struct tidetrace_figures *f, const json_t *v)
{
    if (json_is_null(v)) {
        assert_int_equal(f->count, 0);
        return;
    }
    assert_int_equal(f->count, number(v, "count"));
    assert_int_equal(f->bytes, number(v, "bytes"));
    assert_int_equal(f->live_count, number(v, "live_count"));
    assert_int_equal(f->live_bytes, number(v, "live_bytes"));
    assert_int_equal(f->peak_bytes, number(v, "peak_bytes"));
    assert_int_equal(f->at_peak_bytes, number(v, "at_peak_bytes"));
    assert_int_equal(f->temporary, number(v, "temporary"));
}

static void check_report_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_report_row row = {.struct_size = sizeof row};
    assert_int_equal(tidetrace_report_row(r, i, &row, &error), TIDETRACE_OK);
    assert_true(is_text(row.pool, json_object_get(v, "pool")));
    assert_true(is_text(row.function, json_object_get(v, "function")));
    assert_true(is_text(row.file, json_object_get(v, "file")));
    assert_true(row.name.size > 0);
    check_figures(&row.figures, v);
}

static void check_leak_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_leak_row row = {.struct_size = sizeof row};
    assert_int_equal(tidetrace_leak_row(r, i, &row, &error), TIDETRACE_OK);
    assert_true(is_text(row.function, json_object_get(v, "function")));
    assert_int_equal(row.count, number(v, "live_count"));
    assert_int_equal(row.bytes, number(v, "live_bytes"));
    static const char *const words[] = {NULL, "low", "medium", "high"};
    const char *confidence = json_string_value(json_object_get(v, "confidence"));
    assert_in_range(row.confidence, TIDETRACE_LEAK_UNKNOWN, TIDETRACE_LEAK_HIGH);
    assert_int_equal(row.confidence == TIDETRACE_LEAK_UNKNOWN, !confidence);
    if (confidence)
        assert_string_equal(confidence, words[row.confidence]);
}

static void check_growth_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_growth_row row = {.struct_size = sizeof row};
    assert_int_equal(tidetrace_growth_row(r, i, &row, &error), TIDETRACE_OK);
    assert_true(is_text(row.pool, json_object_get(v, "pool")));
    assert_true(is_text(row.function, json_object_get(v, "function")));
    assert_int_equal(row.count_before, number(v, "count_before"));
    assert_int_equal(row.bytes_after, number(v, "bytes_after"));
    assert_int_equal(row.bytes_after - row.bytes_before, number(v, "growth"));
    assert_int_equal(row.allocations - row.frees, row.count_after - row.count_before);
}

static void check_pattern_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_pattern_row row = {.struct_size = sizeof row};
    assert_int_equal(tidetrace_pattern_row(r, i, &row, &error), TIDETRACE_OK);
    assert_true(is_text(row.function, json_object_get(v, "function")));
    assert_int_equal(row.bytes, number(v, "bytes"));
    assert_int_equal(row.peak_bytes, number(v, "peak_bytes"));
    assert_int_equal(row.copied_bytes, number(json_object_get(v, "growth"), "copied_bytes"));
    assert_int_equal(row.longest_run, number(json_object_get(v, "temporary"), "longest_run"));
    assert_int_equal(row.glibc_peak_bytes, number(json_object_get(v, "glibc_waste"), "peak_bytes"));
    assert_int_equal(!!(row.flags & TIDETRACE_PATTERN_GROWS),
                     json_is_true(json_object_get(json_object_get(v, "growth"), "told")));
    assert_int_equal(!!(row.flags & TIDETRACE_PATTERN_NEVER_GREW),
                     json_is_true(json_object_get(v, "never_grown")));
}

static void check_tree_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_tree_row row = {.struct_size = sizeof row};
    assert_int_equal(tidetrace_tree_row(r, i, &row, &error), TIDETRACE_OK);
    assert_int_equal(row.id, number(v, "id"));
    assert_int_equal(row.depth, number(v, "depth"));
    assert_true(is_text(row.name, json_object_get(v, "name")));
    assert_int_equal(row.inclusive[TIDETRACE_METRIC_BYTES],
                     number(json_object_get(v, "inclusive"), "bytes"));
    assert_int_equal(row.exclusive[TIDETRACE_METRIC_TEMPORARY],
                     number(json_object_get(v, "exclusive"), "temporary"));
}

static void check_found_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_allocation row = {.struct_size = sizeof row};
    uint32_t when;
    assert_int_equal(tidetrace_found_row(r, i, &when, &row, &error), TIDETRACE_OK);
    assert_int_equal(when, TIDETRACE_FOUND);
    assert_int_equal(row.size, number(v, "size"));
    assert_int_equal(row.time, number(v, "time_ns"));
}

static void check_diff_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_diff_row row = {.struct_size = sizeof row};
    assert_int_equal(tidetrace_diff_row(r, i, &row, &error), TIDETRACE_OK);
    assert_true(is_text(row.pool, json_object_get(v, "pool")));
    assert_true(is_text(row.function, json_object_get(v, "function")));
    check_figures(&row.base, json_object_get(v, "base"));
    check_figures(&row.now, json_object_get(v, "now"));
}

static void check_check_row(struct tidetrace_result *r, uint64_t i, const json_t *v)
{
    struct tidetrace_check row = {.struct_size = sizeof row};
    assert_int_equal(tidetrace_check_row(r, i, &row, &error), TIDETRACE_OK);
    assert_true(is_text(row.name, json_object_get(v, "name")));
    assert_true(is_text(row.detail, json_object_get(v, "detail")));
    assert_int_equal(row.holds, json_is_true(json_object_get(v, "holds")));
}

static void test_rows(void **state)
{
    static void (*const checks[KINDS])(struct tidetrace_result *, uint64_t, const json_t *) = {
        check_report_row, check_report_row, check_leak_row,   check_tree_row,   check_found_row,
        check_diff_row,   check_check_row,  check_growth_row, check_pattern_row};
    struct tidetrace *t = open_trace(SAMPLE, 0);
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        struct tidetrace_result *r = make(&kinds[k], t);
        json_t *whole = json_of(r, 0, UINT64_MAX);
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(whole, kinds[k].list), i, row)
        {
            checks[k](r, i, row);
        }
        json_decref(whole);
        tidetrace_result_free(r);
    }
    tidetrace_close(t);
}

/* A row that is not there, or of another kind, is an error; what was closed lives on in results. */
static void test_wrong_rows(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_result *r = make(&kinds[0], t);
    struct tidetrace_report_row row = {.struct_size = sizeof row};
    struct tidetrace_leak_row leak = {.struct_size = sizeof leak};
    struct tidetrace_totals totals = {.struct_size = sizeof totals};
    (void)state;
    tidetrace_close(t);
    uint64_t n = tidetrace_result_rows(r);
    assert_int_equal(tidetrace_report_row(r, n - 1, &row, &error), TIDETRACE_OK);
    assert_int_equal(tidetrace_report_row(r, n, &row, &error), TIDETRACE_USAGE);
    assert_non_null(strstr(error.text, "there is no row"));
    assert_int_equal(tidetrace_leak_row(r, 0, &leak, NULL), TIDETRACE_USAGE);
    assert_int_equal(tidetrace_report_totals(r, &totals, &error), TIDETRACE_OK);
    assert_true(totals.allocations > 0 && totals.verdict.size > 0);
    tidetrace_result_free(r);
    tidetrace_result_free(NULL);
}

/* ---- results whose JSON is always whole */

static void test_histograms(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_result *r;
    struct tidetrace_class_row row = {.struct_size = sizeof row};
    uint64_t counts[3] = {0};
    (void)state;
    assert_int_equal(tidetrace_histograms(t, NULL, &r, &error), TIDETRACE_OK);
    json_t *doc = json_of(r, 1, 1);
    const json_t *sizes = json_object_get(doc, "sizes");
    for (uint64_t i = 0; i < tidetrace_result_rows(r); i++) {
        assert_int_equal(tidetrace_class_row(r, i, &row, &error), TIDETRACE_OK);
        assert_true(row.from < row.to && row.kind < 3);
        counts[row.kind] += row.count;
        if (i < json_array_size(sizes)) {
            assert_int_equal(row.kind, TIDETRACE_CLASS_SIZE);
            assert_int_equal(row.from, number(json_array_get(sizes, i), "from"));
            assert_int_equal(row.live_bytes, number(json_array_get(sizes, i), "live_bytes"));
        }
    }
    assert_int_equal(counts[0], counts[1] + counts[2]);
    assert_int_equal(counts[2], number(json_object_get(doc, "live"), "count"));
    assert_int_equal(tidetrace_class_row(r, tidetrace_result_rows(r), &row, NULL), TIDETRACE_USAGE);
    json_decref(doc);
    tidetrace_result_free(r);
    tidetrace_close(t);
}

static void test_timeline(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_result *r;
    struct tidetrace_timeline_options o = {.struct_size = sizeof o, .buckets = 7};
    struct tidetrace_bucket_row row = {.struct_size = sizeof row};
    struct tidetrace_selection range = {
        .struct_size = sizeof range, .flags = TIDETRACE_SELECT_RANGE, .end = 5};
    (void)state;
    assert_int_equal(tidetrace_timeline(t, &o, &r, &error), TIDETRACE_OK);
    json_t *doc = json_of(r, 0, 1);
    const json_t *pools = json_object_get(doc, "pools");
    assert_int_equal(tidetrace_result_rows(r), 7 * json_array_size(pools));
    for (uint64_t i = 0; i < tidetrace_result_rows(r); i++) {
        const json_t *pool = json_array_get(pools, i / 7);
        const json_t *v = json_array_get(json_object_get(pool, "buckets"), i % 7);
        assert_int_equal(tidetrace_bucket_row(r, i, &row, &error), TIDETRACE_OK);
        assert_true(is_text(row.pool, json_object_get(pool, "name")));
        assert_int_equal(row.begin, number(v, "begin_ns"));
        assert_int_equal(row.end, number(v, "end_ns"));
        assert_int_equal(row.high_bytes, number(v, "high_bytes"));
        assert_int_equal(row.last_live, number(v, "last_live"));
        assert_int_equal(row.freed_bytes, number(v, "freed_bytes"));
    }
    assert_int_equal(tidetrace_bucket_row(r, UINT64_MAX, &row, &error), TIDETRACE_USAGE);
    json_decref(doc);
    tidetrace_result_free(r);
    o.flags = TIDETRACE_TIMELINE_TOGETHER | TIDETRACE_TIMELINE_WINDOW;
    o.begin = 5;
    assert_int_equal(tidetrace_timeline(t, &o, &r, &error), TIDETRACE_USAGE);
    o.end = INT64_MAX;
    assert_int_equal(tidetrace_timeline(t, &o, &r, &error), TIDETRACE_OK);
    assert_int_equal(tidetrace_result_rows(r), 7);
    tidetrace_result_free(r);
    o.selection = &range;
    assert_int_equal(tidetrace_timeline(t, &o, &r, &error), TIDETRACE_USAGE);
    tidetrace_close(t);
}

/* ---- plots and messages: rows of two lists */

static void check_real(double value, const json_t *v, const char *key)
{
    const json_t *told = json_object_get(v, key);
    if (!json_is_null(told))
        assert_true(value <= json_real_value(told) && value >= json_real_value(told));
}

static void check_related_row(struct tidetrace_result *r, uint64_t i, uint32_t kind,
                              const json_t *v)
{
    struct tidetrace_related_row row = {.struct_size = sizeof row};
    bool is_plot = kind == TIDETRACE_RELATED_PLOT;
    assert_int_equal(tidetrace_related_row(r, i, &row, &error), TIDETRACE_OK);
    assert_int_equal(row.kind, kind);
    assert_true(is_text(row.name, json_object_get(v, is_plot ? "plot" : "message")));
    assert_true(is_text(row.pool, json_object_get(v, "pool")));
    assert_int_equal(row.related, json_is_true(json_object_get(v, "related")));
    assert_int_equal(row.count, number(v, is_plot ? "points" : "count"));
    assert_int_equal(row.used, number(v, is_plot ? "steps" : "used"));
    assert_int_equal(is_plot ? row.moved : row.steep, number(v, is_plot ? "moved" : "steep"));
    assert_int_equal(row.p < 0, json_is_null(json_object_get(v, "p")));
    check_real(row.p, v, "p");
    check_real(row.p_adjusted, v, "p_adjusted");
    if (is_plot) {
        check_real(row.spearman, v, "spearman");
        check_real(row.pearson, v, "pearson");
    } else {
        check_real(row.expected, v, "expected");
        check_real(row.rise, v, "rise_bytes");
        check_real(row.usual_rise, v, "usual_rise_bytes");
    }
}

/* A page begins among the plots and may end among the messages. */
static void check_related_pages(struct tidetrace_result *r, const json_t *whole, uint64_t length)
{
    static const char *const lists[] = {"plots", "messages"};
    size_t at[2] = {0, 0};
    for (uint64_t first = 0; first < tidetrace_result_rows(r); first += length) {
        json_t *page = json_of(r, first, length);
        size_t n = 0;
        for (size_t k = 0; k < 2; k++) {
            size_t i;
            json_t *row;
            json_array_foreach(json_object_get(page, lists[k]), i, row)
            {
                assert_true(
                    json_equal(row, json_array_get(json_object_get(whole, lists[k]), at[k]++)));
            }
            n += i;
        }
        assert_true(n == length || first + n == tidetrace_result_rows(r));
        json_decref(page);
    }
    assert_int_equal(at[0] + at[1], tidetrace_result_rows(r));
}

static void check_related_rows(struct tidetrace_result *r)
{
    struct tidetrace_related_head head = {.struct_size = sizeof head};
    json_t *whole = json_of(r, 0, UINT64_MAX);
    const json_t *plots = json_object_get(whole, "plots");
    const json_t *messages = json_object_get(whole, "messages");
    size_t i;
    json_t *row;
    assert_int_equal(tidetrace_related_head(r, &head, &error), TIDETRACE_OK);
    assert_int_equal(head.plots, json_array_size(plots));
    assert_int_equal(head.messages, json_array_size(messages));
    assert_int_equal(head.plots + head.messages, tidetrace_result_rows(r));
    assert_true(head.plots > 1 && head.messages > 1);
    assert_int_equal(head.begin, number(whole, "begin_ns"));
    assert_int_equal(head.end, number(whole, "end_ns"));
    assert_int_equal(head.window, number(whole, "window_ns"));
    assert_int_equal(head.steps, number(whole, "steps"));
    assert_int_equal(head.cells, number(whole, "cells"));
    check_real(head.threshold, whole, "threshold");
    json_array_foreach(plots, i, row)
    {
        check_related_row(r, i, TIDETRACE_RELATED_PLOT, row);
    }
    json_array_foreach(messages, i, row)
    {
        check_related_row(r, head.plots + i, TIDETRACE_RELATED_MESSAGE, row);
    }
    check_related_pages(r, whole, 1);
    check_related_pages(r, whole, 3);
    check_related_pages(r, whole, head.plots);
    json_t *beyond = json_of(r, UINT64_MAX, 5);
    assert_int_equal(json_array_size(json_object_get(beyond, "messages")), 0);
    json_decref(beyond);
    json_decref(whole);
}

static void test_related(void **state)
{
    struct tidetrace *t = open_trace(WITH_ZONES, TIDETRACE_OPEN_PLOTS);
    struct tidetrace_related_options o = {.struct_size = sizeof o, .window = 1000000};
    struct tidetrace_related_row row = {.struct_size = sizeof row};
    struct tidetrace_info info = {.struct_size = sizeof info};
    struct tidetrace_result *r, *again;
    (void)state;
    assert_int_equal(tidetrace_get_info(t, &info, &error), TIDETRACE_OK);
    assert_int_equal(info.flags & (TIDETRACE_PLOTS | TIDETRACE_ZONES), TIDETRACE_PLOTS);
    assert_int_equal(tidetrace_related(t, NULL, &r, &error), TIDETRACE_OK);
    assert_int_equal(tidetrace_related(t, &o, &again, &error), TIDETRACE_OK);
    tidetrace_close(t);
    check_related_rows(r);
    check_related_rows(again);
    assert_int_equal(tidetrace_related_row(r, tidetrace_result_rows(r), &row, NULL),
                     TIDETRACE_USAGE);
    tidetrace_result_free(r);
    tidetrace_result_free(again);
}

/* Another kind of result, a trace without plots, a window before the message. */
static void test_related_refused(void **state)
{
    struct tidetrace_related_options o = {.struct_size = sizeof o, .window = -1};
    struct tidetrace_related_head head = {.struct_size = sizeof head};
    struct tidetrace_related_row row = {.struct_size = sizeof row};
    struct tidetrace *without = open_trace(WITH_ZONES, TIDETRACE_OPEN_ZONES);
    struct tidetrace *t = open_trace(WITH_ZONES, TIDETRACE_OPEN_ZONES | TIDETRACE_OPEN_PLOTS);
    struct tidetrace_result *r;
    (void)state;
    assert_true(tidetrace_memory(t) > tidetrace_memory(without));
    assert_int_equal(tidetrace_related(without, NULL, &r, &error), TIDETRACE_USAGE);
    assert_non_null(strstr(error.text, "TIDETRACE_OPEN_PLOTS"));
    assert_null(r);
    assert_int_equal(tidetrace_related(t, &o, &r, &error), TIDETRACE_USAGE);
    assert_non_null(strstr(error.text, "window"));
    struct tidetrace_selection nowhere = {.struct_size = sizeof nowhere, .pool = "no such pool"};
    o = (struct tidetrace_related_options){.struct_size = sizeof o, .selection = &nowhere};
    assert_int_equal(tidetrace_related(t, &o, &r, &error), TIDETRACE_USAGE);
    assert_int_equal(tidetrace_report(t, NULL, &r, &error), TIDETRACE_OK);
    assert_int_equal(tidetrace_related_head(r, &head, &error), TIDETRACE_USAGE);
    assert_int_equal(tidetrace_related_row(r, 0, &row, &error), TIDETRACE_USAGE);
    tidetrace_result_free(r);
    tidetrace_close(without);
    tidetrace_close(t);
}

static void test_map(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_result *r;
    struct tidetrace_map_options o = {.struct_size = sizeof o, .samples = 3, .columns = 8};
    struct tidetrace_map_row row = {.struct_size = sizeof row};
    (void)state;
    assert_int_equal(tidetrace_map(t, &o, &r, &error), TIDETRACE_OK);
    json_t *doc = json_of(r, 0, UINT64_MAX);
    const json_t *pools = json_object_get(doc, "pools");
    assert_int_equal(tidetrace_result_rows(r), 3 * json_array_size(pools));
    for (uint64_t i = 0; i < tidetrace_result_rows(r); i++) {
        const json_t *pool = json_array_get(pools, i / 3);
        const json_t *v = json_array_get(json_object_get(pool, "samples"), i % 3);
        assert_int_equal(tidetrace_map_row(r, i, &row, &error), TIDETRACE_OK);
        assert_true(is_text(row.pool, json_object_get(pool, "name")));
        assert_int_equal(row.time, number(v, "time_ns"));
        assert_int_equal(row.bytes, number(v, "bytes"));
        assert_int_equal(row.page_bytes, number(v, "page_bytes"));
        assert_int_equal(row.largest_hole_bytes, number(v, "largest_hole_bytes"));
    }
    json_decref(doc);
    tidetrace_result_free(r);
    o.columns = 9;
    assert_int_equal(tidetrace_map(t, &o, &r, &error), TIDETRACE_USAGE);
    tidetrace_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),           cmocka_unit_test(test_rows),
        cmocka_unit_test(test_wrong_rows),      cmocka_unit_test(test_histograms),
        cmocka_unit_test(test_timeline),        cmocka_unit_test(test_related),
        cmocka_unit_test(test_related_refused), cmocka_unit_test(test_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
