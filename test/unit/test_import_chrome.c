/* Chrome trace JSON: texts of values, and events out of any order through the sort. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/chrome_event.h"

/* ---- texts */

static void expect_number(const char *digits, const char *want)
{
    struct buf b = {0};
    json_number_text(&b, view_of(digits));
    assert_string_equal(buf_str(&b), want);
    buf_release(&b);
}

/* As nlohmann::json 3.11.2 prints them. */
static void test_numbers(void **state)
{
    (void)state;
    expect_number("0", "0");
    expect_number("-0", "0");
    expect_number("-0.0", "-0.0");
    expect_number("18446744073709551615", "18446744073709551615");
    expect_number("18446744073709551616", "1.8446744073709552e+19");
    expect_number("-9223372036854775808", "-9223372036854775808");
    expect_number("1e2", "100.0");
    expect_number("1.50", "1.5");
    expect_number("1e15", "1e+15");
    expect_number("123456789012345.0", "123456789012345.0");
    expect_number("0.0001", "0.0001");
    expect_number("0.00001", "1e-05");
    expect_number("0.1", "0.1");
    expect_number("5e-324", "5e-324");
    expect_number("1.7976931348623157e308", "1.7976931348623157e+308");
    expect_number("1e999", "1e999");
}

/* Whatever the number, its text is the number again. */
static void test_numbers_come_back(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        double v, back;
        char digits[40];
        struct buf b = {0};
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(&v, &x, sizeof v);
        if (!isfinite(v))
            continue;
        snprintf(digits, sizeof digits, "%.17e", v);
        json_number_text(&b, view_of(digits));
        assert_true(chrome_text_number((struct view){(const char *)b.data, b.len}, &back));
        assert_true(memcmp(&v, &back, sizeof v) == 0);
        buf_release(&b);
    }
}

/* ---- events */

struct seen {
    struct buf text; /* a line for each event */
    int stop_at;     /* event to fail at; 0 never */
    int events;
};

static int see(void *ctx, const struct chrome_event *ev, struct err *e)
{
    struct seen *s = ctx;
    for (unsigned f = 0; f < FIELD_COUNT; f++) {
        struct view v = chrome_field_text(ev, (enum chrome_field)f);
        if (v.len)
            buf_printf(&s->text, "%u=%.*s ", f, (int)v.len, v.p);
    }
    for (size_t i = 0; i < ev->args.members.len; i++) {
        struct view k = json_text_key_of(&ev->args, &ev->args.members.at[i]);
        struct view v = json_text_value_of(&ev->args, &ev->args.members.at[i]);
        buf_printf(&s->text, "{%.*s|%.*s}", (int)k.len, k.p, (int)v.len, v.p);
    }
    buf_puts(&s->text, "\n");
    return ++s->events == s->stop_at ? err_set(e, ERR_INPUT, "enough") : 0;
}

static int read_text(struct view text, struct seen *s, struct import_counts *counts, struct err *e)
{
    struct import_source source;
    memset(counts, 0, sizeof *counts);
    assert_int_equal(import_source_memory(&source, text, e), 0);
    int status = chrome_read(&source, counts, see, s, e);
    import_source_close(&source);
    return status;
}

static void expect_events(const char *json, const char *want)
{
    struct seen s = {0};
    struct import_counts counts;
    struct err e = {0};
    if (read_text(view_of(json), &s, &counts, &e) != 0)
        fail_msg("%s: %s", json, e.text);
    assert_string_equal(buf_str(&s.text), want);
    buf_release(&s.text);
}

static void expect_failure(const char *json, const char *words)
{
    struct seen s = {0};
    struct import_counts counts;
    struct err e = {0};
    if (read_text(view_of(json), &s, &counts, &e) == 0)
        fail_msg("%s was taken", json);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, words))
        fail_msg("%s: %s", json, e.text);
    buf_release(&s.text);
}

static void test_events(void **state)
{
    (void)state;
    expect_events("[]", "");
    expect_events("\xef\xbb\xbf{\"traceEvents\":[]}", "");
    expect_events("[{\"ph\":\"X\",\"name\":\"a\\u00e9\",\"ts\":1.5,\"x\":{\"ph\":\"no\"}}]",
                  "0=X 1=a\xc3\xa9 2=1.5 \n");
    expect_events("{\"a\":[{\"ph\":\"B\"}],\"traceEvents\":[{\"ph\":\"E\"},{}],"
                  "\"b\":{\"traceEvents\":[{\"ph\":\"C\"}]}}",
                  "0=E \n\n");
    /* The last of several members counts; what is no string or number is not there. */
    expect_events("[{\"ph\":\"B\",\"ph\":\"E\",\"name\":\"x\",\"name\":{\"a\":1}}]", "0=E \n");
    expect_events(
        "[{\"id2\":{\"local\":\"0x1\",\"x\":{\"global\":\"no\"}},\"cat\":\"c\",\"local\":2}]",
        "8=c 10=0x1 \n");
    expect_events("[{\"id2\":{\"global\":5},\"id2\":3}]", "11=5 \n");
    expect_events("[{\"pid\":null,\"tid\":true,\"id\":7}]", "7=7 \n");
}

static void test_arguments(void **state)
{
    (void)state;
    expect_events("[{\"args\":{\"b\":\"q\\\"\",\"a\":[1,{\"d\":2.0,\"c\":\"x\\n\\u0001\\\\\"},[]],"
                  "\"b2\":null,\"e\":false}}]",
                  "{a|[1,{\"c\":\"x\\n\\u0001\\\\\",\"d\":2.0},[]]}{b|q\"}{b2|null}{e|false}\n");
    expect_events("[{\"args\":{\"a\":1,\"b\":2,\"a\":{\"z\":1,\"z\":2}}}]", "{a|{\"z\":2}}{b|2}\n");
    expect_events("[{\"args\":[\"x\",{},3]}]", "{0|x}{1|{}}{2|3}\n");
    expect_events("[{\"args\":\"text\"},{\"args\":null},{\"args\":{}}]", "{|text}\n\n\n");
    expect_events("[{\"args\":{\"a\":1},\"args\":{\"b\":1}}]", "{b|1}\n");
}

static void test_lists_without_an_end(void **state)
{
    (void)state;
    static const char *const texts[] = {"[{\"ph\":\"E\"}", "[{\"ph\":\"E\"},",
                                        "[{\"ph\":\"E\"},\n ", "[{\"ph\":\"E\"}\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct seen s = {0};
        struct import_counts counts;
        struct err e = {0};
        assert_int_equal(read_text(view_of(texts[i]), &s, &counts, &e), 0);
        assert_int_equal(counts.notes[NOTE_UNFINISHED_LIST], 1);
        assert_true(strncmp(buf_str(&s.text), "0=E \n", 5) == 0);
        buf_release(&s.text);
    }
    expect_failure("[{\"ph\":\"E\"},{\"ph\"", "within a value");
    expect_failure("[{\"ph\":\"E\"},{\"ph\":\"E,", "within a value");
    expect_failure("[{\"ph\":\"E\"},tr", "within a value");
    expect_failure("{\"traceEvents\":[{\"ph\":\"E\"}", "premature EOF");
}

static void test_bad_texts(void **state)
{
    (void)state;
    expect_failure("", "premature EOF");
    expect_failure("{}", "no list of events");
    expect_failure("{\"traceEvents\":{}}", "no list of events");
    expect_failure("3", "no list of events");
    expect_failure("[{\"ts\":NaN}]", "byte 8");
    expect_failure("[{\"ts\":01}]", "byte");
    expect_failure("[}", "byte");
}

static void test_counts(void **state)
{
    (void)state;
    struct seen s = {0};
    struct import_counts counts;
    struct err e = {0};
    assert_int_equal(
        read_text(view_of("[1,\"a\",[{\"ph\":\"E\"}],null,{}] x yz \n"), &s, &counts, &e), 0);
    assert_int_equal(counts.notes[NOTE_NOT_EVENTS], 4);
    assert_int_equal(counts.notes[NOTE_TRAILING_BYTES], 3);
    assert_int_equal(s.events, 1);
    buf_release(&s.text);
}

static void test_limits(void **state)
{
    (void)state;
    struct buf text = {0};
    for (int i = 0; i < 300; i++)
        buf_puts(&text, "[");
    expect_failure(buf_str(&text), "nest deeper than 256");
    buf_clear(&text);
    buf_puts(&text, "[{\"name\":\"");
    for (size_t i = 0; i < ((size_t)64 << 20) + 100000; i++)
        buf_u8(&text, 'x');
    expect_failure(buf_str(&text), "longer than 64 MiB");
    buf_release(&text);
}

static void test_sink_ends_it(void **state)
{
    (void)state;
    struct seen s = {.stop_at = 2};
    struct import_counts counts;
    struct err e = {0};
    assert_int_equal(read_text(view_of("[{},{},{}]"), &s, &counts, &e), -1);
    assert_non_null(strstr(e.text, "enough"));
    assert_int_equal(s.events, 2);
    buf_release(&s.text);
}

/* Events over the ends of blocks, more than a sort keeps in memory, latest first. */
static void test_many_events_backwards(void **state)
{
    (void)state;
    enum { EVENTS = 600000 };
    struct buf text = {0};
    struct import_source s;
    struct trace t;
    struct ingest in;
    struct import_counts counts = {0};
    struct err e = {0};
    buf_puts(&text, "[");
    for (int i = EVENTS; i > 0; i--)
        buf_printf(&text, "%s{\"ph\":\"C\",\"ts\":%d,\"args\":{\"v\":%d}}", i < EVENTS ? "," : "",
                   i, i);
    buf_puts(&text, "]");
    assert_int_equal(import_source_memory(&s, (struct view){(char *)text.data, text.len}, &e), 0);
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(ingest_init(&in, &t, &e), 0);
    if (import_chrome(&s, &in, NULL, &counts, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(counts.plot_values, EVENTS);
    struct column_reader r;
    size_t n;
    int64_t next = 1;
    column_reader_init(&r, &t.plots.points);
    for (const struct plot_point *p; (p = column_reader_next(&r, &n, &e)) != NULL;) {
        for (size_t i = 0; i < n; i++, next++) {
            assert_int_equal(p[i].time, next * 1000);
            assert_true(p[i].value == (double)next);
        }
    }
    assert_int_equal(next, EVENTS + 1);
    column_reader_release(&r);
    ingest_release(&in);
    trace_release(&t);
    import_source_close(&s);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_come_back),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_lists_without_an_end),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_sink_ends_it),
        cmocka_unit_test(test_many_events_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
