#pragma once

/* Records a program: starts it, attaches to it or adopts it, until it ends. */

#include "run/run_options.h"

/*
 * Records as the options say, saves the trace and prints the report. Prints errors. Returns the
 * exit status. Sets the file version in the options if the program's Tracy client decides it.
 */
int run_program(struct run_options *options);
