#pragma once

/*
 * Detects allocation wrappers that a script preloaded for the program under test and that are
 * inherited by the capture beside it. They would slow the capture down, or record it as if it were
 * that program.
 */

#include <stdbool.h>
#include <stddef.h>

/* Set in the environment when the program was restarted without them. */
#define PRELOAD_DROPPED "TIDEMARK_PRELOAD_DROPPED"

/*
 * If a known wrapper that exports malloc is preloaded into this process, or a library whose file
 * name contains one of `names`: prints that and restarts the program without it, once. Returns when
 * there is nothing to drop or the restart fails. `subcommand`: argv[0] is the name of a subcommand,
 * not of the program.
 */
void preload_drop(bool subcommand, char **argv, const char *const *names, size_t n);
