#pragma once

/*
 * The use of a pool in steps of time, in bounded room: when there are too many, two become one. A
 * step has 2^shift ns, and step i begins at i << shift. A part of figures (figure_parts.h).
 *
 * As bytes (figure_bytes.h): shift, steps, and column by column (put_fields) the fields of
 * struct timeline_bucket.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/figures_only.h"
#include "base/err.h"
#include "base/view.h"

#define CURVE_STEPS 512u

struct timeline_bucket {
    uint64_t low, high; /* minimum and maximum of bytes in use */
    int64_t high_time;  /* ns; first time of `high`, or the bucket's start */
    uint64_t last;      /* bytes in use at its end */
    uint64_t high_live; /* maximum number of blocks */
    uint64_t last_live; /* blocks at its end */
    uint64_t allocations, frees;
    uint64_t allocated, freed; /* bytes */
};

/* A bucket in which nothing was noted. */
#define TIMELINE_BUCKET_NEW ((struct timeline_bucket){.low = UINT64_MAX, .high_time = INT64_MIN})

/* Notes a use that begins at `time` in the bucket. */
void timeline_bucket_use(struct timeline_bucket *b, int64_t time, uint64_t use, uint64_t live);

/* Adds the bucket that follows. */
void timeline_bucket_join(struct timeline_bucket *b, const struct timeline_bucket *next);

struct step_curve {
    unsigned shift;
    size_t count;
    struct timeline_bucket at[CURVE_STEPS];
    uint64_t use, live;
    int64_t now; /* ns; of the newest step */
};

extern const struct figures_part step_curve_part;

/* Decodes into *c, which has no more steps to come. ERR_INPUT. */
int step_curve_decode(struct step_curve *c, struct view bytes, struct err *e);

/* Doubles the steps until they have 2^shift ns. */
void step_curve_coarsen(struct step_curve *c, unsigned shift);

/* The bucket of n steps from `first` on; later ones than the last are as its end. */
struct timeline_bucket step_curve_bucket(const struct step_curve *c, uint64_t first, uint64_t n);
