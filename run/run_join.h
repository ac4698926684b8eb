#pragma once

/*
 * A program with a Tracy client: after its end, the client's journal is played into a trace, and
 * the program's recording is added to it. Both use the time stamp counter, so their clocks need no
 * calibration.
 */

#include "run/run_tree.h"

/*
 * Makes p->joined of the client's data and the whole recording, whose blocks get separate pools:
 * "malloc" and those that the recording names. If the clocks differ, or the recording cannot be
 * read again, saves a separate trace of the client instead, named after `output`. Does nothing if
 * the program has no client, or clients are not wanted. Prints what failed or is missing; that is
 * t->failure, too, unless it is a child's and --this-process was given.
 */
void run_join(struct run_tree *t, struct run_process *p, const char *output);
