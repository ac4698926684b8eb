#pragma once

/* The call-stack tree as text, JSON ("tidemark.tree/1"), CSV or nested lists in Markdown. */

#include <stdio.h>

#include "analysis/questions/tree.h"
#include "base/err.h"
#include "base/vec.h"
#include "report/report.h"

struct tree_report_options {
    enum report_format format;
    bool markdown;                        /* instead of text */
    const struct selection_options *only; /* shown in Markdown; NULL: all */
    uint32_t depth;                       /* levels to show; 0: all */
    double min_share;                     /* hide nodes below this share of the whole, 0 to 1 */
    /*
     * JSON and CSV: write these nodes, from tree_shown, and ignore the options above. NULL: all
     * nodes.
     */
    const uint32_t *nodes;
    size_t node_count;
};

struct tree_nodes {
    VEC(uint32_t) list;
};

/* The nodes that tree_write shows, in its order: depth first, without the root. */
int tree_shown(struct tree_nodes *out, const struct tree *t,
               const struct tree_report_options *options, struct err *e);

/* ERR_OUTPUT if `out` cannot be written. */
int tree_write(const struct tree *t, const struct tree_report_options *options, FILE *out,
               struct err *e);
