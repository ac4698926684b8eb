#ifndef TIDEMARK_CLIENT_KERNEL_MAP_H
#define TIDEMARK_CLIENT_KERNEL_MAP_H

/* Mappings for ourselves: straight from the kernel, since mmap and its kin are hooks here. */

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

/* Of what we mapped, so it cannot fail. */
static inline void system_unmap(void *address, size_t bytes)
{
    (void)syscall(SYS_munmap, address, bytes);
}

/* Puts memory that is this process's alone, and zero, in the place of what we mapped there. */
static inline void system_blank(void *address, size_t bytes)
{
    (void)syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

#endif
