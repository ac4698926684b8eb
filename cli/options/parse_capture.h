#pragma once

/* The command line of `tidemark capture` and of the drop-in for tracy-capture. */

#include "server/capture/capture_options.h"

/*
 * Parses the command line; `drop_in`: called by an official tool's name. -1 to go on, else the exit
 * status. Release the options in either case.
 */
int capture_options_parse(struct capture_options *o, bool drop_in, int argc, char **argv);
void capture_options_release(struct capture_options *o);

/*
 * Whether a capture accepts this option ("--rotate", "-m") with this value: for callers that pass
 * it on later. ERR_USAGE.
 */
bool capture_option_check(const char *option, const char *value, struct err *e);
