#include "analysis/questions/budget_summary.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "base/saturate.h"

/*
 * A metric in the figures of a pool, in those of a site, and in the counters of a running client
 * (server/capture/monitor.c).
 */
static const struct metric {
    size_t pool, row; /* offsets in struct pool_figures, struct summary_row */
    const char *counter;
    bool is_leaked;
} metrics[BUDGET_METRICS] = {
#define METRIC(POOL, ROW)                                                                          \
    .pool = offsetof(struct pool_figures, POOL), .row = offsetof(struct summary_row, figures.ROW)
    [BUDGET_PEAK] = {METRIC(peak_bytes, at_peak_bytes)},
    [BUDGET_LEAKED] = {METRIC(live_bytes, live_bytes), .counter = "live_bytes", .is_leaked = true},
    [BUDGET_LEAKED_COUNT] = {METRIC(live, live_count), .counter = "live_allocations",
                             .is_leaked = true},
    [BUDGET_TOTAL] = {METRIC(total_bytes, bytes), .counter = "total_bytes"},
    [BUDGET_COUNT] = {METRIC(allocations, count), .counter = "allocations"},
    [BUDGET_TEMPORARY] = {METRIC(temporary, temporary)},
    [BUDGET_FAULTS] = {.counter = "faults"}, /* in a separate list */
    [BUDGET_LARGEST] = {.row = offsetof(struct summary_row, figures.largest)}, /* of sites only */
    [BUDGET_RESIDENT] = {.row =
                             offsetof(struct summary_row, resident_bytes)}, /* … and the process */
};

const char *budget_metric_counter(enum budget_metric m)
{
    return metrics[m].counter;
}

static uint64_t at(const void *figures, size_t offset)
{
    uint64_t n;
    memcpy(&n, (const char *)figures + offset, sizeof n);
    return n;
}

static double of_pool(const struct summary *s, const struct summary_pool *p, enum budget_metric m)
{
    uint64_t permanent = m == BUDGET_LEAKED ? p->permanent_bytes : p->permanent;
    return (double)saturating_sub(at(&p->figures, metrics[m].pool),
                                  metrics[m].is_leaked && !s->all_leaks ? permanent : 0);
}

static double of_row(const struct summary *s, const struct summary_row *r, enum budget_metric m)
{
    if (metrics[m].is_leaked && r->permanent && !s->all_leaks)
        return 0;
    return (double)at(r, metrics[m].row);
}

/* The maximum over pools or blocks; the sum of everything else. */
static double gather(double all, double one, bool highest)
{
    if (!highest)
        return all + one;
    return one > all ? one : all;
}

/* Selected pools all count; otherwise those that sums leave out do not. */
static bool counts(const struct summary *s, const struct budget_term *t, uint32_t pool)
{
    return s->pools.at[pool].sum == POOL_COUNTS || budget_term_has(t, 1u << BUDGET_POOL);
}

static double of_pools(const struct summary *s, const struct budget_term *t)
{
    double all = 0;
    for (size_t i = 0; i < s->pools.len; i++) {
        struct budget_names names = {.pool = s->pools.at[i].name};
        if (counts(s, t, (uint32_t)i) && budget_term_takes(t, &names, 1u << BUDGET_POOL))
            all = gather(all, of_pool(s, &s->pools.at[i], t->metric), t->metric == BUDGET_PEAK);
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
            all = gather(all, of_row(s, r, t->metric), t->metric == BUDGET_LARGEST);
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

double budget_summary_figure(void *ctx, const struct budget_term *t, enum budget_side side)
{
    const struct budget_summaries *both = ctx;
    const struct summary *s = side == BUDGET_BASE ? both->base : both->now;
    if (!s)
        return 0;
    if (t->metric == BUDGET_FAULTS)
        return of_faults(s, t);
    if (t->metric == BUDGET_RESIDENT)
        return t->selectors.len ? of_rows(s, t) : (double)s->look_bytes;
    return budget_term_has(t, BUDGET_ROW_KEYS) || t->metric == BUDGET_LARGEST ? of_rows(s, t)
                                                                              : of_pools(s, t);
}

static const char *lacks_resident(const struct summary *s, bool of_rows)
{
    return s->look_lacking ? "it is without pages that a forked process has, too"
                           : summary_lacks_resident(s, of_rows);
}

bool budget_summary_lacks(const struct budget *b, const struct summary *s, struct buf *why)
{
    for (size_t i = 0; i < b->terms.len; i++) {
        const struct budget_term *t = &b->terms.at[i];
        const char *reason =
            t->metric == BUDGET_RESIDENT ? lacks_resident(s, t->selectors.len != 0) : NULL;
        if (!reason)
            continue;
        buf_printf(why, "%s is unknown: %s", t->word, reason);
        return true;
    }
    return false;
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
    return !lacking && !budget_summary_lacks(b, now, why) &&
           !(b->needs_base && base && budget_summary_lacks(b, base, why));
}

/* ---- what belongs to an outcome besides its figures */

static void put_permanent(const struct budget *b, const struct budget_scope *in, struct buf *why)
{
    const struct summary *most = in->at[0];
    char count[FORMAT_SIZE], bytes[FORMAT_SIZE];
    bool leaked = false;
    for (size_t i = 0; i < b->terms.len; i++)
        leaked |= metrics[b->terms.at[i].metric].is_leaked;
    for (size_t i = 1; i < in->now; i++)
        most = in->at[i]->permanent_bytes > most->permanent_bytes ? in->at[i] : most;
    if (leaked && most->permanent && !most->all_leaks)
        buf_printf(why, " (suppressed: %s, %s of the C and C++ libraries and the loader%s)",
                   format_counted(count, most->permanent, "block"),
                   format_bytes(bytes, most->permanent_bytes),
                   in->now > 1 ? ", in the run with most" : "");
}

static struct view name_of(const struct summary_row *r, enum budget_key key)
{
    return key == BUDGET_SITE   ? r->frame.function
           : key == BUDGET_FILE ? r->frame.file
                                : r->frame.image;
}

static bool is_in(const struct summary *s, const struct budget_selector *wanted)
{
    bool found = false;
    for (size_t i = 0; wanted->key == BUDGET_POOL && !found && i < s->pools.len; i++)
        found = budget_selector_takes(wanted, s->pools.at[i].name);
    for (size_t i = 0; wanted->key != BUDGET_POOL && !found && i < s->sites.len; i++)
        found = budget_selector_takes(wanted, name_of(&s->sites.at[i], wanted->key));
    return found;
}

static bool is_unmatched(const struct budget_selector *wanted, const struct budget_scope *in)
{
    bool found = wanted->negated;
    for (size_t i = 0; !found && i < in->all; i++)
        found = is_in(in->at[i], wanted);
    return !found;
}

static void put_pools(const struct summary *s, struct buf *why)
{
    size_t begin = why->len, i = 0;
    for (; i < s->pools.len && why->len - begin < 200; i++) {
        struct view name = s->pools.at[i].name;
        buf_printf(why, "%s%.*s", i ? ", " : " (pools: ", name.len > 100 ? 100 : (int)name.len,
                   name.p);
    }
    buf_puts(why, i < s->pools.len ? ", …)" : ")");
}

bool budget_summary_remark(const struct budget *b, const struct budget_scope *in, struct buf *why)
{
    bool any = false;
    put_permanent(b, in, why);
    for (size_t i = 0; i < b->terms.len; i++) {
        const struct budget_term *t = &b->terms.at[i];
        for (size_t k = 0; k < t->selectors.len; k++) {
            if (!is_unmatched(&t->selectors.at[k], in))
                continue;
            buf_puts(why, "; nothing matches ");
            budget_put_selector(why, &t->selectors.at[k]);
            if (t->selectors.at[k].key == BUDGET_POOL)
                put_pools(in->at[0], why);
            any = true;
        }
    }
    return any;
}

/* Appends the deciding figures to `why`. The check does not hold if there is no answer. */
static void decide(struct summary_check *check, const struct budget *b,
                   const struct budget_summaries *both, bool wanted, struct buf *why)
{
    const struct summary *all[] = {both->now, both->base};
    const struct budget_scope scope = {.at = all, .now = 1, .all = both->base ? 2 : 1};
    if (!can_be_told(b, both, why))
        return;
    check->holds = budget_holds(b, budget_summary_figure, (void *)both, why) == wanted;
    check->unmatched = budget_summary_remark(b, &scope, why);
}

int budget_summary_check(struct summary *s, const struct budget *b, const char *name, bool wanted,
                         bool *holds, struct err *e)
{
    struct budget_summaries both = {.now = s};
    struct buf why = {0};
    struct summary_check check = {.name = name, .expression = b->text};
    decide(&check, b, &both, wanted, &why);
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
        decide(&one, b, both, false, &why);
        snprintf(one.detail, sizeof one.detail, "%s", buf_str(&why));
        bool ok = !why.failed && vec_push(&out->list, one);
        buf_release(&why);
        if (!ok)
            return err_no_memory(e, "checks");
    }
    return 0;
}

bool budgets_select_sites(struct budget_list list)
{
    for (size_t i = 0; i < list.len; i++) {
        for (size_t k = 0; k < list.at[i].terms.len; k++) {
            if (budget_term_has(&list.at[i].terms.at[k], BUDGET_ROW_KEYS))
                return true;
        }
    }
    return false;
}

int budget_summary_compare(struct budget_checks *out, struct trace *base, struct trace *now,
                           const struct summary_options *options,
                           const struct selection_options *base_only, struct budget_list list,
                           struct err *e)
{
    static const struct skiplist none = {0};
    struct summary before;
    struct summary after;
    struct skiplist skip = options->skip ? *options->skip : none;
    struct summary_options base_options = *options, now_options = *options;
    skip.names_alone |= budgets_select_sites(list);
    base_options.skip = now_options.skip = &skip;
    base_options.only = base_only;
    *out = (struct budget_checks){0};
    if (summary_build(&before, base, &base_options, e) != 0)
        return -1;
    int status = summary_build(&after, now, &now_options, e);
    if (status == 0) {
        status = compare_all(out, &(struct budget_summaries){&after, &before}, list, e);
        summary_release(&after);
    }
    summary_release(&before);
    if (status != 0)
        vec_release(&out->list);
    return status;
}
