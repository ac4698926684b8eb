#pragma once

/*
 * Annotations of a snapshot, such as a step of the profiler or of an optimizer, as zones on the
 * thread of the GPU's stream 0. They have a name, a time and a stage, START or END. Source:
 * `external_annotations` in torch/csrc/xpu/Module.cpp, as in torch/csrc/cuda/Module.cpp.
 */

#include "import/torch_events.h"

struct torch_mark {
    uint64_t time; /* µs since 1970 */
    uint64_t name; /* a text */
    unsigned gpu;
    bool end;
    uint32_t order; /* in the file */
};

struct torch_marks {
    VEC(struct torch_mark) list; /* by time */
    size_t next;
    VEC(struct torch_mark) open; /* zones */
};

void torch_marks_release(struct torch_marks *m);

/* Reads the list of annotations. Unusable ones are counted. */
int torch_marks_read(struct torch_marks *m, struct torch_events *to, uint64_t list, struct err *e);

/* Puts what is before a time; UINT64_MAX: all. */
int torch_marks_put(struct torch_marks *m, struct torch_events *to, uint64_t before, struct err *e);
