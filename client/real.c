#include "client/real.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "client/elf_image.h"

#define EARLY_BYTES 65536u
#define EARLY_HEAD 16u /* holds the size before each block */

struct real real;
long (*real_syscall)(long, ...);

static struct {
    _Alignas(64) uint8_t bytes[EARLY_BYTES];
    _Atomic uint32_t used;
} early;

static bool attached;

void *real_next(const char *name)
{
    if (!attached)
        return dlsym(RTLD_NEXT, name);
    /* A library that dlopen loaded finds its own functions if there are no others. */
    void *found = real_default(name);
    return real_is_own(found) ? NULL : found;
}

void *real_dlopen(const char *name, int mode)
{
    void *(*open)(const char *, int) = real.dlopen;
    if (!open) {
        void *next = real_next("dlopen");
        memcpy(&open, &next, sizeof next);
    }
    return open ? open(name, mode) : NULL;
}

bool real_is_own(const void *address)
{
    Dl_info its, own;
    return dladdr(address, &its) && dladdr(&attached, &own) && its.dli_fbase == own.dli_fbase;
}

bool real_is_late(void)
{
    return attached;
}

bool real_is_known(void)
{
    return real.malloc && real.calloc && real.realloc && real.free;
}

void *real_default(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found)
        (void)dlerror(); /* hides the error from the program */
    return (void *)(uintptr_t)elf_image_definition((uintptr_t)found, name);
}

/*
 * Looks up only functions that all C libraries of recent years have: a failed look-up allocates a
 * message, and the allocator may be the program's own, whose constructors have not run yet.
 */
void real_find(bool late)
{
    attached = late;
    static const struct {
        const char *name;
        size_t offset;
    } names[] = {
#define REAL(name) {#name, offsetof(struct real, name)}
        REAL(malloc),         REAL(calloc),       REAL(realloc),
        REAL(reallocarray),   REAL(free),         REAL(memalign),
        REAL(valloc),         REAL(pvalloc),      REAL(aligned_alloc),
        REAL(posix_memalign), REAL(mmap),         REAL(munmap),
        REAL(mremap),         REAL(brk),          REAL(sbrk),
        REAL(dlopen),         REAL(dlclose),      REAL(fork),
        REAL(execve),         REAL(execvpe),      REAL(fexecve),
        REAL(posix_spawn),    REAL(posix_spawnp), REAL(system),
        REAL(popen),          REAL(bind),         REAL(listen),
        REAL(malloc_trim),
#undef REAL
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = real_next(names[i].name);
        memcpy((char *)&real + names[i].offset, &found, sizeof found);
        if (!found)
            (void)dlerror(); /* hides the error from the program */
    }
    void *found = real_next("syscall");
    memcpy(&real_syscall, &found, sizeof found);
}

void *real_early(size_t alignment, size_t size)
{
    if (alignment < EARLY_HEAD)
        alignment = EARLY_HEAD;
    if (size > EARLY_BYTES || alignment > EARLY_BYTES)
        return NULL;
    size_t need = EARLY_HEAD + alignment + size;
    uint32_t at = atomic_fetch_add(&early.used, (uint32_t)need);
    if (at > EARLY_BYTES || need > EARLY_BYTES - at)
        return NULL;
    uintptr_t block = (uintptr_t)early.bytes + at + EARLY_HEAD;
    block = (block + alignment - 1) & ~(uintptr_t)(alignment - 1);
    memcpy((uint8_t *)block - sizeof size, &size, sizeof size);
    return (void *)block;
}

bool real_is_early(const void *address)
{
    return (uintptr_t)address - (uintptr_t)early.bytes < EARLY_BYTES;
}

const void *real_early_memory(size_t *bytes)
{
    *bytes = sizeof early.bytes;
    return early.bytes;
}

size_t real_early_size(const void *address)
{
    size_t size;
    memcpy(&size, (const uint8_t *)address - sizeof size, sizeof size);
    return size;
}
