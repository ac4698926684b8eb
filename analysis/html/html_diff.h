#pragma once

/*
 * The data of the page that compares two traces: both call-stack trees as one, with the figures of
 * both, and both curves of use. Nodes are the same if their functions are, on the way from the
 * outermost caller; functions without a name are one for each image. Figures are those of
 * `tidemark tree`. The lightest nodes are combined, one for each parent.
 */

#include <stdint.h>

#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "analysis/diff/diff.h"
#include "analysis/questions/timeline.h"
#include "analysis/questions/tree.h"
#include "base/err.h"
#include "base/vec.h"

#define PAGE_DIFF_METRICS TREE_RESIDENT /* the first ones of enum tree_metric */
#define PAGE_DIFF_POINTS 1024u          /* of each curve */
#define PAGE_DIFF_NODES 20000u          /* not counting those that stand for others */
#define PAGE_DIFF_ROWS 2000u
#define PAGE_DIFF_LEFT_OUT "[lighter calls left out]"
#define PAGE_DIFF_NO_STACK "[no call stack]"

struct page_diff_node {
    uint32_t parent; /* comes before its children; the root's is itself */
    uint32_t frame;
    uint64_t own[2][PAGE_DIFF_METRICS];
};

struct page_diff {
    const struct diff *diff;
    const struct selection *now;
    VEC(struct page_diff_node) nodes; /* the first one is the root */
    VEC(struct frame_view) frames;    /* files and lines are those of the newer trace, if there */
    uint64_t left_out;                /* nodes combined with others */
    struct tree trees[2];
    struct timeline timelines[2]; /* all pools together; from time 0 on */
};

/*
 * `p` need not be initialised. `base` and `now` are those of `d`; all must outlive `p`. Costs a
 * sweep over each history.
 */
int page_diff_build(struct page_diff *p, const struct diff *d, struct selection *base,
                    struct selection *now, struct err *e);
void page_diff_release(struct page_diff *p);
