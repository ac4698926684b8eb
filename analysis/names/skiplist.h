#pragma once

/*
 * Separates allocators and instrumentation from the program in an allocation's call stack: the site
 * of an allocation is the innermost frame of the program. The built-in rules are the table in
 * skiplist.c and wrapper_names.h; users add regular expressions.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/pattern.h"
#include "base/vec.h"
#include "base/view.h"

enum frame_class {
    FRAME_PROGRAM,
    FRAME_ALLOCATOR,       /* malloc family, operator new, standard library, PyTorch, --skip */
    FRAME_INSTRUMENTATION, /* code that records events: Tracy's client */
};

struct wrapper_functions;

/* Zero-initialise for the built-in rules only. */
struct skiplist {
    VEC(struct pattern *) user;
    VEC(struct pattern *) kept;
    bool names_alone; /* what a trace shows to be a wrapper (wrapper_functions.h) is no allocator */
    const struct wrapper_functions *found; /* of the trace; NULL: to be searched for */
};

/*
 * Adds a Perl-compatible regular expression. Frames whose function text or file path it matches
 * count as allocators. ERR_USAGE if it is invalid.
 */
int skiplist_add(struct skiplist *s, const char *regex, struct err *e);
/* The same for frames that belong to the program in spite of all rules but those for clients. */
int skiplist_keep(struct skiplist *s, const char *regex, struct err *e);
void skiplist_release(struct skiplist *s);

/* `function`, `file` and, of skiplist_verdict, `image` as in a trace; empty if unknown. */
enum frame_class skiplist_class(const struct skiplist *s, struct view function, struct view file);

/* The class of a frame, and the rule that gave it. */
struct frame_verdict {
    enum frame_class class;
    const char *rule; /* static, a noun: "allocator", "file of a library", "PyTorch"; NULL: none */
    const char *project; /* static; whose allocation function it is; NULL: of none that is known */
    bool allocates;      /* malloc, operator new or the like, and no library on top of them */
    bool kept;           /* by skiplist_keep */
};

struct frame_verdict skiplist_verdict(const struct skiplist *s, struct view function,
                                      struct view file, struct view image);
