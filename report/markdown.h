#ifndef TIDEMARK_REPORT_MARKDOWN_H
#define TIDEMARK_REPORT_MARKDOWN_H

/*
 * A memory summary in Markdown, short, for the comment on a change: outcomes of budgets and totals
 * at a glance; rows and what was never freed in blocks that open when they are clicked.
 */

#include <stdio.h>

#include "analysis/figures/summary.h"
#include "analysis/questions/leaks.h"
#include "base/err.h"

struct markdown_options {
    enum sort_key sort; /* that the rows were chosen by */
    uint64_t limit;     /* of leaks, 0 all */
};

/*
 * `l` NULL: without leaks; else `s` is the selection that they were built with. The summary's rows
 * were chosen before. ERR_OUTPUT when `out` cannot be written.
 */
int markdown_write(const struct summary *summary, const struct leaks *l, const struct selection *s,
                   const struct markdown_options *options, FILE *out, struct err *e);

#endif
