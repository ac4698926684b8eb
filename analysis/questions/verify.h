#pragma once

/* Checks that a trace has the data that a user needs. Each question is a check with a cause. */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/stored_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/questions/budget.h"
#include "trace/load/load.h"

/* How figures stored with a trace compare with those of its events. */
enum stored_state { STORED_UNKNOWN, STORED_AGREE, STORED_DIFFER };

struct verify_options {
    struct selection_options only; /* check these allocations only */
    bool expect_allocations;
    bool figures_ok;      /* a trace of figures only has memory data */
    uint64_t allocations; /* expected */
    double within;        /* ≥ 1: tolerance, from allocations / within to allocations * within */
    bool require_callstacks;   /* some allocation has a call stack, and … */
    double callstacks_percent; /* … at least this percentage of them */
    bool require_symbols;
    double symbols_percent; /* at least, of the distinct frames of allocations */
    bool require_samples;
    bool require_context_switches;
    const struct budget *expect; /* expressions that must be true; they must outlive the result */
    size_t expect_count;
    const struct stored_figures *stored; /* with the trace, for the same sites; NULL: none */
    struct stream_figures *stream;       /* see struct summary_options */
    enum stored_state stored_state;      /* of verify_summarize */
    const char *missing; /* of verify_summarize: why the check `missing_name` failed */
    const char *missing_name;
};

struct verify_result {
    VEC(struct summary_check) checks;
    struct buf note; /* on missing or shallow call stacks; may be empty */
    bool holds;      /* all of them */
};

/*
 * Makes the summary for verify_run. If there is no such pool, thread, frame or zone, a check fails;
 * this is not a wrong command line. `missing` then has the reason; it must outlive verify_run,
 * which gets it in options->missing. For options->only.frame and zone the trace must have been
 * loaded with frames and zones.
 */
int verify_summarize(struct summary *s, struct trace *t, struct verify_options *options,
                     struct err *missing, struct err *e);

/* `r` need not be initialised. `counts` are those of the file of `s`. */
int verify_run(struct verify_result *r, const struct summary *s, const struct trace_counts *counts,
               const struct verify_options *options, struct err *e);
void verify_release(struct verify_result *r);
