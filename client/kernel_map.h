#pragma once

/* System calls for the library's own mappings, since mmap and related functions are hooked. */

#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 4 KiB on x86-64; on AArch64 4, 16 or 64 KiB, as the kernel was built. */
static inline uint64_t system_page(void)
{
    return getauxval(AT_PAGESZ);
}

/* As mmap; MAP_FAILED and errno. An offset within a page gives an address within one. */
static inline void *system_map(size_t bytes, int flags, int fd, off_t offset)
{
    size_t into = (size_t)offset % system_page();
    char *p = (char *)(uintptr_t)syscall(SYS_mmap, NULL, bytes + into, PROT_READ | PROT_WRITE,
                                         flags, fd, offset - (off_t)into);
    return p == MAP_FAILED ? p : p + into;
}

/* For the library's own mappings, so it cannot fail. */
static inline void system_unmap(void *address, size_t bytes)
{
    size_t into = (uintptr_t)address % system_page();
    (void)syscall(SYS_munmap, (char *)address - into, bytes + into);
}

/* Replaces an own mapping with private zeroed memory. */
static inline void system_blank(void *address, size_t bytes)
{
    size_t into = (uintptr_t)address % system_page();
    (void)syscall(SYS_mmap, (char *)address - into, bytes + into, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
