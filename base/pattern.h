#pragma once

/*
 * Regular expressions over bytes, by PCRE2. Expressions may be untrusted (a budget in a pull
 * request, an agent's request), so compiling and matching are bounded in time and memory; those of
 * the C library are not. The syntax is Perl's; `.` matches every byte, `$` is the end of the text.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pattern;

/* The match of a group: bytes [start, end) of the text. An unmatched group has `none`. */
struct pattern_span {
    size_t start, end;
    bool none;
};

/*
 * Compiles an expression of `len` bytes; free it with pattern_free. NULL and ERR_USAGE with the
 * cause if it is invalid.
 */
struct pattern *pattern_new(const char *text, size_t len, struct err *e);

void pattern_free(struct pattern *p);

/* The number of capture groups. */
unsigned pattern_groups(const struct pattern *p);

/*
 * Whether the pattern matches anywhere in the text, which may hold any byte and needs no
 * terminator. A match that exceeds the time limit counts as no match. Two threads must not use a
 * pattern at the same time.
 */
bool pattern_matches(struct pattern *p, const char *text, size_t len);

/*
 * The first match at or after `from`. Fills spans[0] with the whole match, and as many groups as
 * `n` leaves room for.
 */
bool pattern_find(struct pattern *p, const char *text, size_t len, size_t from,
                  struct pattern_span *spans, unsigned n);
