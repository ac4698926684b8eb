#ifndef TIDEMARK_TRACE_MERGE_MERGE_H
#define TIDEMARK_TRACE_MERGE_MERGE_H

/*
 * Several traces made one. Everything that a trace holds is kept; what the inputs have in common is
 * told apart by name: threads become "NAME (PROGRAM)", and so do pools, plots, locks, frame sets,
 * section categories and GPU contexts whose names more than one input has. Programs of equal name
 * are told apart by process id.
 *
 * The inputs are put in order of their beginnings; the first of them gives the header, the default
 * pool, the numbers of threads and pointers. Of the others those that are taken already change.
 *
 * Every input is read twice: for its tables (trace/merge/merge_scan.c), and then all of them list
 * by list, at once (trace/merge/merge_step.h). Memory follows names, threads and places in code,
 * not events.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "trace/file/file_version.h"
#include "trace/file/reader.h"
#include "trace/file/writer.h"

/* Tags of addresses are 12 bits wide; far fewer inputs are of use. */
#define MERGE_INPUTS_MAX 1000u

struct merge_input_options {
    const char *name; /* of the file, for messages and facts */
    bool has_offset;
    int64_t offset; /* ns from the beginning of the first input to that of this one */
};

struct merge_options {
    const struct merge_input_options *inputs;
    size_t n;
    bool align_begin;                 /* without an offset: all begin together */
    const struct file_layout *target; /* NULL: the newest of the inputs' */
    const char *spill_dir;            /* for temporary files; NULL: $TMPDIR, else /var/tmp */
    size_t spill_records;             /* records sorted in memory; 0: plenty */
};

/*
 * Reads the input `input` (its place in the options) from its beginning. Calls for different inputs
 * come from different threads, but never two at the same time: while one of them waits in its sink,
 * another goes on.
 */
struct merge_source {
    void *ctx;
    int (*read)(void *ctx, size_t input, unsigned pass, const struct record_sink *sink,
                const bool *wanted, struct trace_info *info, struct err *e);
};

struct merge_outcome {
    const struct file_layout *layout; /* that was written */
    uint64_t zones, gpu_zones, messages, memory_events, threads, pools;
    uint64_t images_left_out; /* trace/merge/merge_images.c */
    struct buf notes;         /* lines about what was not as one might expect */
    struct buf losses;        /* what the version cannot hold, as in trace/filter/convert.h */
};

/*
 * Writes the merged trace. The caller releases `notes` and `losses`, also after an error. Errors
 * of an input name it.
 */
int merge_traces(const struct merge_source *source, const struct merge_options *options,
                 struct trace_writer *writer, struct merge_outcome *outcome, struct err *e);

#endif
