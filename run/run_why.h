#ifndef TIDEMARK_RUN_RUN_WHY_H
#define TIDEMARK_RUN_RUN_WHY_H

/* Why `tidemark run` recorded nothing of a program that it met, as far as it shows. */

#include "base/buf.h"
#include "run/run_tree.h"

/*
 * Appends why, if memory was short for the program or for its recording: a phrase that follows the
 * program's name. False: it was not.
 */
bool run_why_memory(const struct rec_header *h, struct buf *out);

/*
 * Appends "PROGRAM DID SO": its path, and what its file, or else its recording, tells. True when
 * that is more than that it called nothing that is watched.
 */
bool run_why_nothing(const struct run_process *p, struct buf *out);

#endif
