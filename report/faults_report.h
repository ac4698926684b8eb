#pragma once

/* Memory faults with both blocks involved, as text, JSON ("tidemark.faults/1") or CSV. */

#include <stdio.h>

#include "analysis/figures/faults.h"
#include "base/err.h"
#include "report/leaks_report.h"

/* Text and JSON have all call stacks. ERR_OUTPUT if `out` cannot be written. */
int faults_write(const struct faults *f, const struct selection *s,
                 const struct leak_report_options *options, FILE *out, struct err *e);
