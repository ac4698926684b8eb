/*
 * Hooks of the malloc family, the only names that this library exports. Each calls the function
 * that it hides, and reports frees before and allocations after the call.
 */

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/python/python.h"
#include "client/real.h"
#include "client/sampling.h"
#include "client/start.h"

void hooks_prepare(void)
{
    start_process();
}

/* Used while the real functions are being looked up. */
static __attribute__((noinline)) void *early(size_t alignment, size_t size)
{
    if (state.header)
        atomic_fetch_add_explicit(&state.header->early_allocations, 1, memory_order_relaxed);
    void *p = real_early(alignment, size);
    if (!p)
        errno = ENOMEM;
    return p;
}

HOOK void *malloc(size_t size)
{
    if (client_likely(sampling_skips(size)))
        return real.malloc(size);
    if (client_unlikely(!real.malloc)) {
        hooks_prepare();
        if (!real.malloc)
            return early(0, size);
    }
    void *p = real.malloc(size);
    if (client_likely(p != NULL)) {
        struct origin origin = ORIGIN_HERE();
        event_alloc(p, size, REC_HOW_MALLOC, &origin);
    } else {
        tls.label.frame = NULL; /* later allocations while it throws are not its result */
        event_failed();
    }
    return p;
}

HOOK void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (client_likely(!__builtin_mul_overflow(count, size, &bytes) && sampling_skips(bytes)))
        return real.calloc(count, size);
    if (client_unlikely(!real.calloc)) {
        hooks_prepare();
        if (!real.calloc)
            return size && count > SIZE_MAX / size ? NULL : early(0, count * size);
    }
    void *p = real.calloc(count, size);
    if (client_likely(p != NULL)) {
        struct origin origin = ORIGIN_HERE();
        event_alloc(p, count * size, REC_HOW_CALLOC, &origin);
    } else {
        event_failed();
    }
    return p;
}

/* `origin` is the caller of free. */
static inline void release(void *address, const struct origin *origin)
{
    if (client_unlikely(real_is_early(address)))
        return;
    if (client_unlikely(!real.free)) {
        hooks_prepare();
        if (!real.free)
            return;
    }
    (void)event_free(address, REC_HOW_FREE, origin);
    real.free(address);
}

HOOK void free(void *address)
{
    python_freeing(address);
    if (client_likely(sampling_never_had(address))) {
        real.free(address);
    } else if (client_likely(address != NULL)) {
        struct origin origin = ORIGIN_HERE();
        release(address, &origin);
    }
}

/* Old name of free, in old programs only. */
HOOK void cfree(void *address)
{
    if (address) {
        struct origin origin = ORIGIN_HERE();
        release(address, &origin);
    }
}

/* A block of the early array cannot grow in place. */
static void *move_early(void *old, size_t size)
{
    size_t known = real_early_size(old);
    void *p = real.malloc ? real.malloc(size) : early(0, size);
    if (p)
        memcpy(p, old, known < size ? known : size);
    return p;
}

static __attribute__((noinline)) void realloc_failed(void *old, enum event_free freed)
{
    event_put_back(old, freed);
    event_failed();
}

/*
 * Records the free of the old block before the call and the new block after it. Without a new block
 * the call failed and the old block lives on, unless the size was 0, which frees it.
 */
static inline void *reallocate(void *old, size_t size, const struct origin *origin)
{
    if (client_unlikely(old && real_is_early(old))) {
        void *moved = move_early(old, size);
        if (moved && real.malloc)
            event_alloc(moved, size, REC_HOW_REALLOC, origin);
        return moved;
    }
    enum event_free freed = old ? event_free(old, REC_HOW_REALLOC, origin) : EVENT_FREE_NOTHING;
    void *p = real.realloc(old, size);
    if (client_likely(p != NULL))
        event_alloc(p, size, REC_HOW_REALLOC, origin);
    else if (size)
        realloc_failed(old, freed);
    return p;
}

HOOK void *realloc(void *old, size_t size)
{
    if (client_likely(sampling_never_had(old) && sampling_skips(size)))
        return real.realloc(old, size);
    if (client_unlikely(!real.realloc)) {
        hooks_prepare();
        if (!real.realloc)
            return old ? move_early(old, size) : early(0, size);
    }
    struct origin origin = ORIGIN_HERE();
    return reallocate(old, size, &origin);
}

HOOK void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (client_unlikely(!real.realloc)) {
        hooks_prepare();
        if (!real.realloc)
            return old ? move_early(old, bytes) : early(0, bytes);
    }
    struct origin origin = ORIGIN_HERE();
    return reallocate(old, bytes, &origin);
}

HOOK void *aligned_alloc(size_t alignment, size_t size)
{
    if (client_unlikely(!real.aligned_alloc)) {
        hooks_prepare();
        if (!real.aligned_alloc)
            return early(alignment, size);
    }
    void *p = real.aligned_alloc(alignment, size);
    if (p) {
        struct origin origin = ORIGIN_HERE();
        event_alloc(p, size, REC_HOW_ALIGNED, &origin);
    } else {
        event_failed();
    }
    return p;
}

HOOK void *memalign(size_t alignment, size_t size)
{
    if (client_unlikely(!real.memalign)) {
        hooks_prepare();
        if (!real.memalign)
            return early(alignment, size);
    }
    void *p = real.memalign(alignment, size);
    if (p) {
        struct origin origin = ORIGIN_HERE();
        event_alloc(p, size, REC_HOW_ALIGNED, &origin);
    } else {
        event_failed();
    }
    return p;
}

HOOK int posix_memalign(void **address, size_t alignment, size_t size)
{
    if (client_unlikely(!real.posix_memalign)) {
        hooks_prepare();
        if (!real.posix_memalign) {
            void *p = early(alignment, size);
            if (p)
                *address = p;
            return p ? 0 : ENOMEM;
        }
    }
    int error = real.posix_memalign(address, alignment, size);
    if (!error && *address) {
        struct origin origin = ORIGIN_HERE();
        event_alloc(*address, size, REC_HOW_ALIGNED, &origin);
    } else if (error == ENOMEM) {
        event_failed();
    }
    return error;
}

HOOK void *valloc(size_t size)
{
    if (client_unlikely(!real.valloc)) {
        hooks_prepare();
        if (!real.valloc)
            return early((size_t)getpagesize(), size);
    }
    void *p = real.valloc(size);
    if (p) {
        struct origin origin = ORIGIN_HERE();
        event_alloc(p, size, REC_HOW_ALIGNED, &origin);
    } else {
        event_failed();
    }
    return p;
}

HOOK void *pvalloc(size_t size)
{
    if (client_unlikely(!real.pvalloc)) {
        hooks_prepare();
        if (!real.pvalloc)
            return early((size_t)getpagesize(), size);
    }
    void *p = real.pvalloc(size);
    if (p) {
        struct origin origin = ORIGIN_HERE();
        event_alloc(p, size, REC_HOW_ALIGNED, &origin);
    } else {
        event_failed();
    }
    return p;
}

HOOK int malloc_trim(size_t pad)
{
    if (client_unlikely(!real.malloc_trim)) {
        hooks_prepare();
        if (!real.malloc_trim)
            return 0;
    }
    int released = real.malloc_trim(pad);
    event_trimmed(released != 0);
    return released;
}
