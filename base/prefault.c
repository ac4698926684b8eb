#include "base/prefault.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Missing from older system headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void prefault(void *p, size_t n)
{
    /* Only pages fully within the range: the kernel rejects unaligned addresses. */
    size_t page = (size_t)getpagesize(), before = -(uintptr_t)p & (page - 1);
    if (n < before + page)
        return;
    (void)madvise((char *)p + before, (n - before) & ~(page - 1), MADV_POPULATE_WRITE);
}
