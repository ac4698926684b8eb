#ifndef TIDEMARK_BASE_OUTFILE_H
#define TIDEMARK_BASE_OUTFILE_H

/*
 * An output file that appears under its name only when it is whole: written to a temporary file in
 * the same folder, synced, and renamed. Until then a file that had the name stands untouched.
 */

#include <stdbool.h>

#include "base/err.h"

struct outfile {
    int fd; /* to write to; -1 when closed */
    char *path;
    char *temporary;
};

/*
 * Refuses (ERR_OUTPUT) when `path` exists and `replace` is false, or when its folder cannot be
 * written. A path that names something other than a regular file (a pipe, /dev/stdout) is opened
 * and written directly.
 */
int outfile_open(struct outfile *o, const char *path, bool replace, struct err *e);

/* Syncs, renames, closes. On failure the temporary file is removed. */
int outfile_commit(struct outfile *o, struct err *e);

/* Removes the temporary file. Harmless after a commit. */
void outfile_abort(struct outfile *o);

#endif
