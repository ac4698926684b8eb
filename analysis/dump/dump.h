#pragma once

/*
 * Everything in a trace as lines, the same whichever tool wrote it and in whatever order it stored
 * things. References to tables of the file (string, call stack, thread, source location, frame
 * image, GPU context) are replaced by their contents; data in order of arrival is sorted by
 * content. man/tidemark-dump.1 has the sections, their order and what is left out.
 *
 * The records are read twice: first for the tables, some of which come after references to them,
 * then for the lines. Tables are in memory that can be written out (base/pageable.h); lines that
 * must be sorted go through a temporary file (base/line_sort.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"
#include "trace/file/reader.h"

/* Sections in the order of output: SECTION(NAME, name). */
#define DUMP_SECTIONS(SECTION)                                                                     \
    SECTION(TRACE, "trace")                                                                        \
    SECTION(TOPOLOGY, "topology")                                                                  \
    SECTION(CRASH, "crash")                                                                        \
    SECTION(FRAME_SETS, "frame-sets")                                                              \
    SECTION(FRAMES, "frames")                                                                      \
    SECTION(SECTIONS, "sections")                                                                  \
    SECTION(SECTION_CATEGORIES, "section-categories")                                              \
    SECTION(STRINGS, "strings")                                                                    \
    SECTION(THREAD_NAMES, "thread-names")                                                          \
    SECTION(EXTERNAL_NAMES, "external-names")                                                      \
    SECTION(LOCATIONS, "source-locations")                                                         \
    SECTION(ALLOCATED_LOCATIONS, "allocated-source-locations")                                     \
    SECTION(LOCKS, "locks")                                                                        \
    SECTION(LOCK_EVENTS, "lock-events")                                                            \
    SECTION(MESSAGES, "messages")                                                                  \
    SECTION(THREADS, "threads")                                                                    \
    SECTION(ZONES, "zones")                                                                        \
    SECTION(SWITCH_SAMPLES, "context-switch-samples")                                              \
    SECTION(SAMPLES, "samples")                                                                    \
    SECTION(GPU_CONTEXTS, "gpu-contexts")                                                          \
    SECTION(GPU_NOTE_NAMES, "gpu-note-names")                                                      \
    SECTION(GPU_ZONES, "gpu-zones")                                                                \
    SECTION(GPU_NOTES, "gpu-notes")                                                                \
    SECTION(PLOTS, "plots")                                                                        \
    SECTION(PLOT_POINTS, "plot-points")                                                            \
    SECTION(POOLS, "pools")                                                                        \
    SECTION(MEMORY, "memory")                                                                      \
    SECTION(CALLSTACKS, "callstacks")                                                              \
    SECTION(CALLSTACK_FRAMES, "callstack-frames")                                                  \
    SECTION(APP_INFO, "app-info")                                                                  \
    SECTION(FRAME_IMAGES, "frame-images")                                                          \
    SECTION(CONTEXT_SWITCHES, "context-switches")                                                  \
    SECTION(CPU_SWITCHES, "processor-switches")                                                    \
    SECTION(PROCESSES, "processes")                                                                \
    SECTION(CPU_THREADS, "processor-threads")                                                      \
    SECTION(SYMBOLS, "symbols")                                                                    \
    SECTION(SYMBOL_CODE, "symbol-code")                                                            \
    SECTION(CODE_SYMBOLS, "code-symbols")                                                          \
    SECTION(HW_SAMPLES, "hardware-samples")                                                        \
    SECTION(SOURCE_FILES, "source-files")

enum dump_section {
#define SECTION(NAME, TEXT) DUMP_##NAME,
    DUMP_SECTIONS(SECTION)
#undef SECTION
        DUMP_SECTION_COUNT
};

const char *dump_section_name(enum dump_section section);

/*
 * The format of a line (report/dump_format.h). Each function appends to `out`; `begin` starts a
 * line, `end` ends it with a line feed, and a field also writes its separator.
 */
struct dump_format {
    void (*begin)(struct buf *out, struct view section);
    void (*number)(struct buf *out, struct view name, uint64_t value);
    void (*integer)(struct buf *out, struct view name, int64_t value);
    void (*address)(struct buf *out, struct view name, uint64_t value);
    void (*real)(struct buf *out, struct view name, double value);
    void (*text)(struct buf *out, struct view name, struct view text);
    void (*word)(struct buf *out, struct view name, struct view word); /* never escaped */
    void (*list_begin)(struct buf *out, struct view name);
    void (*list_word)(struct buf *out, struct view word, bool first);
    void (*list_end)(struct buf *out);
    void (*end)(struct buf *out);
};

struct dump_options {
    bool sections[DUMP_SECTION_COUNT]; /* selected */
    uint64_t limit;                    /* maximum number of lines of each section */
    bool own;                          /* also Tidemark's facts and fault messages */
    const struct file_layout *common;  /* print what it can hold; NULL: the trace's */
    const struct dump_format *format;
    size_t sort_bytes;     /* see line_sort_init; 0: the default */
    const char *spill_dir; /* the same; NULL: the default */
    int (*write)(void *ctx, const void *bytes, size_t n, struct err *e);
    void *write_ctx;
    /* Called now and then while sorted lines are written: how many are, of those; may be NULL. */
    void (*writing)(void *ctx, uint64_t done, uint64_t of);
    void *writing_ctx;
};

/* An input that can be read twice from its beginning. `wanted` as in trace_read_options. */
struct dump_source {
    void *ctx;
    int (*read)(void *ctx, const struct record_sink *sink, const bool *wanted, struct err *e);
};

/*
 * Writes the dump. Returns 0, or -1 with `e` filled: by the source, by `write`, or ERR_MEMORY,
 * ERR_OUTPUT (temporary file).
 */
int dump_run(const struct dump_source *source, const struct dump_options *options, struct err *e);
