#pragma once

/*
 * Known reasons why a process has more or less in memory than its blocks: each with its figure and
 * the usual remedy. A finding is about at least FINDING_LEAST bytes and a twentieth of what the
 * process had resident. What lies beside blocks is the allocator's only if all blocks are known, so
 * those that a program reports have no findings of it.
 */

#include "analysis/questions/resident.h"

enum finding_kind {
    FINDING_ABSENT, /* of a site: bytes of large blocks that are not in memory */
    FINDING_PINNED, /* of a site: free bytes of pages that its blocks keep */
    FINDING_EMPTY,  /* pages of the allocator without a block */
    FINDING_ARENAS, /* what arenas of threads have beside blocks */
    FINDING_HUGE,   /* in transparent huge pages */
    FINDING_TRIM,   /* calls of malloc_trim that returned nothing; bytes: 0 */
    FINDING_KINDS,
};

#define FINDING_LEAST ((uint64_t)1 << 20)

struct resident_finding {
    enum finding_kind kind;
    uint64_t bytes;
    uint64_t count, all;            /* blocks; heaps; calls that returned nothing, of all calls */
    const struct resident_row *row; /* of a site; NULL: the process */
};

struct resident_findings {
    VEC(struct resident_finding) list; /* most bytes first */
};

/*
 * `f` need not be initialised; it is valid as long as `r`. Of a selection of blocks (`narrow`) only
 * sites have findings.
 */
int resident_findings_make(struct resident_findings *f, const struct resident *r,
                           const struct trace *t, bool narrow, struct err *e);
void resident_findings_release(struct resident_findings *f);

/* "untouched", "pinned", … */
const char *finding_key(enum finding_kind kind);

/* What was found, and then what usually helps, without the site. */
void finding_words(struct buf *out, const struct resident_finding *f);
const char *finding_remedy(enum finding_kind kind);
