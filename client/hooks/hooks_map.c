/*
 * Hooks of mmap and related functions: mappings are blocks of a separate pool. Mappings by the
 * C library itself (thread stacks, heap memory, libraries) do not pass through these hooks.
 */

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/kernel_map.h"
#include "client/maps.h"
#include "client/real.h"

#ifndef MREMAP_DONTUNMAP /* from linux/mman.h, for C libraries before 2.32 */
#define MREMAP_DONTUNMAP 4
#endif

#define FAILED ((void *)-1)

static inline void *map(void *address, size_t size, int protection, int flags, int fd, off_t offset,
                        const struct origin *origin)
{
    bool wanted = maps_wanted(), fixed = flags & MAP_FIXED;
    uint32_t stack = 0;
    if (wanted && fixed)
        stack = maps_release((uintptr_t)address, size, REC_HOW_MMAP);
    void *p = real.mmap ? real.mmap(address, size, protection, flags, fd, offset)
                        : (void *)(uintptr_t)syscall(SYS_mmap, address, size, protection, flags, fd,
                                                     offset);
    if (!wanted)
        return p;
    if (p != FAILED)
        maps_add((uintptr_t)p, size, REC_HOW_MMAP, origin);
    else
        maps_restore((uintptr_t)address, size, REC_HOW_MMAP, stack);
    return p;
}

HOOK void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    struct origin origin = ORIGIN_HERE();
    return map(address, size, protection, flags, fd, offset, &origin);
}

HOOK void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset)
{
    struct origin origin = ORIGIN_HERE();
    return map(address, size, protection, flags, fd, offset, &origin);
}

HOOK int munmap(void *address, size_t size)
{
    bool wanted = maps_wanted();
    uint32_t stack = wanted ? maps_release((uintptr_t)address, size, REC_HOW_MUNMAP) : 0;
    int result = real.munmap ? real.munmap(address, size) : (int)syscall(SYS_munmap, address, size);
    if (wanted && result)
        maps_restore((uintptr_t)address, size, REC_HOW_MMAP, stack);
    return result;
}

HOOK void *mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
    struct origin origin = ORIGIN_HERE();
    va_list rest;
    va_start(rest, flags);
    void *target = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
    va_end(rest);
    bool wanted = maps_wanted(), keeps = flags & MREMAP_DONTUNMAP;
    uint32_t stack = 0, under = 0;
    if (wanted) {
        stack = maps_release((uintptr_t)old, old_size, REC_HOW_MREMAP);
        if (target)
            under = maps_release((uintptr_t)target, size, REC_HOW_MREMAP);
    }
    void *p = real.mremap
                  ? real.mremap(old, old_size, size, flags, target)
                  : (void *)(uintptr_t)syscall(SYS_mremap, old, old_size, size, flags, target);
    if (!wanted)
        return p;
    if (p == FAILED || keeps)
        maps_restore((uintptr_t)old, old_size, REC_HOW_MREMAP, stack);
    if (p != FAILED)
        maps_add((uintptr_t)p, size, REC_HOW_MREMAP, &origin);
    else
        maps_restore((uintptr_t)target, size, REC_HOW_MREMAP, under);
    return p;
}

/* ---- the program break: one block that grows and shrinks */

/* Ends of the data segment before and after a call. */
static void break_moved(uintptr_t from, uintptr_t to, const struct origin *origin)
{
    if (to > from)
        maps_add(from, to - from, REC_HOW_BRK, origin);
    else if (to < from)
        (void)maps_release((to + 4095) & ~(uintptr_t)4095, from - to, REC_HOW_BRK);
}

HOOK int brk(void *end)
{
    hooks_prepare();
    struct origin origin = ORIGIN_HERE();
    bool wanted = maps_wanted();
    uintptr_t from = wanted ? (uintptr_t)real.sbrk(0) : 0;
    int result = real.brk(end);
    if (wanted && result == 0)
        break_moved(from, (uintptr_t)end, &origin);
    return result;
}

HOOK void *sbrk(intptr_t change)
{
    hooks_prepare();
    struct origin origin = ORIGIN_HERE();
    void *from = real.sbrk(change);
    if (change && from != FAILED && maps_wanted())
        break_moved((uintptr_t)from, (uintptr_t)from + (uintptr_t)change, &origin);
    return from;
}
