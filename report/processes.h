#ifndef TIDEMARK_REPORT_PROCESSES_H
#define TIDEMARK_REPORT_PROCESSES_H

/* The table of processes that a report of several begins with. */

#include <stdbool.h>

#include "base/buf.h"
#include "report/report.h"

/* Nothing when there are no processes. */
void processes_text(struct buf *out, const struct report_options *o);

/* The member "processes". False: memory is short. */
bool processes_json(struct buf *out, const struct report_options *o);

#endif
