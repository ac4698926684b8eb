#pragma once

/*
 * Call stacks of a snapshot: lists of frames, innermost first. A frame is a dictionary of a
 * function's name, its file and a line; those of C++ often have "??" and 0.
 */

#include "import/import.h"
#include "import/torch_fields.h"

struct torch_stacks {
    struct ingest *in;
    struct import_counts *counts;
    struct map stacks;  /* list of frames → call stack */
    struct map frames;  /* dictionary → frame id */
    uint32_t beginning; /* call stack of blocks whose allocation is not in the file; 0: not made */
};

void torch_stacks_release(struct torch_stacks *s);

/* The ingest's call stack of a list of frames; 0: none. */
int torch_stack(struct torch_stacks *s, struct torch_reader *r, uint64_t list, uint32_t *callstack,
                struct err *e);

/* The call stack of what was allocated before the history begins, if the file has no other. */
int torch_stack_before(struct torch_stacks *s, uint32_t *callstack, struct err *e);
