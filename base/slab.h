#ifndef TIDEMARK_BASE_SLAB_H
#define TIDEMARK_BASE_SLAB_H

/*
 * Large buffers, on huge pages where the system has some: whoever jumps about in many megabytes of
 * ordinary pages waits for the page table at every step. Buffers are cut from regions, one behind
 * the other; those given back serve again, and their regions go when the slab does.
 * Zero-initialise to get an empty one.
 */

#include <stddef.h>

#include "base/vec.h"

struct slab {
    VEC(void *) regions;
    char *next; /* what is left of the newest one */
    size_t left;
    VEC(struct slab_buffer {
        void *at;
        size_t bytes;
    })
    vacant;
    size_t taken; /* buffers that may be given back */
};

void slab_release(struct slab *s);

/* A buffer with all its pages there, to be given back or left to slab_release. NULL: no memory. */
void *slab_take(struct slab *s, size_t bytes);
void slab_give(struct slab *s, void *buffer, size_t bytes);

/* Lets the system have the pages of buffers that were given back. */
void slab_trim(struct slab *s);

#endif
