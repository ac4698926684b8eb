/* Regular expressions whose cost is bounded. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "base/pattern.h"

static struct pattern *compiled(const char *text)
{
    struct err e = {0};
    struct pattern *p = pattern_new(text, strlen(text), &e);
    if (!p)
        fail_msg("%s: %s", text, e.text);
    return p;
}

static bool fits(const char *text, const char *in)
{
    struct pattern *p = compiled(text);
    bool found = pattern_matches(p, in, strlen(in));
    pattern_free(p);
    return found;
}

static void test_what_is_found(void **state)
{
    (void)state;
    assert_true(fits("", ""));
    assert_true(fits("b+c", "abbcd"));
    assert_false(fits("^b", "ab"));
    assert_true(fits("^std::(vector|list)<", "std::list<int>"));
    assert_true(fits("[[:digit:]]$", "x1"));
    assert_false(fits("a$", "a\n"));
    assert_true(fits("a.b", "a\nb"));
    assert_true(fits("\\bnew\\b", "operator new(int)"));
    assert_true(fits("{closure#0}", "f::{closure#0}"));
}

static void test_any_byte(void **state)
{
    (void)state;
    struct pattern *p = compiled("x.\xff");
    assert_true(pattern_matches(p, "\0x\0\xff", 4));
    assert_false(pattern_matches(p, "\0x\0\xff", 3));
    assert_false(pattern_matches(p, NULL, 0));
    pattern_free(p);
}

static void test_groups(void **state)
{
    (void)state;
    struct pattern_span s[4];
    struct pattern *p = compiled("(a)|(b)(c)");
    assert_int_equal(pattern_groups(p), 3);
    assert_true(pattern_find(p, "xbca", 4, 0, s, 4));
    assert_int_equal(s[0].start, 1);
    assert_int_equal(s[0].end, 3);
    assert_true(s[1].none);
    assert_int_equal(s[3].start, 2);
    assert_true(pattern_find(p, "xbca", 4, 3, s, 4));
    assert_int_equal(s[1].start, 3);
    assert_true(s[2].none && s[3].none);
    assert_false(pattern_find(p, "xbca", 4, 4, s, 4));
    pattern_free(p);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"(", "[a", "*", "((x{200}){200}){200}", "a{2,1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err e = {0};
        assert_null(pattern_new(wrong[i], strlen(wrong[i]), &e));
        assert_int_equal(e.code, ERR_USAGE);
        assert_non_null(strstr(e.text, "no regular expression: "));
    }
    assert_null(pattern_new("(", 1, NULL));
}

/* Each would take the C library's functions or an unbounded search ages. */
static void test_costly_ones_end(void **state)
{
    (void)state;
    char nested[2048] = "";
    memset(nested, '(', 200);
    memcpy(nested + 200, "a*", 2);
    for (size_t i = 0; i < 200; i++)
        memcpy(nested + 202 + 2 * i, ")*", 2);
    fits(nested, "aaaa!");
    assert_false(fits("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"));
    assert_false(fits("^(a|a)*$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_found),   cmocka_unit_test(test_any_byte),
        cmocka_unit_test(test_groups),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_costly_ones_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
