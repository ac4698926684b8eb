#ifndef TIDEMARK_CLI_TOP_TOP_TERMINFO_H
#define TIDEMARK_CLI_TOP_TOP_TERMINFO_H

/* A file of its own, since terminfo's header makes macros of "lines", "columns" and the like. */

#include <stdbool.h>

/* Whether terminfo knows the terminal that TERM names. */
bool terminfo_knows(int fd);

#endif
