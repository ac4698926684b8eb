#pragma once

/*
 * Large buffers on huge pages where available: random access to many megabytes of ordinary pages
 * misses the TLB at every step. Buffers are cut from regions one after another. Returned buffers
 * are reused; slab_release frees the regions. Zero-initialise to get an empty slab.
 */

#include <stddef.h>

#include "base/vec.h"

struct slab {
    VEC(void *) regions;
    char *next; /* free rest of the newest region */
    size_t left;
    VEC(struct slab_buffer {
        void *at;
        size_t bytes;
    })
    vacant;
    size_t taken; /* buffers in use */
};

void slab_release(struct slab *s);

/*
 * A buffer with all pages populated. Return it with slab_give, or leave it to slab_release. NULL
 * when memory is short.
 */
void *slab_take(struct slab *s, size_t bytes);
void slab_give(struct slab *s, void *buffer, size_t bytes);

/* Returns the pages of unused buffers to the system. */
void slab_trim(struct slab *s);
