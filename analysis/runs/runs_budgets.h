#pragma once

/*
 * Budgets of several runs. A figure is the median of the newer runs. A change is that of the means
 * if it exceeds the noise between runs (noise.h), else 0. All figures whose change is asked for are
 * tested together, but not with those of sites: a budget is a separate question.
 */

#include "analysis/questions/budget_summary.h"
#include "analysis/runs/noise.h"
#include "analysis/runs/run_figures.h"
#include "base/err.h"

/*
 * The outcome of each expression: it holds if the expression is false. If there are too few runs
 * to establish a change that it asks for, the outcome is unknown and does not hold. `runs` has
 * `count` of each side, the base's first. Release `out->list`.
 */
int runs_budgets_check(struct budget_checks *out, const struct run_figures *runs,
                       const size_t count[2], struct budget_list list,
                       const struct noise_options *options, struct err *e);
