#pragma once

/*
 * The outcome of `tidemark verify`: as text one line per check ("ok NAME: DETAIL" or "FAILED NAME:
 * CAUSE"), as JSON {"schema": "tidemark.verify/1", "holds", "checks": [{"name", "holds",
 * "detail"}]}, as JUnit XML (junit.h) a test case per check, as Markdown a list for a comment.
 */

#include <stdio.h>

#include "analysis/questions/verify.h"

enum verify_format { VERIFY_TEXT, VERIFY_JSON, VERIFY_JUNIT, VERIFY_MARKDOWN };

/* ERR_OUTPUT if `out` cannot be written. */
int verify_write(const struct verify_result *r, enum verify_format format, FILE *out,
                 struct err *e);
