#pragma once

/*
 * Where the resident pages of a process were at one time, as bytes by kind. Stored as a fact of the
 * trace, so that a summary need not read its events:
 *
 *     tidemark.resident=TIME REASON BLOCKS OVERHEAD LIBRARIES STACKS OTHER UNSURE SWAPPED RSS
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "trace/store/page_look.h"
#include "trace/store/store.h"

enum resident_class {
    RESIDENT_BLOCKS,    /* live recorded blocks */
    RESIDENT_OVERHEAD,  /* of mappings with such blocks, and of the program break: all else. If the
                         * blocks are those that a program reports, that may be other ones, too. */
    RESIDENT_LIBRARIES, /* mapped files, and the zeroed memory of images */
    RESIDENT_STACKS,
    RESIDENT_OTHER,
    RESIDENT_CLASSES,
};

/* The key in JSON: "blocks", "overhead", … */
const char *resident_class_key(enum resident_class c);

struct resident_shares {
    int64_t time; /* ns */
    enum look_reason reason;
    uint64_t bytes[RESIDENT_CLASSES];
    uint64_t unsure; /* the zero page, or shared with a forked process: in none of the above */
    uint64_t swapped;
    uint64_t rss;  /* as the kernel counted then; 0: not known */
    bool reported; /* the blocks are those that the program reports, perhaps not all */
};

/* See `reported` above. `tidemark run` records all. */
bool resident_is_reported(const struct trace *t);

/* The sum of the classes. */
uint64_t resident_total(const struct resident_shares *s);

/*
 * Bytes that the kernel counted as resident and the classes lack, of pages that it does not
 * distinguish from the zero page: a forked process has them, too. 0: less than a twentieth.
 */
uint64_t resident_lacking(const struct resident_shares *s);

int resident_fact_add(struct trace *t, const struct resident_shares *s, struct err *e);

/* False: the trace has no such fact, a malformed one, or those of several processes. */
bool resident_fact_read(const struct trace *t, struct resident_shares *s);

/* "resident 14.2 MiB at 3.21 s: blocks 5 %, …", without a newline. */
void resident_words(struct buf *out, const struct resident_shares *s);
