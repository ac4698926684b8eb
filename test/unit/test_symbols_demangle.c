/* Names of C++, Rust, D and Microsoft's compiler as people write them; hostile ones stay short. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/elf/demangle.h"

static void expect(const char *name, const char *want)
{
    struct buf out = {0};
    buf_puts(&out, "before ");
    assert_int_equal(demangle(name, &out), want != NULL);
    assert_string_equal(buf_str(&out) + 7, want ? want : "");
    buf_release(&out);
}

static void test_cpp(void **state)
{
    (void)state;
    expect("_ZN6shapes5stackIiLi8EE4pushERKi", "shapes::stack<int, 8>::push(int const&)");
    expect("_ZN12_GLOBAL__N_16hiddenEi", "(anonymous namespace)::hidden(int)");
    expect("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()(int) const");
    expect("_Z6choosei.part.0", "choose(int) [clone .part.0]");
    expect("__Z3fooi", "foo(int)");
}

static void test_rust(void **state)
{
    (void)state;
    expect("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE",
           "core::fmt::Formatter::write_str");
    expect("_RNvCs1234_7mycrate3foo", "mycrate::foo");
    expect("_RNvMs_NtCs1234_7mycrate6shapesINtB4_5StackxE4push",
           "<mycrate::shapes::Stack<i64>>::push");
    expect("_RNvNtCs1234_7mycrate6shapes4push", "mycrate::shapes::push");
}

static void test_d(void **state)
{
    (void)state;
    expect("_D6shapes5twiceFiZi", "shapes.twice(int)");
    expect("_Dmain", "D main");
}

static void test_microsoft(void **state)
{
    (void)state;
    expect("?insert@?$Map@H@store@@QEAAXH@Z", "store::Map<int>::insert");
    expect("net::?A0x26b469a4::Pipe::open", "net::`anonymous namespace'::Pipe::open");
}

static void test_not_mangled(void **state)
{
    (void)state;
    static const char *const plain[] = {"main", "",      "_",  "_start", "__libc_start_main",
                                        "_Z",   "_ZN",   "_R", "_D",     "_ZZZZZZ",
                                        "??",   "Z3foov"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        expect(plain[i], NULL);
}

/* Each parameter is a pair of the one before: 2^30 words. */
static void test_that_grows(void **state)
{
    char name[4096] = "_Z1f";
    struct buf out = {0};
    (void)state;
    memcpy(name + 4, "1SIiiE", 7);
    for (int i = 0; i < 30; i++) {
        char more[32];
        if (i == 0)
            snprintf(more, sizeof more, "S_IS0_S0_E");
        else
            snprintf(more, sizeof more, "S_IS%c_S%c_E", i < 10 ? '0' + i : 'A' + i - 10,
                     i < 10 ? '0' + i : 'A' + i - 10);
        memcpy(name + strlen(name), more, strlen(more) + 1);
    }
    bool done = demangle(name, &out);
    assert_true(out.len <= DEMANGLED_MAX);
    assert_int_equal(done, out.len > 0);
    buf_release(&out);
}

static void test_long(void **state)
{
    (void)state;
    char *name = malloc(MANGLED_MAX + 100);
    assert_non_null(name);
    memset(name, 'P', MANGLED_MAX + 99);
    name[MANGLED_MAX + 99] = 0;
    memcpy(name, "_Z1f", 4);
    expect(name, NULL);
    name[5000] = 'i';
    name[5001] = 0;
    struct buf out = {0};
    demangle(name, &out); /* 5,000 pointers deep: any answer but a crash */
    buf_release(&out);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpp),         cmocka_unit_test(test_rust),
        cmocka_unit_test(test_d),           cmocka_unit_test(test_microsoft),
        cmocka_unit_test(test_not_mangled), cmocka_unit_test(test_that_grows),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
