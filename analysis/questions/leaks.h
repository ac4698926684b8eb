#ifndef TIDEMARK_ANALYSIS_QUESTIONS_LEAKS_H
#define TIDEMARK_ANALYSIS_QUESTIONS_LEAKS_H

/*
 * What is still live at the end, site by site, and whether it grows. What a site holds goes up and
 * down; a leak lifts the floor. So time from the first allocation to the last is cut into buckets,
 * the least that the site held in each is taken, and it is asked whether these rise: by the test of
 * Mann and Kendall, which knows nothing of how much and is not misled by single jumps, with the
 * slope of Sen (the median of all slopes between two buckets) for the rate. One sweep; memory
 * follows sites.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "analysis/questions/suppressions.h"
#include "base/err.h"
#include "base/vec.h"

#define LEAK_BUCKETS 64

enum leak_kind {
    /*
     * The floor rises (one-sided p < 0.01, and a rate above 0), at least LEAK_BLOCKS_LEAST blocks
     * are never freed, which came in at least LEAK_SPREAD_LEAST buckets, the newest within the last
     * quarter of the time.
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
 * How much evidence there is that what grows is a leak and no cache that fills: by the test's p,
 * the number of blocks, the share of the site's blocks that are never freed, and the time over
 * which they came. leaks.c has the figures.
 */
enum leak_confidence { LEAK_NOT_GROWING, LEAK_LOW, LEAK_MEDIUM, LEAK_HIGH };

const char *leak_confidence_name(enum leak_confidence c); /* "low", …; NULL: not growing */

struct leak_row {
    enum leak_kind kind;
    enum leak_confidence confidence;
    uint32_t pool;           /* index in selection.pools */
    struct frame_view frame; /* the site (sites.h) */
    bool no_callstack;
    uint32_t callstack;    /* the one with most bytes never freed */
    uint64_t count, bytes; /* never freed */
    uint64_t allocations;  /* of the site in all */
    int64_t first, last;   /* ns; when the oldest and newest of them were allocated */
    unsigned spread;       /* buckets in which one was */
    double z;              /* of the test of Mann and Kendall; 0 when nothing is to be told */
    double p;              /* one-sided: how likely such a rise is by chance */
    double rate;           /* Sen's slope, bytes per second */
};

struct leaks {
    int64_t begin, end;         /* ns; the time that was looked at */
    VEC(struct leak_row) rows;  /* by kind, confidence, bytes */
    uint64_t count[LEAK_KINDS]; /* blocks never freed */
    uint64_t bytes[LEAK_KINDS];
    uint64_t suppressed_count, suppressed_bytes;
};

/*
 * `suppress` may be NULL; what each hid is counted in it. `skip` NULL: the built-in rules. The
 * selection must outlive `l`.
 */
int leaks_build(struct leaks *l, struct selection *s, const struct skiplist *skip,
                struct suppressions *suppress, struct err *e);
void leaks_release(struct leaks *l);

/* Of all kinds together; suppressed ones are not among them. */
void leaks_total(const struct leaks *l, uint64_t *count, uint64_t *bytes);

/* The test alone, for n values in order of time: its z, 0 when all are equal or n < 3. */
double mann_kendall(const uint64_t *values, size_t n);

/* The median of the slopes between any two values, per step; 0 when n < 2. n up to 64. */
double sen_slope(const uint64_t *values, size_t n);

#endif
