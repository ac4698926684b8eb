#pragma once

/* A separate file, since terminfo's header defines macros such as "lines" and "columns". */

#include <stdbool.h>

/* Whether terminfo knows the terminal that TERM names. */
bool terminfo_knows(int fd);
