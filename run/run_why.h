#pragma once

/* Explains why `tidemark run` recorded nothing of a program. */

#include "base/buf.h"
#include "run/run_tree.h"

/*
 * Appends the reason if memory was short for the program or its recording: a phrase that follows
 * the program's name. False: it was not.
 */
bool run_why_memory(const struct rec_header *h, struct buf *out);

/*
 * Appends "PROGRAM DID SO": its path, and a reason found in its file, or else in its recording.
 * True when the reason is more than that it called no hooked function.
 */
bool run_why_nothing(const struct run_process *p, struct buf *out);
