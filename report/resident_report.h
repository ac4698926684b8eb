#pragma once

/* Resident pages by site as text, JSON ("tidemark.resident/1") or CSV. */

#include <stdio.h>

#include "analysis/questions/resident.h"
#include "report/leaks_report.h"

int resident_write(const struct resident *r, const struct selection *s,
                   const struct leak_report_options *options, FILE *out, struct err *e);
