/* What blocks are made of: names that compilers made, names that only look like it, call stacks. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/names/element_type.h"
#include "analysis/names/types.h"
#include "analysis_fixture.h"

#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
#define STRING_1                                                                                   \
    "std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >"

struct name_case {
    const char *function;
    const char *type;
    enum element_evidence evidence;
};

static void check_names(const struct name_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct buf out = {0};
        enum element_evidence got = element_type(view_of(cases[i].function), &out);
        if (got != cases[i].evidence || strcmp(buf_str(&out), cases[i].type) != 0)
            fail_msg("%s: %d, %s", cases[i].function, (int)got, buf_str(&out));
        buf_release(&out);
    }
}

#define CHECK_NAMES(cases) check_names(cases, sizeof(cases) / sizeof *(cases))

/* g++ 12 and clang++ 14 with libstdc++ 12, as libiberty and __cxa_demangle write them. */
static void test_libstdcxx(void **state)
{
    (void)state;
    static const struct name_case cases[] = {
        {"std::__new_allocator<game::Item>::allocate(unsigned long, void const*)", "game::Item",
         ELEMENT_SURE},
        {"__gnu_cxx::new_allocator<char>::allocate(unsigned long, void const*)", "char",
         ELEMENT_SURE},
        {"near std::allocator<int>::allocate(unsigned long)+0x40", "", ELEMENT_NONE},
        {"std::allocator<int>::allocate(unsigned long)", "int", ELEMENT_SURE},
        {"std::allocator_traits<std::allocator<game::Item> "
         ">::allocate(std::allocator<game::Item>&, "
         "unsigned long)",
         "game::Item", ELEMENT_SURE},
        {"__gnu_cxx::__alloc_traits<std::allocator<int>, int>::allocate(std::allocator<int>&, "
         "unsigned long)",
         "int", ELEMENT_SURE},
        {"std::_Vector_base<int, mine::Arena<int> >::_M_allocate(unsigned long)", "int",
         ELEMENT_SURE},
        {"std::__new_allocator<game::Pair<int, " STRING
         " > >::allocate(unsigned long, void const*)",
         "game::Pair<int, std::string>", ELEMENT_SURE},
        {"std::__new_allocator<std::_Rb_tree_node<std::pair<" STRING
         " const, game::Item> > >::allocate(unsigned long, void const*)",
         "std::pair<std::string const, game::Item>", ELEMENT_SURE},
        {"std::_Rb_tree<int, std::pair<int const, char>, std::_Select1st<std::pair<int const, "
         "char> "
         ">, std::less<int>, std::allocator<std::pair<int const, char> > >::_M_get_node()",
         "std::pair<int const, char>", ELEMENT_SURE},
        {"std::__new_allocator<std::__detail::_Hash_node<std::pair<int const, std::vector<float, "
         "std::allocator<float> > >, false> >::allocate(unsigned long, void const*)",
         "std::pair<int const, std::vector<float>>", ELEMENT_SURE},
        {"std::__new_allocator<std::__detail::_Hash_node_base*>::allocate(unsigned long, void "
         "const*)",
         "std::__detail::_Hash_node_base*", ELEMENT_SURE},
        {"std::__new_allocator<std::_Sp_counted_ptr_inplace<game::Item, std::allocator<void>, "
         "(__gnu_cxx::_Lock_policy)2> >::allocate(unsigned long, void const*)",
         "game::Item", ELEMENT_SURE},
        {"std::__allocated_ptr<std::allocator<std::_Sp_counted_ptr_inplace<int, "
         "std::allocator<void>"
         ", (__gnu_cxx::_Lock_policy)2> > > "
         "std::__allocate_guarded<std::allocator<std::_Sp_counted_"
         "ptr_inplace<int, std::allocator<void>, (__gnu_cxx::_Lock_policy)2> > "
         ">(std::allocator<std::"
         "_Sp_counted_ptr_inplace<int, std::allocator<void>, (__gnu_cxx::_Lock_policy)2> >&)",
         "int", ELEMENT_SURE},
        {"std::__detail::_MakeUniq<game::Item>::__single_object std::make_unique<game::Item, int "
         "volatile&>(int volatile&)",
         "game::Item", ELEMENT_IN_LINE},
        {"std::__detail::_MakeUniq<int []>::__array std::make_unique<int []>(unsigned long)", "int",
         ELEMENT_IN_LINE},
        {"std::__new_allocator<game::Tagged<(game::Color)0, 4>*>::allocate(unsigned long)",
         "game::Tagged<(game::Color)0, 4>*", ELEMENT_SURE},
        {"std::allocator<Sized<((3)>(2)), (&(A::operator->)), &(operator< )> >::allocate(unsigned "
         "long)",
         "Sized<((3)>(2)), (&(A::operator->)), &(operator< )>", ELEMENT_SURE},
        {"std::allocator<f(std::vector<int, std::allocator<int> >)::{lambda(int)#1}>::allocate("
         "unsigned long)",
         "f(std::vector<int>)::{lambda(int)#1}", ELEMENT_SURE},
        {"std::__new_allocator<void (*)(int, char)>::allocate(unsigned long, void const*)",
         "void (*)(int, char)", ELEMENT_SURE},
        {"std::__new_allocator<int game::Item::*>::allocate(unsigned long, void const*)",
         "int game::Item::*", ELEMENT_SURE},
        {"std::__new_allocator<std::pair<int, char> (*) [3]>::allocate(unsigned long, void const*)",
         "std::pair<int, char> (*) [3]", ELEMENT_SURE},
        {"std::__new_allocator<std::function<void (int)> >::allocate(unsigned long, void const*)",
         "std::function<void (int)>", ELEMENT_SURE},
        {"std::allocator<game::(anonymous namespace)::Hidden>::allocate(unsigned long)",
         "game::(anonymous namespace)::Hidden", ELEMENT_SURE},
        {"std::__new_allocator<std::map<int, int, std::less<int>, mine::A<int> > >::allocate("
         "unsigned long)",
         "std::map<int, int, std::less<int>, mine::A<int>>", ELEMENT_SURE},
        {"std::allocator<std::set<int, std::less<void>, std::allocator<int> > >::allocate(unsigned "
         "long)",
         "std::set<int, std::less<void>>", ELEMENT_SURE},
        {"std::allocator<mine::list<int, std::allocator<int> > >::allocate(unsigned long)",
         "mine::list<int, std::allocator<int>>", ELEMENT_SURE},
        {STRING "::_M_create(unsigned long&, unsigned long)", "char", ELEMENT_DIRECT},
        {"void " STRING "::_M_construct<char*>(char*, char*, std::forward_iterator_tag)", "char",
         ELEMENT_DIRECT},
        {"std::pair<game::Item*, long> std::get_temporary_buffer<game::Item>(long)", "game::Item",
         ELEMENT_SURE},
    };
    CHECK_NAMES(cases);
}

/* clang++ 14 with libc++ 14. */
static void test_libcxx(void **state)
{
    (void)state;
    static const struct name_case cases[] = {
        {"std::__1::allocator<game::Item>::allocate(unsigned long)", "game::Item", ELEMENT_SURE},
        {"std::__1::allocator<int>::allocate[abi:v15006](unsigned long)", "int", ELEMENT_SURE},
        {"std::__1::allocator_traits<std::__1::allocator<double> >::allocate(std::__1::allocator<"
         "double>&, unsigned long)",
         "double", ELEMENT_SURE},
        {"std::__1::__allocate_at_least[abi:v15006]<std::__1::allocator<int> >(std::__1::allocator<"
         "int>&, unsigned long)",
         "int", ELEMENT_SURE},
        {"std::__1::vector<float, std::__1::allocator<float> >::__vallocate(unsigned long)",
         "float", ELEMENT_SURE},
        {"std::__1::allocator<std::__1::__tree_node<std::__1::__value_type<" STRING_1
         ", game::Item>, void*> >::allocate(unsigned long)",
         "std::pair<std::string const, game::Item>", ELEMENT_SURE},
        {"std::__1::allocator<std::__1::__hash_node<" STRING_1
         ", void*> >::allocate(unsigned long)",
         "std::string", ELEMENT_SURE},
        {"std::__1::allocator<std::__1::__shared_ptr_emplace<game::Item, std::__1::allocator<game::"
         "Item> > >::allocate(unsigned long)",
         "game::Item", ELEMENT_SURE},
        {"std::__1::allocator<std::__1::__function::__func<f_func()::$_1, "
         "std::__1::allocator<f_func("
         ")::$_1>, int (int)> >::allocate(unsigned long)",
         "f_func()::$_1", ELEMENT_SURE},
        {STRING_1 "::__init(char const*, unsigned long)", "char", ELEMENT_DIRECT},
    };
    CHECK_NAMES(cases);
}

/* gdc 12, as libiberty writes names; the templates of later compilers. */
static void test_d(void **state)
{
    (void)state;
    static const struct name_case cases[] = {
        {"std.container.array.Array!(t.Item).Array.Payload.reserve(ulong)", "t.Item", ELEMENT_SURE},
        {"std.experimental.allocator.make!(t.Item, "
         "shared(std.experimental.allocator.mallocator.Mallocator), int).make(ref "
         "shared(std.experimental.allocator.mallocator.Mallocator), int)",
         "t.Item", ELEMENT_IN_LINE},
        {"std.experimental.allocator.makeArray!(double, "
         "shared(std.experimental.allocator.mallocator.Mallocator)).makeArray(ref "
         "shared(std.experimental.allocator.mallocator.Mallocator), ulong)",
         "double", ELEMENT_IN_LINE},
        {"core.lifetime._d_newitemT!(t.Both!(int, t.Item).Both)._d_newitemT()",
         "t.Both!(int, t.Item).Both", ELEMENT_SURE},
        {"core.lifetime._d_newclassT!(t.Thing)._d_newclassT()", "t.Thing", ELEMENT_SURE},
        {"core.internal.array.construction._d_newarrayT!(int[])._d_newarrayT(ulong, bool)", "int[]",
         ELEMENT_SURE},
        {"core.internal.array.appending._d_arrayappendT!(immutable(char)[], char)._d_arrayappendT("
         "scope ref immutable(char)[], scope char[])",
         "immutable(char)", ELEMENT_SURE},
        {"core.internal.array.concatenation._d_arraycatnTX!(int[][], int[], int[])._d_arraycatnTX",
         "int[]", ELEMENT_SURE},
        /* local to another function, without a type, of another library, broken */
        {"std.experimental.allocator.make!(t.Item, int).make(int).construct().__lambda1()", "",
         ELEMENT_NONE},
        {"std.array.Appender!(t.Item[]).Appender.ensureAddable(ulong)", "", ELEMENT_NONE},
        {"core.internal.array.appending._d_arrayappendT!(t.Item)._d_arrayappendT()", "",
         ELEMENT_NONE},
        {"core.lifetime._d_newitemT!()._d_newitemT()", "", ELEMENT_NONE},
        {"core.lifetime._d_newitemT", "", ELEMENT_NONE},
        {"mine.core.lifetime._d_newitemT!(int)._d_newitemT()", "", ELEMENT_NONE},
        {"core.lifetime._d_newitemT!(int", "", ELEMENT_NONE},
        {"core.lifetime._d_newitemT!(int]))._d_newitemT()", "", ELEMENT_NONE},
        {"core.lifetime..x!(int)()", "", ELEMENT_NONE},
        {"a!(\"", "", ELEMENT_NONE},
        {"!(", "", ELEMENT_NONE},
    };
    CHECK_NAMES(cases);
}

/* rustc 1.95 with v0 mangling; names of debug information; older mangling, which has no types. */
static void test_rust(void **state)
{
    (void)state;
    static const struct name_case cases[] = {
        {"<alloc::boxed::Box<r::demo::Item>>::new", "r::demo::Item", ELEMENT_SURE},
        {"<alloc::boxed::Box<(u32, char, &str)>>::new", "(u32, char, &str)", ELEMENT_SURE},
        {"<alloc::boxed::Box<[u8; 100]>>::new", "[u8; 100]", ELEMENT_SURE},
        {"<alloc::boxed::Box<r::f_clos::{closure#0}>>::new", "r::f_clos::{closure#0}",
         ELEMENT_SURE},
        {"<alloc::boxed::Box<alloc::sync::ArcInner<r::demo::Item>>>::new", "r::demo::Item",
         ELEMENT_SURE},
        {"<alloc::boxed::Box<alloc::rc::RcInner<core::cell::RefCell<r::demo::Item>>>>::new",
         "core::cell::RefCell<r::demo::Item>", ELEMENT_SURE},
        {"<alloc::boxed::Box<alloc::collections::linked_list::Node<usize>, "
         "&alloc::alloc::Global>>::new_in",
         "usize", ELEMENT_SURE},
        {"<alloc::raw_vec::RawVec<r::demo::Gen<f32>>>::grow_one", "r::demo::Gen<f32>",
         ELEMENT_SURE},
        {"<alloc::raw_vec::RawVec<fn(u8) -> u16>>::with_capacity_in", "fn(u8) -> u16",
         ELEMENT_SURE},
        {"<alloc::raw_vec::RawVec<alloc::vec::Vec<u8, alloc::alloc::Global>>>::grow_one",
         "alloc::vec::Vec<u8>", ELEMENT_SURE},
        {"<alloc::raw_vec::RawVec<alloc::boxed::Box<dyn r::Fn<(u8,), Output = i32> + "
         "core::marker::Send>>>::grow_one",
         "alloc::boxed::Box<dyn r::Fn<(u8,), Output = i32> + core::marker::Send>", ELEMENT_SURE},
        {"<alloc::raw_vec::RawVec<r::Is<'<'>>>::grow_one", "r::Is<'<'>", ELEMENT_SURE},
        {"<alloc::vec::Vec<u8>>::reserve", "u8", ELEMENT_SURE},
        {"<alloc::sync::Arc<[u8]>>::allocate_for_layout::<<alloc::sync::Arc<[u8]>>::"
         "allocate_for_slice::{closure#0}, <alloc::sync::Arc<[u8]>>::allocate_for_slice::"
         "{closure#1}>",
         "u8", ELEMENT_SURE},
        {"alloc::boxed::Box<demo::Item, alloc::alloc::Global>::new<demo::Item>", "demo::Item",
         ELEMENT_SURE},
        {"alloc::raw_vec::RawVec<u64,alloc::alloc::Global>::reserve", "u64", ELEMENT_SURE},
        {"alloc::boxed::Box<T>::new", "", ELEMENT_NONE},
        {"alloc::vec::Vec<T,A>::push", "", ELEMENT_NONE},
        {"alloc::raw_vec::RawVec<(K, V)>::grow_one", "", ELEMENT_NONE},
        {"<alloc::raw_vec::RawVecInner<_>>::reserve::do_reserve_and_handle::<alloc::alloc::Global>",
         "", ELEMENT_NONE},
        {"alloc::boxed::Box$LT$T$GT$::new::h0123456789abcdef", "", ELEMENT_NONE},
        {"<alloc::vec::Vec<u8> as core::clone::Clone>::clone", "", ELEMENT_NONE},
    };
    CHECK_NAMES(cases);
}

/* What tells nothing, or not for sure; what is no name at all. */
static void test_no_type(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "malloc",
        "operator new(unsigned long)",
        "game::Item::Item(int)",
        "void std::vector<A, std::allocator<A> >::_M_realloc_insert<A>(A*, A&&)",
        "std::allocator_traits<mine::Arena<int> >::allocate(mine::Arena<int>&, unsigned long)",
        "mine::allocator<int>::allocate(unsigned long)",
        "allocate",
        "std::allocator::allocate(unsigned long)",
        "std::allocator<>::allocate(unsigned long)",
        "std::allocator<_>::allocate(unsigned long)",
        "std::allocator<std::pair<A, _> >::allocate(unsigned long)",
        "std::allocator<int>::deallocate(int*, unsigned long)",
        "std::allocator<int>::allocate(unsigned long)::{lambda()#1}::operator()() const",
        "std::allocator<int",
        "std::allocator<int>::allocate<",
        "std::allocator<(int>::allocate(",
        "std::__shared_count<(__gnu_cxx::_Lock_policy)2>::__shared_count<game::Item*>(game::Item*)",
        "<",
        "<>",
        "<>::",
        "::",
        "operator<",
        ">>>>",
        "((((",
        "'",
        "\"",
        "-",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct buf out = {0};
        assert_int_equal(element_type(view_of(names[i]), &out), ELEMENT_NONE);
        assert_int_equal(out.len, 0);
        buf_release(&out);
    }
    /* A frame may have no text at all. */
    struct buf none = {0};
    assert_int_equal(element_type((struct view){0}, &none), ELEMENT_NONE);
    buf_release(&none);
}

/* Cut anywhere, and with any byte changed to any bracket, a name is read within its bounds. */
static void test_damaged_names(void **state)
{
    (void)state;
    static const char whole[] =
        "std::__new_allocator<std::_Rb_tree_node<std::pair<" STRING
        " const, Sized<((3)>(2)), &(operator< ), '<'> > > >::allocate(unsigned long, void const*)";
    static const char changes[] = "<>(){}[]'\"-:, o";
    struct buf out = {0};
    size_t told = 0;
    for (size_t len = 0; len < sizeof whole; len++) {
        char *copy = malloc(len ? len : 1);
        assert_non_null(copy);
        memcpy(copy, whole, len);
        for (size_t c = 0; len && c < sizeof changes - 1; c++) {
            char old = copy[len / 2];
            copy[len / 2] = changes[c];
            buf_clear(&out);
            told += element_type((struct view){copy, len}, &out) != ELEMENT_NONE;
            copy[len / 2] = old;
        }
        free(copy);
    }
    assert_true(told > 0);
    buf_release(&out);
}

static void test_deep_and_long_names(void **state)
{
    (void)state;
    struct buf name = {0};
    struct buf out = {0};
    buf_puts(&name, "std::allocator<");
    for (int i = 0; i < 100; i++)
        buf_puts(&name, "A<");
    buf_puts(&name, "int");
    for (int i = 0; i < 100; i++)
        buf_puts(&name, " >");
    buf_puts(&name, ">::allocate(unsigned long)");
    assert_int_equal(element_type((struct view){(char *)name.data, name.len}, &out), ELEMENT_SURE);
    assert_true(out.len > 300);
    buf_clear(&name);
    for (int i = 0; i < 30000; i++)
        buf_puts(&name, "<");
    assert_int_equal(element_type((struct view){(char *)name.data, name.len}, &out), ELEMENT_NONE);
    buf_clear(&name);
    buf_puts(&name, "std::allocator<");
    for (int i = 0; i < 70000; i++)
        buf_puts(&name, "x");
    buf_puts(&name, ">::allocate(unsigned long)");
    assert_int_equal(element_type((struct view){(char *)name.data, name.len}, &out), ELEMENT_NONE);
    buf_release(&name);
    buf_release(&out);
}

/* ---- call stacks */

struct inlined {
    const char *function;
    const char *file;
};

/* A call stack of one frame with these functions, innermost first, and `outer` around it. */
static uint32_t stack_of(struct fixture *f, uint64_t address, const struct inlined *list, size_t n,
                         const char *outer)
{
    struct rec_inline_frame in[8];
    bool fresh;
    uint32_t id;
    uint64_t frames[2] = {address, address + 1};
    for (size_t i = 0; i < n; i++)
        in[i] = (struct rec_inline_frame){.function = fixture_text(f, list[i].function),
                                          .file = fixture_text(f, list[i].file),
                                          .line = 1};
    struct callstacks *c = &f->trace.callstacks;
    uint32_t image = fixture_text(f, "prog");
    struct rec_inline_frame around = {
        .function = fixture_text(f, outer), .file = fixture_text(f, "main.cpp"), .line = 2};
    assert_int_equal(callstacks_resolve(c, frames[0], image, in, (uint8_t)n, &f->e), 0);
    assert_int_equal(callstacks_resolve(c, frames[1], image, &around, 1, &f->e), 0);
    assert_int_equal(callstacks_intern(c, frames, 2, &id, &fresh, &f->e), 0);
    return id;
}

static void build(struct fixture *f, const struct skiplist *skip, struct types *t)
{
    struct program_frames program;
    assert_int_equal(program_frames_init(&program, &f->trace, skip, &f->e), 0);
    assert_int_equal(types_build(t, &program, &f->e), 0);
    program_frames_release(&program);
}

static const char *type_of(struct fixture *f, uint32_t stack, struct types *t)
{
    static char text[256];
    build(f, NULL, t);
    struct view name = t->names.at[types_of(t, stack)];
    assert_true(name.len < sizeof text);
    memcpy(text, name.p, name.len);
    text[name.len] = 0;
    types_release(t);
    return text;
}

#define TYPE_OF(outer, ...)                                                                        \
    type_of(&f,                                                                                    \
            stack_of(&f, address += 16, (struct inlined[]){__VA_ARGS__},                           \
                     sizeof((struct inlined[]){__VA_ARGS__}) / sizeof(struct inlined), outer),     \
            &t)

#define NEW                                                                                        \
    {                                                                                              \
        "operator new(unsigned long)", "new.cpp"                                                   \
    }
#define HEADER "/usr/include/c++/12/bits/x.h"

static void test_call_stacks(void **state)
{
    (void)state;
    struct fixture f;
    struct types t;
    uint64_t address = 0x1000;
    fixture_init(&f);
    /* The innermost one that tells decides, and the program ends the search. */
    assert_string_equal(TYPE_OF("std::allocator<int>::allocate(unsigned long)", NEW,
                                {"std::allocator<char>::allocate(unsigned long)", HEADER},
                                {"make()", "a.cpp"}),
                        "char");
    assert_string_equal(
        TYPE_OF("std::allocator<int>::allocate(unsigned long)", NEW, {"make()", "a.cpp"}), "");
    /* In a frame further out. */
    assert_string_equal(TYPE_OF("std::allocator<long>::allocate(unsigned long)", NEW), "long");
    assert_string_equal(TYPE_OF("main", NEW), "");
    /* Only who called operator new itself. */
    assert_string_equal(TYPE_OF("main", NEW, {"std::make_unique<A>()", HEADER}), "A");
    assert_string_equal(TYPE_OF("main", NEW, {"std::make_unique<A>()", ""}), "");
    assert_string_equal(TYPE_OF("main", NEW, {"std::unique_lock<A>::lock()", HEADER},
                                {"std::make_unique<A>()", HEADER}),
                        "");
    assert_string_equal(
        TYPE_OF("main", NEW, {"A::A()", "a.cpp"}, {"std::make_unique<A>()", HEADER}), "");
    assert_string_equal(TYPE_OF("main", NEW, {"void " STRING "::_M_assign(" STRING " const&)", ""}),
                        "char");
    /* What instrumentation called has no say, what called it has. */
    assert_string_equal(
        TYPE_OF("main", {"std::allocator<short>::allocate(unsigned long)", HEADER},
                {"tracy::Profiler::MemAllocCallstack(void const*, unsigned long, int)", "x.hpp"},
                NEW, {"std::make_unique<B>()", HEADER}),
        "B");
    /* Which of the merged functions was called is unknown, and so is what was inlined there. */
    assert_string_equal(TYPE_OF("main", NEW, {"<alloc::raw_vec::RawVec<_>>::grow_one", ""}), "");
    assert_string_equal(TYPE_OF("main", NEW, {"<alloc::vec::Vec<r::B>>::push", "vec.rs"},
                                {"<alloc::raw_vec::RawVec<_>>::grow_one", ""}),
                        "");
    assert_string_equal(TYPE_OF("<alloc::vec::Vec<r::B>>::push", NEW,
                                {"<alloc::raw_vec::RawVec<_>>::grow_one", ""}),
                        "r::B");
    /* Both cannot be right: one is a merged function of another type. */
    assert_string_equal(TYPE_OF("<alloc::vec::Vec<r::C>>::push", NEW,
                                {"<alloc::raw_vec::RawVec<r::B>>::grow_one", ""}),
                        "");
    assert_string_equal(TYPE_OF("main", NEW, {"<alloc::raw_vec::RawVec<r::B>>::grow_one", ""},
                                {"<alloc::vec::Vec<r::C>>::push", "vec.rs"}),
                        "");
    assert_string_equal(TYPE_OF("<alloc::vec::Vec<r::B>>::push", NEW,
                                {"<alloc::raw_vec::RawVec<r::B>>::grow_one", ""}),
                        "r::B");
    /* Equal types are one. */
    struct inlined box = {"<alloc::boxed::Box<r::B>>::new", "/rustc/1/library/alloc/boxed.rs"};
    struct inlined vec = {"<alloc::vec::Vec<r::B>>::push", "/rustc/1/library/alloc/vec.rs"};
    uint32_t a = stack_of(&f, 0x9000, &box, 1, "r::main");
    uint32_t b = stack_of(&f, 0xa000, &vec, 1, "r::main");
    build(&f, NULL, &t);
    assert_int_not_equal(types_of(&t, a), TYPE_NONE);
    assert_int_equal(types_of(&t, a), types_of(&t, b));
    assert_int_equal(types_of(&t, 0), TYPE_NONE);
    assert_int_equal(types_of(&t, 1u << 30), TYPE_NONE);
    types_release(&t);
    fixture_release(&f);
}

/* A wrapper of the program's own is passed over with --skip alone. */
static void test_skipped_wrappers(void **state)
{
    (void)state;
    struct fixture f;
    struct types t;
    struct skiplist skip = {0};
    fixture_init(&f);
    const struct inlined list[] = {{"arena_take(unsigned long)", "arena.cpp"},
                                   {"std::make_unique<A>()", HEADER}};
    uint32_t stack = stack_of(&f, 0x1000, list, 2, "main");
    assert_string_equal(type_of(&f, stack, &t), "");
    assert_int_equal(skiplist_add(&skip, "^arena_", &f.e), 0);
    build(&f, &skip, &t);
    assert_true(view_equal(t.names.at[types_of(&t, stack)], view_of("A")));
    types_release(&t);
    skiplist_release(&skip);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libstdcxx),
        cmocka_unit_test(test_libcxx),
        cmocka_unit_test(test_d),
        cmocka_unit_test(test_rust),
        cmocka_unit_test(test_no_type),
        cmocka_unit_test(test_damaged_names),
        cmocka_unit_test(test_deep_and_long_names),
        cmocka_unit_test(test_call_stacks),
        cmocka_unit_test(test_skipped_wrappers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
