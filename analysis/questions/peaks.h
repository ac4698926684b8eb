#pragma once

/*
 * Local peaks of the use of all selected pools together, which rise above their surroundings by at
 * least a twentieth of the highest use. Heights are exact; of two peaks closer than a 4096th of the
 * time, the higher one is found.
 */

#include "analysis/figures/selection.h"
#include "analysis/questions/timeline.h"
#include "base/err.h"
#include "base/vec.h"

#define PEAKS_MAX 4096u /* upper bound */

struct peaks {
    VEC(struct timeline_peak) list; /* the highest first */
};

/* `p` need not be initialised. */
int peaks_find(struct peaks *p, struct selection *s, struct err *e);
void peaks_release(struct peaks *p);

/*
 * Between which times what grew can be seen: from the middle of the time from the first memory
 * event to the highest use, to that, of all selected pools together. ERR_CHECK if nothing was in
 * use.
 */
int peaks_growth_span(struct selection *s, int64_t *from, int64_t *to, struct err *e);

/* For qsort of struct timeline_peak: the highest first, then the first in time. */
int peaks_compare(const void *a, const void *b);
