/* Names of merged functions: what they have in common, whatever the texts are. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "symbols/elf/merged_name.h"

static void expect(const char *name, const char *other, const char *want)
{
    struct buf out = {0};
    buf_puts(&out, "before ");
    assert_true(merged_name(view_of(name), view_of(other), &out));
    assert_string_equal(buf_str(&out) + 7, want);
    buf_release(&out);
}

static void test_arguments(void **state)
{
    (void)state;
    expect("<a::RawVec<std::ffi::OsString>>::grow_one", "<a::RawVec<a::String>>::grow_one",
           "<a::RawVec<_>>::grow_one");
    expect("<a::RawVec<_>>::grow_one", "<a::RawVec<_x>>::grow_one", "<a::RawVec<_>>::grow_one");
    expect("<a::RawVec<a::Vec<u8>>>::grow_one", "<a::RawVec<a::Vec<i8>>>::grow_one",
           "<a::RawVec<a::Vec<_>>>::grow_one");
    expect("<a::RawVec<a::Vec<u8>>>::grow_one", "<a::RawVec<u8>>::grow_one",
           "<a::RawVec<_>>::grow_one");
    expect("<a::RawVec<(A, B)>>::grow_one", "<a::RawVec<(A, C)>>::grow_one",
           "<a::RawVec<(A, _)>>::grow_one");
    expect("<A as T>::f::<u8, B>", "<A as T>::f::<u8, C>", "<A as T>::f::<u8, _>");
    expect("<usize as a::Step>::next", "<u64 as a::Step>::next", "<_ as a::Step>::next");
    expect("<A as a::Add>::f", "<A as a::Sub>::f", "<A as _>::f");
    expect("<A>::f", "<A as a::Sub>::f", "<_>::f");
    expect("f::<fn(A) -> B, C>", "f::<fn(A) -> D, C>", "f::<_, C>");
    expect("f::<u8>::{closure#0}", "f::<u8>::{closure#1}", "f::<u8>::{_}");
    expect("std::vector<A*, std::allocator<A*> >::push(A* const&)",
           "std::vector<B*, std::allocator<B*> >::push(B* const&)",
           "std::vector<_, std::allocator<_> >::push(_)");
    /* of several numbers of arguments */
    expect("f<A, B, C>(int)", "f<A>(int)", "f<_>(int)");
    expect("f<A>(int)", "f<A, B>(int)", "f<_>(int)");
    expect("f<X<A>, B>(int)", "f<X<A, C>, B>(int)", "f<X<_>, B>(int)");
    expect("f(int, char)", "f(int)", "f(_)");
    expect("f()", "f(int)", "f(_)");
    /* operators are no brackets */
    expect("bool operator< <A>(A, A)", "bool operator< <B>(B, B)", "bool operator< <_>(_, _)");
    expect("X<A>::operator()(int)", "X<B>::operator()(int)", "X<_>::operator()(int)");
    expect("X<A>::operator->()", "X<B>::operator->()", "X<_>::operator->()");
    expect("X<&Y::operator>, A>::f()", "X<&Y::operator>, B>::f()", "X<&Y::operator>, _>::f()");
}

static void test_other_functions(void **state)
{
    (void)state;
    expect("malloc", "__libc_malloc", "malloc");
    expect("f(int)", "g(int)", "f(int)");
    expect("std::allocator<A>::allocate(unsigned long)", "mine::take(unsigned long)",
           "std::allocator<_>::allocate(unsigned long)");
    expect("<a::RawVec<a::Vec<u8>>>::grow_one", "mine", "<a::RawVec<a::Vec<_>>>::grow_one");
    expect("X<A>::f()", "X<A>::f() const", "X<_>::f()");
}

static void test_no_names(void **state)
{
    (void)state;
    expect("", "", "");
    expect("", "f", "");
    expect("f", "", "f");
    expect("f<", "f<A>", "f<");
    expect("f<A", "f<B", "f<A");
    expect("f>A", "f>B", "f>A");
    expect("f<A>>", "f<B>", "f<_>>");
    expect("operator<", "operator<A", "operator<");
    expect("f<A, B>", "f<A,B>", "f<_>");
    expect("f<A,B>", "f<A as B>", "f<_>");
}

static void nest(struct buf *b, const char *innermost)
{
    for (unsigned i = 0; i < 1000; i++)
        buf_puts(b, "f<");
    buf_puts(b, innermost);
    for (unsigned i = 0; i < 1000; i++)
        buf_puts(b, ">");
}

/* Brackets nested deeper than the 64 levels that merged_name follows. */
static void test_deep(void **state)
{
    (void)state;
    struct buf a = {0}, b = {0}, out = {0};
    nest(&a, "A");
    nest(&b, "B");
    assert_true(merged_name(view_of(buf_str(&a)), view_of(buf_str(&b)), &out));
    assert_true(out.len < a.len);
    assert_non_null(strstr(buf_str(&out), "f<_>"));
    assert_null(strstr(buf_str(&out), "A"));
    buf_release(&a);
    buf_release(&b);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_other_functions),
        cmocka_unit_test(test_no_names),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
