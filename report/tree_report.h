#ifndef TIDEMARK_REPORT_TREE_REPORT_H
#define TIDEMARK_REPORT_TREE_REPORT_H

/* The call-stack tree as text, JSON ("tidemark.tree/1"), CSV or a list in Markdown. */

#include <stdio.h>

#include "analysis/questions/tree.h"
#include "base/err.h"
#include "base/vec.h"
#include "report/report.h"

struct tree_report_options {
    enum report_format format;
    bool markdown;                        /* instead of text */
    const struct selection_options *only; /* told in Markdown; NULL: all */
    uint32_t depth;                       /* levels to show, 0 all */
    double min_share; /* leave out nodes with less of the whole than this, 0 to 1 */
    /* JSON and CSV: these nodes, as tree_shown gave them, whatever stands above. NULL: all of it.
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

/* ERR_OUTPUT when `out` cannot be written. */
int tree_write(const struct tree *t, const struct tree_report_options *options, FILE *out,
               struct err *e);

#endif
