#ifndef TIDEMARK_ANALYSIS_ANNOTATE_PARTS_H
#define TIDEMARK_ANALYSIS_ANNOTATE_PARTS_H

/* What the files of annotate.h share. */

#include "trace/store.h"

/* The frame of the trace that tells what is at an address, or NULL. */
const struct frame *annotate_frame_at(const struct trace *t, uint64_t address);

#endif
