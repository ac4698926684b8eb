#pragma once

/*
 * Outcomes of checks as JUnit XML for CI systems: one test case per check. The case of an
 * expression is named after the expression, so its name does not depend on its outcome. A failure's
 * message has the figures.
 */

#include <stdbool.h>
#include <stddef.h>

#include "analysis/figures/summary.h"
#include "base/buf.h"

/* `expressions`: leave out checks without an expression. */
void junit_write(struct buf *b, const char *suite, const struct summary_check *checks, size_t n,
                 bool expressions);
