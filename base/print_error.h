#ifndef TIDEMARK_BASE_PRINT_ERROR_H
#define TIDEMARK_BASE_PRINT_ERROR_H

/* Messages of the program on standard error. Text that a trace brought is escaped for terminals. */

#include "base/err.h"

/* "tidemark: TEXT". */
void print_error(const struct err *e);

/* Warns likewise about `behind` of struct trace_info, unless it is "". */
void print_behind(const char *path, const char *behind);

#endif
