/* Reports of a trace with hostile names: text for terminals, JSON, CSV; verify and info output. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "report/overview_report.h"
#include "report/report.h"
#include "report/verify_report.h"
#include "test/unit/analysis_fixture.h"

#define EVIL "evil\x1b]0;x\x07,\"quoted\"\r\n\xff\xe2\x80\xae"

static void fill(struct fixture *f)
{
    fixture_init(f);
    f->trace.facts.file_version = FILE_VERSION(0, 12, 2);
    f->trace.facts.program = fixture_text(f, "prog\xff");
    f->trace.facts.host_info = fixture_text(f, "OS: x\x1b[2J\nCPU: y\n");
    f->trace.facts.capture_time = 1785838353;
    uint32_t pool = fixture_pool(f, 0x100, EVIL);
    uint32_t evil = fixture_stack(f, 0x10, EVIL "(int)", "/src/" EVIL ".c", 11);
    uint32_t plain = fixture_stack(f, 0x11, "plain(int)", "/src/plain.c", 12);
    uint32_t unknown = fixture_stack(f, 0x12, "[unknown]", "[unknown]", 0);
    fixture_alloc(f, pool, 0x1000, 100, evil);
    fixture_alloc(f, 0, 0x2000, 3000000, plain);
    fixture_alloc(f, 0, 0x3000, 80, unknown);
    fixture_alloc(f, 0, 0x4000, 1, 0);
    fixture_free(f, 0, 0x2000, 0);
    fixture_free(f, pool, 0xbad, evil);
    assert_int_equal(trace_add_fact(&f->trace, &f->e, "module", "%s", "a" EVIL), 0);
    assert_int_equal(trace_add_fact(&f->trace, &f->e, "module", "%s", "b"), 0);
    assert_int_equal(trace_add_fact(&f->trace, &f->e, "end", "%s", EVIL), 0);
}

/* What `write` prints, NUL-terminated; to be freed. */
static char *capture_report(const struct summary *s, const struct report_options *options)
{
    char *text = NULL;
    size_t len = 0;
    struct err e = {0};
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    assert_int_equal(report_write(s, options, out, &e), 0);
    fclose(out);
    assert_int_equal(strlen(text), len);
    return text;
}

static char *report_of(struct fixture *f, enum grouping by, struct report_options options,
                       struct summary_selection selection)
{
    struct summary s;
    struct summary_options how = {
        .by = by, .stacks = options.stack_traces, .callers = !options.stack_traces};
    assert_int_equal(summary_build(&s, &f->trace, &how, &f->e), 0);
    summary_select(&s.sites, &selection);
    summary_select(&s.groups, &selection);
    options.sort = selection.sort;
    char *text = capture_report(&s, &options);
    summary_release(&s);
    return text;
}

/* No byte of a stranger may steer the terminal. */
static void expect_printable(const char *text)
{
    for (const char *p = text; *p; p++)
        assert_true(*p == '\n' || (unsigned char)*p >= 0x20);
    assert_null(strchr(text, 0x7f));
    assert_null(strstr(text, "\xe2\x80\xae"));
    assert_null(strchr(text, '\xff'));
}

static void test_text(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    char *text = report_of(&f, GROUP_SITE, (struct report_options){.stack_traces = true},
                           (struct summary_selection){.sort = SORT_PEAK, .min_count = 1});
    expect_printable(text);
    static const char first[] = "5 memory events in 2 pools: 4 allocations (2.86 MiB), 1 free; ";
    assert_memory_equal(text, first, sizeof first - 1);
    assert_non_null(strstr(text, "Source location"));
    assert_non_null(strstr(text, "Peak at"));
    assert_non_null(strstr(text, "evil\\x1b]0;x\\x07"));
    assert_non_null(strstr(text, "plain(int) (plain.c:12)"));
    assert_non_null(strstr(text, "[unknown] prog (0x12)"));
    assert_non_null(strstr(text, "[no call stack]"));
    assert_non_null(strstr(text, "           plain(int)  /src/plain.c:12  [prog]\n"));
    assert_non_null(strstr(text, "free-of-unknown: 0xbad in pool evil"));
    assert_non_null(strstr(text, "1 memory fault"));
    free(text);

    text = report_of(&f, GROUP_SITE, (struct report_options){0},
                     (struct summary_selection){.limit = 1, .min_size = 2});
    assert_non_null(strstr(text, "2 more sites are not shown (--limit 0 shows all)"));
    assert_non_null(strstr(text, "1 site is below --min-size or --min-count"));
    assert_null(strstr(text, "At peak"));
    free(text);

    for (int by = GROUP_SITE; by <= GROUP_THREAD; by++) {
        text = report_of(&f, (enum grouping)by, (struct report_options){.stack_traces = true},
                         (struct summary_selection){.sort = SORT_NAME});
        expect_printable(text);
        free(text);
    }
    fixture_release(&f);
}

/* A call stack with one function in each frame, at addresses from `address` on. */
static uint32_t stack_of(struct fixture *f, uint64_t address, const char *const *functions)
{
    uint64_t frames[8];
    uint32_t n = 0, id;
    bool fresh;
    for (; functions[n]; n++) {
        struct rec_inline_frame in = {.function = fixture_text(f, functions[n])};
        frames[n] = address + n;
        assert_int_equal(callstacks_resolve(&f->trace.callstacks, frames[n],
                                            fixture_text(f, "prog"), &in, 1, &f->e),
                         0);
    }
    assert_int_equal(callstacks_intern(&f->trace.callstacks, frames, n, &id, &fresh, &f->e), 0);
    return id;
}

/* The three heaviest, named, and neither machinery, nor recursion, nor the start of a thread. */
static void test_callers(void **state)
{
    (void)state;
    static const char *const stacks[][8] = {
        {"malloc", "make", "first" EVIL, "main"},
        {"malloc", "make", "prog+0x12", "make", "second", "main"},
        {"malloc", "make", "std::sort(int*)", "third", "main"},
        {"malloc", "make", "fourth", "main"},
        {"malloc", "make", "third", "other", "main"},
        {"malloc", "make", "start_thread"},
    };
    static const uint64_t sizes[] = {100, 400, 200, 150, 250, 5000};
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < 6; i++)
        fixture_alloc(&f, 0, 0x1000 * (i + 1), sizes[i], stack_of(&f, 0x100 * (i + 1), stacks[i]));
    char *text = report_of(&f, GROUP_SITE, (struct report_options){0},
                           (struct summary_selection){.sort = SORT_SIZE});
    expect_printable(text);
    assert_non_null(strstr(text, "         450 B  from third\n"
                                 "         400 B  from second\n"
                                 "         150 B  from fourth\n"));
    assert_null(strstr(text, "from first"));
    assert_null(strstr(text, "start_thread"));
    assert_null(strstr(text, "Type"));
    free(text);
    text = report_of(&f, GROUP_SITE, (struct report_options){.stack_traces = true},
                     (struct summary_selection){.sort = SORT_SIZE});
    assert_null(strstr(text, " from "));
    free(text);
    fixture_release(&f);
}

static void test_inline_frames_are_marked(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    struct rec_inline_frame in[2] = {{.function = fixture_text(&f, "inner")},
                                     {.function = fixture_text(&f, "outer")}};
    bool fresh;
    uint32_t id;
    uint64_t address = 0x40;
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, address, 0, in, 2, &f.e), 0);
    assert_int_equal(callstacks_intern(&f.trace.callstacks, &address, 1, &id, &fresh, &f.e), 0);
    fixture_alloc(&f, 0, 0x1000, 4, id);
    char *text = report_of(&f, GROUP_SITE, (struct report_options){.stack_traces = true},
                           (struct summary_selection){0});
    assert_non_null(strstr(text, "      inl. inner\n           outer\n"));
    free(text);
    fixture_release(&f);
}

static json_t *parse(char *text)
{
    json_error_t error;
    json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!doc)
        fail_msg("%s in: %s", error.text, text);
    free(text);
    return doc;
}

/* `object` has exactly these keys, in this order. */
static void expect_keys(json_t *object, const char *const *keys, size_t n)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach(object, key, value)
    {
        assert_true(i < n);
        assert_string_equal(key, keys[i]);
        i++;
    }
    assert_int_equal(i, n);
}

#define EXPECT_KEYS(OBJECT, ...)                                                                   \
    expect_keys(OBJECT, (const char *const[]){__VA_ARGS__},                                        \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static int64_t integer(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void test_json(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    json_t *doc = parse(report_of(&f, GROUP_SITE, (struct report_options){.format = REPORT_JSON},
                                  (struct summary_selection){0}));
    EXPECT_KEYS(doc, "schema", "trace", "answer", "callstacks", "pools", "sites", "faults",
                "checks");
    assert_string_equal(json_string_value(json_object_get(doc, "schema")), "tidemark.report/1");
    json_t *trace = json_object_get(doc, "trace");
    EXPECT_KEYS(trace, "file_version", "program", "captured_at", "duration_ns", "complete");
    assert_string_equal(json_string_value(json_object_get(trace, "file_version")), "0.12.2");
    assert_string_equal(json_string_value(json_object_get(trace, "program")), "prog\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_object_get(trace, "captured_at")),
                        "2026-08-04T10:12:33Z");
    json_t *pools = json_object_get(doc, "pools");
    assert_int_equal(json_array_size(pools), 2);
    json_t *pool = json_array_get(pools, 0);
    EXPECT_KEYS(pool, "name", "pool_ids", "counted", "allocations", "frees", "live_allocations",
                "live_bytes", "permanent_allocations", "permanent_bytes", "peak_bytes",
                "peak_time_ns", "total_bytes", "temporary_allocations", "low_address",
                "high_address");
    assert_string_equal(json_string_value(json_object_get(pool, "name")), "default");
    assert_int_equal(integer(pool, "peak_bytes"), 3000081);
    assert_int_equal(integer(pool, "peak_time_ns"), 4);
    assert_string_equal(json_string_value(json_object_get(pool, "low_address")), "0x2000");
    json_t *sites = json_object_get(doc, "sites");
    assert_int_equal(json_array_size(sites), 4);
    json_t *site = json_array_get(sites, 0);
    EXPECT_KEYS(site, "pool", "function", "file", "line", "image", "type", "count", "bytes",
                "live_count", "live_bytes", "peak_bytes", "at_peak_bytes", "temporary",
                "callstack");
    assert_string_equal(json_string_value(json_object_get(site, "function")), "plain(int)");
    assert_true(json_is_null(json_object_get(site, "type")));
    assert_int_equal(integer(site, "at_peak_bytes"), 3000000);
    json_t *frame = json_array_get(json_object_get(site, "callstack"), 0);
    EXPECT_KEYS(frame, "function", "file", "line", "image", "address", "inline");
    json_t *none = json_array_get(sites, 3);
    assert_true(json_is_null(json_object_get(none, "function")));
    assert_int_equal(json_array_size(json_object_get(none, "callstack")), 0);
    json_t *fault = json_array_get(json_object_get(doc, "faults"), 0);
    assert_int_equal(integer(fault, "count"), 1);
    json_t *check = json_array_get(json_object_get(doc, "checks"), 0);
    EXPECT_KEYS(check, "name", "holds", "detail", "remedy");
    json_decref(doc);

    doc = parse(report_of(&f, GROUP_THREAD, (struct report_options){.format = REPORT_JSON},
                          (struct summary_selection){.limit = 1}));
    EXPECT_KEYS(doc, "schema", "trace", "answer", "callstacks", "pools", "sites", "groups",
                "faults", "checks");
    assert_int_equal(json_array_size(json_object_get(doc, "sites")), 1);
    json_t *group = json_array_get(json_object_get(doc, "groups"), 0);
    assert_string_equal(json_string_value(json_object_get(group, "name")), "thread 0");
    json_decref(doc);
    fixture_release(&f);
}

static void test_json_of_an_empty_trace(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    json_t *doc = parse(report_of(&f, GROUP_POOL, (struct report_options){.format = REPORT_JSON},
                                  (struct summary_selection){0}));
    EXPECT_KEYS(doc, "schema", "trace", "answer", "callstacks", "pools", "sites", "groups",
                "faults", "checks");
    assert_true(json_is_null(json_object_get(json_object_get(doc, "trace"), "file_version")));
    json_t *check = json_array_get(json_object_get(doc, "checks"), 0);
    assert_true(json_is_false(json_object_get(check, "holds")));
    json_decref(doc);
    fixture_release(&f);
}

/* A minimal reader of RFC 4180: the number of fields of the record at *p, which moves on. */
static size_t csv_record(const char **p)
{
    size_t fields = 1;
    bool quoted = false;
    for (; **p && (quoted || **p != '\n'); (*p)++) {
        if (**p == '"')
            quoted = !quoted;
        else if (**p == ',' && !quoted)
            fields++;
    }
    assert_false(quoted);
    assert_int_equal(**p, '\n');
    (*p)++;
    return fields;
}

static void test_csv(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    char *text = report_of(&f, GROUP_SITE, (struct report_options){.format = REPORT_CSV},
                           (struct summary_selection){.sort = SORT_SIZE});
    const char *p = text;
    size_t records = 0;
    for (; *p; records++)
        assert_int_equal(csv_record(&p), 14);
    assert_int_equal(records, 5);
    assert_non_null(strstr(text, "\ndefault,plain(int),plain(int),/src/plain.c,12,prog,,"
                                 "1,3000000,0,0,3000000,3000000,0\n"));
    assert_non_null(strstr(text, ",\"\"quoted\"\"\r\n"));
    free(text);
    fixture_release(&f);
}

static void test_a_full_disk_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    struct summary s;
    assert_int_equal(summary_build(&s, &f.trace, &(struct summary_options){0}, &f.e), 0);
    FILE *out = fopen("/dev/full", "w");
    assert_non_null(out);
    struct err e = {0};
    assert_int_equal(report_write(&s, &(struct report_options){0}, out, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    fclose(out);
    summary_release(&s);
    fixture_release(&f);
}

static char *overview_of(struct fixture *f, bool json)
{
    static const struct trace_counts counts = {.zones = 7, .pools = 2};
    struct trace_info info = {.version = FILE_VERSION(0, 12, 2),
                              .container = {.kind = CONTAINER_STREAMS,
                                            .codec = CODEC_ZSTD,
                                            .streams = 4,
                                            .file_bytes = 1000},
                              .inner_bytes = 4000,
                              .warning_count = 1,
                              .warnings = {"bytes \x1b trail"}};
    info.part_bytes[PART_MEMORY] = 3000;
    struct summary s;
    struct overview o;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(summary_build(&s, &f->trace, &(struct summary_options){0}, &f->e), 0);
    assert_int_equal(overview_build(&o, &f->trace, &counts, &info, &s, &f->e), 0);
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    assert_int_equal(overview_write(&o, json, out, &f->e), 0);
    fclose(out);
    overview_release(&o);
    summary_release(&s);
    return text;
}

static void test_overview(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    char *text = overview_of(&f, false);
    expect_printable(text);
    assert_non_null(strstr(text, "0.12.2"));
    assert_non_null(strstr(text, "multiple streams (tr), zstd, 4 streams"));
    assert_non_null(strstr(text, "(4.0 to 1)"));
    assert_non_null(strstr(text, "  zones                                 7\n"));
    assert_non_null(strstr(text, "holds no threads, "));
    assert_non_null(strstr(text, "75.0 %"));
    assert_non_null(strstr(text, "66.7 % (2 of 3 frames)"));
    assert_non_null(strstr(text, "  module: 2 entries\n"));
    assert_non_null(strstr(text, "  end: evil\\x1b"));
    assert_non_null(strstr(text, "bytes \\x1b trail"));
    free(text);
    json_t *doc = parse(overview_of(&f, true));
    EXPECT_KEYS(doc, "schema", "file", "trace", "complete", "counts", "pools", "symbols", "facts",
                "warnings");
    assert_int_equal(integer(json_object_get(doc, "counts"), "zones"), 7);
    assert_int_equal(integer(json_object_get(doc, "symbols"), "resolved"), 2);
    assert_int_equal(json_array_size(json_object_get(doc, "facts")), 2);
    json_decref(doc);
    fixture_release(&f);
}

static char *verify_of(struct fixture *f, bool json)
{
    static const struct trace_counts counts = {0};
    static const struct verify_options options = {.within = 10, .require_samples = true};
    struct summary s;
    struct verify_result r;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(summary_build(&s, &f->trace, &(struct summary_options){0}, &f->e), 0);
    assert_int_equal(verify_run(&r, &s, &counts, &options, &f->e), 0);
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    assert_int_equal(verify_write(&r, json ? VERIFY_JSON : VERIFY_TEXT, out, &f->e), 0);
    fclose(out);
    verify_release(&r);
    summary_release(&s);
    return text;
}

static void test_verify_output(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    char *text = verify_of(&f, false);
    static const char first[] = "ok memory-data: 4 allocations, 1 free\nFAILED samples: no ";
    assert_memory_equal(text, first, sizeof first - 1);
    free(text);
    json_t *doc = parse(verify_of(&f, true));
    EXPECT_KEYS(doc, "schema", "holds", "checks", "note");
    assert_true(json_is_false(json_object_get(doc, "holds")));
    assert_int_equal(json_array_size(json_object_get(doc, "checks")), 2);
    json_decref(doc);
    fixture_release(&f);
}

static void test_format_names(void **state)
{
    (void)state;
    enum report_format format;
    assert_true(report_format_parse("text", &format) && format == REPORT_TEXT);
    assert_true(report_format_parse("json", &format) && format == REPORT_JSON);
    assert_true(report_format_parse("csv", &format) && format == REPORT_CSV);
    assert_false(report_format_parse("xml", &format));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_callers),
        cmocka_unit_test(test_inline_frames_are_marked),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_of_an_empty_trace),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_a_full_disk_is_an_error),
        cmocka_unit_test(test_overview),
        cmocka_unit_test(test_verify_output),
        cmocka_unit_test(test_format_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
