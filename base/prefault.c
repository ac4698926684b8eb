#include "base/prefault.h"

#include <stdint.h>
#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

/* Missing from older system headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void prefault(void *p, size_t n)
{
    /* Only pages fully within the range: the kernel rejects unaligned addresses. */
    size_t before = -(uintptr_t)p & (PAGE - 1);
    if (n < before + PAGE)
        return;
    (void)madvise((char *)p + before, (n - before) & ~(PAGE - 1), MADV_POPULATE_WRITE);
}
