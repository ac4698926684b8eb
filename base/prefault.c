#include "base/prefault.h"

#include <stdint.h>
#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

/* Headers of older systems do not name it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void prefault(void *p, size_t n)
{
    /* Pages that lie within the bytes in full; the kernel refuses an address within a page. */
    size_t before = -(uintptr_t)p & (PAGE - 1);
    if (n < before + PAGE)
        return;
    (void)madvise((char *)p + before, (n - before) & ~(PAGE - 1), MADV_POPULATE_WRITE);
}
