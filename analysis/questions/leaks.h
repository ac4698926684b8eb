#pragma once

/*
 * What is live at the end, by site, and whether it grows. The use of a site goes up and down; a
 * leak lifts its minimum. So the time from the first allocation to the last is cut into buckets,
 * and the site's lowest use in each is taken. Growth is tested with Mann and Kendall's test, which
 * ignores amounts and is robust against single jumps. The rate is Sen's slope, the median of all
 * slopes between two buckets. One sweep; memory grows with sites.
 *
 * Of a trace of figures only, the buckets are its steps (stack_steps.h), at most LEAK_BUCKETS, and
 * the lowest use of a site is the sum of those of its call stacks: a lower bound, which a leak
 * lifts all the same. All other figures are those of events.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "analysis/questions/suppressions.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

#define LEAK_BUCKETS 64

enum leak_kind {
    /*
     * The minimum rises (one-sided p < 0.01, and a rate above 0). At least LEAK_BLOCKS_LEAST blocks
     * are never freed. They were allocated in at least LEAK_SPREAD_LEAST buckets, the newest within
     * the last quarter of the time.
     */
    LEAK_GROWING,
    LEAK_HELD,     /* neither of the others */
    LEAK_AT_START, /* all of them were allocated within the first fifth of the time */
    LEAK_KINDS,
};

const char *leak_kind_name(enum leak_kind kind); /* "growing", "held", "at-start" */

#define LEAK_BLOCKS_LEAST 10u
#define LEAK_SPREAD_LEAST 6u

/*
 * The evidence that growth is a leak, not a cache that fills: by the test's p, the number of
 * blocks, the share of the site's blocks that are never freed, and the time over which they were
 * allocated. leaks.c has the limits.
 */
enum leak_confidence { LEAK_NOT_GROWING, LEAK_LOW, LEAK_MEDIUM, LEAK_HIGH };

const char *leak_confidence_name(enum leak_confidence c); /* "low", …; NULL: not growing */

struct leak_row {
    enum leak_kind kind;
    enum leak_confidence confidence;
    uint32_t pool;           /* index in selection.pools */
    struct frame_view frame; /* the site (sites.h) */
    bool no_callstack;
    uint32_t callstack;    /* the one with most never-freed bytes */
    uint64_t count, bytes; /* never freed */
    uint64_t allocations;  /* all of the site */
    int64_t first, last;   /* ns; times of the oldest and newest of them */
    unsigned spread;       /* buckets with one */
    double z;              /* of the test of Mann and Kendall; 0 if undefined */
    double p;              /* one-sided: the probability of such a rise by chance */
    double rate;           /* Sen's slope, bytes per second */
};

struct leaks {
    int64_t begin, end;         /* ns; the examined time */
    VEC(struct leak_row) rows;  /* by kind, confidence, bytes */
    uint64_t count[LEAK_KINDS]; /* never-freed blocks */
    uint64_t bytes[LEAK_KINDS];
    uint64_t suppressed_count, suppressed_bytes;
    /* Of processes that share the trace: freed by their end only, and so in no kind. */
    uint64_t left_count, left_bytes;
    struct view heap; /* whose objects were not recorded, as in the trace; p is NULL: none */
};

/*
 * `suppress` may be NULL; it receives the count that each suppression hid, and the reasons for
 * which permanent blocks (permanent.h) were hidden. `skip` NULL: the built-in rules. The selection
 * must outlive `l`. `p` is for selection_answer.
 */
int leaks_begin(struct selection_pass *p, struct leaks *l, struct selection *s,
                const struct skiplist *skip, struct suppressions *suppress, struct err *e);

/* The same in a separate sweep. */
int leaks_build(struct leaks *l, struct selection *s, const struct skiplist *skip,
                struct suppressions *suppress, struct err *e);
void leaks_release(struct leaks *l);

/* The sum of all kinds, without suppressed blocks. */
void leaks_total(const struct leaks *l, uint64_t *count, uint64_t *bytes);

/* Appends a sentence: what is live at the end, what of it grows, what is suppressed. */
void leaks_put_head(const struct leaks *l, struct buf *out);

/* The test for n values in order of time: its z, 0 if all are equal or n < 3. */
double mann_kendall(const uint64_t *values, size_t n);

/* The median of the slopes between any two values, per step; 0 if n < 2. n is at most 64. */
double sen_slope(const uint64_t *values, size_t n);
