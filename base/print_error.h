#ifndef TIDEMARK_BASE_PRINT_ERROR_H
#define TIDEMARK_BASE_PRINT_ERROR_H

/* Prints the program's messages on standard error. Text from a trace is escaped for terminals. */

#include "base/err.h"

/* Prints "tidemark: TEXT". */
void print_error(const struct err *e);

/* Prints the warning in `behind` of struct trace_info, unless it is "". */
void print_behind(const char *path, const char *behind);

#endif
