#include "analysis/questions/budget_summary.h"

#include <stdio.h>

static double of_pool(const struct pool_figures *f, enum budget_metric m)
{
    switch (m) {
    case BUDGET_PEAK:
        return (double)f->peak_bytes;
    case BUDGET_LEAKED:
        return (double)f->live_bytes;
    case BUDGET_LEAKED_COUNT:
        return (double)f->live;
    case BUDGET_TOTAL:
        return (double)f->total_bytes;
    case BUDGET_TEMPORARY:
        return (double)f->temporary;
    default:
        return (double)f->allocations;
    }
}

static double of_row(const struct counter *c, enum budget_metric m)
{
    switch (m) {
    case BUDGET_PEAK:
        return (double)c->at_peak_bytes;
    case BUDGET_LEAKED:
        return (double)c->live_bytes;
    case BUDGET_LEAKED_COUNT:
        return (double)c->live_count;
    case BUDGET_TOTAL:
        return (double)c->bytes;
    case BUDGET_TEMPORARY:
        return (double)c->temporary;
    case BUDGET_LARGEST:
        return (double)c->largest;
    default:
        return (double)c->count;
    }
}

/* The maximum over pools or blocks; the sum of everything else. */
static double gather(double all, double one, bool highest)
{
    if (!highest)
        return all + one;
    return one > all ? one : all;
}

/* Selected pools all count; otherwise contained pools do not. */
static bool counts(const struct summary *s, const struct budget_term *t, uint32_t pool)
{
    return !s->pools.at[pool].contained || budget_term_has(t, 1u << BUDGET_POOL);
}

static double of_pools(const struct summary *s, const struct budget_term *t)
{
    double all = 0;
    for (size_t i = 0; i < s->pools.len; i++) {
        struct budget_names names = {.pool = s->pools.at[i].name};
        if (counts(s, t, (uint32_t)i) && budget_term_takes(t, &names, 1u << BUDGET_POOL))
            all =
                gather(all, of_pool(&s->pools.at[i].figures, t->metric), t->metric == BUDGET_PEAK);
    }
    return all;
}

static double of_rows(const struct summary *s, const struct budget_term *t)
{
    double all = 0;
    for (size_t i = 0; i < s->sites.len; i++) {
        const struct summary_row *r = &s->sites.at[i];
        struct budget_names names = {.pool = s->pools.at[r->pool].name,
                                     .site = r->frame.function,
                                     .file = r->frame.file,
                                     .image = r->frame.image};
        if (counts(s, t, r->pool) &&
            budget_term_takes(t, &names, 1u << BUDGET_POOL | BUDGET_ROW_KEYS))
            all = gather(all, of_row(&r->figures, t->metric), t->metric == BUDGET_LARGEST);
    }
    return all;
}

static double of_faults(const struct summary *s, const struct budget_term *t)
{
    double all = 0;
    for (size_t i = 0; i < s->faults.len; i++) {
        struct budget_names names = {.pool = s->faults.at[i].pool};
        if (budget_term_takes(t, &names, 1u << BUDGET_POOL))
            all += (double)s->faults.at[i].count;
    }
    return all;
}

double budget_summary_figure(void *ctx, const struct budget_term *t, bool base)
{
    const struct budget_summaries *both = ctx;
    const struct summary *s = base ? both->base : both->now;
    if (!s)
        return 0;
    if (t->metric == BUDGET_FAULTS)
        return of_faults(s, t);
    return budget_term_has(t, BUDGET_ROW_KEYS) || t->metric == BUDGET_LARGEST ? of_rows(s, t)
                                                                              : of_pools(s, t);
}

/*
 * Whether the figures answer the expression. Without memory data all figures are 0, which is within
 * any budget: a check must not pass because nothing was recorded.
 */
static bool can_be_told(const struct budget *b, const struct budget_summaries *both,
                        struct buf *why)
{
    const struct summary *now = both->now, *base = both->base;
    const struct summary *lacking = now->empty                             ? now
                                    : b->needs_base && base && base->empty ? base
                                                                           : NULL;
    if (lacking)
        buf_printf(why, "unknown%s, %.*s", lacking == base ? " for the base" : "",
                   (int)lacking->verdict.len, lacking->verdict.data);
    return !lacking;
}

/* Appends the deciding figures to `why`. False if there is no answer. */
static bool is_as_wanted(const struct budget *b, const struct budget_summaries *both, bool wanted,
                         struct buf *why)
{
    return can_be_told(b, both, why) &&
           budget_holds(b, budget_summary_figure, (void *)both, why) == wanted;
}

int budget_summary_check(struct summary *s, const struct budget *b, const char *name, bool wanted,
                         bool *holds, struct err *e)
{
    struct budget_summaries both = {.now = s};
    struct buf why = {0};
    struct summary_check check = {.name = name, .expression = b->text};
    check.holds = is_as_wanted(b, &both, wanted, &why);
    *holds = check.holds;
    snprintf(check.detail, sizeof check.detail, "%.100s: %s", b->text, buf_str(&why));
    bool ok = !why.failed && vec_push(&s->checks, check);
    buf_release(&why);
    return ok ? 0 : err_no_memory(e, "checks");
}

static int compare_all(struct budget_checks *out, const struct budget_summaries *both,
                       struct budget_list list, struct err *e)
{
    for (size_t i = 0; i < list.len; i++) {
        const struct budget *b = &list.at[i];
        struct buf why = {0};
        struct summary_check one = {.name = b->text};
        one.holds = is_as_wanted(b, both, false, &why);
        snprintf(one.detail, sizeof one.detail, "%s", buf_str(&why));
        bool ok = !why.failed && vec_push(&out->list, one);
        buf_release(&why);
        if (!ok)
            return err_no_memory(e, "checks");
    }
    return 0;
}

int budget_summary_compare(struct budget_checks *out, struct trace *base, struct trace *now,
                           const struct summary_options *options,
                           const struct selection_options *base_only, struct budget_list list,
                           struct err *e)
{
    struct summary before;
    struct summary after;
    struct summary_options base_options = *options;
    base_options.only = base_only;
    *out = (struct budget_checks){0};
    if (summary_build(&before, base, &base_options, e) != 0)
        return -1;
    int status = summary_build(&after, now, options, e);
    if (status == 0) {
        status = compare_all(out, &(struct budget_summaries){&after, &before}, list, e);
        summary_release(&after);
    }
    summary_release(&before);
    if (status != 0)
        vec_release(&out->list);
    return status;
}
