#ifndef TIDEMARK_BASE_PREFAULT_H
#define TIDEMARK_BASE_PREFAULT_H

#include <stddef.h>

/*
 * Has the kernel back memory that is about to be filled at once: a page fault for each of its pages
 * costs two to five times as much. Contents stay as they are. A kernel before Linux 5.14, or one
 * that is short of memory, does nothing, and the pages come when they are touched.
 */
void prefault(void *p, size_t n);

#endif
