#ifndef TIDEMARK_TRACE_SAVE_SAVE_FILE_H
#define TIDEMARK_TRACE_SAVE_SAVE_FILE_H

/*
 * The store to a finished file on disk: records → conversion to the wanted version → writer →
 * temporary file → rename.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "trace/file/file_version.h"
#include "trace/file/writer.h"
#include "trace/store/store.h"

struct save_options {
    const struct file_layout *layout;
    struct container_options container;
    bool replace;  /* an existing file */
    bool threaded; /* see trace_writer_options */
    /*
     * Called now and then while it goes on, at least every few blocks: -1 with an error gives up.
     * NULL: nobody asks.
     */
    int (*going)(void *ctx, struct err *e);
    void *going_ctx;
    /*
     * Called with the file when the trace in it is whole and before it gets its name: may append to
     * it (trace/file/appendix.h). -1 with an error gives up. NULL: nobody does.
     */
    int (*append)(void *ctx, int fd, struct err *e);
    void *append_ctx;
};

/*
 * 0 with `stats` filled and what the version cannot hold appended to `losses` ("3 message
 * severities"); on an error nothing is left under `path` that was not there before.
 */
int trace_save_file(struct trace *t, const char *path, const struct save_options *options,
                    struct trace_write_stats *stats, struct buf *losses, struct err *e);

#endif
