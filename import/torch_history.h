#pragma once

/*
 * A device's part of a snapshot: its segments and blocks when the snapshot was made, and the
 * history, whose oldest entries may be lost (a ring buffer of `max_entries`). Sources, of PyTorch:
 * torch/utils/viz/process_alloc_data.js @ 135deb67 (actions), torch/cuda/memory.py @ 00b65a04,
 * `record_trace` in c10/cuda/CUDACachingAllocator.cpp @ eb42ad6e. Sizes in the history are those
 * that the program asked for; a block's `size` is rounded up.
 */

#include "import/address_ranges.h"
#include "import/torch_fields.h"

/* Device numbers have 8 bits, with a sign: c10/core/Device.h. */
#define TORCH_GPUS_MAX 128u

enum torch_action {
    ACTION_ALLOC,
    ACTION_FREE_REQUESTED, /* the program freed the block; another stream may still use it */
    ACTION_FREE_COMPLETED,
    ACTION_SEGMENT_ALLOC, /* cudaMalloc, cudaFree */
    ACTION_SEGMENT_FREE,
    ACTION_SEGMENT_MAP, /* a part of an expandable segment gets or loses its memory */
    ACTION_SEGMENT_UNMAP,
    ACTION_OOM,
    ACTION_SNAPSHOT,
    ACTION_OTHER,
};

/* An entry of the history, or a segment or block. */
struct torch_item {
    uint64_t address, size; /* of an OOM: the device's free bytes, the size asked for */
    uint64_t frames;        /* a list */
    uint64_t pool_id;       /* a list of two numbers, VALUE_NONE if unknown */
    int64_t stream;
};

struct torch_entry {
    enum torch_action action;
    bool timed;
    uint64_t time; /* µs since 1970 */
    struct torch_item item;
};

struct torch_segment {
    struct torch_item item;
    bool expandable;
};

enum torch_state {
    STATE_ALLOCATED,
    STATE_PENDING, /* freed by the program, not yet by the allocator */
    STATE_RESERVED,
    STATE_MAPPED,
};

/* A block or segment in a state. */
struct torch_holding {
    enum torch_state state;
    struct torch_item item;
};

struct torch_device {
    unsigned number;
    uint64_t history;                   /* a list */
    VEC(struct torch_segment) segments; /* by address */
    VEC(struct torch_holding) blocks;   /* those that are not free */
    VEC(struct torch_holding) early;    /* what the history found when it began */
    uint64_t reserved, used;            /* bytes of the segments, and of their blocks in use */
    uint64_t free_largest;              /* of the free blocks, in bytes */
    uint64_t entries;
    uint64_t unusable;              /* blocks of segments that were left out */
    uint64_t first_time, last_time; /* µs; 0: no times */
    uint64_t completions;
    bool has_requests;
    bool has_free_stacks; /* a free has another call stack than its allocation */
    bool has_private;     /* a segment of a private pool; the owner sets it */
};

void torch_device_release(struct torch_device *d);

/* Reads a segment with its blocks. Returns 1, 0 when it is unusable, -1 on an error. */
int torch_segment_read(struct torch_device *d, struct torch_reader *r,
                       const struct torch_fields *fields, struct err *e);

/* Reads an entry. Returns 1, 0 when it is unusable, -1 on an error. */
int torch_entry_read(struct torch_reader *r, uint64_t dict, struct torch_entry *entry,
                     struct err *e);

/* Finds what was there when the history began. Call it after the last segment. */
int torch_device_begin(struct torch_device *d, struct torch_reader *r, struct err *e);

/* The segment at an address, or NULL. */
const struct torch_segment *torch_segment_at(const struct torch_device *d, uint64_t address);
