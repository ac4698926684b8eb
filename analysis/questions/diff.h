#ifndef TIDEMARK_ANALYSIS_QUESTIONS_DIFF_H
#define TIDEMARK_ANALYSIS_QUESTIONS_DIFF_H

/*
 * What changed between two traces. Call stacks are matched from the allocation site outwards by
 * functions and lines: functions by name, without what compilers add to it, and by name of file
 * without folders; lines of a function by their order and what they do (diff_lines.h). So lines,
 * addresses and folders may have moved. Places without a name are matched by offset in the image
 * when both traces have it with the same build id, else like lines of a function, which is unsure.
 * Pools are matched by name. Costs two sweeps over each history.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "analysis/names/types.h"
#include "base/err.h"
#include "base/vec.h"

enum diff_by {
    DIFF_SITE,      /* a row for each site: function and file */
    DIFF_CALLSTACK, /* a row for each call stack */
    DIFF_TYPE,      /* a row for each type of elements (types.h), and one for what has none */
};

enum diff_metric { DIFF_BYTES, DIFF_COUNT, DIFF_LIVE, DIFF_PEAK, DIFF_METRICS };

bool diff_by_parse(const char *text, enum diff_by *by); /* "site", "callstack", "type" */

bool diff_metric_parse(const char *text, enum diff_metric *m); /* "bytes", "count", … */
const char *diff_metric_name(enum diff_metric m);

enum diff_kind { DIFF_NEW, DIFF_GROWN, DIFF_SHRUNK, DIFF_GONE, DIFF_SAME, DIFF_KINDS };

const char *diff_kind_name(enum diff_kind k); /* "new", "grown", … */

/* The side of a trace: 0 is the base, 1 what is compared with it. */
struct diff_side {
    bool there; /* the row has allocations in this trace */
    struct counter figures;
    uint32_t callstack; /* of the one that changed most, if it is there */
};

struct diff_row {
    struct view pool;
    struct frame_view frame;  /* the site; of the newer trace, where it is there */
    struct frame_view before; /* of the older trace, where the site is there */
    bool no_callstack;
    bool unsure; /* a place without a name in an image that is not known to be the same build */
    struct view type; /* of its blocks in the newer trace where it is there: that of most bytes */
    uint32_t more_types; /* others, blocks of which nobody tells being one */
    enum diff_kind kind; /* by the metric */
    struct diff_side side[2];
};

struct diff_pool {
    struct view name;
    bool there[2];
    struct pool_figures figures[2];
};

struct diff_options {
    enum diff_by by;
    enum diff_metric metric;
    const struct skiplist *skip; /* NULL: the built-in rules */
};

struct diff {
    struct diff_options options;
    const struct trace *trace[2];
    struct types types[2];
    VEC(struct diff_pool) pools;
    VEC(struct diff_row) rows; /* by kind, the largest change first; none that are the same */
    uint64_t same;             /* rows that are */
    uint64_t unsure;           /* rows among `rows` that are */
    uint64_t count[DIFF_KINDS];
};

/* The figure of a side; 0 when it is not there. */
uint64_t diff_figure(const struct diff_side *s, enum diff_metric m);

/* `d` need not be initialised. Both selections must outlive it. */
int diff_build(struct diff *d, struct selection *base, struct selection *now,
               const struct diff_options *options, struct err *e);
void diff_release(struct diff *d);

#endif
