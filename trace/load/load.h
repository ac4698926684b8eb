#ifndef TIDEMARK_TRACE_LOAD_LOAD_H
#define TIDEMARK_TRACE_LOAD_LOAD_H

/*
 * A saved trace into the store: names, call stacks, frames, symbols, messages, app info and the
 * memory columns (file-backed). What the store has no place for is counted only.
 */

#include "trace/file/record.h"
#include "trace/file/stream.h"
#include "trace/store/store.h"

/* How many of each there are in a file, for `info` and `verify`. */
struct trace_counts {
    uint64_t frame_sets, frames, sections;
    uint64_t strings, threads, source_locations;
    uint64_t locks, messages;
    uint64_t zones, gpu_contexts, gpu_zones;
    uint64_t samples, switch_samples, hw_samples; /* hw: addresses that have some */
    uint64_t plots, plot_points;
    uint64_t pools, memory_events, callstacks, callstack_frames;
    uint64_t app_infos, frame_images;
    uint64_t context_switches, cpu_switches, processes;
    uint64_t symbols, symbol_codes, source_files;
};

struct trace_info; /* trace/file/reader.h: container, compression, sizes, warnings */

/*
 * Loads the file at `path` into `t`, which was just initialised. `counts` and `info` may be NULL.
 * On an error `t` holds what was read until then and must still be released.
 */
int trace_load(struct trace *t, const char *path, struct trace_counts *counts,
               struct trace_info *info, struct err *e);

/* What a question needs beside memory events. */
struct trace_load_options {
    bool zones;  /* of threads that have a number, into t->zones, without texts and call stacks */
    bool frames; /* of the base set, into t->frame_sets */
    bool no_events; /* no memory events: the pools stay empty */
    /*
     * NULL, or takes each record of the types that `beside_wanted` (REC_TYPE_COUNT flags) marks,
     * after the store has taken it: so names are there when events come that refer to them.
     */
    const struct record_sink *beside;
    const bool *beside_wanted;
};

/* The same with more. */
int trace_load_with(struct trace *t, const char *path, const struct trace_load_options *options,
                    struct trace_counts *counts, struct trace_info *info, struct err *e);

/* The same from an open file, which stays open; errors call it `name`. */
int trace_load_fd(struct trace *t, int fd, const char *name,
                  const struct trace_load_options *options, struct trace_counts *counts,
                  struct trace_info *info, struct err *e);

/* The same from an uncompressed inner stream (tests, fuzzers). */
int trace_load_inner(struct trace *t, struct byte_source source,
                     const struct trace_load_options *options, struct err *e);

/* The same without the memory events, whose pools stay empty: for what is asked of the names. */
int trace_load_names(struct trace *t, const char *path, struct err *e);

#endif
