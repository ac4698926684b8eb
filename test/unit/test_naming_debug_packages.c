/* Names of packages in answers of dpkg-query --search, and of those with debug symbols. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "naming/debug_packages.h"

static void test_answers(void **state)
{
    static const struct {
        const char *answer, *package; /* NULL: none is known */
    } cases[] = {
        {"libsqlite3-0:amd64: /usr/lib/libsqlite3.so.0\n", "libsqlite3-0"},
        {"g++-12: /usr/bin/g++-12", "g++-12"},
        {"dpkg-query: warning: odd\ndash: /bin/dash\n", "dash"},
        {"dash: /bin/dash\ndash: /usr/bin/dash\n", "dash"},
        {"dash: /bin/dash\nbash: /usr/bin/dash\n", NULL},
        {"bash, dash: /bin/sh\n", NULL},
        {"diversion by dash from: /bin/sh\ndiversion by dash to: /bin/sh.distrib\n"
         "dash: /bin/sh\n",
         NULL},
        {"a\033b: /x\n", NULL},
        {": /x\n", NULL},
        {":amd64: /x\n", NULL},
        {"\n\n", NULL},
        {"", NULL},
    };
    char out[DEBUG_PACKAGE_SIZE], longest[400];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool known = package_of_answer(view_of(cases[i].answer), out);
        assert_int_equal(known, cases[i].package != NULL);
        assert_string_equal(out, known ? cases[i].package : "");
    }
    memset(longest, 'a', sizeof longest);
    memcpy(longest + 300, ": /x", 5);
    assert_false(package_of_answer(view_of(longest), out));
    assert_true(package_of_answer(view_of(longest + 301 - DEBUG_PACKAGE_SIZE), out));
    assert_int_equal(strlen(out), DEBUG_PACKAGE_SIZE - 1);
    assert_string_equal(debug_package_name("libsqlite3-0", out), "libsqlite3-0-dbgsym");
    assert_string_equal(debug_package_name("libc6", out), "libc6-dbg");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
