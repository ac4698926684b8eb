#pragma once

/*
 * Decides which zones of a tree a range keeps, for range.c. A zone's end follows its children but
 * their count precedes them, so the first pass decides and the second one needs the result. Usually
 * the begin alone decides: a zone that begins in the range is kept with all its children, any other
 * is dropped. Only exceptions are stored, by the zone's position among all zones: zones that cross
 * either end of the range.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/store/spill.h"
#include "trace/store/tally.h"

struct open_zone {
    int64_t position; /* position among all zones */
    uint32_t children, kept_children;
    int16_t srcloc;
    bool in_range; /* overlaps the range as far as known */
    bool starts_in_range;
};

struct range_zones {
    int64_t position;
    VEC(struct open_zone) open;
    struct spill exceptions;
    struct tally exceptions_in_order; /* position, then 0 or 1 + kept children */
    uint64_t exception_count;
    /* second pass */
    int64_t next_exception;
    uint64_t next_outcome;
    /* results of the first pass */
    uint64_t kept, parents; /* kept zones, and those of them with children */
    uint64_t *by_location;  /* kept zones per source location number (65536) */
};

int range_zones_init(struct range_zones *z, struct spool *spool, const char *dir, struct err *e);
void range_zones_release(struct range_zones *z);

/* First pass: a zone begins. */
int range_zones_begin(struct range_zones *z, int16_t srcloc, uint32_t children,
                      bool starts_in_range, bool in_range, struct err *e);

/*
 * First pass: the innermost open zone ends, after the caller updated it. *kept gets the decision.
 */
int range_zones_end(struct range_zones *z, bool *kept, struct err *e);

/* Between the passes. */
int range_zones_counted(struct range_zones *z, struct err *e);

/* Second pass: whether the next zone is kept, and its number of children. */
int range_zones_outcome(struct range_zones *z, bool starts_in_range, uint32_t *children, bool *kept,
                        struct err *e);
