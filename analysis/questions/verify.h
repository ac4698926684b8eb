#ifndef TIDEMARK_ANALYSIS_QUESTIONS_VERIFY_H
#define TIDEMARK_ANALYSIS_QUESTIONS_VERIFY_H

/* Is the data that somebody counts on really in a trace? Each question is a check with a cause. */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/stored_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/questions/budget.h"
#include "trace/load/load.h"

/* How figures that are stored with a trace compare with those of its events. */
enum stored_state { STORED_UNKNOWN, STORED_AGREE, STORED_DIFFER };

struct verify_options {
    struct selection_options only; /* look at these allocations only */
    bool expect_allocations;
    uint64_t allocations;    /* expected */
    double within;           /* ≥ 1: from allocations / within to allocations * within will do */
    bool require_callstacks; /* some allocation has a call stack, and … */
    double callstacks_percent; /* … so many percent of them at least */
    bool require_symbols;
    double symbols_percent; /* of the distinct frames of allocations at least */
    bool require_samples;
    bool require_context_switches;
    const struct budget *expect; /* expressions that must be true; they outlive the result */
    size_t expect_count;
    const struct stored_figures *stored; /* with the trace, for the same sites; NULL: none are */
    enum stored_state stored_state;      /* of verify_summarize */
    const char *missing; /* of verify_summarize: why the check `missing_name` failed */
    const char *missing_name;
};

struct verify_result {
    VEC(struct summary_check) checks;
    struct buf note; /* on call stacks that are absent or shallow; empty: there is no need */
    bool holds;      /* all of them */
};

/*
 * Makes the summary that verify_run looks at. A pool, thread, frame or zone that is not there is a
 * check that does not hold, not a wrong command line: `missing`, which must last, says why, and
 * options->missing tells verify_run. For options->only.frame and zone the trace must have been
 * loaded with frames and zones.
 */
int verify_summarize(struct summary *s, struct trace *t, struct verify_options *options,
                     struct err *missing, struct err *e);

/* `r` need not be initialised. `counts` are those of the file that `s` summarises. */
int verify_run(struct verify_result *r, const struct summary *s, const struct trace_counts *counts,
               const struct verify_options *options, struct err *e);
void verify_release(struct verify_result *r);

#endif
