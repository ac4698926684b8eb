#pragma once

/*
 * Symlinks that show other commands where a process's malloc events are recorded. They lie in the
 * folder of its recording, whose path is in the process's memory map. Their targets are texts, not
 * paths of files.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

enum run_signpost {
    RUN_SIGNPOST_TRACE,    /* path of the trace that will be written */
    RUN_SIGNPOST_LISTENER, /* "127.0.0.1:8087" */
    RUN_SIGNPOSTS
};

/* Replaces a symlink; NULL: removes it. Errors are ignored: other commands then only know less. */
void run_signpost_put(const char *folder, enum run_signpost which, const char *text);

/* Removes all of them. */
void run_signpost_remove(const char *folder);

/*
 * Reads the texts of process `pid`; missing ones stay empty. False when it is not being recorded or
 * cannot be read.
 */
bool run_signpost_read(pid_t pid, struct buf texts[RUN_SIGNPOSTS]);
