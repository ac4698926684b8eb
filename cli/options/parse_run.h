#pragma once

/* The command line of `tidemark run`. */

#include "run/run_options.h"

/* Returns -1 to go on, else the exit status. */
int run_options_parse(struct run_options *o, int argc, char **argv);
void run_options_release(struct run_options *o);
