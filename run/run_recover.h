#pragma once

/* Recovers recordings that a killed `tidemark run` left. */

#include "run/run_options.h"
#include "server/capture/recover.h"

/*
 * For `tidemark recover`: resolves names, writes no report. Returns the exit status, with `e`
 * filled.
 */
int run_recover_recording(struct recover_options *o, struct err *e);

/* Makes a trace of the recording o->recover and reports on it. Returns the exit status. */
int run_recover(const struct run_options *o);
