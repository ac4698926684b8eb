#pragma once

/*
 * What changed between two traces. Call stacks are matched from the allocation site outwards by
 * functions and lines, so lines, addresses and folders may have moved. Functions are matched by
 * name, without compiler suffixes, and by name of file without folders; lines of a function by
 * their order and allocations (diff_lines.h). Code without a name is matched by offset in the image
 * if both traces have it with the same build id, else like lines of a function, which is unsure.
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

/* In the order of the words of --by, as diff_metric of --metric. */
enum diff_by {
    DIFF_SITE,      /* a row for each site: function and file */
    DIFF_CALLSTACK, /* a row for each call stack */
    DIFF_TYPE,      /* a row for each type of elements (types.h), and one for unknown types */
};

enum diff_metric { DIFF_BYTES, DIFF_COUNT, DIFF_LIVE, DIFF_PEAK, DIFF_METRICS };

const char *diff_metric_name(enum diff_metric m); /* "bytes", "count", … */

enum diff_kind { DIFF_NEW, DIFF_GROWN, DIFF_SHRUNK, DIFF_GONE, DIFF_SAME, DIFF_KINDS };

const char *diff_kind_name(enum diff_kind k); /* "new", "grown", … */

/* One side of a row: 0 is the base, 1 the trace compared with it. */
struct diff_side {
    bool there; /* the row has allocations in this trace */
    struct counter figures;
    uint32_t callstack; /* the one that changed most, if any */
};

struct diff_row {
    struct view pool;
    struct frame_view frame;  /* the site; of the newer trace if it exists there */
    struct frame_view before; /* of the older trace, if the site exists there */
    bool no_callstack;
    bool unsure; /* code without a name in an image that may not be the same build */
    /* Of its blocks, that of most bytes; of the newer trace if they exist there. */
    struct view type;
    uint32_t more_types; /* the number of others, with unknown as one of them */
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
    VEC(struct diff_row) rows; /* by kind, the largest change first; without unchanged rows */
    uint64_t same;             /* unchanged rows */
    uint64_t unsure;           /* unsure rows among `rows` */
    uint64_t count[DIFF_KINDS];
};

/* A figure of a pool that all formats show. */
struct diff_figure_of_pool {
    const char *key, *title;
    size_t offset; /* in struct pool_figures */
    bool is_bytes;
};
#define DIFF_POOL_FIGURES 6
extern const struct diff_figure_of_pool diff_pool_figures[DIFF_POOL_FIGURES];
uint64_t diff_pool_figure(const struct pool_figures *figures, size_t which);

/* The figure of a side; 0 if the row does not exist there. */
uint64_t diff_figure(const struct diff_side *s, enum diff_metric m);

/* `d` need not be initialised. Both selections must outlive it. */
int diff_build(struct diff *d, struct selection *base, struct selection *now,
               const struct diff_options *options, struct err *e);
void diff_release(struct diff *d);
