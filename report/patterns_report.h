#pragma once

/* Allocation patterns of sites as text, JSON ("tidemark.patterns/1"), CSV or
 * Markdown. */

#include <stdio.h>

#include "analysis/questions/patterns.h"
#include "base/err.h"
#include "report/leaks_report.h"

/*
 * Text and Markdown have a table for each pattern, of at most `limit` sites; JSON and CSV a row for
 * each site. Sorts the rows. ERR_OUTPUT if `out` cannot be written.
 */
int patterns_write(struct patterns *p, const struct selection *s,
                   const struct leak_report_options *options, FILE *out, struct err *e);
