#pragma once

/*
 * Memory faults with both sides: the faulty call, and the block that makes it a fault. For an
 * address allocated twice, that is the block which held it; for a free of an unknown address, the
 * block that was freed there before, or the one around the address.
 *
 * Faults come from those that a capture noted. If it noted no address allocated twice, the history
 * is searched for them: an allocation at an address that is still live, or whose block ended in the
 * same nanosecond by the same thread without a call stack, which is how an official server ends it
 * (server/TracyWorker.cpp @ v0.14.0, ProcessMemAllocImpl). Official traces have no unknown frees:
 * the server stops at the first one, or drops it.
 *
 * All parts of a selection apply. Its times are those of the faults (`at`: no later than that). Its
 * size is that of the block allocated twice, or of the one that a free may have meant. Of many
 * equal faults, a capture keeps the first and the last few; of the others, the number of selected
 * ones may be unknown.
 *
 * One sweep. Memory grows with the noted faults, at most 1000, and with live blocks if the history
 * is searched.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/figures/summary.h"
#include "analysis/names/skiplist.h"
#include "base/err.h"
#include "base/vec.h"

/* What was at the address of a fault. */
enum fault_cause {
    FAULT_NEVER_SEEN,    /* no block of the trace covered it before */
    FAULT_FREED_BEFORE,  /* a block began there and was freed: freed twice */
    FAULT_INSIDE_LIVE,   /* within a live block of the pool, not at its start */
    FAULT_INSIDE_FREED,  /* within a block that was freed before */
    FAULT_IN_OTHER_POOL, /* the start of a live block of another pool */
    FAULT_HELD,          /* allocated twice: a live block was there */
    FAULT_CAUSES,
};

const char *fault_cause_name(enum fault_cause cause); /* "never-seen", "freed-before", … */

/* A block involved in a fault. */
struct fault_block {
    bool is_known;
    uint64_t ptr, size;
    uint32_t pool; /* number in the trace */
    int64_t time;  /* ns, of the allocation */
    uint16_t thread;
    uint32_t callstack;
    bool is_freed; /* by the time of the fault; then: */
    int64_t freed;
    uint16_t free_thread;
    uint32_t free_callstack;
};

struct fault_case {
    struct summary_fault_sample what;
    enum fault_cause cause;
    struct fault_block previous; /* the newest at this address that was freed, or gave way */
    struct fault_block around;   /* live at the time of the fault */
};

struct fault_row {
    enum memory_fault_kind kind;
    struct view pool;
    uint64_t count; /* upper bound; `least` is the lower one */
    uint64_t least;
    uint32_t callstack;
    struct frame_view site; /* of that call stack (sites.h); all empty without one */
    bool from_history;      /* inferred from the trace's events, not noted by a capture */
    unsigned case_count;    /* the first and the last few, in order of time */
    unsigned gap;           /* unlisted cases came before the case of this index */
    struct fault_case cases[SUMMARY_FAULT_SAMPLES];
};

struct faults {
    VEC(struct fault_row) rows; /* noted ones first, then those of the history */
    uint64_t left_out;          /* call stacks beyond the limit of noted faults */
    uint64_t unknown_frees, null_frees, double_allocations; /* of all pools, as noted */
    uint64_t from_history; /* addresses allocated twice in the selection */
    bool is_selected;      /* a selection is in force; then the sums of the rows: */
    uint64_t selected_frees, selected_allocations;
    bool partial;         /* most frees are of unknown blocks: size threshold or late start */
    bool is_foreign;      /* not written by a Tidemark capture: unknown frees are not recorded */
    struct summary noted; /* owns texts; for faults*.c only */
};

/* `f` need not be initialised. */
int faults_build(struct faults *f, struct selection *s, const struct skiplist *skip, struct err *e);

/*
 * The same for noted faults only: which of them are selected, without sites. Causes and blocks are
 * computed only if a selection by size needs them; otherwise there is no sweep.
 */
int faults_build_noted(struct faults *f, struct selection *s, struct err *e);
void faults_release(struct faults *f);
