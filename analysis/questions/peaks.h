#ifndef TIDEMARK_ANALYSIS_QUESTIONS_PEAKS_H
#define TIDEMARK_ANALYSIS_QUESTIONS_PEAKS_H

/*
 * Where the use of all selected pools together stands higher than around it: by at least a
 * twentieth of the highest. Exact in height; of two that are closer than a 4096th of the time the
 * higher one is found.
 */

#include "analysis/figures/selection.h"
#include "analysis/questions/timeline.h"
#include "base/err.h"
#include "base/vec.h"

#define PEAKS_MAX 4096u /* there are never more */

struct peaks {
    VEC(struct timeline_peak) list; /* the highest first */
};

/* `p` need not be initialised. */
int peaks_find(struct peaks *p, struct selection *s, struct err *e);
void peaks_release(struct peaks *p);

#endif
