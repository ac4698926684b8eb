#pragma once

/*
 * Addresses of generated code at which several functions were, one after the other. Each function
 * there gets a frame, and each memory event the call stack with the functions of its time. A
 * function is at an address until the next one is.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "naming/perf_map.h"
#include "trace/store/frame_book.h"

/* From this time on, in the trace's time, a frame's address is of this function. */
struct timed_change {
    int64_t from;
    const struct perf_entry *entry;
    uint32_t frame; /* of this function alone; UINT32_MAX: none yet */
};

struct timed_frame {
    uint32_t frame;
    uint64_t address;
    uint32_t first, n; /* in timed_frames.changes, in order of time */
};

struct timed_frames {
    VEC(struct timed_frame) list; /* by frame */
    VEC(struct timed_change) changes;
    uint64_t split; /* frames whose events were given call stacks by time */
};

void timed_frames_release(struct timed_frames *f);

/*
 * Adds a frame with the functions at its address; call it with rising frame numbers. A frame with
 * more functions than a search takes is left out.
 */
int timed_frames_add(struct timed_frames *f, const struct perf_map *m, uint32_t frame,
                     uint64_t address, struct err *e);

/*
 * Gives the events their call stacks. `begin`: CLOCK_MONOTONIC at the trace's time 0. A trace of
 * figures only stays as it is: it has no times.
 */
int timed_frames_split(struct timed_frames *f, const struct perf_map *m, struct trace *t,
                       struct frame_book *book, uint64_t begin, struct err *e);
