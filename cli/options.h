#ifndef TIDEMARK_CLI_OPTIONS_H
#define TIDEMARK_CLI_OPTIONS_H

/*
 * Values of command-line options: parsed in full or refused with ERR_USAGE naming the option; and
 * the words that a command fails with.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/container.h"

/* A decimal number from `least` to `most`. */
bool option_u64(const char *text, const char *option, uint64_t least, uint64_t most, uint64_t *out,
                struct err *e);

/* Seconds, fractions allowed, not negative. */
bool option_seconds(const char *text, const char *option, double *out, struct err *e);

/* "lz4", "lz4hc", "zstd" or "zstd:LEVEL"; streams stay as they were. */
bool option_compression(const char *text, struct container_options *out, struct err *e);

/* "tidemark: TEXT" on standard error. A trace may have named what it tells: escaped for terminals.
 */
void print_error(const struct err *e);

/* A time in nanoseconds or with a unit (ns, us, ms, s, m, h), such as -1.5s. */
bool option_time(const char *text, const char *option, int64_t *out, struct err *e);

/*
 * A stretch of time "A:B", in nanoseconds since the trace began or with a unit (ns, us, ms, s, m,
 * h), such as "1.5s:2m". Either side may be left out. B is not part of it and must be later than A.
 */
bool option_range(const char *text, const char *option, int64_t *begin, int64_t *end,
                  struct err *e);

#endif
