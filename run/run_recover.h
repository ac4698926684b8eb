#ifndef TIDEMARK_RUN_RUN_RECOVER_H
#define TIDEMARK_RUN_RUN_RECOVER_H

/* Recordings of `tidemark run` that were left behind, because it was killed. */

#include "run/run_options.h"
#include "server/capture/recover.h"

/* `tidemark recover`: names are found, no report is written. The exit status, with `e` filled. */
int run_recover_recording(struct recover_options *o, struct err *e);

/* Makes a trace of the recording o->recover and tells of it. The exit status. */
int run_recover(const struct run_options *o);

#endif
