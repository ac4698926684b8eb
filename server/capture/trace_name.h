#ifndef TIDEMARK_SERVER_CAPTURE_TRACE_NAME_H
#define TIDEMARK_SERVER_CAPTURE_TRACE_NAME_H

/*
 * Names of traces made of what is known of a client: a template with {program}, {host}, {port},
 * {pid} and {time}, the latter of the connection, in UTC: 20261122T001530Z.
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

/* -1 with ERR_USAGE when the template is none: a part of it, '/', nothing, a dot at its head. */
int trace_name_check(const char *name_template, const char *option, struct err *e);

/*
 * The template with {program} filled in, for who knows it already. The caller frees it. NULL when
 * memory is short.
 */
char *trace_name_with_program(const char *name_template, const char *program);

/*
 * "FOLDER/NAME.tracy" for `n` = 0, "FOLDER/NAME_1.tracy" for 1, and so on; in the folder "." the
 * name alone. What a client calls
 * itself cannot lead elsewhere: letters, digits, '_' and '-' of it stay, but no name begins with
 * '-'. The caller frees it. NULL when memory is short.
 */
char *trace_name_make(const char *folder, const char *name_template,
                      const struct trace_name_facts *facts, unsigned n);

#endif
