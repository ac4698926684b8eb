#ifndef TIDEMARK_TRACE_FILE_WRITER_H
#define TIDEMARK_TRACE_FILE_WRITER_H

/*
 * Writes a stream of records (trace/file/record.h) as a .tracy file of any version from 0.9.0 to
 * 0.14.0. Records must come in the order of the layout that is written and in the numbers that
 * their counts announced; the writer checks that and computes nothing itself. Fields that the
 * layout lacks are left out; whole records that it lacks are refused (trace/filter/convert.h leaves
 * them out and counts what is lost).
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/file/container.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"

struct trace_writer;

struct trace_writer_options {
    const struct file_layout *layout; /* NULL: that of the HEADER record's version */
    /*
     * How to compress. `old_magic` need not be set: layouts before 0.11.0 always get an old
     * container, the only one that the releases that read them know.
     */
    struct container_options container;
    /*
     * Threads of their own compress and write, one for each compression stream, four at most; the
     * file is the same. For programs that fork no more and have a processor to spare.
     */
    bool threaded;
};

/* Compressed as container.h does by default, in the layout that the header names. */
struct trace_writer_options trace_writer_options_default(void);

/* Writes to `fd`, which stays the caller's. `options` may be NULL for the default. */
int trace_writer_open(struct trace_writer **out, int fd, const struct trace_writer_options *options,
                      struct err *e);

/*
 * Hands the uncompressed inner stream to `blocks` instead, and writes also numbers that point
 * nowhere (tests, fuzzers).
 */
int trace_writer_open_inner(struct trace_writer **out, const struct file_layout *layout,
                            struct block_sink blocks, struct err *e);
void trace_writer_free(struct trace_writer *w);

/* Takes the records. Errors: ERR_OUTPUT. */
struct record_sink trace_writer_sink(struct trace_writer *w);

/*
 * Before the header: takes the codec and the number of streams of `like` where the options leave
 * them open, but no LZ4 where zstd is the default, and no more streams than by default. `like` is
 * looked at when the header comes.
 */
void trace_writer_keep_compression(struct trace_writer *w, const struct container_info *like);

struct trace_write_stats {
    uint64_t inner_bytes; /* uncompressed */
    uint64_t file_bytes;
    uint64_t compress_ns;               /* time spent on compressing and writing, of all threads */
    struct container_options container; /* with nothing left open */
};

/* After the last record: checks that none is missing and writes what is buffered. */
int trace_writer_finish(struct trace_writer *w, struct trace_write_stats *stats, struct err *e);

#endif
