#pragma once

/* The table of processes at the start of a report on several. */

#include <stdbool.h>

#include "base/buf.h"
#include "report/report.h"

/* Writes nothing if there are no processes. */
void processes_text(struct buf *out, const struct report_options *o);

/* Writes the member "processes". False if memory is short. */
bool processes_json(struct buf *out, const struct report_options *o);
