#ifndef TIDEMARK_SERVER_CAPTURE_RUN_SIGNPOST_H
#define TIDEMARK_SERVER_CAPTURE_RUN_SIGNPOST_H

/*
 * Where the malloc events of a recorded process are, for other commands: symlinks in the folder of
 * its recording, whose path is in the process's memory map. They lead to a text, not to a file.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

enum run_signpost {
    RUN_SIGNPOST_TRACE,    /* path of the trace that will be written */
    RUN_SIGNPOST_LISTENER, /* "127.0.0.1:8087" */
    RUN_SIGNPOSTS
};

/* Replaces one; NULL: removes it. Without it other commands know less: errors are ignored. */
void run_signpost_put(const char *folder, enum run_signpost which, const char *text);

/* Removes all. */
void run_signpost_remove(const char *folder);

/*
 * Reads those of process `pid` into texts, which stay empty where there is none. False when it is
 * not being recorded, or cannot be looked at.
 */
bool run_signpost_read(pid_t pid, struct buf texts[RUN_SIGNPOSTS]);

#endif
