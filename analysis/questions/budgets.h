#ifndef TIDEMARK_ANALYSIS_QUESTIONS_BUDGETS_H
#define TIDEMARK_ANALYSIS_QUESTIONS_BUDGETS_H

/* Expressions that a command line gives: --fail-if, --expect. */

#include "analysis/questions/budget_summary.h"
#include "base/vec.h"

struct budgets {
    VEC(struct budget) list;
};

/* `alone`: there is no base, so changes are refused. False with `e` filled when it is wrong. */
bool budgets_add(struct budgets *b, const char *option, const char *text, bool alone,
                 struct err *e);
void budgets_release(struct budgets *b);

/*
 * Adds an outcome for each to the summary's checks, as `name`. ERR_CHECK, which tells them, when
 * one is true that should not be, or the other way round.
 */
int budgets_check(const struct budgets *b, struct summary *s, const char *name, bool wanted,
                  struct err *e);

#endif
