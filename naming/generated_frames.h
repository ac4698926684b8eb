#pragma once

/* Names of frames in generated code. */

#include "naming/perf_map.h"

struct generated_frames {
    uint64_t named, ambiguous; /* frames */
};

/*
 * Adds names to the frames of a trace that have none. `begin`: CLOCK_MONOTONIC at the trace's time
 * 0. If the map is timed, an event's call stack gets the functions of its time
 * (naming/timed_frames.h).
 */
int generated_frames_name(const struct perf_map *m, struct trace *t, uint64_t begin,
                          struct generated_frames *n, struct err *e);
