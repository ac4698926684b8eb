#ifndef TIDEMARK_REPORT_JUNIT_H
#define TIDEMARK_REPORT_JUNIT_H

/*
 * Outcomes of checks as JUnit XML, which CI systems read: a test case for each. The case of an
 * expression is called as the expression, so that it is the same one whatever its outcome; a
 * failure's message has the figures.
 */

#include <stdbool.h>
#include <stddef.h>

#include "analysis/figures/summary.h"
#include "base/buf.h"

/* `expressions`: leave out checks that come from no expression. */
void junit_write(struct buf *b, const char *suite, const struct summary_check *checks, size_t n,
                 bool expressions);

#endif
