#pragma once

/* `tidemark info` as text or as JSON with "schema": "tidemark.info/1". */

#include <stdio.h>

#include "analysis/questions/overview.h"

int overview_write(const struct overview *o, bool json, FILE *out, struct err *e);
