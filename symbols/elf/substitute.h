#ifndef TIDEMARK_SYMBOLS_ELF_SUBSTITUTE_H
#define TIDEMARK_SYMBOLS_ELF_SUBSTITUTE_H

/*
 * Substitutions in paths of images, "REGEX;REPLACEMENT": of several rules the first whose regular
 * expression is found in a path replaces every place where it is. Regular expressions are those of
 * base/pattern.h, which know all that the official tool's (ECMAScript) do. In the replacement $1 to
 * $99 stand for groups, $& for all that was found, $$ for a dollar sign.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/pattern.h"
#include "base/vec.h"

struct substitution {
    struct pattern *regex;
    const char *replacement;
};

struct substitutions {
    VEC(struct substitution) list;
};

void substitutions_release(struct substitutions *s);

/* Adds a rule; `text` outlives the list. ERR_USAGE when it is none. */
int substitutions_add(struct substitutions *s, const char *text, struct err *e);

/* True when a rule fits: then `out`, which must be empty, gets the new path. */
bool substitutions_apply(const struct substitutions *s, const char *path, struct buf *out);

#endif
