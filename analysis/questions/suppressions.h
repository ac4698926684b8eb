#pragma once

/*
 * Known leaks to hide, in the file format of LeakSanitizer: a line "leak:PATTERN" for each, empty
 * lines, and lines that begin with "#". A pattern matches if it is a part of a function's name, or
 * of the path of a source file or image, of any frame of the call stack. "*" matches anything; "^"
 * at its start and "$" at its end match those of the text.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

struct suppression {
    char *pattern;
    bool built_in;         /* no pattern, but a reason of analysis/names/permanent.h */
    uint64_t count, bytes; /* hidden by it */
};

struct suppressions {
    VEC(struct suppression) list;
    bool all_leaks; /* hide no permanent blocks */
};

/*
 * Adds the lines of a text, called `name` in messages. ERR_USAGE with the number of a malformed
 * line.
 */
int suppressions_parse(struct suppressions *s, struct view text, const char *name, struct err *e);
void suppressions_release(struct suppressions *s);

/* Whether a pattern matches a text. */
bool suppression_matches(const char *pattern, struct view text);

#define SUPPRESSION_NONE UINT32_MAX

/*
 * The first suppression that matches each call stack, SUPPRESSION_NONE for none, by call stack id;
 * the caller frees it. NULL with `e` filled if memory is short.
 */
uint32_t *suppressions_of_callstacks(const struct suppressions *s, const struct trace *t,
                                     struct err *e);
