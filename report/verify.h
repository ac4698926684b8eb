#ifndef TIDEMARK_REPORT_VERIFY_H
#define TIDEMARK_REPORT_VERIFY_H

/*
 * The outcome of `tidemark verify`: as text one line per check ("ok NAME: DETAIL" or "FAILED NAME:
 * CAUSE"), as JSON {"schema": "tidemark.verify/1", "holds", "checks": [{"name", "holds",
 * "detail"}]}.
 */

#include <stdio.h>

#include "analysis/verify.h"

int verify_write(const struct verify_result *r, bool json, FILE *out, struct err *e);

#endif
