#pragma once

/* Commands of this program, each in a child process and in the folder of one selftest. */

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/interrupt.h"

#define SELFTEST_PATH 512u
#define SELFTEST_WORDS 16u
#define SELFTEST_SECONDS 5 /* the default of `seconds` */

struct selftest_run {
    char folder[SELFTEST_PATH]; /* private; "": none */
    char program[SELFTEST_PATH * 8];
    struct interrupt interrupt;
    uint64_t seconds;   /* for all commands together; then the running one is killed */
    long long deadline; /* monotonic ns */
};

/*
 * Makes the folder in $TMPDIR and begins the `seconds`, which the caller has set. From then on
 * signals that would end the process are held back, so that the folder can be removed; caches are
 * in the folder, and commands query no debuginfod server. ERR_OUTPUT when it cannot be made.
 */
int selftest_run_open(struct selftest_run *r, struct err *e);

/* Removes the folder with its contents. ERR_OUTPUT when something is left. */
int selftest_run_close(struct selftest_run *r, struct err *e);

/* Writes FOLDER/NAME into `path`. */
const char *selftest_path(const struct selftest_run *r, const char *name, char path[SELFTEST_PATH]);

/* Called several times a second while a command runs; -1 kills it. */
typedef int selftest_meanwhile(void *ctx, struct err *e);

/*
 * Runs `tidemark WORDS…` (fewer than SELFTEST_WORDS, NULL at the end) to its exit. Appends its
 * standard output to `out`; `why` gets the last line of its standard error. Returns the exit
 * status, 128 plus the signal's number if it was killed, or -1 with `e`.
 */
int selftest_run(struct selftest_run *r, const char *const *words, struct buf *out, struct err *why,
                 selftest_meanwhile *meanwhile, void *ctx, struct err *e);

/* The same for a command that prints JSON; NULL with `e` when it fails or prints something else. */
json_t *selftest_run_json(struct selftest_run *r, const char *const *words, struct err *e);
