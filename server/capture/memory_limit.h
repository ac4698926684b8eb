#ifndef TIDEMARK_SERVER_CAPTURE_MEMORY_LIMIT_H
#define TIDEMARK_SERVER_CAPTURE_MEMORY_LIMIT_H

/*
 * A bound on this process's anonymous resident memory that a capture keeps by moving event data to
 * its spool file. What cannot go there, live blocks and names, counts too: when these alone are too
 * much the bound cannot be kept, and the capture has to end.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"
#include "trace/store/store.h"

/* Event data never gets less: one chunk of each column needs as much. */
#define MEMORY_BUDGET_LEAST ((size_t)1 << 20)

struct memory_limit {
    uint64_t bytes;    /* 0: no bound */
    uint64_t lent;     /* of them, to a copy of this process that saves a part */
    size_t budget;     /* of the store's event data, as it is now */
    uint64_t shrunken; /* times that it was made less */
    bool gated;        /* memory_limit_close_gate was called last */
    rlim_t before;     /* RLIMIT_DATA until then */
};

/* A bound and the budget to begin with: `wanted`, or less where the bound is low. */
struct memory_limit memory_limit_of(uint64_t bytes, size_t wanted);

/*
 * Looks, and makes the budget less when the bound comes near; `ahead` are bytes that are about to
 * be needed. 1: it will not be kept for long; 2: it is not. -1: no room in the spool.
 */
int memory_limit_keep(struct memory_limit *l, struct trace *t, uint64_t ahead, struct err *e);

/* Bytes below the bound that saving needs, so that recording ends before them. */
uint64_t memory_limit_reserve(const struct memory_limit *l);

/*
 * Lets the system refuse memory that would take this process beyond the bound, as when a table
 * doubles (RLIMIT_DATA): to be called again after each look, since it goes by what is in use now.
 * Opened again nothing is refused: by who has to save, and in forked processes.
 */
void memory_limit_close_gate(struct memory_limit *l);
void memory_limit_open_gate(struct memory_limit *l); /* NULL: there is none */

/*
 * Another bound from now on: the budget grows with it, up to `wanted`, and shrinks at the next
 * look. -1: no room in the spool.
 */
int memory_limit_change(struct memory_limit *l, struct trace *t, uint64_t bytes, size_t wanted,
                        struct err *e);

/* Anonymous resident bytes of this process, 0 when the system does not tell. */
uint64_t memory_anonymous(void);

/*
 * The bound where none was asked for: three quarters of what a control group leaves, whose pages of
 * files count, too. 0: none.
 */
uint64_t memory_limit_of_group(void);

/* What a percentage is of: the machine's memory, or what a control group leaves of it. */
uint64_t memory_physical(void);

#endif
