#pragma once

/* Sizes and lifetimes of the selected blocks, and events that cost time or space. One sweep. */

#include <stdint.h>

#include "analysis/figures/figures_only.h"
#include "analysis/figures/selection.h"
#include "base/err.h"

#define SIZE_CLASSES 50 /* no bytes, 1, 2 to 3, 4 to 7, … up to 2^48 */
#define LIFE_CLASSES 12 /* below 100 ns, 1 us, … 100 s, longer; still live at the end */
#define LIFE_LIVE (LIFE_CLASSES - 1)

struct size_class {
    uint64_t count, bytes;
    uint64_t live_count, live_bytes;
    uint64_t temporary;
    uint64_t waste; /* bytes that glibc's malloc adds to them: see glibc_chunk */
};

struct life_class {
    uint64_t count, bytes;
};

struct histograms {
    struct size_class sizes[SIZE_CLASSES];
    struct life_class lives[LIFE_CLASSES];
    struct life_class total;
    struct life_class elsewhere; /* freed by another thread than the one that allocated */
    /*
     * Blocks freed right after a larger one of the same call stack was allocated, with no other
     * step of the thread in the pool between: growing vectors copy in this way.
     */
    struct life_class regrown;
    uint64_t waste;      /* of all size classes */
    uint64_t peak_waste; /* maximum, of live blocks */
};

/* The class of a size, and its first size: 0, 1, 2, 4, … */
unsigned size_class_of(uint64_t size);
uint64_t size_class_begin(unsigned class);

/* The class of a lifetime, ns, and its upper end; INT64_MAX for the last class of freed blocks. */
unsigned life_class_of(int64_t ns);
int64_t life_class_end(unsigned class);

/*
 * Bytes that glibc's malloc uses for a block on a 64-bit machine: the size and 8 bytes, in steps of
 * 16, at least 32 (malloc/malloc.c, request2size); from 128 KiB on, which it maps by default, 16
 * bytes more in whole pages.
 */
uint64_t glibc_chunk(uint64_t size);

/* Of a trace of figures only: those of one pool. */
extern const struct figures_part histograms_part;

/*
 * `p` is for selection_answer. Of a trace of figures only, the selection must have one pool, and
 * steps of one nanosecond count in the order in which they came.
 */
int histograms_begin(struct selection_pass *p, struct histograms *h, struct selection *s,
                     struct err *e);

/* The same in a separate sweep. */
int histograms_build(struct histograms *h, struct selection *s, struct err *e);
