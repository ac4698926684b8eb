#include "analysis/names/wrapper_names.h"

#include <stdbool.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/*
 * By project: bare names of functions whose callers decide how much memory is needed and for what.
 * Names are compared as a whole; one * matches any characters.
 */
static const struct wrapper_names {
    const char *project;
    const char *const *names; /* NULL behind the last */
} wrapper_names[] = {
    {"GNU programs",
     NAMES("xmalloc", "xcalloc", "xrealloc", "xzalloc", "xnmalloc", "xnrealloc", "x2realloc",
           "x2nrealloc", "xreallocarray", "xmemdup", "xmemdup0", "xstrdup", "xstrndup",
           "xcharalloc", "xpalloc", "ximalloc", "xirealloc", "xicalloc", "xalignalloc")},
    {"GCC", NAMES("ggc_internal_alloc", "ggc_internal_cleared_alloc", "ggc_realloc", "_obstack_*",
                  "va_heap::reserve", "va_gc::reserve")},
    {"GLib",
     NAMES("g_malloc*", "g_try_malloc*", "g_realloc*", "g_try_realloc*", "g_strdup*", "g_strndup",
           "g_memdup", "g_memdup2", "g_slice_alloc*", "g_slice_copy", "g_aligned_alloc*")},
    {"jemalloc", NAMES("je_*", "_rjem_*")},
    {"rpmalloc", NAMES("rpmalloc*", "rpcalloc*", "rprealloc*", "rpaligned_*", "rpmemalign")},
    {"redis",
     NAMES("zmalloc", "zmalloc_usable", "zcalloc", "zcalloc_usable", "zcalloc_num", "zrealloc",
           "zrealloc_usable", "ztrymalloc", "ztrymalloc_usable", "ztrycalloc", "ztrycalloc_usable",
           "ztryrealloc", "ztryrealloc_usable", "zstrdup", "zmalloc_no_tcache", "s_malloc",
           "hi_malloc", "hi_calloc", "hi_realloc", "hi_strdup", "lua_newuserdata", "luaM_realloc_",
           "luaM_malloc_", "luaM_growaux_", "l_alloc")},
    {"nginx", NAMES("ngx_alloc", "ngx_calloc", "ngx_memalign", "ngx_palloc", "ngx_pnalloc",
                    "ngx_pcalloc", "ngx_pmemalign", "ngx_palloc_large", "ngx_palloc_block",
                    "ngx_palloc_small", "ngx_create_pool", "ngx_strdup")},
    {"Apache", NAMES("apr_palloc*", "apr_pcalloc*", "apr_pstrdup", "apr_pstrndup", "apr_pmemdup",
                     "apr_allocator_alloc", "allocator_alloc")},
    {"OpenSSL", NAMES("CRYPTO_malloc", "CRYPTO_zalloc", "CRYPTO_realloc", "CRYPTO_clear_realloc",
                      "CRYPTO_strdup", "CRYPTO_strndup", "CRYPTO_memdup", "CRYPTO_secure_malloc",
                      "CRYPTO_secure_zalloc", "CRYPTO_aligned_alloc", "OPENSSL_malloc")},
    {"SQLite",
     NAMES("sqlite3Malloc", "sqlite3MallocZero", "sqlite3Realloc", "sqlite3MemMalloc",
           "sqlite3MemRealloc", "sqlite3DbMalloc*", "sqlite3DbRealloc*", "sqlite3DbStrDup",
           "sqlite3DbStrNDup", "sqlite3DbSpanDup", "sqlite3_malloc", "sqlite3_malloc64",
           "sqlite3_realloc", "sqlite3_realloc64", "dbMallocRawFinish", "dbReallocFinish",
           "mallocWithAlarm", "sqlite3PageMalloc")},
    {"PostgreSQL",
     NAMES("palloc", "palloc0", "palloc_extended", "palloc_aligned", "repalloc", "repalloc0",
           "repalloc_extended", "repalloc_huge", "pstrdup", "pnstrdup", "pg_malloc*", "pg_realloc",
           "pg_strdup", "pg_palloc", "MemoryContextAlloc*", "MemoryContextStrdup", "AllocSetAlloc*",
           "AllocSetRealloc", "AllocSetContextCreateInternal", "GenerationAlloc*",
           "GenerationContextCreate", "SlabAlloc*", "SlabContextCreate", "MemoryContextCreate")},
    {"MySQL, MariaDB", NAMES("my_multi_malloc", "alloc_root", "multi_alloc_root", "strdup_root",
                             "sf_malloc", "mem_heap_create_func", "mem_heap_add_block",
                             "ut_malloc_low", "ut_allocator::allocate")},
    {"ImageMagick",
     NAMES("AcquireMagickMemory", "AcquireAlignedMemory", "AcquireQuantumMemory",
           "AcquireVirtualMemory", "AcquireCriticalMemory", "ResizeMagickMemory",
           "ResizeQuantumMemory", "MagickMalloc", "MagickRealloc", "MagickMallocAligned")},
    {"HotSpot",
     NAMES("os::malloc", "os::realloc", "os::strdup", "os::strdup_check_oom", "AllocateHeap",
           "ReallocateHeap", "Arena::grow", "Arena::Amalloc", "Arena::AmallocWords",
           "Arena::Amalloc_4", "Arena::Amalloc_D", "Arena::Arealloc", "Arena::Arena",
           "Arena::internal_malloc_4", "Chunk::operator new", "ChunkPool::allocate",
           "ResourceObj::operator new", "CHeapObj::operator new", "CHeapObjBase::operator new",
           "AnyObj::operator new", "resource_allocate_bytes", "resource_reallocate_bytes",
           "ArrayAllocator::allocate", "ArrayAllocator::allocate_malloc",
           "MallocArrayAllocator::allocate", "GrowableArrayCHeapAllocator::allocate",
           "GrowableArrayArenaAllocator::allocate", "GrowableArrayResourceAllocator::allocate",
           "NMTPreInit::do_os_malloc", "NMTPreInit::handle_malloc")},
    {"OpenJDK libraries",
     NAMES("dbgsysMalloc", "JLI_MemAlloc", "JLI_MemRealloc", "JLI_StringDup", "sizecheckMalloc")},
    {"V8",
     NAMES("v8::internal::AllocAtLeastWithRetry", "v8::internal::AllocWithRetry",
           "v8::internal::AlignedAllocWithRetry", "v8::internal::AlignedAlloc",
           "v8::internal::Malloced::operator new", "v8::internal::Malloced::New",
           "v8::internal::AccountingAllocator::AllocateSegment", "v8::internal::Zone::NewExpand",
           "v8::internal::Zone::Expand", "v8::internal::Zone::New",
           "v8::internal::ZoneObject::operator new", "v8::internal::FreeStoreAllocationPolicy::New",
           "v8::internal::NewArray", "v8::internal::StrDup", "v8::internal::StrNDup",
           "v8::base::Malloc", "v8::base::Calloc", "v8::base::Realloc", "v8::base::AlignedAlloc",
           "v8::base::AllocateAtLeast", "v8::internal::Heap::AllocateExternalBackingStore",
           "v8::internal::BackingStore::Allocate", "v8::ArrayBuffer::NewBackingStoreForNodeLTS",
           "v8::ArrayBuffer::NewBackingStore", "v8::ArrayBuffer::Allocator::Reallocate")},
    {"Node.js",
     NAMES("node::NodeArrayBufferAllocator::Allocate",
           "node::NodeArrayBufferAllocator::AllocateUninitialized",
           "node::NodeArrayBufferAllocator::Reallocate",
           "node::(anonymous namespace)::CompressionStream::AllocForZlib",
           "node::(anonymous namespace)::CompressionStream::AllocForBrotli",
           "node::UncheckedMalloc", "node::UncheckedCalloc", "node::UncheckedRealloc",
           "node::Malloc", "node::Calloc", "node::Realloc",
           "node::MaybeStackBuffer::AllocateSufficientStorage", "uv__malloc", "uv__calloc",
           "uv__realloc", "uv__reallocf", "uv__strdup", "uv__strndup", "uprv_malloc*",
           "uprv_realloc*", "uprv_calloc*", "icu_*::UMemory::operator new",
           "icu_*::UMemory::operator new[]", "ares_malloc*", "ares_realloc*", "ares_strdup",
           "nghttp2_mem_malloc", "nghttp2_mem_calloc", "nghttp2_mem_realloc")},
    {"CPython",
     NAMES("PyMem_*", "PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc", "_PyObject_Malloc",
           "_PyObject_Calloc", "_PyObject_Realloc", "_PyMem_RawMalloc", "_PyMem_RawCalloc",
           "_PyMem_RawRealloc", "_PyMem_RawStrdup", "_PyMem_Strdup")},
    {"Perl", NAMES("Perl_safesys*", "Perl_savepv*")},
    {"Ruby", NAMES("ruby_xmalloc*", "ruby_xcalloc*", "ruby_xrealloc*", "ruby_strdup",
                   "objspace_xmalloc0", "objspace_xcalloc", "objspace_xrealloc")},
    {"PHP", NAMES("_emalloc*", "_ecalloc", "_erealloc*", "_estrdup", "_estrndup", "_safe_emalloc",
                  "_safe_erealloc", "__zend_malloc", "__zend_calloc", "__zend_realloc")},
    {"jq",
     NAMES("jv_mem_alloc", "jv_mem_alloc_unguarded", "jv_mem_calloc", "jv_mem_calloc_unguarded",
           "jv_mem_realloc", "jv_mem_strdup", "jv_mem_strdup_unguarded")},
    {"curl", NAMES("Curl_cmalloc", "Curl_ccalloc", "Curl_crealloc", "Curl_cstrdup", "Curl_memdup",
                   "Curl_saferealloc", "Curl_strndup")},
    {"libxml2", NAMES("xmlMalloc*", "xmlRealloc*", "xmlMemStrdup", "xmlStrdup", "xmlStrndup",
                      "xmlMemMalloc*")},
    {"libpng", NAMES("png_malloc", "png_malloc_warn", "png_malloc_base", "png_malloc_default",
                     "png_calloc", "png_malloc_array", "png_realloc_array", "png_zalloc")},
    {"FreeType", NAMES("ft_alloc", "ft_realloc", "ft_mem_alloc", "ft_mem_qalloc", "ft_mem_realloc",
                       "ft_mem_qrealloc", "ft_mem_strdup", "ft_mem_dup")},
    {"FFmpeg", NAMES("av_malloc*", "av_mallocz*", "av_calloc", "av_realloc*", "av_fast_malloc*",
                     "av_fast_realloc", "av_strdup", "av_strndup", "av_memdup", "av_buffer_alloc*",
                     "av_buffer_pool_alloc")},
    {"Blender", NAMES("MEM_lockfree_*allocN*", "MEM_guarded_*allocN*")},
    {"Samba", NAMES("talloc_*", "_talloc_*", "__talloc*")},
};

static bool pattern_fits(const char *pattern, const char *name, size_t len)
{
    size_t n = strlen(pattern);
    const char *star = memchr(pattern, '*', n);
    if (!star)
        return n == len && memcmp(pattern, name, n) == 0;
    size_t head = (size_t)(star - pattern);
    size_t tail = n - head - 1;
    return len >= head + tail && memcmp(pattern, name, head) == 0 &&
           memcmp(star + 1, name + len - tail, tail) == 0;
}

const char *wrapper_project(const char *name, size_t len)
{
    for (size_t i = 0; len && i < sizeof wrapper_names / sizeof *wrapper_names; i++) {
        for (const char *const *at = wrapper_names[i].names; *at; at++) {
            /* The fast path: nearly all comparisons end here. */
            if ((**at == *name || **at == '*') && pattern_fits(*at, name, len))
                return wrapper_names[i].project;
        }
    }
    return NULL;
}
