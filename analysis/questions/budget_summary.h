#pragma once

/*
 * The figures of expressions, from the summary of a trace.
 *
 * Without a selector of site, file or image they are those of the pools; the peak is the highest of
 * theirs. With one they are sums over the matching sites; their peak is the use of these sites at
 * their pools' peaks. Resident bytes are of the process, or with any selector of blocks.
 */

#include "analysis/figures/summary.h"
#include "analysis/questions/budget.h"

/* A summary and the one that it is compared with (NULL: none, and changes are from 0). */
struct budget_summaries {
    const struct summary *now, *base;
};

/*
 * A budget_figure; ctx is a struct budget_summaries. summary_select must not have been called yet.
 */
double budget_summary_figure(void *ctx, const struct budget_term *t, enum budget_side side);

/* Whether `s` lacks a figure that the expression needs; then `why` gets the cause. */
bool budget_summary_lacks(const struct budget *b, const struct summary *s, struct buf *why);

/* The summaries that an outcome is of: first those of the newer side. */
struct budget_scope {
    const struct summary *const *at;
    size_t now, all;
};

/*
 * Appends what belongs to an outcome besides its figures: what was suppressed on the newer side,
 * and restrictions such as pool="x" that match nothing on either side. True if there is one of the
 * latter: its figure is 0, which may be a misspelt name.
 */
bool budget_summary_remark(const struct budget *b, const struct budget_scope *in, struct buf *why);

/* The counter of a running client's pool that has this metric; NULL: none has. Static. */
const char *budget_metric_counter(enum budget_metric m);

/*
 * Adds the outcome of an expression, which must outlive the summary, to its checks: `name` holds if
 * the outcome is `wanted`. No check holds for a trace without memory data.
 */
int budget_summary_check(struct summary *s, const struct budget *b, const char *name, bool wanted,
                         bool *holds, struct err *e);

struct budget_list {
    const struct budget *at;
    size_t len;
};

/*
 * Whether one selects sites. Then the summary takes wrappers by names alone (skiplist.names_alone):
 * a function that more callers use in one run must not escape its budget.
 */
bool budgets_select_sites(struct budget_list list);

/* Outcomes; released by vec_release. Their names are the texts of the expressions. */
struct budget_checks {
    VEC(struct summary_check) list;
};

/*
 * Compares two traces. For each expression, checks that it is false for the newer one's figures or
 * their change, and that there is memory data. `base_only` is the base's options->only. `out` need
 * not be initialised.
 */
int budget_summary_compare(struct budget_checks *out, struct trace *base, struct trace *now,
                           const struct summary_options *options,
                           const struct selection_options *base_only, struct budget_list list,
                           struct err *e);
