#ifndef TIDEMARK_ANALYSIS_NAMES_SKIPLIST_H
#define TIDEMARK_ANALYSIS_NAMES_SKIPLIST_H

/*
 * Which frames of an allocation's call stack are machinery and which are the program: the site of
 * an allocation is the innermost frame of the program. The built-in rules are the table in
 * skiplist.c, with wrapper_names.h; users add regular expressions.
 */

#include "base/err.h"
#include "base/pattern.h"
#include "base/vec.h"
#include "base/view.h"

enum frame_class {
    FRAME_PROGRAM,
    FRAME_ALLOCATOR,       /* malloc family, operator new, standard library, the user's --skip */
    FRAME_INSTRUMENTATION, /* what recorded the event: Tracy's own client */
};

/* Zero-initialise for the built-in rules alone. */
struct skiplist {
    VEC(struct pattern *) user;
};

/*
 * Adds a Perl-compatible regular expression; frames whose function text or file path it matches
 * count as allocator. ERR_USAGE when it is none.
 */
int skiplist_add(struct skiplist *s, const char *regex, struct err *e);
void skiplist_release(struct skiplist *s);

/* `function` and `file` as a trace holds them; empty when unknown. */
enum frame_class skiplist_class(const struct skiplist *s, struct view function, struct view file);

#endif
