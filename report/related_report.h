#pragma once

/*
 * Plots and messages that correlate with memory use, as text, JSON ("schema":
 * "tidemark.related/1"), CSV or Markdown.
 */

#include <stdint.h>
#include <stdio.h>

#include "analysis/questions/related.h"
#include "base/err.h"
#include "report/report.h"

/* `limit`: rows of each kind; 0: all. ERR_OUTPUT if `out` cannot be written. */
int related_write(const struct related *r, const struct selection *s, enum report_format format,
                  uint64_t limit, FILE *out, struct err *e);
