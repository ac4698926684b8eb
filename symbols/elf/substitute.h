#pragma once

/*
 * Substitutions in paths of images, "REGEX;REPLACEMENT". The first rule whose regular expression
 * matches a path replaces all its matches. Regular expressions are those of base/pattern.h, which
 * support all of the official tool's (ECMAScript). In the replacement, $1 to $99 are groups, $& the
 * whole match, $$ a dollar sign.
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

/* Adds a rule; `text` must outlive the list. Fails with ERR_USAGE if it is invalid. */
int substitutions_add(struct substitutions *s, const char *text, struct err *e);

/* True if a rule matches; `out`, which must be empty, then holds the new path. */
bool substitutions_apply(const struct substitutions *s, const char *path, struct buf *out);
