#ifndef TIDEMARK_BASE_OUTFILE_H
#define TIDEMARK_BASE_OUTFILE_H

/*
 * An output file that appears under its name only when it is whole: written to a file without a
 * name in the same folder (O_TMPFILE), synced, and given its name. Until then a file that had the
 * name stands untouched, and a process that is killed leaves nothing behind. File systems that have
 * no files without names get a hidden one, ".tidemark-XXXXXX", which is locked (flock) as long as
 * it is written: base/outfile_left.h finds those that were left.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* The hidden name: mkstemp chooses its end. */
#define OUTFILE_HIDDEN ".tidemark-"
#define OUTFILE_HIDDEN_END "XXXXXX"

struct outfile {
    int fd;          /* to write to; -1 when closed */
    char *path;      /* the final name; NULL when closed */
    char *temporary; /* the hidden file's name; NULL while the file has none */
    bool direct;     /* a pipe or device: what is written is there at once */
    bool replace;
};

/* The folder that a path leads into: "." where it names none. To be freed; NULL: memory is short.
 */
char *outfile_folder(const char *path);

/*
 * Refuses (ERR_OUTPUT) when `path` exists and `replace` is false, or when its folder cannot be
 * written. A path that names something other than a regular file (a pipe, /dev/stdout) is opened
 * and written directly. A symbolic link stays, and the file that it leads to is replaced; of a file
 * with several hard links only the name at hand is.
 */
int outfile_open(struct outfile *o, const char *path, bool replace, struct err *e);

/*
 * A stream into the file, for the caller to close before the file is committed. NULL with the error
 * filled when there is none to be had; the file is the caller's still.
 */
FILE *outfile_stream(const struct outfile *o, struct err *e);

/*
 * Syncs, names, closes. Without `replace` a file that came to have the name meanwhile stays, and
 * that is an error. On failure nothing is left.
 */
int outfile_commit(struct outfile *o, struct err *e);

/* Removes what was written. Harmless after a commit. */
void outfile_abort(struct outfile *o);

#endif
