/* libtidetrace, through its public header: traces, allocations one by one, structs of callers of
 * other versions, damaged files, threads. */

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
#include <locale.h>
#include <pthread.h>

#include "test/unit/library_test.h"

/* ---- allocations one by one */

struct sums {
    uint64_t count, bytes, live, frees;
};

static void test_allocations(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_allocations *it;
    struct tidetrace_allocation batch[100];
    struct sums of[16] = {{0}};
    int64_t last[16] = {0};
    size_t count;
    (void)state;
    assert_int_equal(tidetrace_allocations_open(t, NULL, &it, &error), TIDETRACE_OK);
    tidetrace_close(t); /* the iterator keeps it */
    do {
        assert_int_equal(tidetrace_allocations_next(it, batch, sizeof *batch, 100, &count, &error),
                         TIDETRACE_OK);
        for (size_t i = 0; i < count; i++) {
            const struct tidetrace_allocation *a = &batch[i];
            assert_true(a->pool < 16 && a->time >= last[a->pool]);
            assert_true(a->free_time == -1 || a->free_time >= a->time);
            assert_int_equal(a->zone.size, 0);
            last[a->pool] = a->time;
            of[a->pool].count++;
            of[a->pool].bytes += a->size;
            of[a->pool].live += a->free_time == -1 ? a->size : 0;
            of[a->pool].frees += a->free_time != -1;
        }
    } while (count);
    t = open_trace(SAMPLE, 0);
    assert_true(tidetrace_pool_count(t) > 1);
    for (uint32_t i = 0; i < tidetrace_pool_count(t); i++) {
        struct tidetrace_pool pool = {.struct_size = sizeof pool};
        assert_int_equal(tidetrace_get_pool(t, i, &pool, &error), TIDETRACE_OK);
        assert_int_equal(pool.allocations, of[i].count);
        assert_int_equal(pool.total_bytes, of[i].bytes);
        assert_int_equal(pool.live_bytes, of[i].live);
        assert_int_equal(pool.frees, of[i].frees);
        assert_true(pool.name.size > 0);
    }
    tidetrace_allocations_close(it);
    tidetrace_close(t);
}

/* What each zone allocated is what the report by zone says. */
static void test_zones(void **state)
{
    struct tidetrace *t = open_trace(WITH_ZONES, TIDETRACE_OPEN_ZONES);
    struct tidetrace_report_options o = {.struct_size = sizeof o, .by = TIDETRACE_BY_ZONE};
    struct tidetrace_result *r;
    size_t named = 0;
    (void)state;
    assert_int_equal(tidetrace_report(t, &o, &r, &error), TIDETRACE_OK);
    for (uint64_t i = 0; i < tidetrace_result_rows(r); i++) {
        struct tidetrace_report_row row = {.struct_size = sizeof row};
        struct tidetrace_allocations *it;
        struct tidetrace_allocation a;
        char pool[100];
        struct tidetrace_selection s = {.struct_size = sizeof s, .pool = pool};
        uint64_t bytes = 0;
        size_t count;
        assert_int_equal(tidetrace_report_row(r, i, &row, &error), TIDETRACE_OK);
        snprintf(pool, sizeof pool, "%.*s", (int)row.pool.size, row.pool.data);
        assert_int_equal(tidetrace_allocations_open(t, &s, &it, &error), TIDETRACE_OK);
        while (tidetrace_allocations_next(it, &a, sizeof a, 1, &count, &error) == TIDETRACE_OK &&
               count) {
            bool none = a.zone.size == 0 && strncmp(row.name.data, "[no zone", 8) == 0;
            bool same = a.zone.size == row.name.size &&
                        memcmp(a.zone.data, row.name.data, a.zone.size) == 0;
            bytes += none || same ? a.size : 0;
            named += same;
        }
        assert_int_equal(bytes, row.figures.bytes);
        tidetrace_allocations_close(it);
    }
    assert_true(named > 0);
    tidetrace_result_free(r);
    tidetrace_close(t);
}

static void test_selection(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_selection s = {
        .struct_size = sizeof s, .flags = TIDETRACE_SELECT_SIZE, .size_min = 100, .size_max = 1000};
    struct tidetrace_report_options o = {.struct_size = sizeof o, .selection = &s};
    struct tidetrace_totals totals = {.struct_size = sizeof totals};
    struct tidetrace_allocation batch[64];
    struct tidetrace_allocations *it;
    struct tidetrace_result *r;
    uint64_t n = 0;
    size_t count;
    (void)state;
    assert_int_equal(tidetrace_allocations_open(t, &s, &it, &error), TIDETRACE_OK);
    while (tidetrace_allocations_next(it, batch, sizeof *batch, 64, &count, &error) == 0 && count) {
        for (size_t i = 0; i < count; i++)
            assert_true(batch[i].size >= 100 && batch[i].size <= 1000);
        n += count;
    }
    tidetrace_allocations_close(it);
    assert_int_equal(tidetrace_report(t, &o, &r, &error), TIDETRACE_OK);
    assert_int_equal(tidetrace_report_totals(r, &totals, &error), TIDETRACE_OK);
    assert_true(n > 10);
    assert_int_equal(totals.allocations, n);
    tidetrace_result_free(r);
    s.zone = "anything";
    assert_int_equal(tidetrace_report(t, &o, &r, &error), TIDETRACE_USAGE);
    assert_null(r);
    s.zone = NULL;
    s.match = "(";
    assert_int_equal(tidetrace_report(t, &o, &r, &error), TIDETRACE_USAGE);
    s.match = NULL;
    s.flags = 1u << 31;
    assert_int_equal(tidetrace_report(t, &o, &r, &error), TIDETRACE_USAGE);
    tidetrace_close(t);
}

static void test_callstacks(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    uint32_t stacks = tidetrace_callstack_count(t);
    size_t inlined = 0;
    (void)state;
    assert_true(stacks > 10);
    for (uint32_t id = 0; id <= stacks; id++) {
        struct tidetrace_frame some[2];
        struct tidetrace_frame all[300];
        size_t n, same;
        assert_int_equal(tidetrace_get_callstack(t, id, all, sizeof *all, 300, &n, &error), 0);
        assert_int_equal(tidetrace_get_callstack(t, id, some, sizeof *some, 2, &same, &error), 0);
        assert_true(n == same && n <= 300 && (n == 0) == (id == 0));
        for (size_t i = 0; i < n; i++) {
            struct tidetrace_frame f = {.struct_size = sizeof f};
            assert_int_equal(tidetrace_get_frame(t, all[i].number, all[i].inlined, &f, &error), 0);
            assert_memory_equal(&f, &all[i], sizeof f);
            if (i < 2)
                assert_memory_equal(&some[i], &all[i], sizeof f);
            assert_true(all[i].inlined < tidetrace_frame_depth(t, all[i].number));
            inlined += (all[i].flags & TIDETRACE_FRAME_INLINE) != 0;
        }
    }
    assert_true(inlined > 0);
    size_t n;
    assert_int_equal(tidetrace_get_callstack(t, stacks + 1, NULL, 0, 0, &n, &error),
                     TIDETRACE_USAGE);
    assert_int_equal(tidetrace_frame_depth(t, tidetrace_frame_count(t)), 0);
    tidetrace_close(t);
}

static void test_info(void **state)
{
    struct tidetrace *t = open_trace(WITH_ZONES, TIDETRACE_OPEN_ZONES);
    struct tidetrace_info info = {.struct_size = sizeof info};
    (void)state;
    assert_int_equal(tidetrace_get_info(t, &info, &error), TIDETRACE_OK);
    assert_int_equal(info.file_version, 14 << 8);
    assert_true(info.program.size > 0 && info.duration > 0 && info.zones > 0);
    assert_true(info.flags & TIDETRACE_ZONES);
    assert_int_equal(info.threads, tidetrace_thread_count(t));
    assert_true(tidetrace_memory(t) > 100000);
    for (uint32_t i = 0; i < info.threads; i++) {
        struct tidetrace_thread thread = {.struct_size = sizeof thread};
        assert_int_equal(tidetrace_get_thread(t, i, &thread, &error), TIDETRACE_OK);
    }
    struct tidetrace_result *r;
    assert_int_equal(tidetrace_overview(t, &r, &error), TIDETRACE_OK);
    json_t *doc = json_of(r, 0, UINT64_MAX);
    assert_string_equal(json_string_value(json_object_get(doc, "schema")), "tidemark.info/1");
    json_decref(doc);
    tidetrace_result_free(r);
    tidetrace_close(t);
    assert_int_equal(tidetrace_version() / 1000, TIDETRACE_MAJOR);
}

static void test_peaks(void **state)
{
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_peak peaks[50];
    size_t n;
    (void)state;
    assert_int_equal(tidetrace_peaks(t, NULL, peaks, sizeof *peaks, 50, &n, &error), TIDETRACE_OK);
    assert_true(n > 0 && n < 50);
    for (size_t i = 0; i < n; i++) {
        struct tidetrace_selection s = {
            .struct_size = sizeof s, .flags = TIDETRACE_SELECT_AT, .at = peaks[i].time};
        struct tidetrace_report_options o = {.struct_size = sizeof o, .selection = &s};
        struct tidetrace_totals totals = {.struct_size = sizeof totals};
        struct tidetrace_result *r;
        assert_true(i == 0 || peaks[i].bytes <= peaks[i - 1].bytes);
        assert_int_equal(tidetrace_report(t, &o, &r, &error), TIDETRACE_OK);
        assert_int_equal(tidetrace_report_totals(r, &totals, &error), TIDETRACE_OK);
        assert_int_equal(totals.live_bytes, peaks[i].bytes);
        tidetrace_result_free(r);
    }
    tidetrace_close(t);
}

/* ---- sizes of structs: older and newer callers */

static void test_sizes(void **state)
{
    struct {
        struct tidetrace_report_options o;
        uint64_t newer;
    } options = {.o = {.struct_size = sizeof options}};
    struct {
        struct tidetrace_pool pool;
        uint64_t newer;
    } pool = {.pool = {.struct_size = sizeof pool}, .newer = 7};
    struct tidetrace_pool small = {
        .struct_size = offsetof(struct tidetrace_pool, key), .key = 77, .frees = 78};
    struct tidetrace *t = open_trace(SAMPLE, 0);
    struct tidetrace_result *r;
    (void)state;
    assert_int_equal(tidetrace_report(t, &options.o, &r, &error), TIDETRACE_OK);
    tidetrace_result_free(r);
    options.newer = 1;
    assert_int_equal(tidetrace_report(t, &options.o, &r, &error), TIDETRACE_USAGE);
    assert_non_null(strstr(error.text, "too old"));
    options.o.struct_size = 0;
    assert_int_equal(tidetrace_report(t, &options.o, &r, &error), TIDETRACE_USAGE);
    assert_int_equal(tidetrace_get_pool(t, 0, &pool.pool, &error), TIDETRACE_OK);
    assert_int_equal(pool.newer, 0);
    assert_int_equal(pool.pool.struct_size, sizeof pool);
    assert_int_equal(tidetrace_get_pool(t, 0, &small, &error), TIDETRACE_OK);
    assert_true(small.name.size > 0 && small.key == 77 && small.frees == 78);
    small.struct_size = 0;
    assert_int_equal(tidetrace_get_pool(t, 0, &small, &error), TIDETRACE_USAGE);
    assert_int_equal(tidetrace_get_pool(t, UINT32_MAX, &small, &error), TIDETRACE_USAGE);
    tidetrace_close(t);
}

/* What programs were compiled with: it may become more, at the end, and nothing moves. */
static void test_layout(void **state)
{
    static const struct {
        size_t now, first;
    } sizes[] = {
        {sizeof(struct tidetrace_open_options), 32},
        {sizeof(struct tidetrace_info), 208},
        {sizeof(struct tidetrace_pool), 88},
        {sizeof(struct tidetrace_thread), 40},
        {sizeof(struct tidetrace_frame), 80},
        {sizeof(struct tidetrace_selection), 96},
        {sizeof(struct tidetrace_allocation), 80},
        {sizeof(struct tidetrace_report_options), 56},
        {sizeof(struct tidetrace_report_row), 168},
        {sizeof(struct tidetrace_totals), 112},
        {sizeof(struct tidetrace_peak), 32},
        {sizeof(struct tidetrace_leak_options), 40},
        {sizeof(struct tidetrace_leak_row), 144},
        {sizeof(struct tidetrace_tree_options), 56},
        {sizeof(struct tidetrace_tree_row), 200},
        {sizeof(struct tidetrace_find_options), 56},
        {sizeof(struct tidetrace_diff_options), 56},
        {sizeof(struct tidetrace_diff_row), 200},
        {sizeof(struct tidetrace_verify_options), 72},
        {sizeof(struct tidetrace_site_options), 32},
        {sizeof(struct tidetrace_growth_options), 48},
        {sizeof(struct tidetrace_growth_row), 128},
        {sizeof(struct tidetrace_pattern_row), 224},
        {sizeof(struct tidetrace_class_row), 80},
        {sizeof(struct tidetrace_fault_row), 112},
        {sizeof(struct tidetrace_fault_case), 120},
        {sizeof(struct tidetrace_related_options), 24},
        {sizeof(struct tidetrace_related_head), 64},
        {sizeof(struct tidetrace_related_row), 136},
        {sizeof(struct tidetrace_timeline_options), 40},
        {sizeof(struct tidetrace_bucket_row), 120},
        {sizeof(struct tidetrace_map_options), 32},
        {sizeof(struct tidetrace_map_row), 104},
        {sizeof(struct tidetrace_check), 48},
    };
    (void)state;
    if (sizeof(void *) != 8)
        skip();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].now < sizes[i].first)
            fail_msg("struct %zu has %zu bytes", i, sizes[i].now);
    }
    assert_int_equal(sizeof(struct tidetrace_error), 516);
    assert_int_equal(sizeof(struct tidetrace_text), 16);
    assert_int_equal(sizeof(struct tidetrace_figures), 56);
    assert_int_equal(offsetof(struct tidetrace_info, context_switches), 200);
    assert_int_equal(offsetof(struct tidetrace_allocation, zone), 64);
    assert_int_equal(offsetof(struct tidetrace_selection, frame), 88);
    assert_int_equal(offsetof(struct tidetrace_report_row, type), 152);
    assert_int_equal(offsetof(struct tidetrace_tree_row, exclusive), 144);
    assert_int_equal(offsetof(struct tidetrace_verify_options, expect_count), 64);
}

/* ---- files that are no traces */

static void test_damaged(void **state)
{
    static uint8_t bytes[1 << 20];
    char path[] = "/tmp/tidetrace-test-XXXXXX";
    FILE *in = fopen(SAMPLE, "rb");
    (void)state;
    assert_non_null(in);
    size_t size = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t part = 0; part < 16; part++) {
        struct tidetrace *t = (struct tidetrace *)&error;
        size_t n = size * part / 16;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, bytes, n, 0), (ssize_t)n);
        assert_true(tidetrace_open(path, NULL, &t, &error) < 0);
        assert_null(t);
        assert_int_equal(error.code, TIDETRACE_INPUT);
        assert_non_null(strstr(error.text, path));
    }
    close(fd);
    unlink(path);
    struct tidetrace *t;
    assert_int_equal(tidetrace_open(path, NULL, &t, &error), TIDETRACE_INPUT);
    assert_int_equal(tidetrace_open_fd(-1, "nothing", NULL, &t, &error), TIDETRACE_INPUT);
    assert_int_equal(tidetrace_open(SAMPLE, NULL, &t, &error), TIDETRACE_OK);
    assert_true(error.code == TIDETRACE_OK && error.text[0] == 0);
    tidetrace_close(t);
    tidetrace_close(NULL);
}

/* ---- threads, locales */

static void *use_in_thread(void *text)
{
    struct tidetrace_error e;
    struct tidetrace *t;
    struct tidetrace_result *r;
    size_t size;
    char **json = text;
    *json = NULL;
    if (tidetrace_open(SAMPLE, NULL, &t, &e) != TIDETRACE_OK)
        return NULL;
    if (tidetrace_report(t, NULL, &r, &e) == TIDETRACE_OK) {
        (void)tidetrace_result_json(r, 0, UINT64_MAX, json, &size, &e);
        tidetrace_result_free(r);
    }
    tidetrace_close(t);
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    char *json[4];
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_in_thread, &json[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_non_null(json[i]);
        assert_string_equal(json[i], json[0]);
    }
    for (size_t i = 0; i < 4; i++)
        tidetrace_free(json[i]);
}

static void test_locale(void **state)
{
    locale_t mine = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    (void)state;
    if (!mine)
        mine = duplocale(LC_GLOBAL_LOCALE);
    locale_t before = uselocale(mine);
    struct tidetrace *t = open_trace(SAMPLE, 0);
    assert_true(uselocale((locale_t)0) == mine);
    tidetrace_close(t);
    assert_int_equal(tidetrace_open("/nowhere", NULL, &t, &error), TIDETRACE_INPUT);
    assert_true(uselocale((locale_t)0) == mine);
    uselocale(before);
    freelocale(mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_zones),
        cmocka_unit_test(test_selection),   cmocka_unit_test(test_callstacks),
        cmocka_unit_test(test_info),        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_layout),
        cmocka_unit_test(test_damaged),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
