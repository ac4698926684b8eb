#pragma once

/*
 * Writes a stream of records (trace/file/record.h) as a .tracy file of any version from 0.9.0 to
 * 0.14.0. Records must come in the order of the written layout and in the numbers that their counts
 * announced. The writer checks this and computes nothing. It leaves out fields that the layout
 * lacks, and rejects whole records that the layout lacks (trace/filter/convert.h removes them and
 * counts the losses).
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/file/container.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"

struct trace_writer;

struct trace_writer_options {
    const struct file_layout *layout; /* NULL: the layout of the HEADER record's version */
    /*
     * Compression options. `old_magic` need not be set: layouts before 0.11.0 always get an old
     * container, the only kind that their releases read.
     */
    struct container_options container;
    /*
     * Compress and write in separate threads, one per compression stream, at most four; the file is
     * the same. For programs that no longer fork and have a processor to spare.
     */
    bool threaded;
};

/* Compression as container.h does by default, in the layout that the header names. */
struct trace_writer_options trace_writer_options_default(void);

/* Writes to `fd`, which the caller keeps owning. `options` may be NULL for the default. */
int trace_writer_open(struct trace_writer **out, int fd, const struct trace_writer_options *options,
                      struct err *e);

/*
 * Writes the uncompressed inner stream to `blocks` instead, and also writes references that are out
 * of bounds (tests, fuzzers).
 */
int trace_writer_open_inner(struct trace_writer **out, const struct file_layout *layout,
                            struct block_sink blocks, struct err *e);
void trace_writer_free(struct trace_writer *w);

/* The sink for the records. Errors: ERR_OUTPUT. */
struct record_sink trace_writer_sink(struct trace_writer *w);

/*
 * Call before the header: takes open options from `like`, namely codec and number of streams. Never
 * chooses LZ4 if zstd is the default, nor more streams than the default. `like` is read when the
 * header arrives.
 */
void trace_writer_keep_compression(struct trace_writer *w, const struct container_info *like);

struct trace_write_stats {
    uint64_t inner_bytes; /* uncompressed */
    uint64_t file_bytes;
    uint64_t compress_ns; /* ns spent on compressing and writing, summed over all threads */
    struct container_options container; /* with all defaults filled in */
};

/* After the last record: checks that none is missing and flushes the buffers. */
int trace_writer_finish(struct trace_writer *w, struct trace_write_stats *stats, struct err *e);
