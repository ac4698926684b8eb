#ifndef TIDEMARK_SERVER_CAPTURE_CAPTURE_HOMELESS_H
#define TIDEMARK_SERVER_CAPTURE_CAPTURE_HOMELESS_H

/*
 * A capture whose output folder was removed while it recorded. The journal went with it, but what
 * arrived is at hand still.
 */

#include "server/capture/capture_save.h"

bool capture_is_homeless(const struct capture *c);

/*
 * The output is to be in the one other place that a guarded session can write to, where temporary
 * files go; only its user can read it. For the last that this process saves, since its files are
 * made differently from now on.
 */
int capture_go_elsewhere(struct capture *c, struct trace *t, struct err *e);

#endif
