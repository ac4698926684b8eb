#pragma once

/*
 * Makes names of traces from a template with {program}, {host}, {port}, {pid} and {time}, the time
 * of the connection in UTC: 20261122T001530Z.
 */

#include <stdint.h>

#include "base/err.h"

struct trace_name_facts {
    const char *program;
    const char *host;
    uint16_t port;
    uint64_t pid;
    uint64_t unix_time; /* seconds */
};

/* As the official daemon names them (capturedaemon.cpp @ v0.14.0). */
#define TRACE_NAME_DEFAULT "{program}_{host}_{port}.tracy"

/*
 * Checks a template. -1 with ERR_USAGE when it is empty, has an unknown part or '/', or begins with
 * a dot.
 */
int trace_name_check(const char *name_template, const char *option, struct err *e);

/*
 * Replaces {program} in the template, for a caller that already knows the program. The caller frees
 * it. NULL when memory is short.
 */
char *trace_name_with_program(const char *name_template, const char *program);

/*
 * "FOLDER/NAME.tracy" for `n` = 0, "FOLDER/NAME_1.tracy" for 1, and so on; in the folder "." the
 * name alone. The client's name cannot lead to another folder: only its letters, digits, '_' and
 * '-' stay, and no name begins with '-'. The caller frees it. NULL when memory is short.
 */
char *trace_name_make(const char *folder, const char *name_template,
                      const struct trace_name_facts *facts, unsigned n);
