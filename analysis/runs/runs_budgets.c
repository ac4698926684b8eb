#include "analysis/runs/runs_budgets.h"

#include <stdio.h>
#include <stdlib.h>

struct checking {
    const struct budget *budget;
    const struct noise_row *rows; /* of its terms */
    const struct run_figures *runs;
    size_t first, end; /* those that it needs */
    struct budget_scope scope;
};

static double figure_of(void *ctx, const struct budget_term *t, enum budget_side side)
{
    const struct checking *c = ctx;
    const struct noise_row *r = &c->rows[t - c->budget->terms.at];
    if (side == BUDGET_NOW)
        return r->median[1];
    return r->mean[side == BUDGET_CHANGED && r->changed ? 1 : 0];
}

/* Whether the change of a term is asked for. */
static bool is_compared(const struct budget *b, size_t term)
{
    for (size_t i = 0; i < b->nodes.len; i++) {
        const struct budget_node *n = &b->nodes.at[i];
        if (n->kind == BUDGET_COMPARE && n->is_change && n->left == term)
            return true;
    }
    return false;
}

/* Says which changes were left out. */
static void put_noise(const struct checking *c, const struct noise_options *options,
                      struct buf *why)
{
    for (size_t i = 0; i < c->budget->terms.len; i++) {
        const struct noise_row *r = &c->rows[i];
        if (is_compared(c->budget, i) && !r->changed && r->change != 0)
            buf_printf(why, "; %s: a change of %+.1f %% is within the noise of the runs",
                       c->budget->terms.at[i].word,
                       r->mean[0] > 0 ? r->change / r->mean[0] * 100 : 100);
        if (is_compared(c->budget, i) && r->unstable)
            buf_printf(why, "; %s is unstable: it varies by more than %.0f %% between runs",
                       c->budget->terms.at[i].word, options->unstable * 100);
    }
}

/* Whether a run lacks a figure. */
static bool is_lacking(const struct checking *c, struct buf *why)
{
    for (size_t i = c->first; i < c->end; i++) {
        if (budget_summary_lacks(c->budget, &c->runs[i].summary, why)) {
            buf_printf(why, " (%.200s)", c->runs[i].name);
            return true;
        }
    }
    return false;
}

static int check_one(struct budget_checks *out, const struct checking *c, const struct noise *n,
                     const struct noise_options *options, struct err *e)
{
    struct summary_check one = {.name = c->budget->text};
    struct buf why = {0};
    if (c->budget->needs_base && !n->can_tell) {
        size_t needed = noise_runs_needed(options->level);
        buf_printf(&why, "unknown: %zu against %zu runs cannot establish a change", n->runs[0],
                   n->runs[1]);
        if (needed)
            buf_printf(&why, "; %zu against %zu can", needed, needed);
    } else if (!is_lacking(c, &why)) {
        one.holds = !budget_holds(c->budget, figure_of, (void *)c, &why);
        put_noise(c, options, &why);
        one.unmatched = budget_summary_remark(c->budget, &c->scope, &why);
    }
    snprintf(one.detail, sizeof one.detail, "%s", buf_str(&why));
    bool ok = !why.failed && vec_push(&out->list, one);
    buf_release(&why);
    return ok ? 0 : err_no_memory(e, "checks");
}

/* The figures of all terms in all runs. */
static void fill(const struct run_figures *runs, size_t total, struct budget_list list,
                 double *values, struct noise_row *rows)
{
    size_t row = 0;
    for (size_t i = 0; i < list.len; i++) {
        for (size_t k = 0; k < list.at[i].terms.len; k++, row++) {
            double sum = 0;
            for (size_t run = 0; run < total; run++) {
                struct budget_summaries of = {.now = &runs[run].summary};
                double figure = budget_summary_figure(&of, &list.at[i].terms.at[k], BUDGET_NOW);
                values[row * total + run] = figure;
                sum += figure;
            }
            rows[row].floor = sum / (double)total * 0.001;
            rows[row].muted = !is_compared(&list.at[i], k);
        }
    }
}

int runs_budgets_check(struct budget_checks *out, const struct run_figures *runs,
                       const size_t count[2], struct budget_list list,
                       const struct noise_options *options, struct err *e)
{
    size_t total = count[0] + count[1], terms = 0, row = 0;
    struct noise n;
    struct noise_options all = *options;
    all.mute_unstable = false; /* a budget asks for its figure, stable or not */
    for (size_t i = 0; i < list.len; i++)
        terms += list.at[i].terms.len;
    double *values = calloc(terms * total + 1, sizeof *values);
    struct noise_row *rows = calloc(terms + 1, sizeof *rows);
    const struct summary **newest = calloc(total + 1, sizeof *newest);
    int status = values && rows && newest ? 0 : err_no_memory(e, "checks");
    for (size_t i = 0; i < total && status == 0; i++)
        newest[i] = &runs[(count[0] + i) % total].summary;
    if (status == 0) {
        fill(runs, total, list, values, rows);
        status = noise_test(&n, count, values, rows, terms, &all, e);
    }
    for (size_t i = 0; i < list.len && status == 0; i++) {
        const struct checking c = {.budget = &list.at[i],
                                   .rows = rows + row,
                                   .runs = runs,
                                   .first = list.at[i].needs_base ? 0 : count[0],
                                   .end = total,
                                   .scope = {newest, count[1], total}};
        status = check_one(out, &c, &n, options, e);
        row += list.at[i].terms.len;
    }
    free(values);
    free(rows);
    free(newest);
    return status;
}
