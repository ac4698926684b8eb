#ifndef TIDEMARK_BASE_PATTERN_H
#define TIDEMARK_BASE_PATTERN_H

/*
 * Regular expressions over bytes, by PCRE2. An expression may come from a stranger (a budget that a
 * pull request brings, a tool's request): compiling and matching are bounded in time and memory,
 * which those of the C library are not. Expressions are Perl's; `.` takes every byte, `$` is the
 * end.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pattern;

/* What a group stands for: bytes [start, end) of the text. A group that took no part has `none`. */
struct pattern_span {
    size_t start, end;
    bool none;
};

/* The compiled expression of `len` bytes, freed by pattern_free. NULL and ERR_USAGE with the cause.
 */
struct pattern *pattern_new(const char *text, size_t len, struct err *e);

void pattern_free(struct pattern *p);

/* The number of groups in brackets. */
unsigned pattern_groups(const struct pattern *p);

/*
 * Whether it is found in the text, which may hold any byte and needs no terminator. A text on which
 * the search would take too long counts as one that does not match. Not for two threads at a time.
 */
bool pattern_matches(struct pattern *p, const char *text, size_t len);

/*
 * The first place from `from` on where it is found. Fills the whole, spans[0], and as many groups
 * as `n` leaves room for.
 */
bool pattern_find(struct pattern *p, const char *text, size_t len, size_t from,
                  struct pattern_span *spans, unsigned n);

#endif
