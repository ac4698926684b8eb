#pragma once

/*
 * An output file that appears under its name only when it is complete. It is written to an unnamed
 * file in the same folder (O_TMPFILE), synced, and then linked to its name. Until then an existing
 * file of that name is untouched, and a killed process leaves nothing behind. On file systems
 * without unnamed files, the output goes to a hidden file ".tidemark-XXXXXX", which is locked
 * (flock) while it is written. outfile_remove_left removes leftovers.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* The hidden name; mkstemp replaces its end. */
#define OUTFILE_HIDDEN ".tidemark-"
#define OUTFILE_HIDDEN_END "XXXXXX"

struct outfile {
    int fd;          /* open for writing; -1 when closed */
    char *path;      /* the final name; NULL when closed */
    char *temporary; /* the hidden file's name; NULL while the file has none */
    bool direct;     /* a pipe or device: writes take effect at once */
    bool replace;
};

/*
 * The folder of a path, "." if the path has none. The caller frees it; NULL when memory is short.
 */
char *outfile_folder(const char *path);

/*
 * Fails with ERR_OUTPUT when `path` exists and `replace` is false, or when its folder cannot be
 * written. A path to something other than a regular file (a pipe, /dev/stdout) is opened and
 * written directly. A symlink stays, and its target is replaced. Of a file with several hard links,
 * only the given name is replaced.
 */
int outfile_open(struct outfile *o, const char *path, bool replace, struct err *e);

/*
 * A stream that writes to the file. The caller closes it before the commit. NULL with `e` on
 * failure; the caller still owns the file.
 */
FILE *outfile_stream(const struct outfile *o, struct err *e);

/*
 * Syncs, names and closes the file. Without `replace`, a file that has taken the name since stays,
 * and the commit fails. On failure nothing is left behind.
 */
int outfile_commit(struct outfile *o, struct err *e);

/* Removes the partial output. Harmless after a commit. */
void outfile_abort(struct outfile *o);

/*
 * Removes the leftovers in a folder: regular files named ".tidemark-XXXXXX" that this user owns,
 * that no writer has locked, that have not changed for an hour, and that are empty or have content
 * that `is_ours` recognises. Removes none on file systems without locks. Returns how many were
 * removed.
 */
unsigned outfile_remove_left(const char *folder, bool (*is_ours)(int fd));
