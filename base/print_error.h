#pragma once

/* Prints the program's messages on standard error. Text from a trace is escaped for terminals. */

#include "base/err.h"

/* Prints "tidemark: TEXT". Returns the exit status of a command that ends so (err_exit_status). */
int print_error(const struct err *e);

/* Prints the warning in `behind` of struct trace_info, unless it is "". */
void print_behind(const char *path, const char *behind);
