#ifndef TIDEMARK_SYMBOLS_ADDR2LINE_H
#define TIDEMARK_SYMBOLS_ADDR2LINE_H

/*
 * Asks addr2line, or a tool that takes the same arguments and answers alike, what stands at
 * addresses of an image. No shell is involved: names of images and files are data. What the tool
 * says on standard error is dropped.
 *
 * It is called as `TOOL -C -f ARGUMENTS -e IMAGE -a 0x… 0x… …` and says for each address a line
 * with the address, one with the function and one with file:line.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

struct addr2line_options {
    const char *tool;      /* a path, or a name to be found in $PATH; NULL: addr2line */
    const char *arguments; /* more of them, with spaces between and quotes around spaces; or NULL */
};

/* What stands at one address; empty texts and line 0 when the tool does not know. */
struct addr2line_entry {
    size_t i; /* of the address */
    struct view function;
    struct view file;
    uint32_t line;
};

typedef int addr2line_put(void *ctx, const struct addr2line_entry *entry, struct err *e);

/* Whether $PATH has an addr2line. */
bool addr2line_is_there(void);

/*
 * Puts an entry for each address that the tool answers for, in order. ERR_CHECK when it cannot be
 * started, else errors of `put`. A tool that fails half-way answers for fewer; *answered tells.
 */
int addr2line_ask(const struct addr2line_options *options, const char *image,
                  const uint64_t *addresses, size_t n, addr2line_put *put, void *ctx,
                  size_t *answered, struct err *e);

#endif
