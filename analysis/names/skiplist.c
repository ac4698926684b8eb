#include "analysis/names/skiplist.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/names/function_name.h"
#include "analysis/names/wrapper_names.h"
#include "trace/store/frame_name.h"

enum match {
    NAME,   /* the bare name (function_name.h) is `text` */
    PREFIX, /* … begins with it */
    SUFFIX, /* … ends with it */
    FAMILY, /* … begins with it, and the rest names a member of a malloc family */
};

struct rule {
    enum frame_class class;
    enum match match;
    struct view text;
};

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define TEXT(s)                                                                                    \
    {                                                                                              \
        s, sizeof(s) - 1                                                                           \
    }

/*
 * The first rule that matches decides. Standard library internals count as allocators: the site of
 * a growing vector is the code that pushed into it.
 */
static const struct rule rules[] = {
    /* Tracy's client: C++ API, C API, Rust bindings. `Callstack` is the client's inline function,
       which comes without its namespace (client/TracyCallstack.hpp @ v0.9.1 … v0.14.0). */
    {FRAME_INSTRUMENTATION, PREFIX, TEXT("tracy::")},
    {FRAME_INSTRUMENTATION, PREFIX, TEXT("___tracy_")},
    {FRAME_INSTRUMENTATION, PREFIX, TEXT("tracy_client::")},
    {FRAME_INSTRUMENTATION, PREFIX, TEXT("tracy_client_sys::")},
    {FRAME_INSTRUMENTATION, NAME, TEXT("Callstack")},
    /* C library */
    {FRAME_ALLOCATOR, NAME, TEXT("malloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("calloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("realloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("reallocarray")},
    {FRAME_ALLOCATOR, NAME, TEXT("free")},
    {FRAME_ALLOCATOR, NAME, TEXT("cfree")},
    {FRAME_ALLOCATOR, NAME, TEXT("memalign")},
    {FRAME_ALLOCATOR, NAME, TEXT("aligned_alloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("posix_memalign")},
    {FRAME_ALLOCATOR, NAME, TEXT("valloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("pvalloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("strdup")},
    {FRAME_ALLOCATOR, NAME, TEXT("strndup")},
    {FRAME_ALLOCATOR, NAME, TEXT("__strdup")},
    {FRAME_ALLOCATOR, NAME, TEXT("__strndup")},
    {FRAME_ALLOCATOR, NAME, TEXT("wcsdup")},
    {FRAME_ALLOCATOR, NAME, TEXT("asprintf")},
    {FRAME_ALLOCATOR, NAME, TEXT("vasprintf")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("__libc_")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("__GI___libc_")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("__GI_")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("__interceptor_")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("_int_")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("_mid_")},
    {FRAME_ALLOCATOR, NAME, TEXT("sysmalloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("malloc_hook_ini")},
    {FRAME_ALLOCATOR, NAME, TEXT("tcache_init")},
    /* C++ */
    {FRAME_ALLOCATOR, PREFIX, TEXT("operator new")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("operator delete")},
    {FRAME_ALLOCATOR, SUFFIX, TEXT("::operator new")},
    {FRAME_ALLOCATOR, SUFFIX, TEXT("::operator new[]")},
    {FRAME_ALLOCATOR, SUFFIX, TEXT("::operator delete")},
    {FRAME_ALLOCATOR, SUFFIX, TEXT("::operator delete[]")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_Znw")}, /* the same, not demangled */
    {FRAME_ALLOCATOR, PREFIX, TEXT("_Zna")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_Zdl")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_Zda")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("std::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("__gnu_cxx::")},
    {FRAME_ALLOCATOR, NAME, TEXT("__cxa_allocate_exception")},
    /* Rust */
    {FRAME_ALLOCATOR, PREFIX, TEXT("__rust_")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("__rdl_")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("__rg_")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("__rustc::__r")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::alloc::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::raw_vec::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::vec::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::boxed::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::string::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::slice::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::str::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::borrow::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::sync::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::rc::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::fmt::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("alloc::collections::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("core::alloc::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("core::iter::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("core::ops::function::")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("hashbrown::")},
    /* D: the runtime and the standard library */
    {FRAME_ALLOCATOR, NAME, TEXT("gc_malloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("gc_qalloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("gc_calloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("gc_realloc")},
    {FRAME_ALLOCATOR, NAME, TEXT("gc_extend")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_d_new")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_d_array")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_d_alloc")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_d_assocarray")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_aaGet")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("rt.")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("core.gc.")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("core.internal.")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("core.lifetime.")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("core.memory.")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("object.")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("std.")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_D3std")}, /* the same, not demangled */
    {FRAME_ALLOCATOR, PREFIX, TEXT("_D4core")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_D2rt")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("_DTi")}, /* by another base class */
    /* mimalloc, tcmalloc, TBB */
    {FRAME_ALLOCATOR, FAMILY, TEXT("mi_")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("_mi_")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("tc_")},
    {FRAME_ALLOCATOR, PREFIX, TEXT("tcmalloc::")},
    {FRAME_ALLOCATOR, FAMILY, TEXT("scalable_")},
};

/*
 * Beginnings of names between an allocation and the code that asked for it. PyTorch: its CUDA
 * allocator, ATen and generated dispatch code, down to the call from Python or the function of
 * autograd (torch/csrc/autograd, c10/cuda @ 00067369). CPython: what is between two functions
 * of Python, most of which torch/cuda/_memory_viz.py (`_frame_filter`) leaves out @ 0044eb67.
 */
static const struct framework {
    struct view beginning;
    const char *name;
} frameworks[] = {
    {TEXT("at::"), "PyTorch"},
    {TEXT("c10::"), "PyTorch"},
    {TEXT("torch::unwind::"), "PyTorch"},
    {TEXT("torch::CapturedTraceback::"), "PyTorch"},
    {TEXT("torch::cuda::"), "PyTorch"},
    {TEXT("torch::autograd::VariableType::"), "PyTorch"},
    {TEXT("torch::autograd::THP"), "PyTorch"},
    {TEXT("torch::autograd::TypeError_to_NotImplemented_"), "PyTorch"},
    {TEXT("torch::autograd::autogradNotImplementedFallback"), "PyTorch"},
    {TEXT("torch::autograd::dispatch_to"), "PyTorch"},
    {TEXT("torch::ADInplaceOrView::"), "PyTorch"},
    {TEXT("torch::dynamo::"), "PyTorch"},
    {TEXT("torch::handle_torch_function"), "PyTorch"},
    {TEXT("torch::jit::invokeOperator"), "PyTorch"},
    {TEXT("pybind11::"), "pybind11"},
    {TEXT("THPFunction_"), "PyTorch"},
    {TEXT("(anonymous namespace)::THPFunction_"), "PyTorch"},
    {TEXT("_PyEval_"), "CPython"},
    {TEXT("_PyObject_"), "CPython"},
    {TEXT("_PyFunction_"), "CPython"},
    {TEXT("PyEval_"), "CPython"},
    {TEXT("PyObject_"), "CPython"},
    {TEXT("PyVectorcall_"), "CPython"},
    {TEXT("cfunction_"), "CPython"},
    {TEXT("method_vectorcall"), "CPython"},
    {TEXT("slot_tp_"), "CPython"},
    {TEXT("slot_nb_"), "CPython"},
    {TEXT("do_call_core"), "CPython"},
    {TEXT("do_richcompare"), "CPython"},
    {TEXT("vectorcall_m"), "CPython"},
    {TEXT("binary_op1"), "CPython"},
    {TEXT("_PyType_"), "CPython"},
    {TEXT("PyNumber_"), "CPython"},
};

/*
 * Beginnings of the names of images that only pass calls on, from an interpreter to native code:
 * the call with its arguments is a line of the interpreted program.
 */
static const struct framework bridges[] = {
    {TEXT("libffi.so"), "libffi"},
    {TEXT("libffi-"), "libffi"}, /* in Python wheels: auditwheel adds a hash to the name */
    {TEXT("_ctypes."), "ctypes"},
    {TEXT("_cffi_backend."), "cffi"},
};

/*
 * Files of Tracy's client: every public/client, public/common and public/tracy file @ v0.9.1 …
 * v0.14.0. Their inline functions show up in the program's own frames.
 */
static const char *const client_files[] = {
    "Tracy.hpp",
    "TracyAlign.hpp",
    "TracyAlloc.cpp",
    "TracyAlloc.hpp",
    "TracyApi.h",
    "TracyArmCpuTable.hpp",
    "TracyC.h",
    "TracyCUDA.hpp",
    "TracyCallstack.cpp",
    "TracyCallstack.h",
    "TracyCallstack.hpp",
    "TracyClient.cpp",
    "TracyColor.hpp",
    "TracyCpuid.hpp",
    "TracyD3D11.hpp",
    "TracyD3D12.hpp",
    "TracyDebug.hpp",
    "TracyDxt1.cpp",
    "TracyDxt1.hpp",
    "TracyETW.cpp",
    "TracyElf.hpp",
    "TracyFastVector.hpp",
    "TracyForceInline.hpp",
    "TracyFormat.h",
    "TracyKCore.cpp",
    "TracyKCore.hpp",
    "TracyLock.hpp",
    "TracyLua.hpp",
    "TracyMach.cpp",
    "TracyMangle.hpp",
    "TracyMetal.hmm",
    "TracyMutex.hpp",
    "TracyOpenCL.hpp",
    "TracyOpenGL.hpp",
    "TracyOverride.cpp",
    "TracyProfiler.cpp",
    "TracyProfiler.hpp",
    "TracyProtocol.hpp",
    "TracyQueue.hpp",
    "TracyRingBuffer.hpp",
    "TracyRocprof.cpp",
    "TracyScoped.hpp",
    "TracySocket.cpp",
    "TracySocket.hpp",
    "TracyStackFrames.cpp",
    "TracyStackFrames.hpp",
    "TracyString.hpp",
    "TracyStringHelpers.hpp",
    "TracySysPower.cpp",
    "TracySysPower.hpp",
    "TracySysTime.cpp",
    "TracySysTime.hpp",
    "TracySysTrace.cpp",
    "TracySysTrace.hpp",
    "TracySystem.cpp",
    "TracySystem.hpp",
    "TracyTaggedUserlandAddress.hpp",
    "TracyThread.hpp",
    "TracyUwp.hpp",
    "TracyVersion.hpp",
    "TracyVulkan.hpp",
    "TracyWebGPU.hpp",
    "TracyWinFamily.hpp",
    "TracyYield.hpp",
    "tracy_SPSCQueue.h",
    "tracy_concurrentqueue.h",
    "tracy_lz4.cpp",
    "tracy_lz4.hpp",
    "tracy_lz4hc.cpp",
    "tracy_lz4hc.hpp",
    "tracy_rpmalloc.cpp",
    "tracy_rpmalloc.hpp",
};

/* A program may have a file of that name, too, so the folder must be one of the client's. */
static const char *const client_folders[] = {"client", "common",  "tracy",
                                             "public", "windows", "apple"};

/*
 * Parts of the paths of standard libraries, both in this order: their inlined functions often have
 * no namespace (libstdc++, libc++, Rust, glibc's malloc). What imports a Python module allocates
 * for the statement that imports it.
 */
static const char *const library_paths[][2] = {
    {"/include/", "/c++/"},     {"/libstdc++-v3/", ""},        {"/rustc/", "/library/"},
    {"/malloc/malloc.c", ""},   {"/site-packages/torch/", ""}, {"/dist-packages/torch/", ""},
    {"<frozen importlib.", ""}, {"<frozen zipimport>", ""},
};

static struct pattern *compile(const char *option, const char *regex, struct err *e)
{
    struct pattern *compiled = pattern_new(regex, strlen(regex), e);
    if (!compiled && e)
        (void)err_prefix(e, "%s '%s'", option, regex);
    return compiled;
}

int skiplist_add(struct skiplist *s, const char *regex, struct err *e)
{
    struct pattern *compiled = compile("--skip", regex, e);
    if (compiled && vec_push(&s->user, compiled))
        return 0;
    pattern_free(compiled);
    return compiled ? err_no_memory(e, "--skip") : -1;
}

int skiplist_keep(struct skiplist *s, const char *regex, struct err *e)
{
    struct pattern *compiled = compile("--no-skip", regex, e);
    if (compiled && vec_push(&s->kept, compiled))
        return 0;
    pattern_free(compiled);
    return compiled ? err_no_memory(e, "--no-skip") : -1;
}

void skiplist_release(struct skiplist *s)
{
    for (size_t i = 0; i < s->user.len; i++)
        pattern_free(s->user.at[i]);
    for (size_t i = 0; i < s->kept.len; i++)
        pattern_free(s->kept.at[i]);
    vec_release(&s->user);
    vec_release(&s->kept);
}

static bool begins(const char *text, size_t len, const char *with)
{
    size_t n = strlen(with);
    return len >= n && memcmp(text, with, n) == 0;
}

/* The rest of a name such as mi_heap_malloc or tc_newarray after the library's prefix. */
static bool is_family_member(const char *rest)
{
    static const char *const parts[] = {"malloc", "calloc",   "realloc",      "zalloc",
                                        "valloc", "memalign", "aligned_alloc"};
    static const char *const whole[] = {"free", "cfree", "strdup", "strndup"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strstr(rest, parts[i]))
            return true;
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(rest, whole[i]) == 0)
            return true;
    }
    return begins(rest, strlen(rest), "new") || begins(rest, strlen(rest), "delete");
}

static bool rule_fits(const struct rule *r, const char *name, size_t len)
{
    size_t n = r->text.len;
    const char *at = r->match == SUFFIX && len >= n ? name + len - n : name;
    /* The fast path: nearly all comparisons end here. */
    if (at[0] != r->text.p[0] || len < n || memcmp(at, r->text.p, n) != 0)
        return false;
    return r->match == NAME ? len == n : r->match != FAMILY || is_family_member(name + n);
}

static bool is_client_file(struct view file)
{
    size_t base = file.len;
    while (base && file.p[base - 1] != '/' && file.p[base - 1] != '\\')
        base--;
    struct view name = {file.p + base, file.len - base};
    if (name.len < 5 || strncasecmp(name.p, "tracy", 5) != 0) /* true for nearly all frames */
        return false;
    size_t folder = base ? base - 1 : 0;
    while (folder && file.p[folder - 1] != '/' && file.p[folder - 1] != '\\')
        folder--;
    struct view parent = {file.p + folder, base ? base - 1 - folder : 0};
    bool ours = parent.len == 0;
    for (size_t i = 0; i < sizeof client_folders / sizeof *client_folders && !ours; i++)
        ours =
            parent.p[0] == client_folders[i][0] && view_equal(parent, view_of(client_folders[i]));
    for (size_t i = 0; i < sizeof client_files / sizeof *client_files && ours; i++) {
        if (view_equal(name, view_of(client_files[i])))
            return true;
    }
    return false;
}

static bool is_library_file(struct view file)
{
    for (size_t i = 0; i < sizeof library_paths / sizeof *library_paths; i++) {
        const char *const *parts = library_paths[i];
        /* The parts may share the slash between them. */
        const char *at = memmem(file.p, file.len, parts[0], strlen(parts[0]));
        const char *rest = at ? at + strlen(parts[0]) - 1 : NULL;
        if (at && memmem(rest, (size_t)(file.p + file.len - rest), parts[1], strlen(parts[1])))
            return true;
    }
    return false;
}

static bool user_matches(struct pattern *regex, struct view text)
{
    return text.len && pattern_matches(regex, text.p, text.len);
}

#define WRAPPER_PREFIX_MAX 8u

/*
 * A C function whose name is one short word followed by malloc or the like is a program's wrapper:
 * my_malloc, memalloc, poolCalloc. A longer name with that end (caller_of_xmalloc) is not. C++
 * functions with such names are not skipped.
 */
static bool is_wrapper(struct view function, const char *name, size_t len)
{
    static const struct view endings[] = {
        TEXT("malloc"),   TEXT("calloc"), TEXT("zalloc"),  TEXT("realloc"), TEXT("reallocarray"),
        TEXT("memalign"), TEXT("strdup"), TEXT("strndup"), TEXT("memdup"),  TEXT("mem_alloc")};
    if (memchr(function.p, '(', function.len) || memchr(function.p, ':', function.len))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = endings[i].len;
        if (len < n || strncasecmp(name + len - n, endings[i].p, n) != 0)
            continue;
        size_t prefix = len - n;
        prefix -= prefix && name[prefix - 1] == '_';
        if (prefix <= WRAPPER_PREFIX_MAX && !(prefix && memchr(name + 1, '_', prefix - 1)))
            return true;
    }
    return false;
}

static struct frame_verdict verdict_of_rule(const struct rule *r)
{
    if (r->class == FRAME_INSTRUMENTATION)
        return (struct frame_verdict){.class = r->class, .rule = "Tracy's client"};
    bool allocates = r->match != PREFIX || begins(r->text.p, r->text.len, "operator ") ||
                     begins(r->text.p, r->text.len, "_Z") || begins(r->text.p, r->text.len, "__r");
    return (struct frame_verdict){.class = r->class,
                                  .rule = allocates ? "allocator" : "standard library",
                                  .allocates = allocates};
}

static const char *framework_of(const struct framework *list, size_t n, const char *name,
                                size_t len)
{
    for (size_t i = 0; i < n && len; i++) {
        struct view with = list[i].beginning;
        if (name[0] == with.p[0] && len >= with.len && memcmp(name, with.p, with.len) == 0)
            return list[i].name;
    }
    return NULL;
}

struct frame_verdict skiplist_verdict(const struct skiplist *s, struct view function,
                                      struct view file, struct view image)
{
    if (is_client_file(file))
        return (struct frame_verdict){.class = FRAME_INSTRUMENTATION, .rule = "Tracy's client"};
    for (size_t i = 0; i < s->kept.len; i++) {
        if (user_matches(s->kept.at[i], function) || user_matches(s->kept.at[i], file))
            return (struct frame_verdict){.class = FRAME_PROGRAM, .kept = true};
    }
    if (is_library_file(file))
        return (struct frame_verdict){.class = FRAME_ALLOCATOR, .rule = "file of a library"};
    char name[FUNCTION_NAME_SIZE];
    size_t len = function_name(function, name);
    for (size_t i = 0; i < COUNT(rules); i++) {
        if (rule_fits(&rules[i], name, len))
            return verdict_of_rule(&rules[i]);
    }
    struct view bridge = frame_image_name(image);
    const char *framework = framework_of(frameworks, COUNT(frameworks), name, len);
    if (!framework)
        framework = framework_of(bridges, COUNT(bridges), bridge.p, bridge.len);
    if (framework)
        return (struct frame_verdict){.class = FRAME_ALLOCATOR, .rule = framework};
    const char *project = wrapper_project(name, len);
    if (project)
        return (struct frame_verdict){
            .class = FRAME_ALLOCATOR, .rule = "allocation function", .project = project};
    if (function.len && is_wrapper(function, name, len))
        return (struct frame_verdict){.class = FRAME_ALLOCATOR, .rule = "named like malloc"};
    for (size_t i = 0; i < s->user.len; i++) {
        if (user_matches(s->user.at[i], function) || user_matches(s->user.at[i], file))
            return (struct frame_verdict){.class = FRAME_ALLOCATOR, .rule = "--skip"};
    }
    return (struct frame_verdict){.class = FRAME_PROGRAM};
}

enum frame_class skiplist_class(const struct skiplist *s, struct view function, struct view file)
{
    return skiplist_verdict(s, function, file, (struct view){"", 0}).class;
}
