#ifndef TIDEMARK_RUN_RUN_UNSEEN_H
#define TIDEMARK_RUN_RUN_UNSEEN_H

/*
 * Programs of a process tree that ran and were not recorded: children that were not to be followed,
 * and programs that never loaded the library although they were (static, Go and privileged ones).
 * The recordings say what their processes started; the collector says what came.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/vec.h"
#include "run/collector.h"
#include "run/recording/recording.h"

/* A program that a process became, or a child that it started. */
struct run_start {
    struct recording_start what;
    bool ended; /* a child that was not to be followed: nothing is found by its pid any more */
};

struct run_unseen {
    VEC(struct run_start) started;
    VEC(pid_t) came;     /* the pid of each program that came, in order */
    VEC(pid_t) replaced; /* processes that executed their next program last, and … */
    VEC(size_t) before;  /* … how many programs had come when that one had */
    uint64_t dropped;    /* starts for which there was no room */
    uint64_t children;   /* of those that are not to be followed, as counted by their parents */
};

/* A program came. Returns its number. */
size_t run_unseen_came(struct run_unseen *u, pid_t pid);

/* Takes what the process started since the last call. */
void run_unseen_take(struct run_unseen *u, struct recording *r);

/* Looks what the children that are not followed are by now. */
void run_unseen_look(struct run_unseen *u);

/* The program with this number ended, with this header. */
void run_unseen_ended(struct run_unseen *u, size_t number, const struct rec_header *h);

/*
 * Appends a line for stderr to `out` for each program that should have been recorded and was not,
 * with the reason, and one for all children that were not to be, with the `advice` at its end.
 * Leaves out `root`, whose programs the caller reports. Returns the number of these processes.
 */
uint64_t run_unseen_tell(const struct run_unseen *u, pid_t root, const char *advice,
                         struct buf *out);

/*
 * The path of the program that the process executed last and that never came; NULL: there is none,
 * "" when the path is not known.
 */
const char *run_unseen_program(const struct run_unseen *u, pid_t pid);

/* Why a program of this path would not be recorded, as a phrase. */
void run_unseen_reason(const char *path, struct buf *out);

void run_unseen_release(struct run_unseen *u);

#endif
