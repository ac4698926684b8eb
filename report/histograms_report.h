#pragma once

/* Histograms of sizes and lifetimes as text, JSON ("tidemark.histograms/1"), CSV or Markdown. */

#include <stdio.h>

#include "analysis/questions/histograms.h"
#include "base/err.h"
#include "report/report.h"

/* ERR_OUTPUT if `out` cannot be written. */
int histograms_write(const struct histograms *h, const struct selection *s,
                     enum report_format format, FILE *out, struct err *e);
