/* Substitutions in paths of images. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "symbols/elf/substitute.h"

/* What the rules, ended by NULL, make of a path; NULL: none fits. */
static void expect(const char *const *rules, const char *path, const char *want)
{
    struct substitutions s = {0};
    struct buf out = {0};
    struct err e = {0};
    for (; *rules; rules++) {
        if (substitutions_add(&s, *rules, &e) != 0)
            fail_msg("%s", e.text);
    }
    assert_int_equal(substitutions_apply(&s, path, &out), want != NULL);
    if (want)
        assert_string_equal(buf_str(&out), want);
    substitutions_release(&s);
    buf_release(&out);
}

#define EXPECT(RULE, PATH, WANT) expect((const char *const[]){RULE, NULL}, PATH, WANT)

static void test_replacements(void **state)
{
    (void)state;
    EXPECT("/home/user/;/mnt/", "/home/user/bin/app", "/mnt/bin/app");
    EXPECT("^/home;/mnt", "/x/home/app", NULL);
    EXPECT("a;bb", "banana", "bbbnbbnbb");
    EXPECT("(.*)/(lib[a-z]+)\\.so;$2 of $1 $& $$ $9", "/usr/libc.so.6",
           "libc of /usr /usr/libc.so $ $9.6");
    EXPECT("\\d+;N", "v12.345", "vN.N");
    EXPECT("[\\w.]+$;X", "/a/b_1.c", "/a/X");
    EXPECT("x*;-", "ab", "-a-b-");
    EXPECT("(?:a)(b)?;<$1>", "a ab", "<> <b>");
    EXPECT("[\\]];x", "a]", "ax");
    EXPECT("(a+)+$;x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", NULL);
    EXPECT(".*;", "/anything", "");
    EXPECT("a;b;c", "a", "b;c");
}

static void test_first_rule_that_fits(void **state)
{
    (void)state;
    const char *const rules[] = {"nothing;1", "lib;2", "lib;3", NULL};
    expect(rules, "lib", "2");
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"no semicolon", "(;x", "[a;x", "*(;", "a{2,1};x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct substitutions s = {0};
        struct err e = {0};
        assert_int_equal(substitutions_add(&s, wrong[i], &e), -1);
        assert_int_equal(e.code, ERR_USAGE);
        assert_non_null(strstr(e.text, wrong[i]));
        assert_int_equal(s.list.len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replacements),
        cmocka_unit_test(test_first_rule_that_fits),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
