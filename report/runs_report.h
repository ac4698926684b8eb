#pragma once

/*
 * Differences between two groups of runs as text, JSON ("tidemark.runs/1"), CSV, Markdown or
 * JUnit XML; and the figures of a run as JSON ("tidemark.figures/1").
 */

#include <stdio.h>

#include "analysis/runs/run_figures.h"
#include "analysis/runs/runs_diff.h"
#include "base/err.h"
#include "report/diff_report.h"

/* `options->checks` are not used: the difference has its own. ERR_OUTPUT as the others. */
int runs_diff_write(const struct runs_diff *d, const struct diff_report_options *options, FILE *out,
                    struct err *e);

int run_figures_write(const struct run_figures *f, FILE *out, struct err *e);
