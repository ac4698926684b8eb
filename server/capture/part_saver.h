#pragma once

/*
 * Saves a part of a trace while its capture goes on. A forked child has a copy-on-write view of the
 * store, and reports its result through a pipe.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct part_result {
    bool saved;
    bool elsewhere; /* saved elsewhere since the folder was removed */
    uint64_t file_bytes, inner_bytes;
    char path[PATH_MAX]; /* the path, possibly not the one that was asked for */
    char losses[256];    /* what the file's version cannot hold; "": nothing */
    struct err e;
};

struct part_saver {
    pid_t pid; /* 0: no child runs */
    int fd;    /* the pipe with the result */
};

/*
 * Calls `work` in a child, which reports the result that `work` leaves in *r. The child is killed
 * when this process ends. False when no child could be started; nothing has happened then.
 */
bool part_saver_start(struct part_saver *p, void (*work)(void *ctx, struct part_result *r),
                      void *ctx);

/* Whether the child has ended, with its result in *r. `wait`: waits for it. */
bool part_saver_ended(struct part_saver *p, bool wait, struct part_result *r);

/*
 * Kills the child; its part is not saved. A process that may not send signals only closes the pipe;
 * the child then ends with this process, whose work is done. Harmless when there is none.
 */
void part_saver_stop(struct part_saver *p);
