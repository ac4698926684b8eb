#pragma once

/* Expressions of a command line: --fail-if, --expect. */

#include "analysis/questions/budget_summary.h"
#include "base/vec.h"

struct budgets {
    VEC(struct budget) list;
};

/* `alone`: there is no base, so changes are rejected. False with `e` filled on an error. */
bool budgets_add(struct budgets *b, const char *option, const char *text, bool alone,
                 struct err *e);
void budgets_release(struct budgets *b);

/* The first expression about what is live at the end, or NULL. */
const struct budget *budgets_of_leaks(const struct budgets *b);

/*
 * Whether a check of the expression holds, but one of its restrictions matches nothing; then `e`
 * says so.
 */
bool budgets_doubt(const struct summary_check *check, struct err *e);

/*
 * Adds an outcome for each to the summary's checks, as `name`. ERR_CHECK with the failed ones if an
 * outcome is not `wanted`.
 */
int budgets_check(const struct budgets *b, struct summary *s, const char *name, bool wanted,
                  struct err *e);
