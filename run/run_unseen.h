#pragma once

/*
 * Programs of a process tree that ran without being recorded: children that are not followed, and
 * programs that should have loaded the library and did not (static, Go and privileged ones). The
 * recordings list what their processes started; the collector reports which programs connected.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/vec.h"
#include "run/recording/recording.h"

/* A program that a process executed, or a child that it started. */
struct run_start {
    struct recording_start what;
    bool ended; /* a child that is not followed: its pid is not valid any more */
};

struct run_unseen {
    VEC(struct run_start) started;
    VEC(pid_t) came;     /* pids of the programs that connected, in order */
    VEC(pid_t) replaced; /* processes that executed their next program last, and … */
    VEC(size_t) before;  /* … how many programs had connected at that time */
    uint64_t dropped;    /* starts that did not fit */
    uint64_t children;   /* unfollowed ones, as counted by their parents */
};

/* A program connected. Returns its number. */
size_t run_unseen_came(struct run_unseen *u, pid_t pid);

/* Takes the starts that the process recorded since the last call. */
void run_unseen_take(struct run_unseen *u, struct recording *r);

/* Reads which programs the unfollowed children run now. */
void run_unseen_look(struct run_unseen *u);

/* The program with this number ended, with this header. */
void run_unseen_ended(struct run_unseen *u, size_t number, const struct rec_header *h);

/*
 * Appends to `out` a line for stderr for each program that should have been recorded and was not,
 * with the reason, and one line for all unfollowed children, with `advice` at its end. Leaves out
 * `root`, whose programs the caller reports. Returns the number of these processes.
 */
uint64_t run_unseen_tell(const struct run_unseen *u, pid_t root, const char *advice,
                         struct buf *out);

/*
 * The path of the last program that the process executed, if it did not connect; NULL: there is
 * none; "": the path is unknown.
 */
const char *run_unseen_program(const struct run_unseen *u, pid_t pid);

/* Appends why a program with this path would not be recorded, as a phrase. */
void run_unseen_reason(const char *path, struct buf *out);

void run_unseen_release(struct run_unseen *u);
