#ifndef TIDEMARK_SERVER_CAPTURE_PART_SAVER_H
#define TIDEMARK_SERVER_CAPTURE_PART_SAVER_H

/*
 * Saving a part of a trace while its capture goes on: a child of fork has the store as it was, and
 * shares its memory until one of the two changes it. What it did, it tells through a pipe.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct part_result {
    bool saved;
    bool elsewhere; /* since the folder was removed */
    uint64_t file_bytes, inner_bytes;
    char path[PATH_MAX]; /* where it is: it may have had to make way */
    char losses[256];    /* what the file's version cannot hold; "" nothing */
    struct err e;
};

struct part_saver {
    pid_t pid; /* 0: nothing is being saved */
    int fd;    /* where the result comes */
};

/*
 * Calls `work` in a child, which ends with what `work` leaves in *r, and also when this process
 * ends. False when there is no child to be had: nothing has happened then.
 */
bool part_saver_start(struct part_saver *p, void (*work)(void *ctx, struct part_result *r),
                      void *ctx);

/* Whether the child has ended, with its result in *r; `wait`: it is waited for. */
bool part_saver_ended(struct part_saver *p, bool wait, struct part_result *r);

/*
 * Ends the child; what it has not saved is not. Where this process may not, it ends with it, which
 * has nothing left to do. Harmless when there is none.
 */
void part_saver_stop(struct part_saver *p);

#endif
