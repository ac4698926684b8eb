/*
 * Hooks of functions that only some allocators have (hooks_allocators.h). Their blocks are in the
 * heap's pool.
 */

#include "client/hooks/hooks_allocators.h"

#include <string.h>
#include <unistd.h>

#include "client/events.h"
#include "client/real.h"

#define STATIC_HOOK static __attribute__((noinline))

/* The real function, with the hook's type. */
#define REAL(name)                                                                                 \
    ((__typeof__(&hook_##name))(uintptr_t)atomic_load_explicit(                                    \
        &allocator_functions[NUMBER_##name].real, memory_order_relaxed))

/* ---- kinds of functions. `p` is the old block, `size` the requested size */

#define ALLOCATES(name, how, size, parameters, arguments)                                          \
    STATIC_HOOK void *hook_##name parameters                                                       \
    {                                                                                              \
        struct origin origin = ORIGIN_HERE();                                                      \
        void *made = REAL(name) arguments;                                                         \
        if (client_likely(made != NULL))                                                           \
            event_alloc(made, size, how, &origin);                                                 \
        return made;                                                                               \
    }

/* `keeps`: the old block lives on if there is no new one. */
#define MOVES(name, keeps, size, parameters, arguments)                                            \
    STATIC_HOOK void *hook_##name parameters                                                       \
    {                                                                                              \
        struct origin origin = ORIGIN_HERE();                                                      \
        enum event_free freed = p ? event_free(p, REC_HOW_REALLOC, &origin) : EVENT_FREE_NOTHING;  \
        void *made = REAL(name) arguments;                                                         \
        if (client_likely(made != NULL))                                                           \
            event_alloc(made, size, REC_HOW_REALLOC, &origin);                                     \
        else if (keeps)                                                                            \
            event_put_back(p, freed);                                                              \
        return made;                                                                               \
    }

#define FREES(name, how, parameters, arguments)                                                    \
    STATIC_HOOK void hook_##name parameters                                                        \
    {                                                                                              \
        struct origin origin = ORIGIN_HERE();                                                      \
        if (client_unlikely(real_is_early(p)))                                                     \
            return;                                                                                \
        if (client_likely(p != NULL))                                                              \
            (void)event_free(p, how, &origin);                                                     \
        REAL(name) arguments;                                                                      \
    }

#define POSIX(name)                                                                                \
    STATIC_HOOK int hook_##name(void **made, size_t alignment, size_t size)                        \
    {                                                                                              \
        struct origin origin = ORIGIN_HERE();                                                      \
        int error = REAL(name)(made, alignment, size);                                             \
        if (!error && *made)                                                                       \
            event_alloc(*made, size, REC_HOW_ALIGNED, &origin);                                    \
        return error;                                                                              \
    }

/* ---- their signatures */

#define OF_SIZE(name, how) ALLOCATES(name, how, size, (size_t size), (size))
#define OF_SIZE_AND(name, how, type)                                                               \
    ALLOCATES(name, how, size, (size_t size, type more), (size, more))
#define OF_SIZE_AND_2(name)                                                                        \
    ALLOCATES(name, REC_HOW_ALIGNED, size, (size_t size, size_t alignment, size_t offset),         \
              (size, alignment, offset))
#define OF_AND_SIZE(name)                                                                          \
    ALLOCATES(name, REC_HOW_ALIGNED, size, (size_t alignment, size_t size), (alignment, size))
#define OF_COUNT(name, how)                                                                        \
    ALLOCATES(name, how, count *size, (size_t count, size_t size), (count, size))
#define OF_COUNT_AND(name)                                                                         \
    ALLOCATES(name, REC_HOW_ALIGNED, count *size, (size_t count, size_t size, size_t alignment),   \
              (count, size, alignment))
#define OF_COUNT_AND_2(name)                                                                       \
    ALLOCATES(name, REC_HOW_ALIGNED, count *size,                                                  \
              (size_t count, size_t size, size_t alignment, size_t offset),                        \
              (count, size, alignment, offset))
#define OF_TEXT(name) ALLOCATES(name, REC_HOW_MALLOC, strlen(made) + 1, (const char *text), (text))
#define OF_TEXT_AND(name)                                                                          \
    ALLOCATES(name, REC_HOW_MALLOC, strlen(made) + 1, (const char *text, size_t most), (text, most))

#define TO_SIZE(name, keeps) MOVES(name, keeps, size, (void *p, size_t size), (p, size))
#define TO_SIZE_AND(name, type)                                                                    \
    MOVES(name, true, size, (void *p, size_t size, type more), (p, size, more))
#define TO_SIZE_AND_2(name)                                                                        \
    MOVES(name, true, size, (void *p, size_t size, size_t alignment, size_t offset),               \
          (p, size, alignment, offset))
#define TO_COUNT(name)                                                                             \
    MOVES(name, true, count *size, (void *p, size_t count, size_t size), (p, count, size))
#define TO_COUNT_AND(name)                                                                         \
    MOVES(name, true, count *size, (void *p, size_t count, size_t size, size_t alignment),         \
          (p, count, size, alignment))
#define TO_COUNT_AND_2(name)                                                                       \
    MOVES(name, true, count *size,                                                                 \
          (void *p, size_t count, size_t size, size_t alignment, size_t offset),                   \
          (p, count, size, alignment, offset))

/* With a heap as the first argument. */
#define IN_SIZE(name, how) ALLOCATES(name, how, size, (void *heap, size_t size), (heap, size))
#define IN_SIZE_AND(name)                                                                          \
    ALLOCATES(name, REC_HOW_ALIGNED, size, (void *heap, size_t size, size_t alignment),            \
              (heap, size, alignment))
#define IN_SIZE_AND_2(name)                                                                        \
    ALLOCATES(name, REC_HOW_ALIGNED, size,                                                         \
              (void *heap, size_t size, size_t alignment, size_t offset),                          \
              (heap, size, alignment, offset))
#define IN_COUNT(name, how)                                                                        \
    ALLOCATES(name, how, count *size, (void *heap, size_t count, size_t size), (heap, count, size))
#define IN_COUNT_AND(name)                                                                         \
    ALLOCATES(name, REC_HOW_ALIGNED, count *size,                                                  \
              (void *heap, size_t count, size_t size, size_t alignment),                           \
              (heap, count, size, alignment))
#define IN_COUNT_AND_2(name)                                                                       \
    ALLOCATES(name, REC_HOW_ALIGNED, count *size,                                                  \
              (void *heap, size_t count, size_t size, size_t alignment, size_t offset),            \
              (heap, count, size, alignment, offset))
#define IN_TEXT(name)                                                                              \
    ALLOCATES(name, REC_HOW_MALLOC, strlen(made) + 1, (void *heap, const char *text), (heap, text))
#define IN_TEXT_AND(name)                                                                          \
    ALLOCATES(name, REC_HOW_MALLOC, strlen(made) + 1, (void *heap, const char *text, size_t most), \
              (heap, text, most))
#define WITHIN_SIZE(name, keeps)                                                                   \
    MOVES(name, keeps, size, (void *heap, void *p, size_t size), (heap, p, size))
#define WITHIN_SIZE_AND(name)                                                                      \
    MOVES(name, true, size, (void *heap, void *p, size_t size, size_t alignment),                  \
          (heap, p, size, alignment))
#define WITHIN_SIZE_AND_2(name)                                                                    \
    MOVES(name, true, size, (void *heap, void *p, size_t size, size_t alignment, size_t offset),   \
          (heap, p, size, alignment, offset))
#define WITHIN_COUNT(name)                                                                         \
    MOVES(name, true, count *size, (void *heap, void *p, size_t count, size_t size),               \
          (heap, p, count, size))
#define WITHIN_COUNT_AND(name)                                                                     \
    MOVES(name, true, count *size,                                                                 \
          (void *heap, void *p, size_t count, size_t size, size_t alignment),                      \
          (heap, p, count, size, alignment))
#define WITHIN_COUNT_AND_2(name)                                                                   \
    MOVES(name, true, count *size,                                                                 \
          (void *heap, void *p, size_t count, size_t size, size_t alignment, size_t offset),       \
          (heap, p, count, size, alignment, offset))

#define GIVES(name, how) FREES(name, how, (void *p), (p))
#define GIVES_AND(name, how, type) FREES(name, how, (void *p, type more), (p, more))
#define GIVES_AND_2(name, how, type)                                                               \
    FREES(name, how, (void *p, size_t size, type more), (p, size, more))

/* clang-format off */
#define FUNCTIONS(X)                                                                               \
    X(mallocx, OF_SIZE_AND, REC_HOW_MALLOC, int) X(rallocx, TO_SIZE_AND, int)                      \
    X(xallocx, RESIZES) X(dallocx, GIVES_AND, REC_HOW_FREE, int)                                   \
    X(sdallocx, GIVES_AND_2, REC_HOW_FREE, int)                                                    \
    X(mi_malloc, OF_SIZE, REC_HOW_MALLOC) X(mi_malloc_small, OF_SIZE, REC_HOW_MALLOC)              \
    X(mi_zalloc, OF_SIZE, REC_HOW_CALLOC) X(mi_zalloc_small, OF_SIZE, REC_HOW_CALLOC)              \
    X(mi_calloc, OF_COUNT, REC_HOW_CALLOC) X(mi_mallocn, OF_COUNT, REC_HOW_MALLOC)                 \
    X(mi_realloc, TO_SIZE, true) X(mi_rezalloc, TO_SIZE, true) X(mi_reallocf, TO_SIZE, false)      \
    X(mi_expand, TO_SIZE, true) X(mi_reallocn, TO_COUNT) X(mi_recalloc, TO_COUNT)                  \
    X(mi_reallocarray, TO_COUNT)                                                                   \
    X(mi_free, GIVES, REC_HOW_FREE) X(mi_cfree, GIVES, REC_HOW_FREE)                               \
    X(mi_free_size, GIVES_AND, REC_HOW_FREE, size_t)                                               \
    X(mi_free_aligned, GIVES_AND, REC_HOW_FREE, size_t)                                            \
    X(mi_free_size_aligned, GIVES_AND_2, REC_HOW_FREE, size_t)                                     \
    X(mi_strdup, OF_TEXT) X(mi_strndup, OF_TEXT_AND)                                               \
    X(mi_malloc_aligned, OF_SIZE_AND, REC_HOW_ALIGNED, size_t)                                     \
    X(mi_zalloc_aligned, OF_SIZE_AND, REC_HOW_ALIGNED, size_t)                                     \
    X(mi_malloc_aligned_at, OF_SIZE_AND_2) X(mi_zalloc_aligned_at, OF_SIZE_AND_2)                  \
    X(mi_calloc_aligned, OF_COUNT_AND) X(mi_calloc_aligned_at, OF_COUNT_AND_2)                     \
    X(mi_realloc_aligned, TO_SIZE_AND, size_t) X(mi_realloc_aligned_at, TO_SIZE_AND_2)             \
    X(mi_rezalloc_aligned, TO_SIZE_AND, size_t) X(mi_rezalloc_aligned_at, TO_SIZE_AND_2)           \
    X(mi_recalloc_aligned, TO_COUNT_AND) X(mi_recalloc_aligned_at, TO_COUNT_AND_2)                 \
    X(mi_aligned_recalloc, TO_COUNT_AND) X(mi_aligned_offset_recalloc, TO_COUNT_AND_2)             \
    X(mi_posix_memalign, POSIX) X(mi_memalign, OF_AND_SIZE) X(mi_aligned_alloc, OF_AND_SIZE)       \
    X(mi_valloc, OF_SIZE, REC_HOW_ALIGNED) X(mi_pvalloc, OF_SIZE, REC_HOW_ALIGNED)                 \
    X(mi_new, OF_SIZE, REC_HOW_NEW) X(mi_new_nothrow, OF_SIZE, REC_HOW_NEW)                        \
    X(mi_new_aligned, OF_SIZE_AND, REC_HOW_NEW, size_t)                                            \
    X(mi_new_aligned_nothrow, OF_SIZE_AND, REC_HOW_NEW, size_t)                                    \
    X(mi_new_n, OF_COUNT, REC_HOW_NEW) X(mi_new_realloc, TO_SIZE, true)                            \
    X(mi_new_reallocn, TO_COUNT)                                                                   \
    X(mi_heap_malloc, IN_SIZE, REC_HOW_MALLOC) X(mi_heap_malloc_small, IN_SIZE, REC_HOW_MALLOC)    \
    X(mi_heap_zalloc, IN_SIZE, REC_HOW_CALLOC) X(mi_heap_calloc, IN_COUNT, REC_HOW_CALLOC)         \
    X(mi_heap_mallocn, IN_COUNT, REC_HOW_MALLOC) X(mi_heap_realloc, WITHIN_SIZE, true)             \
    X(mi_heap_rezalloc, WITHIN_SIZE, true) X(mi_heap_reallocf, WITHIN_SIZE, false)                 \
    X(mi_heap_reallocn, WITHIN_COUNT) X(mi_heap_recalloc, WITHIN_COUNT)                            \
    X(mi_heap_strdup, IN_TEXT) X(mi_heap_strndup, IN_TEXT_AND)                                     \
    X(mi_heap_malloc_aligned, IN_SIZE_AND) X(mi_heap_malloc_aligned_at, IN_SIZE_AND_2)             \
    X(mi_heap_zalloc_aligned, IN_SIZE_AND) X(mi_heap_zalloc_aligned_at, IN_SIZE_AND_2)             \
    X(mi_heap_calloc_aligned, IN_COUNT_AND) X(mi_heap_calloc_aligned_at, IN_COUNT_AND_2)           \
    X(mi_heap_realloc_aligned, WITHIN_SIZE_AND)                                                    \
    X(mi_heap_realloc_aligned_at, WITHIN_SIZE_AND_2)                                               \
    X(mi_heap_rezalloc_aligned, WITHIN_SIZE_AND)                                                   \
    X(mi_heap_rezalloc_aligned_at, WITHIN_SIZE_AND_2)                                              \
    X(mi_heap_recalloc_aligned, WITHIN_COUNT_AND)                                                  \
    X(mi_heap_recalloc_aligned_at, WITHIN_COUNT_AND_2)                                             \
    X(mi_heap_alloc_new, IN_SIZE, REC_HOW_NEW) X(mi_heap_alloc_new_n, IN_COUNT, REC_HOW_NEW)       \
    X(tc_malloc, OF_SIZE, REC_HOW_MALLOC) X(tc_malloc_skip_new_handler, OF_SIZE, REC_HOW_MALLOC)   \
    X(tc_calloc, OF_COUNT, REC_HOW_CALLOC) X(tc_realloc, TO_SIZE, size != 0)                       \
    X(tc_free, GIVES, REC_HOW_FREE) X(tc_cfree, GIVES, REC_HOW_FREE)                               \
    X(tc_free_sized, GIVES_AND, REC_HOW_FREE, size_t)                                              \
    X(tc_memalign, OF_AND_SIZE) X(tc_posix_memalign, POSIX)                                        \
    X(tc_valloc, OF_SIZE, REC_HOW_ALIGNED) X(tc_pvalloc, OF_SIZE, REC_HOW_ALIGNED)                 \
    X(tc_new, OF_SIZE, REC_HOW_NEW) X(tc_newarray, OF_SIZE, REC_HOW_NEW_ARRAY)                     \
    X(tc_new_nothrow, OF_SIZE_AND, REC_HOW_NEW, const void *)                                      \
    X(tc_newarray_nothrow, OF_SIZE_AND, REC_HOW_NEW_ARRAY, const void *)                           \
    X(tc_delete, GIVES, REC_HOW_DELETE) X(tc_deletearray, GIVES, REC_HOW_DELETE_ARRAY)             \
    X(tc_delete_sized, GIVES_AND, REC_HOW_DELETE, size_t)                                          \
    X(tc_deletearray_sized, GIVES_AND, REC_HOW_DELETE_ARRAY, size_t)                               \
    X(tc_delete_nothrow, GIVES_AND, REC_HOW_DELETE, const void *)                                  \
    X(tc_deletearray_nothrow, GIVES_AND, REC_HOW_DELETE_ARRAY, const void *)

/* Not recorded. The last ones are of libraries that have no other hooks here. */
#define UNSEEN(X)                                                                                  \
    X(mi_heap_destroy) X(mi_reallocarr) X(mi_realpath) X(mi_heap_realpath) X(mi_wcsdup)            \
    X(mi_mbsdup) X(mi_dupenv_s) X(mi_wdupenv_s) X(tc_new_aligned) X(tc_newarray_aligned)           \
    X(tc_new_aligned_nothrow) X(tc_newarray_aligned_nothrow) X(tc_delete_aligned)                  \
    X(tc_deletearray_aligned) X(tc_delete_sized_aligned) X(tc_deletearray_sized_aligned)           \
    X(tc_delete_aligned_nothrow) X(tc_deletearray_aligned_nothrow)                                 \
    X(je_malloc) X(je_calloc) X(je_realloc) X(je_free) X(je_aligned_alloc) X(je_posix_memalign)    \
    X(je_mallocx) X(je_rallocx) X(je_dallocx) X(je_sdallocx)                                       \
    X(scalable_malloc) X(scalable_calloc) X(scalable_realloc) X(scalable_free)                     \
    X(scalable_aligned_malloc) X(scalable_posix_memalign)
/* clang-format on */

enum number {
#define NUMBER(name, ...) NUMBER_##name,
    FUNCTIONS(NUMBER)
};

/* jemalloc: resizes a block in place and returns its new size. */
#define RESIZES(name)                                                                              \
    STATIC_HOOK size_t hook_##name(void *p, size_t size, size_t extra, int flags)                  \
    {                                                                                              \
        struct origin origin = ORIGIN_HERE();                                                      \
        enum event_free freed = event_free(p, REC_HOW_REALLOC, &origin);                           \
        size_t has = REAL(name)(p, size, extra, flags);                                            \
        if (has >= size)                                                                           \
            event_alloc(p, has - size < extra ? has : size + extra, REC_HOW_REALLOC, &origin);     \
        else                                                                                       \
            event_put_back(p, freed);                                                              \
        return has;                                                                                \
    }

#define EXPAND(macro, ...) macro(__VA_ARGS__)
#define DEFINE(name, shape, ...) EXPAND(shape, name __VA_OPT__(, ) __VA_ARGS__)
FUNCTIONS(DEFINE)

#define ENTRY(name_, ...) {.name = #name_, .hook = (void (*)(void))hook_##name_},
#define UNSEEN_ENTRY(name_) {.name = #name_},
struct allocator_function allocator_functions[] = {FUNCTIONS(ENTRY) UNSEEN(UNSEEN_ENTRY)};

const size_t allocator_function_count = sizeof allocator_functions / sizeof *allocator_functions;

const char *const allocator_signs[] = {"dallocx",    "mi_malloc",       "tc_malloc",
                                       "je_mallocx", "scalable_malloc", NULL};

/* Some names are prefixes of others: compares whole names. */
static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == length && memcmp(list, name, n) == 0)
            return true;
        list += n;
        list += strspn(list, ", ");
    }
    return false;
}

void allocator_unseen(const char *name)
{
    char *list = state.header ? state.header->unseen : NULL;
    size_t used = list ? strnlen(list, REC_UNSEEN_BYTES) : 0, length = strlen(name);
    if (!list || is_listed(list, name) || used + length + 3 > REC_UNSEEN_BYTES)
        return;
    if (used) {
        memcpy(list + used, ", ", sizeof ", ");
        used += 2;
    }
    memcpy(list + used, name, length + 1);
}
