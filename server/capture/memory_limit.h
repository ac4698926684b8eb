#pragma once

/*
 * A bound on this process's anonymous resident memory, which a capture keeps by moving event data
 * to its spool file. Live blocks and names cannot be moved but count too: if they alone exceed the
 * bound, the capture has to end.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"
#include "trace/store/store.h"

/* Lower limit of the event data budget: each column needs one chunk. */
#define MEMORY_BUDGET_LEAST ((size_t)1 << 20)

struct memory_limit {
    uint64_t bytes;    /* 0: no bound */
    uint64_t lent;     /* of these, lent to a forked child that saves a part */
    size_t budget;     /* current budget of the store's event data */
    uint64_t shrunken; /* times that the budget was reduced */
    bool gated;        /* memory_limit_close_gate was called last */
    rlim_t before;     /* RLIMIT_DATA before that */
};

/* Makes a bound with its initial budget: `wanted`, or less if the bound is low. */
struct memory_limit memory_limit_of(uint64_t bytes, size_t wanted);

/*
 * Checks memory and reduces the budget when the bound is near; `ahead` bytes are about to be
 * needed. 1: the bound will soon be exceeded; 2: it is exceeded. -1: no room in the spool.
 */
int memory_limit_keep(struct memory_limit *l, struct trace *t, uint64_t ahead, struct err *e);

/*
 * Bytes below the bound that saving `t` needs, its open zones included. Recording has to end before
 * they are used. NULL: once the zones are settled.
 */
uint64_t memory_limit_reserve(const struct memory_limit *l, const struct trace *t);

/*
 * Makes allocations fail that would exceed the bound less `reserve` bytes, such as doubling a table
 * (RLIMIT_DATA). Call it again after each check, since it depends on present use.
 * memory_limit_open_gate lifts the limit, for saving and in forked processes.
 */
void memory_limit_close_gate(struct memory_limit *l, uint64_t reserve);
void memory_limit_open_gate(struct memory_limit *l); /* NULL: no limit */

/*
 * Changes the bound. The budget grows with it, up to `wanted`, and shrinks at the next check. -1:
 * no room in the spool.
 */
int memory_limit_change(struct memory_limit *l, struct trace *t, uint64_t bytes, size_t wanted,
                        struct err *e);

/* Anonymous resident bytes of this process; 0 when the system does not report them. */
uint64_t memory_anonymous(void);

/*
 * The default bound: three quarters of what the control group leaves, which also has to hold the
 * page cache. 0: none.
 */
uint64_t memory_limit_of_group(void);

/* The base of percentages: the machine's memory, or the control group's limit if lower. */
uint64_t memory_physical(void);

/*
 * The lowest limit, in bytes, of this process's memory control group and its ancestors, at most
 * `most`: of cgroup v1 or v2, wherever the hierarchy with the memory controller is mounted. Files
 * that are missing or contain no number, such as "max", set no limit.
 * `root` is put before /proc and /sys: "" for those of the system.
 */
uint64_t memory_within_group(const char *root, uint64_t most);
