#pragma once

/* Call stack samples by thread and function as text, JSON ("tidemark.samples/1") or CSV. */

#include <stdint.h>
#include <stdio.h>

#include "analysis/code/sample_profile.h"
#include "base/err.h"
#include "report/report.h"

/* `limit`: rows of each kind; 0: all. ERR_OUTPUT if `out` cannot be written. */
int sample_table_write(const struct sample_profile *p, const struct trace *t,
                       enum report_format format, uint64_t limit, FILE *out, struct err *e);
