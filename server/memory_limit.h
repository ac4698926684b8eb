#ifndef TIDEMARK_SERVER_MEMORY_LIMIT_H
#define TIDEMARK_SERVER_MEMORY_LIMIT_H

/*
 * A bound on this process's anonymous resident memory that a capture keeps by moving event data to
 * its spool file. What cannot go there, live blocks and names, counts too: when these alone are too
 * much the bound cannot be kept, and the capture has to end.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/store.h"

/* Event data never gets less: one chunk of each column needs as much. */
#define MEMORY_BUDGET_LEAST ((size_t)1 << 20)

struct memory_limit {
    uint64_t bytes;    /* 0: no bound */
    uint64_t lent;     /* of them, to a copy of this process that saves a part */
    size_t budget;     /* of the store's event data, as it is now */
    uint64_t shrunken; /* times that it was made less */
};

/* A bound and the budget to begin with: `wanted`, or less where the bound is low. */
struct memory_limit memory_limit_of(uint64_t bytes, size_t wanted);

/*
 * Looks, and makes the budget less when the bound comes near; `ahead` are bytes that are about to
 * be needed. 1: it will not be kept for long; 2: it is not. -1: no room in the spool.
 */
int memory_limit_keep(struct memory_limit *l, struct trace *t, uint64_t ahead, struct err *e);

/*
 * Another bound from now on: the budget grows with it, up to `wanted`, and shrinks at the next
 * look. -1: no room in the spool.
 */
int memory_limit_change(struct memory_limit *l, struct trace *t, uint64_t bytes, size_t wanted,
                        struct err *e);

/* Anonymous resident bytes of this process, 0 when the system does not tell. */
uint64_t memory_anonymous(void);

/* What a percentage is of: the machine's memory, or what a control group leaves of it. */
uint64_t memory_physical(void);

#endif
