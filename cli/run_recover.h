#ifndef TIDEMARK_CLI_RUN_RECOVER_H
#define TIDEMARK_CLI_RUN_RECOVER_H

/* Recordings of `tidemark run` that were left behind, because it was killed. */

#include <stdbool.h>

#include "cli/run_options.h"

/* Whether a file begins as a recording does. */
bool run_recover_is_recording(const char *path);

/* Makes a trace of the recording o->recover and tells of it. The exit status. */
int run_recover(const struct run_options *o);

#endif
