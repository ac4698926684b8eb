/* base/format: figures for people, text of strangers, sizes from people. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/format.h"

static void test_counts_and_bytes(void **state)
{
    (void)state;
    char out[FORMAT_SIZE];
    assert_string_equal(format_count(out, 0), "0");
    assert_string_equal(format_count(out, 999), "999");
    assert_string_equal(format_count(out, 1000), "1,000");
    assert_string_equal(format_count(out, 17808), "17,808");
    assert_string_equal(format_count(out, UINT64_MAX), "18,446,744,073,709,551,615");
    assert_string_equal(format_counted(out, 0, "free"), "0 frees");
    assert_string_equal(format_counted(out, 1, "memory event"), "1 memory event");
    assert_string_equal(format_counted(out, 1, "child process"), "1 child process");
    assert_string_equal(format_counted(out, 2, "child process"), "2 child processes");
    assert_string_equal(format_counted(out, 17808, "allocation"), "17,808 allocations");
    assert_string_equal(format_counted(out, UINT64_MAX, "smaller call stack"),
                        "18,446,744,073,709,551,615 smaller call stacks");
    assert_string_equal(format_bytes(out, 0), "0 B");
    assert_string_equal(format_bytes(out, 1023), "1023 B");
    assert_string_equal(format_bytes(out, 1024), "1.00 KiB");
    assert_string_equal(format_bytes(out, 8063), "7.87 KiB");
    assert_string_equal(format_bytes(out, 10 * 1024), "10.0 KiB");
    assert_string_equal(format_bytes(out, 1023 * 1024), "1.00 MiB");
    assert_string_equal(format_bytes(out, 8388608), "8.00 MiB");
    assert_string_equal(format_bytes(out, UINT64_MAX), "16.0 EiB");
    assert_string_equal(format_bytes_exact(out, 1), "1 byte");
    assert_string_equal(format_bytes_exact(out, 8063), "7.87 KiB (8,063)");
    assert_string_equal(format_bytes_exact(out, UINT64_MAX),
                        "16.0 EiB (18,446,744,073,709,551,615)");
}

static void test_times_and_shares(void **state)
{
    (void)state;
    char out[FORMAT_SIZE];
    assert_string_equal(format_duration(out, 0), "0 ns");
    assert_string_equal(format_duration(out, -318), "-318 ns");
    assert_string_equal(format_duration(out, 4210), "4.21 us");
    assert_string_equal(format_time_near(out, 4210, 10), "4.21 us");
    assert_string_equal(format_time_near(out, 4213, 1), "4.213 us");
    assert_string_equal(format_time_near(out, 318, 1), "318 ns");
    assert_string_equal(format_time_near(out, INT64_C(-4210070), 99), "-4.21007 ms");
    assert_string_equal(format_time_near(out, 1028047000, 1000000), "1.028 s");
    assert_string_equal(format_time_near(out, 1028047000, 10000), "1.02805 s");
    assert_string_equal(format_time_near(out, 1028047000, 0), "1.028047000 s");
    assert_string_equal(format_time_near(out, INT64_C(125050000000), 10000000), "125.050 s");
    assert_string_equal(format_time_near(out, INT64_C(125050000000), 100000000), "2 min 05.0 s");
    format_time_near(out, INT64_MIN, 0);
    assert_string_equal(format_duration(out, 4210000), "4.21 ms");
    assert_string_equal(format_duration(out, 1250000000), "1.250 s");
    assert_string_equal(format_duration(out, INT64_C(125100000000)), "2 min 05.1 s");
    assert_string_equal(format_duration(out, INT64_C(11520000000000)), "3 h 12 min");
    assert_non_null(strstr(format_duration(out, INT64_MIN), "-"));
    assert_string_equal(format_date(out, 0), "unknown");
    assert_string_equal(format_date(out, 1785838353), "2026-08-04T10:12:33Z");
    assert_string_equal(format_date(out, UINT64_MAX), "unknown");
    assert_string_equal(format_percent(out, 0, 0), "-");
    assert_string_equal(format_percent(out, 0, 5), "0 %");
    assert_string_equal(format_percent(out, 5, 5), "100 %");
    assert_string_equal(format_percent(out, 99999, 100000), "99.9 %");
    assert_string_equal(format_percent(out, 1, 100000), "0.1 %");
    assert_string_equal(format_percent(out, 1, 3), "33.3 %");
}

static void expect_text(void (*format)(struct buf *, struct view), const char *in, size_t len,
                        const char *want)
{
    struct buf b = {0};
    format(&b, (struct view){in, len});
    assert_string_equal(buf_str(&b), want);
    buf_release(&b);
}

#define TERMINAL(IN, WANT) expect_text(format_terminal, IN, sizeof IN - 1, WANT)
#define UTF8(IN, WANT) expect_text(format_utf8, IN, sizeof IN - 1, WANT)

static void test_foreign_text(void **state)
{
    (void)state;
    TERMINAL("plain \\ text", "plain \\ text");
    TERMINAL("caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xf0\x9f\x98\x80");
    TERMINAL("\x1b]0;title\x07\n\x7f", "\\x1b]0;title\\x07\\x0a\\x7f");
    TERMINAL("a\0b", "a\\x00b");
    TERMINAL("\x9b", "\\x9b");             /* a C1 control as a stray byte … */
    TERMINAL("\xc2\x9b", "\\u{9b}");       /* … and as a character */
    TERMINAL("\xe2\x80\xae", "\\u{202e}"); /* right-to-left override */
    TERMINAL("\xc0\xaf", "\\xc0\\xaf");    /* overlong */
    TERMINAL("\xed\xa0\x80", "\\xed\\xa0\\x80");
    TERMINAL("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    TERMINAL("\xe2\x82", "\\xe2\\x82"); /* cut short */
    UTF8("ok \xc3\xa9\n", "ok \xc3\xa9\n");
    UTF8("a\xff\x80z", "a\xef\xbf\xbd\xef\xbf\xbdz");
    UTF8("\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd");
    assert_int_equal(format_width(view_of("caf\xc3\xa9")), 4);
}

static uint64_t bytes_of(const char *text)
{
    uint64_t bytes = 0;
    struct err e = {0};
    assert_int_equal(format_parse_bytes("--min-size", text, &bytes, &e), 0);
    return bytes;
}

static void test_sizes_from_people(void **state)
{
    (void)state;
    assert_int_equal(bytes_of("0"), 0);
    assert_int_equal(bytes_of("4096"), 4096);
    assert_int_equal(bytes_of("64K"), 65536);
    assert_int_equal(bytes_of("64k"), 65536);
    assert_int_equal(bytes_of("1.5 MiB"), 1572864);
    assert_int_equal(bytes_of("2GB"), UINT64_C(2) << 30);
    assert_int_equal(bytes_of("18446744073709551615"), UINT64_MAX);
    static const char *const wrong[] = {"",
                                        "K",
                                        "-1",
                                        "1X",
                                        "0x10",
                                        "1e3",
                                        "1.2.3",
                                        "inf",
                                        "+5",
                                        "16EB",
                                        "1.5",
                                        "5KK",
                                        "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err e = {0};
        uint64_t bytes = 77;
        assert_int_equal(format_parse_bytes("--min-size", wrong[i], &bytes, &e), -1);
        assert_int_equal(e.code, ERR_USAGE);
        assert_non_null(strstr(e.text, "--min-size"));
        assert_int_equal(bytes, 77);
    }
}

static void test_counts_from_people(void **state)
{
    (void)state;
    struct err e = {0};
    uint64_t n;
    assert_int_equal(format_parse_count("--limit", "17,808", &n, &e), 0);
    assert_int_equal(n, 17808);
    assert_int_equal(format_parse_count("--limit", "18446744073709551615", &n, &e), 0);
    assert_int_equal(n, UINT64_MAX);
    static const char *const wrong[] = {"", "-1", "x", "1x", ",1", "1,", "18446744073709551616"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(format_parse_count("--limit", wrong[i], &n, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_and_bytes),   cmocka_unit_test(test_times_and_shares),
        cmocka_unit_test(test_foreign_text),       cmocka_unit_test(test_sizes_from_people),
        cmocka_unit_test(test_counts_from_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
