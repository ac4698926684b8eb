#pragma once

/* Options of `run` and `capture`: when to look at the pages of what is recorded. */

#include "cli/options/option_table.h"
#include "proc/look_times.h"

extern const struct option_row look_rows[]; /* of struct look_wishes */

/* USR1 or USR2, with or without SIG; 0: another one. */
int look_signal(const char *name);
