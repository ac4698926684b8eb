#pragma once

/*
 * Dictionaries of a snapshot of PyTorch's CUDA allocator, by the names of their members. Sources:
 * torch/csrc/cuda/memory_snapshot.cpp @ 00067369, torch/cuda/memory.py (`_snapshot`) @ 00b65a04 of
 * PyTorch; `history` and `real_size`: torch/cuda/_memory_viz.py (`_block_extra_legacy`) @ 0044eb67;
 * `trace_alloc_…`: torch/utils/viz/process_alloc_data.js @ 135deb67.
 */

#include "base/map.h"
#include "import/value_arena.h"

enum torch_field {
    TORCH_SEGMENTS, /* of the snapshot */
    TORCH_DEVICE_TRACES,
    TORCH_ALLOCATOR_SETTINGS,
    TORCH_HOST_TRACES,
    TORCH_ANNOTATIONS,
    TORCH_DEVICE, /* of a segment */
    TORCH_TOTAL_SIZE,
    TORCH_POOL_ID,
    TORCH_BLOCKS,
    TORCH_EXPANDABLE,
    TORCH_ADDRESS, /* of a segment, block or entry of the history */
    TORCH_SIZE,
    TORCH_STREAM,
    TORCH_FRAMES,
    TORCH_REQUESTED_SIZE,
    TORCH_STATE, /* of a block */
    TORCH_HISTORY,
    TORCH_REAL_SIZE,
    TORCH_ACTION, /* of an entry */
    TORCH_DEVICE_FREE,
    TORCH_TIME,
    TORCH_METADATA,
    TORCH_STAGE, /* of an annotation */
    TORCH_FILE,  /* of a frame */
    TORCH_NAME,
    TORCH_LINE,
    TORCH_CONFIG, /* of the settings */
    TORCH_OVERFLOWED,
    TORCH_MAX_ENTRIES,
    TORCH_FIELD_COUNT
};

struct torch_reader {
    struct value_arena arena;
    struct map shapes;     /* list of keys → start in `columns` */
    VEC(uint8_t) columns;  /* a field for each key */
    uint64_t entries;      /* dictionaries read */
    uint64_t entries_most; /* a file of that size has fewer, unless it shares them */
};

struct torch_fields {
    uint64_t at[TORCH_FIELD_COUNT]; /* VALUE_NONE: absent */
};

void torch_reader_release(struct torch_reader *r);

/*
 * Reads a dictionary. Returns 1, 0 when it is none, -1 on an error; ERR_INPUT when the file repeats
 * its dictionaries more often than its size allows.
 */
int torch_fields_read(struct torch_reader *r, uint64_t dict, struct torch_fields *fields,
                      struct err *e);

static inline bool torch_number(const struct torch_reader *r, const struct torch_fields *f,
                                enum torch_field field, uint64_t *number)
{
    return value_number(&r->arena, f->at[field], number);
}

static inline struct view torch_text(const struct torch_reader *r, const struct torch_fields *f,
                                     enum torch_field field)
{
    return value_view(&r->arena, f->at[field]);
}
