#pragma once

/*
 * Loads a saved trace into the store: names, call stacks, frames, symbols, messages, app info and
 * the memory columns (file-backed). Data that the store does not hold is only counted.
 */

#include "trace/file/record.h"
#include "trace/file/stream.h"
#include "trace/store/store.h"

/* The numbers of each kind in a file, for `info` and `verify`. */
struct trace_counts {
    uint64_t frame_sets, frames, sections;
    uint64_t strings, threads, source_locations;
    uint64_t locks, messages;
    uint64_t zones, gpu_contexts, gpu_zones;
    uint64_t samples, switch_samples, hw_samples; /* hw: addresses with hardware samples */
    uint64_t plots, plot_points;
    uint64_t pools, memory_events, callstacks, callstack_frames;
    uint64_t app_infos, frame_images;
    uint64_t context_switches, cpu_switches, processes;
    uint64_t symbols, symbol_codes, source_files;
};

struct trace_info; /* trace/file/reader.h: container, compression, sizes, warnings */

/*
 * Loads the file at `path` into `t`, which was just initialised. `counts` and `info` may be NULL.
 * On an error `t` holds the data read so far and must still be released.
 */
int trace_load(struct trace *t, const char *path, struct trace_counts *counts,
               struct trace_info *info, struct err *e);

/* Data that a query needs beside memory events. */
struct trace_load_options {
    bool zones;     /* of local threads, into t->zones, without texts and call stacks */
    bool frames;    /* of the base set, into t->frame_sets */
    bool no_events; /* no memory events: the pools stay empty */
    bool kernel;    /* the plots of a process's RSS and swap (kernel_plot.h), into t->plots */
    /*
     * NULL, or receives each record of the types flagged in `beside_wanted` (REC_TYPE_COUNT flags)
     * after the store has taken it, so that names precede the events that refer to them.
     */
    const struct record_sink *beside;
    const bool *beside_wanted;
};

/* The same with options. */
int trace_load_with(struct trace *t, const char *path, const struct trace_load_options *options,
                    struct trace_counts *counts, struct trace_info *info, struct err *e);

/* The same from an open file, which stays open; errors use `name`. */
int trace_load_fd(struct trace *t, int fd, const char *name,
                  const struct trace_load_options *options, struct trace_counts *counts,
                  struct trace_info *info, struct err *e);

/* The same from an uncompressed inner stream (tests, fuzzers). */
int trace_load_inner(struct trace *t, struct byte_source source,
                     const struct trace_load_options *options, struct err *e);

/* The same without memory events, whose pools stay empty: for queries about names. */
int trace_load_names(struct trace *t, const char *path, struct err *e);
