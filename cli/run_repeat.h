#pragma once

/* `tidemark run --repeat N`: runs of one program, a trace of each, and one report of all. */

#include "run/run_options.h"

/*
 * Records the program options->repeat times, one run after the other, each to its own trace:
 * "x.tracy" becomes "x.1.tracy" and so on. Then reports them as `tidemark diff` does, against
 * options->base if there is one. If a run fails or a request to end arrives, there are no further
 * runs and no report. Prints errors. Returns the exit status.
 */
int run_repeat(struct run_options *options);
