#pragma once

/*
 * Saves the store to a finished file on disk: records → conversion to the requested version →
 * writer → temporary file → rename.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"
#include "trace/file/writer.h"
#include "trace/store/store.h"

struct save_options {
    const struct file_layout *layout;
    struct container_options container;
    bool replace;  /* replace an existing file */
    bool threaded; /* see trace_writer_options */
    /* Called regularly, at least every few blocks; -1 with an error aborts. NULL: never called. */
    int (*going)(void *ctx, struct err *e);
    void *going_ctx;
    /* Gets all records before their conversion to the file's version. NULL: nothing does. */
    const struct record_sink *beside;
    /*
     * Called with the file when its trace is complete and before it gets its name. It may append to
     * the file (trace/file/appendix.h). -1 with an error aborts. NULL: never called.
     */
    int (*append)(void *ctx, int fd, struct err *e);
    void *append_ctx;
};

/*
 * Whether data may follow the trace in its file. Readers before 0.11.0 check less when they
 * read ahead, and those that expect LZ4 take zstd for damaged data.
 */
bool save_may_append(uint32_t version, const struct container_options *container);

/* The same for a trace of figures only, which needs it: -1 with ERR_USAGE. */
int save_check_figures(uint32_t version, const struct container_options *container, struct err *e);

/*
 * Returns 0 with `stats` filled, and appends what the version cannot hold to `losses` ("3 message
 * severities"). On an error it leaves nothing new under `path`.
 */
int trace_save_file(struct trace *t, const char *path, const struct save_options *options,
                    struct trace_write_stats *stats, struct buf *losses, struct err *e);
