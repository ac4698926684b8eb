#ifndef TIDEMARK_REPORT_TREE_H
#define TIDEMARK_REPORT_TREE_H

/* The call-stack tree as text, JSON ("tidemark.tree/1") or CSV. */

#include <stdio.h>

#include "analysis/tree.h"
#include "base/err.h"
#include "report/report.h"

struct tree_report_options {
    enum report_format format;
    uint32_t depth;   /* levels to show, 0 all */
    double min_share; /* leave out nodes with less of the whole than this, 0 to 1 */
};

/* ERR_OUTPUT when `out` cannot be written. */
int tree_write(const struct tree *t, const struct tree_report_options *options, FILE *out,
               struct err *e);

#endif
