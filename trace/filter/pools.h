#ifndef TIDEMARK_TRACE_FILTER_POOLS_H
#define TIDEMARK_TRACE_FILTER_POOLS_H

/*
 * A filter that keeps or drops memory pools by name or key. The number of pools stands before them,
 * so the trace is read twice: the first time to the choosing sink, up to the last pool.
 *
 * The default pool is named "default"; when it goes an empty one takes its place, since viewers
 * look for it without asking whether it is there. Other names are what the client called its pools;
 * pools of one name go together. A pool without a name is known by its key, "0x…".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/record.h"

struct pools;

struct pools_options {
    const char *const *names; /* each a list with commas between; outlive the filter */
    size_t n;
    bool drop; /* the pools named go, instead of all others */
};

int pools_open(struct pools **out, const struct pools_options *options, struct err *e);
void pools_free(struct pools *p);

/* First pass. Its put returns -1, with `e` untouched, once pools_chosen: nothing else is needed. */
struct record_sink pools_choose_sink(struct pools *p);

/* Clears in `wanted` (REC_TYPE_COUNT flags) what the first pass has no use for. */
void pools_choose_wanted(bool *wanted);

/* True when the first pass has seen all pools. */
bool pools_chosen(const struct pools *p);

/* Between the passes: ERR_USAGE when a name fits no pool, with the names that there are. */
int pools_check(struct pools *p, struct err *e);

/* Second pass. `next` is copied. */
struct record_sink pools_sink(struct pools *p, const struct record_sink *next);

#endif
