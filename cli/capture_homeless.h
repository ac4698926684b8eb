#ifndef TIDEMARK_CLI_CAPTURE_HOMELESS_H
#define TIDEMARK_CLI_CAPTURE_HOMELESS_H

/*
 * A daemon's session whose folder was removed while it recorded. The journal went with it, but what
 * arrived is at hand still.
 */

#include "cli/capture_save.h"

bool capture_is_homeless(const struct capture *c);

/*
 * Saves the trace to the one other place that a guarded session can write to, where temporary files
 * go, and says where; only its user can read it. As capture_save.
 */
int capture_save_elsewhere(struct capture *c, struct trace *t, struct err *e);

#endif
