#pragma once

/*
 * Writes a comparison of two traces as one self-contained HTML file ("tidemark.diffpage/1"), or
 * that of several runs ("tidemark.runspage/1").
 */

#include <stddef.h>
#include <stdio.h>

#include "analysis/figures/summary.h"
#include "analysis/html/html_diff.h"
#include "base/err.h"

/* `checks` are the outcomes of budgets. ERR_OUTPUT if `out` cannot be written. */
int html_diff_write(const struct page_diff *p, const struct summary_check *checks, size_t n,
                    FILE *out, struct err *e);

/* `json` is the document of the runs, "tidemark.runs/1". ERR_OUTPUT if `out` cannot be written. */
int html_runs_write(struct view json, FILE *out, struct err *e);
