/* Bare function names, what counts as machinery, and the site of a call stack. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/figures/sites.h"
#include "analysis/names/function_name.h"

static void test_function_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"malloc", "malloc"},
        {"malloc@plt", "malloc"},
        {"malloc.part.0", "malloc"},
        {"render::Mesh::build_vertices(Rng&)", "render::Mesh::build_vertices"},
        {"void* containers::ring_push<Handoff>(Rng&, Handoff&&)", "containers::ring_push"},
        {"containers::with_lambda(Rng&)::{lambda()#1}::operator()() const",
         "containers::with_lambda::{lambda()#1}::operator()"},
        {"std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
         "std::vector::_M_realloc_insert"},
        {"__gnu_cxx::new_allocator<char>::allocate(unsigned long, void const*)",
         "__gnu_cxx::new_allocator::allocate"},
        {"operator new(unsigned long)", "operator new"},
        {"operator new[](unsigned long, std::align_val_t)", "operator new[]"},
        {"void* Foo<int>::operator new(unsigned long)", "Foo::operator new"},
        {"bool operator< <int>(A<int> const&, A<int> const&)", "operator< <int>"},
        {"std::ostream& operator<<(std::ostream&, Foo const&)", "operator<<"},
        {"A::operator->() const", "A::operator->"},
        {"(anonymous namespace)::helper(int)", "(anonymous namespace)::helper"},
        {"Foo::bar(int) const::Local::run()", "Foo::bar::Local::run"},
        {"static void tracy::Profiler::MemAllocCallstack(const void*, size_t, int, bool)",
         "tracy::Profiler::MemAllocCallstack"},
        {"std::__cxx11::basic_string<char>::_M_create[abi:cxx11](unsigned long&)",
         "std::__cxx11::basic_string::_M_create"},
        {"grow(Vec&) [clone .cold]", "grow"},
        {"decltype(auto) run<int>(int)", "run"},
        {"<tracy_client::ProfiledAllocator<T> as core::alloc::global::GlobalAlloc>::alloc",
         "tracy_client::ProfiledAllocator::alloc"},
        {"<alloc::boxed::Box<demo::Item>>::new", "alloc::boxed::Box::new"},
        {"alloc::vec::from_elem::<u16>", "alloc::vec::from_elem"},
        {"<[u8]>::to_vec::<alloc::alloc::Global>", "[u8]::to_vec"},
        {"operators::run(int)", "operators::run"},
        {"shop::`anonymous namespace'::serve", "shop::`anonymous namespace'::serve"},
        {"Map<int>::`scalar deleting destructor'", "Map::`scalar deleting destructor'"},
        {"a`b c", "c"},
        {"near std::vector<int>::reserve(unsigned long)+0x630",
         "near std::vector<int>::reserve(unsigned long)+0x630"},
        {"near f(int)+0x", "f"},
        {"[unknown]", "[unknown]"},
        {"", ""},
        {"<", "<"},
        {"(", "("},
        {"a<b", "a"},
        {"operator", "operator"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[FUNCTION_NAME_SIZE];
        size_t len = function_name(view_of(cases[i][0]), out);
        assert_string_equal(out, cases[i][1]);
        assert_int_equal(len, strlen(out));
    }
}

static void test_long_function_name_is_cut(void **state)
{
    (void)state;
    char text[4096];
    memset(text, 'x', sizeof text);
    char out[FUNCTION_NAME_SIZE];
    assert_int_equal(function_name((struct view){text, sizeof text}, out), FUNCTION_NAME_SIZE - 1);
    assert_int_equal(out[FUNCTION_NAME_SIZE - 1], 0);
}

static void test_names_for_people(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"void std::vector<Mesh, std::allocator<Mesh> >::_M_realloc_insert<Mesh>(Mesh*, Mesh&&)",
         "std::vector<…>::_M_realloc_insert"},
        {"G1ConcurrentMark::G1ConcurrentMark(G1CollectedHeap*, G1RegionToSpaceMapper*)",
         "G1ConcurrentMark::G1ConcurrentMark"},
        {"v8::internal::Deserializer<v8::internal::Isolate>::ReadObject(v8::internal::Space)",
         "v8::internal::Deserializer<…>::ReadObject"},
        {"<alloc::vec::Vec<demo::Item> as core::iter::FromIterator<demo::Item>>::from_iter",
         "alloc::vec::Vec::from_iter"},
        {"A<B<C>, D>::get<E>(std::function<void (int)>, unsigned "
         "long)::{lambda(int)#1}::operator()",
         "A<…>::get::{lambda(int)#1}::operator()"},
        {"short<int>::name(int)", "short<int>::name(int)"},
        {"near void std::vector<Mesh, std::allocator<Mesh> >::_M_realloc_insert<Mesh>(Mesh*, "
         "Mesh&&)+0x630",
         "near std::vector<…>::_M_realloc_insert+0x630"},
        {"near A<B<C>, D>::get<E>(std::function<void (int)>, unsigned long, char const*)+0x",
         "A<…>::get"},
        {"a_python_function_of_a_long_name.<locals>.another.<locals>.and_one_more",
         "a_python_function_of_a_long_name.<locals>.another.<locals>.and_one_more"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = {0};
        function_name_short(&out, view_of(cases[i][0]));
        assert_string_equal(buf_str(&out), cases[i][1]);
        buf_release(&out);
    }
}

static void test_long_types_for_people(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"alloc::collections::btree::node::LeafNode<usize, std::sys::pal::unix::ThreadInfo>",
         "alloc::collections::btree::node::LeafNode<…>"},
        {"std::map<Key, std::vector<Item, std::allocator<Item>>, std::less<Key>>",
         "std::map<Key, std::vector<…>, std::less<…>>"},
        {"core::option::Option<alloc::boxed::Box<dyn Fn(u8) -> alloc::vec::Vec<u8>>>",
         "core::option::Option<alloc::boxed::Box<…>>"},
        {"std::map<std::string, std::vector<int>>", "std::map<std::string, std::vector<int>>"},
        {"damaged>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>><<a",
         "damaged>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>><…"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = {0};
        type_name_short(&out, view_of(cases[i][0]));
        assert_string_equal(buf_str(&out), cases[i][1]);
        buf_release(&out);
    }
}

static enum frame_class class_of(const struct skiplist *s, const char *function, const char *file)
{
    return skiplist_class(s, view_of(function), view_of(file));
}

static void test_images_that_pass_calls_on(void **state)
{
    (void)state;
    static const char *const bridges[][2] = {
        {"/lib/x86_64-linux-gnu/libffi.so.8", "libffi"},
        {"/venv/cffi.libs/libffi-a1b2c3d4.so.8.1.4", "libffi"},
        {"/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", "ctypes"},
        {"_cffi_backend.abi3.so", "cffi"},
    };
    static const char *const others[] = {"", "/opt/libffi.so.8/app", "libffish.so",
                                         "_ctypes_test.so"};
    struct skiplist s = {0};
    struct err e = {0};
    const struct view name = view_of("ffi_call"), none = {"", 0};
    for (size_t i = 0; i < sizeof bridges / sizeof *bridges; i++) {
        struct view image = view_of(bridges[i][0]);
        struct frame_verdict v = skiplist_verdict(&s, name, none, image);
        assert_int_equal(v.class, FRAME_ALLOCATOR);
        assert_string_equal(v.rule, bridges[i][1]);
        assert_false(v.allocates);
        assert_int_equal(skiplist_verdict(&s, none, none, image).class, FRAME_ALLOCATOR);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(skiplist_verdict(&s, name, none, view_of(others[i])).class, FRAME_PROGRAM);
    assert_int_equal(skiplist_keep(&s, "^ffi_", &e), 0);
    assert_true(skiplist_verdict(&s, name, none, view_of(bridges[0][0])).kept);
    skiplist_release(&s);
}

static void test_skiplist(void **state)
{
    (void)state;
    struct skiplist s = {0};
    static const char *const allocators[] = {
        "malloc",
        "__libc_calloc",
        "posix_memalign",
        "operator new(unsigned long)",
        "operator new[](unsigned long, std::nothrow_t const&)",
        "operator new(unsigned long, std::align_val_t)",
        "Node::operator new(unsigned long)",
        "_Znwm",
        "std::allocator<char>::allocate(unsigned long)",
        "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "alloc::alloc::exchange_malloc",
        "<alloc::boxed::Box<demo::Item>>::new",
        "__rustc::__rust_alloc",
        "__rust_alloc_zeroed",
        "je_malloc_default",
        "mi_heap_malloc_zero",
        "tc_newarray",
        "g_malloc0",
        "__interceptor_malloc",
        "xmalloc",
        "sqlite3Malloc",
        "jv_mem_calloc",
        "jv_mem_alloc",
        "zrealloc.part.0",
        "zmalloc_usable",
        "my_malloc",
        "ngx_create_pool",
        "palloc0",
        "os::malloc(unsigned long, MEMFLAGS, NativeCallStack const&)",
        "g_strdup_printf",
        "Curl_saferealloc",
        "_d_newclass",
        "core.internal.gc.impl.conservative.gc.Gcx.newPool(ulong, bool)",
        "std.container.array.Array!(t.Item).Array.Payload.reserve(ulong)",
        "_D3std8internal6memory__T14enforceReallocZQrFNaNbNiNkMPvmZQe",
        "at::native::empty_cuda(c10::ArrayRef<long>)",
        "bool at::native::_resize_output<long>(at::Tensor const&, long)",
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(int)",
        "torch::autograd::VariableType::(anonymous namespace)::embedding(int)",
        "_PyEval_EvalFrame",
        "_PyObject_MakeTpCall",
    };
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
        assert_int_equal(class_of(&s, allocators[i], "/src/x.cpp"), FRAME_ALLOCATOR);
    static const char *const program[] = {
        "main",
        "my_malloc(int)",
        "stdx::run()",
        "mi_open",
        "tc_open_alloc",
        "free_list_push",
        "tracy_wrapper()",
        "allocator::Arena::allocate(int)",
        "rpc_allocate",
        "render::malloc()",
        "Callstack::push()",
        "",
        "malloc_report",
        "item_alloc",
        "std",
        "rt.part.0",
        "t.containers()",
        "gc_collect",
        "caller_of_xmalloc",
        "caller_of_malloc",
        "load_strdup_table_realloc",
        "callerOfManyXmalloc",
        "ngx_palloc_report",
        "my_zmalloc_usable",
        "torch::autograd::generated::MulBackward0::apply(int)",
        "attach",
        "cat::run()",
        "PyInit_module",
    };
    for (size_t i = 0; i < sizeof program / sizeof *program; i++)
        assert_int_equal(class_of(&s, program[i], "/src/x.cpp"), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "Callstack", "x.hpp"), FRAME_INSTRUMENTATION);
    assert_int_equal(class_of(&s, "tracy::Callstack(int)", ""), FRAME_INSTRUMENTATION);
    assert_int_equal(class_of(&s, "___tracy_emit_memory_alloc", ""), FRAME_INSTRUMENTATION);
    assert_int_equal(class_of(&s, "f", "/a/public/client/TracyProfiler.hpp"),
                     FRAME_INSTRUMENTATION);
    assert_int_equal(class_of(&s, "f", "TracyC.h"), FRAME_INSTRUMENTATION);
    assert_int_equal(class_of(&s, "f", "/src/engine/TracyProfiler.hpp"), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "f", "/src/client/TracyGlue.cpp"), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "_M_realloc_insert", "/usr/include/c++/12/bits/vector.tcc"),
                     FRAME_ALLOCATOR);
    assert_int_equal(class_of(&s, "__gthread_mutex_lock",
                              "/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h"),
                     FRAME_ALLOCATOR);
    assert_int_equal(class_of(&s, "f", "/usr/include/c++/12/x"), FRAME_ALLOCATOR);
    assert_int_equal(class_of(&s, "near std::f(int)+0x20", ""), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "f", "/src/c++/x.cpp"), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "linear", "/v/site-packages/torch/nn/functional.py"),
                     FRAME_ALLOCATOR);
    assert_int_equal(class_of(&s, "f", "/v/site-packages/torchvision/x.py"), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "f", "<frozen importlib._bootstrap_external>"), FRAME_ALLOCATOR);
    assert_int_equal(class_of(&s, "f", "<frozen os>"), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "f", "/usr/lib/python3.11/importlib/util.py"), FRAME_PROGRAM);
    skiplist_release(&s);
}

static void test_user_regex(void **state)
{
    (void)state;
    struct skiplist s = {0};
    struct err e = {0};
    assert_int_equal(skiplist_add(&s, "^arena_(push|pop)", &e), 0);
    assert_int_equal(skiplist_add(&s, "/third_party/", &e), 0);
    assert_int_equal(class_of(&s, "arena_push(int)", "a.c"), FRAME_ALLOCATOR);
    assert_int_equal(class_of(&s, "my_arena_push(int)", "a.c"), FRAME_PROGRAM);
    assert_int_equal(class_of(&s, "x", "/src/third_party/a.c"), FRAME_ALLOCATOR);
    assert_int_equal(skiplist_add(&s, "(", &e), -1);
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.text, "'('"));
    skiplist_release(&s);
}

struct fixture {
    struct trace trace;
    struct err e;
};

static uint32_t text(struct fixture *f, const char *s)
{
    return *s ? strings_intern(&f->trace.strings, view_of(s), &f->e) : 0;
}

/* A frame with up to two functions, the inner one inlined; outer NULL: just one. */
static void resolve(struct fixture *f, uint64_t id, const char *inner, const char *outer)
{
    struct rec_inline_frame in[2] = {
        {.function = text(f, inner), .file = text(f, "/src/a.cpp"), .line = 10},
        {.function = outer ? text(f, outer) : 0, .file = text(f, "/src/a.cpp"), .line = 20},
    };
    assert_int_equal(
        callstacks_resolve(&f->trace.callstacks, id, text(f, "prog"), in, outer ? 2 : 1, &f->e), 0);
}

static uint32_t stack(struct fixture *f, const uint64_t *frames, uint32_t n)
{
    uint32_t id;
    bool fresh;
    assert_int_equal(callstacks_intern(&f->trace.callstacks, frames, n, &id, &fresh, &f->e), 0);
    return id;
}

#define STACK(F, ...)                                                                              \
    stack(F, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){0};
    assert_int_equal(trace_init(&f->trace, NULL, &f->e), 0);
    resolve(f, 0x100, "Callstack", "tracy::Profiler::MemAlloc(void const*)");
    resolve(f, 0x200, "operator new(unsigned long)", NULL);
    resolve(f, 0x300, "std::vector<int>::push_back(int&&)", "load_level(int)");
    resolve(f, 0x400, "inlined_take", "session_open");
    resolve(f, 0x500, "main", NULL);
    resolve(f, 0x501, "main", NULL); /* the same place at another address */
    resolve(f, 0x700, "[unknown] + 140400311223459", NULL);
    resolve(f, 0x800, "malloc + 45", NULL);
    resolve(f, 0x801, "load_asset(int) + 45", NULL);
    resolve(f, 0x802, "load_asset(int) + 99", NULL);
}

static void expect_site(const struct sites *s, uint32_t callstack, const char *function)
{
    assert_true(callstack < s->callstack_count);
    struct buf name = {0};
    frame_name(&name, &s->list.at[s->of_callstack[callstack]].frame);
    assert_string_equal(buf_str(&name), function);
    buf_release(&name);
}

static void test_sites_of_call_stacks(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    uint32_t inlined_vector = STACK(&f, 0x100, 0x200, 0x300, 0x500);
    uint32_t inlined_program = STACK(&f, 0x100, 0x200, 0x400, 0x500);
    uint32_t main_one = STACK(&f, 0x100, 0x500);
    uint32_t main_two = STACK(&f, 0x100, 0x200, 0x501);
    uint32_t allocator_only = STACK(&f, 0x100, 0x200);
    uint32_t client_only = STACK(&f, 0x100);
    uint32_t nameless = STACK(&f, 0x200, 0x700, 0x500);
    uint32_t offset_one = STACK(&f, 0x800, 0x801, 0x500);
    uint32_t offset_two = STACK(&f, 0x800, 0x802, 0x500);
    uint32_t unresolved = STACK(&f, 0x200, 0x900, 0x500);
    uint32_t kernel = STACK(&f, UINT64_C(0x3fffffff81000000), 0x500);
    struct skiplist skip = {0};
    struct sites s;
    assert_int_equal(sites_build(&s, &f.trace, &skip, SITE_BY_LINE, &f.e), 0);
    assert_int_equal(s.of_callstack[0], SITE_NO_CALLSTACK);
    expect_site(&s, inlined_vector, "load_level(int)");
    expect_site(&s, inlined_program, "inlined_take");
    expect_site(&s, main_one, "main");
    assert_int_equal(s.of_callstack[main_one], s.of_callstack[main_two]);
    expect_site(&s, allocator_only, "operator new(unsigned long)");
    expect_site(&s, client_only, "tracy::Profiler::MemAlloc(void const*)");
    expect_site(&s, nameless, "[unknown] prog (0x700)");
    expect_site(&s, offset_one, "load_asset(int)");
    assert_int_equal(s.of_callstack[offset_one], s.of_callstack[offset_two]);
    expect_site(&s, unresolved, "[unknown] (0x900)");
    expect_site(&s, kernel, "[unknown] (0xffffffff81000000)");
    sites_release(&s);
    assert_int_equal(skiplist_add(&skip, "^inlined_take$", &f.e), 0);
    assert_int_equal(sites_build(&s, &f.trace, &skip, SITE_BY_FUNCTION, &f.e), 0);
    expect_site(&s, inlined_program, "session_open");
    expect_site(&s, nameless, "[unknown] prog");
    sites_release(&s);
    skiplist_release(&skip);
    trace_release(&f.trace);
}

/* As in a real trace: the client's own mutex, inlined into the client's function. */
static void test_what_the_client_calls_is_no_site(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    struct rec_inline_frame in[3] = {
        {.function = text(&f, "pthread_mutex_lock_wrapper"), .file = text(&f, "/x/lock.h")},
        {.function = text(&f, "tracy::Profiler::MemAllocCallstack(void const*, unsigned long)")},
        {.function = text(&f, "load_level(int)")},
    };
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, 0xa00, 0, in, 3, &f.e), 0);
    resolve(&f, 0xa01, "unwind_step", NULL);
    resolve(&f, 0xa02, "tracy::Callstack(int)", NULL);
    uint32_t within_frame = STACK(&f, 0xa00, 0x500);
    uint32_t inner_frame = STACK(&f, 0xa01, 0xa02, 0x400);
    /* A thread of the client: its frames at the outer end say nothing about the inner ones. */
    uint32_t deep = STACK(&f, 0x400, 1, 2, 3, 4, 5, 6, 7, 0xa02);
    struct skiplist skip = {0};
    struct sites s;
    assert_int_equal(sites_build(&s, &f.trace, &skip, SITE_BY_LINE, &f.e), 0);
    expect_site(&s, within_frame, "load_level(int)");
    expect_site(&s, inner_frame, "inlined_take");
    expect_site(&s, deep, "inlined_take");
    sites_release(&s);
    trace_release(&f.trace);
}

/* An extension without symbols, called by an interpreted function, which has no image. */
static void test_interpreted_caller(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    const uint64_t source = FRAME_ID_CUSTOM | 1, unplaced = FRAME_ID_CUSTOM | 2,
                   import = FRAME_ID_CUSTOM | 3, library = FRAME_ID_CUSTOM | 4,
                   package = FRAME_ID_CUSTOM | 5;
    struct rec_inline_frame in = {
        .function = text(&f, "fill"), .file = text(&f, "/srv/fill.py"), .line = 7};
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, source, 0, &in, 1, &f.e), 0);
    in = (struct rec_inline_frame){.function = text(&f, "made up")};
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, unplaced, 0, &in, 1, &f.e), 0);
    in = (struct rec_inline_frame){.function = text(&f, "_find_and_load"),
                                   .file = text(&f, "<frozen importlib._bootstrap>"),
                                   .line = 9};
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, import, 0, &in, 1, &f.e), 0);
    in = (struct rec_inline_frame){.function = text(&f, "raw_decode"),
                                   .file = text(&f, "/x/lib/python3.12/json/decoder.py"),
                                   .line = 353};
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, library, 0, &in, 1, &f.e), 0);
    in.function = text(&f, "fit");
    in.file = text(&f, "/x/lib/python3.12/site-packages/model/fit.py");
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, package, 0, &in, 1, &f.e), 0);
    in = (struct rec_inline_frame){.function = text(&f, "__libc_start_call_main")};
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, 0xc00, text(&f, "libc"), &in, 1, &f.e),
                     0);
    in = (struct rec_inline_frame){.function = text(&f, "numeric.so+0xde137")};
    assert_int_equal(
        callstacks_resolve(&f.trace.callstacks, 0xb00, text(&f, "/x/numeric.so"), &in, 1, &f.e), 0);
    in = (struct rec_inline_frame){.function = text(&f, "scan_once")};
    uint32_t module = text(&f, "/usr/lib/python3.11/lib-dynload/_json.cpython-311.so");
    assert_int_equal(callstacks_resolve(&f.trace.callstacks, 0xd00, module, &in, 1, &f.e), 0);
    uint32_t called = STACK(&f, 0x100, 0xb00, source, 0x500);
    uint32_t by_module = STACK(&f, 0x100, 0xd00, 0xd00, source, 0x500);
    uint32_t by_module_alone = STACK(&f, 0x100, 0xd00, 0x500);
    uint32_t by_module_at_end = STACK(&f, 0x100, 0xd00);
    uint32_t by_library = STACK(&f, 0x100, 0xd00, library, library, source, 0x500);
    uint32_t by_package = STACK(&f, 0x100, library, package, library, source, 0x500);
    uint32_t by_library_alone = STACK(&f, 0x100, 0xd00, library, 0x500);
    uint32_t by_other = STACK(&f, 0x100, 0xb00, unplaced, 0x500);
    uint32_t imported = STACK(&f, 0x200, import, import, source, 0x500);
    uint32_t imported_image = STACK(&f, 0x200, 0xb00, import, source, 0x500);
    uint32_t at_start = STACK(&f, 0x200, import, 0xc00);
    uint32_t at_nameless_start = STACK(&f, 0x200, import, 0xb00, 0xc00);
    struct sites s;
    assert_int_equal(sites_build(&s, &f.trace, NULL, SITE_BY_FUNCTION, &f.e), 0);
    expect_site(&s, called, "fill");
    expect_site(&s, by_module, "fill");
    expect_site(&s, by_module_alone, "scan_once");
    expect_site(&s, by_module_at_end, "scan_once");
    expect_site(&s, by_library, "fill");
    expect_site(&s, by_package, "fit");
    expect_site(&s, by_library_alone, "raw_decode");
    expect_site(&s, by_other, "numeric.so+0xde137");
    expect_site(&s, imported, "fill");
    expect_site(&s, imported_image, "fill");
    expect_site(&s, at_start, "_find_and_load");
    expect_site(&s, at_nameless_start, "_find_and_load");
    sites_release(&s);
    struct skiplist skip = {0};
    assert_int_equal(skiplist_keep(&skip, "scan_once", &f.e), 0);
    assert_int_equal(sites_build(&s, &f.trace, &skip, SITE_BY_FUNCTION, &f.e), 0);
    expect_site(&s, by_module, "scan_once");
    sites_release(&s);
    assert_int_equal(skiplist_keep(&skip, "json/", &f.e), 0);
    assert_int_equal(sites_build(&s, &f.trace, &skip, SITE_BY_FUNCTION, &f.e), 0);
    expect_site(&s, by_library, "scan_once");
    expect_site(&s, by_package, "raw_decode");
    sites_release(&s);
    skiplist_release(&skip);
    trace_release(&f.trace);
}

static void test_source_files(void **state)
{
    (void)state;
    static const struct {
        const char *function, *file, *text;
    } cases[] = {
        {"f", "/src/a.cpp", " (a.cpp:3)"},
        {"f", "/usr/lib/python3/json/__init__.py", " (json/__init__.py:3)"},
        {"f", "C:\\lib\\json\\__init__.py", " (json\\__init__.py:3)"},
        {"f", "__init__.py", " (__init__.py:3)"},
        {"f", "/__init__.py", " (__init__.py:3)"},
        {"f", "//__init__.py", " (/__init__.py:3)"},
        {"<module>", "/srv/tool.py", " (srv/tool.py:3)"},
        {"<module>", "<frozen os>", " (<frozen os>:3)"},
        {"demo::run", "src/demo/mod.rs", " (demo/mod.rs:3)"},
        {"f", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct frame_view frame = {
            .function = view_of(cases[i].function), .file = view_of(cases[i].file), .line = 3};
        struct buf text = {0};
        frame_source(&text, &frame);
        assert_string_equal(text.len ? buf_str(&text) : "", cases[i].text);
        buf_release(&text);
    }
}

static void test_lines_and_functions(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    /* The same texts under other string numbers, and another line of the same function. */
    uint32_t main_again = strings_append(&f.trace.strings, view_of("main"), &f.e);
    uint32_t file_again = strings_append(&f.trace.strings, view_of("/src/a.cpp"), &f.e);
    for (uint64_t i = 0; i < 2; i++) {
        struct rec_inline_frame in = {
            .function = main_again, .file = file_again, .line = i ? 99 : 10};
        assert_int_equal(
            callstacks_resolve(&f.trace.callstacks, 0x600 + i, text(&f, "prog"), &in, 1, &f.e), 0);
    }
    uint32_t first = STACK(&f, 0x500);
    uint32_t same = STACK(&f, 0x600);
    uint32_t line = STACK(&f, 0x601);
    struct skiplist skip = {0};
    struct sites s;
    assert_int_equal(sites_build(&s, &f.trace, &skip, SITE_BY_LINE, &f.e), 0);
    assert_int_equal(s.of_callstack[first], s.of_callstack[same]);
    assert_int_not_equal(s.of_callstack[first], s.of_callstack[line]);
    assert_int_equal(s.list.at[s.of_callstack[line]].frame.line, 99);
    sites_release(&s);
    assert_int_equal(sites_build(&s, &f.trace, &skip, SITE_BY_FUNCTION, &f.e), 0);
    assert_int_equal(s.of_callstack[first], s.of_callstack[line]);
    assert_int_equal(s.list.at[s.of_callstack[line]].frame.line, 0);
    sites_release(&s);
    trace_release(&f.trace);
}

static void test_walk(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    uint32_t id = STACK(&f, 0x400, 0x900, 0x500);
    struct frame_walk w = frame_walk_start(&f.trace, id);
    struct frame_view v;
    static const char *const functions[] = {"inlined_take", "session_open", "", "main"};
    for (size_t i = 0; i < 4; i++) {
        assert_true(frame_walk_next(&w, &v));
        assert_int_equal(v.function.len, strlen(functions[i]));
        assert_memory_equal(v.function.p, functions[i], v.function.len);
        assert_int_equal(v.is_inline, i == 0);
    }
    assert_false(frame_walk_next(&w, &v));
    w = frame_walk_start(&f.trace, 0);
    assert_false(frame_walk_next(&w, &v));
    w = frame_walk_start(&f.trace, 12345);
    assert_false(frame_walk_next(&w, &v));
    trace_release(&f.trace);
}

/* ---- fixtures/sites: the right sites of real programs' call stacks */

static uint64_t next_frame(struct fixture *f, char *line)
{
    char *function = line + 2;
    char *image = strchr(function, '\t');
    assert_non_null(image);
    *image++ = 0;
    image[strcspn(image, "\n")] = 0;
    uint64_t id = 0x1000 + f->trace.callstacks.frames.len;
    struct rec_inline_frame in = {.function = text(f, strcmp(function, "-") == 0 ? "" : function)};
    assert_int_equal(callstacks_resolve(&f->trace.callstacks, id, text(f, image), &in, 1, &f->e),
                     0);
    return id;
}

static void expect_sites_of(const char *program)
{
    struct fixture f = {0};
    assert_int_equal(trace_init(&f.trace, NULL, &f.e), 0);
    char line[1024];
    (void)snprintf(line, sizeof line, "fixtures/sites/%s.stacks", program);
    FILE *in = fopen(line, "r");
    assert_non_null(in);
    char right[16][1024] = {{0}};
    uint64_t frames[32];
    uint32_t stacks = 0, n = 0;
    uint64_t bytes = 0;
    bool more = true;
    while (more) {
        more = fgets(line, sizeof line, in) != NULL;
        if (n && (!more || line[0] == 's')) {
            assert_int_equal(stack(&f, frames, n), stacks);
            assert_int_equal(memory_sum_stack(&f.trace.memory, stacks, 1, bytes, &f.e), 0);
            n = 0;
        }
        if (!more)
            break;
        if (line[0] == 's') {
            assert_true(++stacks < 16);
            bytes = strtoull(line + sizeof "stack", NULL, 10);
            assert_true(bytes > 0);
            continue;
        }
        assert_true(n < 32 && stacks);
        frames[n++] = next_frame(&f, line);
        if (line[0] == '>')
            snprintf(right[stacks], sizeof right[stacks], "%s", line + 2);
    }
    (void)fclose(in);
    assert_int_equal(stacks, 10);
    struct sites s;
    assert_int_equal(sites_build(&s, &f.trace, NULL, SITE_BY_FUNCTION, &f.e), 0);
    for (uint32_t i = 1; i <= stacks; i++)
        expect_site(&s, i, right[i]);
    sites_release(&s);
    trace_release(&f.trace);
}

static void test_sites_of_real_programs(void **state)
{
    (void)state;
    static const char *const programs[] = {"redis-server", "nginx",    "node",   "java",
                                           "imagemagick",  "postgres", "sqlite3"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        expect_sites_of(programs[i]);
}

static uint64_t in_image(struct fixture *f, const char *function, const char *image)
{
    char line[256];
    (void)snprintf(line, sizeof line, "  %s\t%s", function, image);
    return next_frame(f, line);
}

/* What a nameless frame is named after, and when it is not. */
static void test_nameless_frames(void **state)
{
    (void)state;
    struct fixture f = {0};
    assert_int_equal(trace_init(&f.trace, NULL, &f.e), 0);
    uint64_t malloc = in_image(&f, "malloc", "libc.so"), plugin = in_image(&f, "p.so+0x1", "p.so");
    uint64_t entry = in_image(&f, "plugin_run", "p.so"), inner = in_image(&f, "p.so+0x2", "p.so");
    uint64_t sort = in_image(&f, "qsort", "libc.so"), load = in_image(&f, "load", "prog");
    uint64_t start = in_image(&f, "main", "prog"), own = in_image(&f, "prog+0x9", "prog");
    uint64_t jit = in_image(&f, "-", "");
    uint32_t same_image = STACK(&f, malloc, plugin, inner, entry, load, start);
    uint32_t other_image = STACK(&f, malloc, plugin, inner, load, start);
    uint32_t callback = STACK(&f, malloc, plugin, sort, inner, load, start);
    uint32_t called_back = STACK(&f, malloc, own, sort, own, start);
    uint32_t only_start = STACK(&f, malloc, own, start);
    uint32_t generated = STACK(&f, malloc, plugin, jit, load, start);
    struct sites s;
    assert_int_equal(sites_build(&s, &f.trace, NULL, SITE_BY_FUNCTION, &f.e), 0);
    expect_site(&s, same_image, "plugin_run");
    expect_site(&s, other_image, "load");
    expect_site(&s, callback, "load");
    expect_site(&s, called_back, "prog+0x9");
    expect_site(&s, only_start, "prog+0x9");
    expect_site(&s, generated, "p.so+0x1");
    sites_release(&s);
    trace_release(&f.trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_types_for_people),
        cmocka_unit_test(test_function_names),
        cmocka_unit_test(test_long_function_name_is_cut),
        cmocka_unit_test(test_names_for_people),
        cmocka_unit_test(test_skiplist),
        cmocka_unit_test(test_images_that_pass_calls_on),
        cmocka_unit_test(test_user_regex),
        cmocka_unit_test(test_sites_of_call_stacks),
        cmocka_unit_test(test_what_the_client_calls_is_no_site),
        cmocka_unit_test(test_interpreted_caller),
        cmocka_unit_test(test_source_files),
        cmocka_unit_test(test_lines_and_functions),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_sites_of_real_programs),
        cmocka_unit_test(test_nameless_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
