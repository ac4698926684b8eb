#ifndef TIDEMARK_CLIENT_KERNEL_MAP_H
#define TIDEMARK_CLIENT_KERNEL_MAP_H

/* System calls for the library's own mappings, since mmap and related functions are hooked. */

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As mmap; MAP_FAILED and errno. */
static inline void *system_map(size_t bytes, int flags, int fd, off_t offset)
{
    return (void *)(uintptr_t)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, flags, fd,
                                      offset);
}

/* For the library's own mappings, so it cannot fail. */
static inline void system_unmap(void *address, size_t bytes)
{
    (void)syscall(SYS_munmap, address, bytes);
}

/* Replaces an own mapping with private zeroed memory. */
static inline void system_blank(void *address, size_t bytes)
{
    (void)syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

#endif
