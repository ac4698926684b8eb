#include "analysis/skiplist.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/function_name.h"

enum match {
    NAME,   /* the bare name (function_name.h) is `text` */
    PREFIX, /* … begins with it */
    SUFFIX, /* … ends with it */
    FAMILY, /* … begins with it, and the rest names a member of a malloc family */
};

struct rule {
    enum frame_class class;
    enum match match;
    const char *text;
};

/*
 * The first rule that fits decides. Standard library internals count as allocator as a whole: a
 * vector that grows is the doing of whoever pushed into it.
 */
static const struct rule rules[] = {
    /* Tracy's client: C++ API, C API, Rust bindings. `Callstack` is the client's inline function,
       which comes without its namespace (client/TracyCallstack.hpp @ v0.9.1 … v0.14.0). */
    {FRAME_INSTRUMENTATION, PREFIX, "tracy::"},
    {FRAME_INSTRUMENTATION, PREFIX, "___tracy_"},
    {FRAME_INSTRUMENTATION, PREFIX, "tracy_client::"},
    {FRAME_INSTRUMENTATION, PREFIX, "tracy_client_sys::"},
    {FRAME_INSTRUMENTATION, NAME, "Callstack"},
    /* C library */
    {FRAME_ALLOCATOR, NAME, "malloc"},
    {FRAME_ALLOCATOR, NAME, "calloc"},
    {FRAME_ALLOCATOR, NAME, "realloc"},
    {FRAME_ALLOCATOR, NAME, "reallocarray"},
    {FRAME_ALLOCATOR, NAME, "free"},
    {FRAME_ALLOCATOR, NAME, "cfree"},
    {FRAME_ALLOCATOR, NAME, "memalign"},
    {FRAME_ALLOCATOR, NAME, "aligned_alloc"},
    {FRAME_ALLOCATOR, NAME, "posix_memalign"},
    {FRAME_ALLOCATOR, NAME, "valloc"},
    {FRAME_ALLOCATOR, NAME, "pvalloc"},
    {FRAME_ALLOCATOR, NAME, "strdup"},
    {FRAME_ALLOCATOR, NAME, "strndup"},
    {FRAME_ALLOCATOR, NAME, "__strdup"},
    {FRAME_ALLOCATOR, NAME, "__strndup"},
    {FRAME_ALLOCATOR, NAME, "wcsdup"},
    {FRAME_ALLOCATOR, NAME, "asprintf"},
    {FRAME_ALLOCATOR, NAME, "vasprintf"},
    {FRAME_ALLOCATOR, FAMILY, "__libc_"},
    {FRAME_ALLOCATOR, FAMILY, "__GI___libc_"},
    {FRAME_ALLOCATOR, FAMILY, "__GI_"},
    {FRAME_ALLOCATOR, FAMILY, "__interceptor_"},
    {FRAME_ALLOCATOR, FAMILY, "_int_"},
    {FRAME_ALLOCATOR, FAMILY, "_mid_"},
    {FRAME_ALLOCATOR, NAME, "sysmalloc"},
    {FRAME_ALLOCATOR, NAME, "malloc_hook_ini"},
    {FRAME_ALLOCATOR, NAME, "tcache_init"},
    /* C++ */
    {FRAME_ALLOCATOR, PREFIX, "operator new"},
    {FRAME_ALLOCATOR, PREFIX, "operator delete"},
    {FRAME_ALLOCATOR, SUFFIX, "::operator new"},
    {FRAME_ALLOCATOR, SUFFIX, "::operator new[]"},
    {FRAME_ALLOCATOR, SUFFIX, "::operator delete"},
    {FRAME_ALLOCATOR, SUFFIX, "::operator delete[]"},
    {FRAME_ALLOCATOR, PREFIX, "_Znw"}, /* the same, not demangled */
    {FRAME_ALLOCATOR, PREFIX, "_Zna"},
    {FRAME_ALLOCATOR, PREFIX, "_Zdl"},
    {FRAME_ALLOCATOR, PREFIX, "_Zda"},
    {FRAME_ALLOCATOR, PREFIX, "std::"},
    {FRAME_ALLOCATOR, PREFIX, "__gnu_cxx::"},
    {FRAME_ALLOCATOR, NAME, "__cxa_allocate_exception"},
    /* Rust */
    {FRAME_ALLOCATOR, PREFIX, "__rust_"},
    {FRAME_ALLOCATOR, PREFIX, "__rdl_"},
    {FRAME_ALLOCATOR, PREFIX, "__rg_"},
    {FRAME_ALLOCATOR, PREFIX, "__rustc::__r"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::alloc::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::raw_vec::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::vec::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::boxed::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::string::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::slice::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::str::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::borrow::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::sync::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::rc::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::fmt::"},
    {FRAME_ALLOCATOR, PREFIX, "alloc::collections::"},
    {FRAME_ALLOCATOR, PREFIX, "core::alloc::"},
    {FRAME_ALLOCATOR, PREFIX, "core::iter::"},
    {FRAME_ALLOCATOR, PREFIX, "core::ops::function::"},
    {FRAME_ALLOCATOR, PREFIX, "hashbrown::"},
    /* D: the runtime and the standard library */
    {FRAME_ALLOCATOR, NAME, "gc_malloc"},
    {FRAME_ALLOCATOR, NAME, "gc_qalloc"},
    {FRAME_ALLOCATOR, NAME, "gc_calloc"},
    {FRAME_ALLOCATOR, NAME, "gc_realloc"},
    {FRAME_ALLOCATOR, NAME, "gc_extend"},
    {FRAME_ALLOCATOR, PREFIX, "_d_new"},
    {FRAME_ALLOCATOR, PREFIX, "_d_array"},
    {FRAME_ALLOCATOR, PREFIX, "_d_alloc"},
    {FRAME_ALLOCATOR, PREFIX, "_d_assocarray"},
    {FRAME_ALLOCATOR, PREFIX, "_aaGet"},
    {FRAME_ALLOCATOR, PREFIX, "rt."},
    {FRAME_ALLOCATOR, PREFIX, "core.gc."},
    {FRAME_ALLOCATOR, PREFIX, "core.internal."},
    {FRAME_ALLOCATOR, PREFIX, "core.lifetime."},
    {FRAME_ALLOCATOR, PREFIX, "core.memory."},
    {FRAME_ALLOCATOR, PREFIX, "object."},
    {FRAME_ALLOCATOR, PREFIX, "std."},
    {FRAME_ALLOCATOR, PREFIX, "_D3std"}, /* the same, not demangled */
    {FRAME_ALLOCATOR, PREFIX, "_D4core"},
    {FRAME_ALLOCATOR, PREFIX, "_D2rt"},
    {FRAME_ALLOCATOR, PREFIX, "_DTi"}, /* by another base class */
    /* jemalloc, mimalloc, tcmalloc, TBB, rpmalloc, GLib */
    {FRAME_ALLOCATOR, PREFIX, "je_"},
    {FRAME_ALLOCATOR, PREFIX, "_rjem_"},
    {FRAME_ALLOCATOR, FAMILY, "mi_"},
    {FRAME_ALLOCATOR, FAMILY, "_mi_"},
    {FRAME_ALLOCATOR, FAMILY, "tc_"},
    {FRAME_ALLOCATOR, PREFIX, "tcmalloc::"},
    {FRAME_ALLOCATOR, FAMILY, "scalable_"},
    {FRAME_ALLOCATOR, PREFIX, "rpmalloc"},
    {FRAME_ALLOCATOR, PREFIX, "rpcalloc"},
    {FRAME_ALLOCATOR, PREFIX, "rprealloc"},
    {FRAME_ALLOCATOR, PREFIX, "rpaligned_"},
    {FRAME_ALLOCATOR, NAME, "rpmemalign"},
    {FRAME_ALLOCATOR, PREFIX, "g_malloc"},
    {FRAME_ALLOCATOR, PREFIX, "g_try_malloc"},
    {FRAME_ALLOCATOR, PREFIX, "g_realloc"},
    {FRAME_ALLOCATOR, PREFIX, "g_strdup"},
    {FRAME_ALLOCATOR, PREFIX, "g_slice_alloc"},
    /* Interpreters and databases: what their own functions are built on. */
    {FRAME_ALLOCATOR, PREFIX, "Perl_safesys"},
    {FRAME_ALLOCATOR, PREFIX, "Perl_savepv"},
    {FRAME_ALLOCATOR, PREFIX, "PyMem_"},
    {FRAME_ALLOCATOR, NAME, "PyObject_Malloc"},
    {FRAME_ALLOCATOR, NAME, "PyObject_Calloc"},
    {FRAME_ALLOCATOR, NAME, "PyObject_Realloc"},
    {FRAME_ALLOCATOR, NAME, "_PyObject_Malloc"},
    {FRAME_ALLOCATOR, NAME, "_PyObject_Calloc"},
    {FRAME_ALLOCATOR, NAME, "_PyObject_Realloc"},
    {FRAME_ALLOCATOR, NAME, "_PyMem_RawMalloc"},
    {FRAME_ALLOCATOR, NAME, "_PyMem_RawCalloc"},
    {FRAME_ALLOCATOR, NAME, "_PyMem_RawRealloc"},
    {FRAME_ALLOCATOR, NAME, "sqlite3_malloc"},
    {FRAME_ALLOCATOR, NAME, "sqlite3_malloc64"},
    {FRAME_ALLOCATOR, NAME, "sqlite3_realloc"},
    {FRAME_ALLOCATOR, NAME, "sqlite3_realloc64"},
    {FRAME_ALLOCATOR, NAME, "xmalloc"},
    {FRAME_ALLOCATOR, NAME, "xcalloc"},
    {FRAME_ALLOCATOR, NAME, "xrealloc"},
    {FRAME_ALLOCATOR, NAME, "xstrdup"},
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

/* A program may have a file of that name, too: the folder must be one of the client's. */
static const char *const client_folders[] = {"client", "common",  "tracy",
                                             "public", "windows", "apple"};

/*
 * Parts of the paths of standard libraries: their functions often come without a namespace when
 * they were inlined (libstdc++, libc++, Rust, glibc's malloc). Both parts, in this order.
 */
static const char *const library_paths[][2] = {
    {"/include/", "/c++/"},
    {"/libstdc++-v3/", ""},
    {"/rustc/", "/library/"},
    {"/malloc/malloc.c", ""},
};

int skiplist_add(struct skiplist *s, const char *regex, struct err *e)
{
    struct pattern *compiled = pattern_new(regex, strlen(regex), e);
    if (!compiled)
        return e ? err_prefix(e, "--skip '%s'", regex) : -1;
    if (!vec_push(&s->user, compiled)) {
        pattern_free(compiled);
        return err_no_memory(e, "--skip");
    }
    return 0;
}

void skiplist_release(struct skiplist *s)
{
    for (size_t i = 0; i < s->user.len; i++)
        pattern_free(s->user.at[i]);
    vec_release(&s->user);
}

static bool begins(const char *text, size_t len, const char *with)
{
    size_t n = strlen(with);
    return len >= n && memcmp(text, with, n) == 0;
}

/* What is left of a name such as mi_heap_malloc or tc_newarray after the library's prefix. */
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
    /* Nearly all rules end here for nearly all frames. */
    if (r->match != SUFFIX && name[0] != r->text[0])
        return false;
    size_t n = strlen(r->text);
    switch (r->match) {
    case NAME:
        return len == n && memcmp(name, r->text, n) == 0;
    case PREFIX:
        return begins(name, len, r->text);
    case SUFFIX:
        return len >= n && memcmp(name + len - n, r->text, n) == 0;
    case FAMILY:
        return begins(name, len, r->text) && is_family_member(name + n);
    }
    return false;
}

static bool is_client_file(struct view file)
{
    size_t base = file.len;
    while (base && file.p[base - 1] != '/' && file.p[base - 1] != '\\')
        base--;
    struct view name = {file.p + base, file.len - base};
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
        /* The slash between the parts may be the same one. */
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

/*
 * A C function that is called like malloc, whatever stands before it, is a program's own wrapper:
 * xmalloc, sqlite3Malloc, jv_mem_calloc. Functions of C++ with such names may be anything.
 */
static bool is_wrapper(struct view function, const char *name, size_t len)
{
    static const char *const endings[] = {"malloc",       "calloc",   "zalloc", "realloc",
                                          "reallocarray", "memalign", "strdup", "strndup",
                                          "memdup",       "mem_alloc"};
    if (memchr(function.p, '(', function.len) || memchr(function.p, ':', function.len))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);
        if (len >= n && strncasecmp(name + len - n, endings[i], n) == 0)
            return true;
    }
    return false;
}

enum frame_class skiplist_class(const struct skiplist *s, struct view function, struct view file)
{
    if (is_client_file(file))
        return FRAME_INSTRUMENTATION;
    if (is_library_file(file))
        return FRAME_ALLOCATOR;
    char name[FUNCTION_NAME_SIZE];
    size_t len = function_name(function, name);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rule_fits(&rules[i], name, len))
            return rules[i].class;
    }
    if (function.len && is_wrapper(function, name, len))
        return FRAME_ALLOCATOR;
    for (size_t i = 0; i < s->user.len; i++) {
        if (user_matches(s->user.at[i], function) || user_matches(s->user.at[i], file))
            return FRAME_ALLOCATOR;
    }
    return FRAME_PROGRAM;
}
