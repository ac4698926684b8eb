#pragma once

/*
 * Fragmentation of a GPU's memory when an imported snapshot of PyTorch was made. Facts of the
 * trace, one for each GPU, from import/torch_import.c:
 *
 *     tidemark.gpu_segments=GPU SEGMENTS RESERVED USED LARGEST
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "trace/store/store.h"

struct gpu_segments {
    uint64_t gpu;
    uint64_t count;
    uint64_t reserved; /* bytes */
    uint64_t used;     /* bytes of blocks in them, rounded up as PyTorch does */
    uint64_t largest;  /* bytes of the largest free block */
};

/* The n-th fact. False: there is none, or it is malformed. */
bool gpu_segments_read(const struct trace *t, unsigned n, struct gpu_segments *s);

/* "gpu0: 36 segments reserve 1.67 GiB, …", without a newline. */
void gpu_segments_words(struct buf *out, const struct gpu_segments *s);
