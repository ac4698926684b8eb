#pragma once

/*
 * A filter that keeps or drops memory pools by name or key. The number of pools precedes them, so
 * the trace is read twice, the first time by the choosing sink up to the last pool.
 *
 * The default pool is named "default". When it is dropped, an empty one replaces it, since viewers
 * access it unchecked. Other pools have the client's names; pools of the same name are treated
 * alike. A pool without a name is identified by its key, "0x…".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/record.h"

struct pools;

struct pools_options {
    const char *const *names; /* each a comma-separated list; must outlive the filter */
    size_t n;
    bool drop; /* drop the named pools instead of all others */
};

int pools_open(struct pools **out, const struct pools_options *options, struct err *e);
void pools_free(struct pools *p);

/*
 * First pass. Once pools_chosen is true, its put returns -1 with `e` untouched: no more records are
 * needed.
 */
struct record_sink pools_choose_sink(struct pools *p);

/* Clears in `wanted` (REC_TYPE_COUNT flags) the types that the first pass does not need. */
void pools_choose_wanted(bool *wanted);

/* True when the first pass has seen all pools. */
bool pools_chosen(const struct pools *p);

/* Between the passes: ERR_USAGE with the existing names when a name matches no pool. */
int pools_check(struct pools *p, struct err *e);

/* Second pass. `next` is copied. */
struct record_sink pools_sink(struct pools *p, const struct record_sink *next);
