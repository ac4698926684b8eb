#pragma once

/*
 * Runs addr2line, or a tool with the same arguments and output, to look up addresses of an image.
 * No shell is involved, so names of images and files are plain data. The tool's standard error is
 * discarded.
 *
 * The command is `TOOL -C -f ARGUMENTS -e IMAGE -a 0x… 0x… …`. For each address the tool prints a
 * line with the address, one with the function and one with file:line.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

struct addr2line_options {
    const char *tool;      /* a path, or a name to be found in $PATH; NULL: addr2line */
    const char *arguments; /* extra ones, split at spaces outside quotes; or NULL */
};

/* The function and line of one address; empty texts and line 0 if the tool does not know them. */
struct addr2line_entry {
    size_t i; /* index of the address */
    struct view function;
    struct view file;
    uint32_t line;
};

typedef int addr2line_put(void *ctx, const struct addr2line_entry *entry, struct err *e);

/* Whether $PATH has an addr2line. */
bool addr2line_is_there(void);

/*
 * Calls `put` with an entry for each address that the tool answers, in order. Fails with ERR_CHECK
 * if the tool cannot be started, and with the errors of `put`. A tool that fails half-way answers
 * fewer addresses; *answered holds their number.
 */
int addr2line_ask(const struct addr2line_options *options, const char *image,
                  const uint64_t *addresses, size_t n, addr2line_put *put, void *ctx,
                  size_t *answered, struct err *e);
