#pragma once

/*
 * A short memory summary in Markdown, for a pull request comment: outcomes of budgets and totals
 * are visible; rows and leaks are in collapsible blocks.
 */

#include <stdio.h>

#include "analysis/figures/summary.h"
#include "analysis/questions/leaks.h"
#include "base/err.h"

struct markdown_options {
    enum sort_key sort; /* by which the rows were selected */
    uint64_t limit;     /* of leaks; 0: all */
};

/*
 * `l` NULL: without leaks; otherwise `s` is the selection that they were built with. The caller has
 * selected the summary's rows. ERR_OUTPUT if `out` cannot be written.
 */
int markdown_write(const struct summary *summary, const struct leaks *l, const struct selection *s,
                   const struct markdown_options *options, FILE *out, struct err *e);
