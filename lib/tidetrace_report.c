/* Reports by site, call stack, …; peaks; the overview of a trace. */

#include <stdlib.h>

#include "analysis/figures/summary.h"
#include "analysis/questions/overview.h"
#include "analysis/questions/peaks.h"
#include "lib/tidetrace_internal.h"
#include "report/overview_report.h"
#include "report/report.h"

struct report_result {
    struct tidetrace_result base;
    struct summary summary;
    enum sort_key sort;
};

static const enum grouping groupings[] = {
    [TIDETRACE_BY_SITE] = GROUP_SITE,           [TIDETRACE_BY_FUNCTION] = GROUP_FUNCTION,
    [TIDETRACE_BY_CALLSTACK] = GROUP_CALLSTACK, [TIDETRACE_BY_POOL] = GROUP_POOL,
    [TIDETRACE_BY_THREAD] = GROUP_THREAD,       [TIDETRACE_BY_ZONE] = GROUP_ZONE,
    [TIDETRACE_BY_FRAME] = GROUP_FRAME,         [TIDETRACE_BY_TYPE] = GROUP_TYPE,
};

static const enum sort_key sorts[] = {
    [TIDETRACE_SORT_SIZE] = SORT_SIZE,       [TIDETRACE_SORT_COUNT] = SORT_COUNT,
    [TIDETRACE_SORT_LIVE] = SORT_LIVE,       [TIDETRACE_SORT_PEAK] = SORT_PEAK,
    [TIDETRACE_SORT_AT_PEAK] = SORT_AT_PEAK, [TIDETRACE_SORT_TEMPORARY] = SORT_TEMPORARY,
    [TIDETRACE_SORT_NAME] = SORT_NAME,       [TIDETRACE_SORT_RESIDENT] = SORT_RESIDENT,
};

#define LENGTH(A) (sizeof(A) / sizeof(A)[0])

static struct row_list *rows_of(struct summary *s)
{
    return s->by == GROUP_SITE ? &s->sites : &s->groups;
}

/* Passes the writer a copy of the summary with fewer rows. */
static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    struct report_result *report = (struct report_result *)r;
    const struct report_options options = {.format = REPORT_JSON, .sort = report->sort};
    struct summary part = report->summary;
    struct row_list *rows = rows_of(&part);
    if (!r->whole && part.by != GROUP_SITE)
        part.sites.len = 0;
    if (first)
        rows->at += first;
    rows->len = (size_t)count;
    return report_write(&part, &options, out, e);
}

static void release(struct tidetrace_result *r)
{
    summary_release(&((struct report_result *)r)->summary);
}

_Static_assert((int)TIDETRACE_BY_CALLSTACK == GROUP_CALLSTACK &&
                   (int)TIDETRACE_BY_FRAME == GROUP_FRAME && (int)TIDETRACE_BY_TYPE == GROUP_TYPE,
               "groupings keep their numbers");

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct report_result *r = (struct report_result *)base;
    struct tidetrace *t = base->traces[0];
    struct tidetrace_report_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        question_init(&r->base.question, t, o.selection, SITE_RULES(o), e) != 0)
        return -1;
    if (o.by >= LENGTH(groupings) || o.sort >= LENGTH(sorts))
        return err_set(e, ERR_USAGE, "unknown rows or order for a report");
    if ((o.by == TIDETRACE_BY_ZONE || o.by == TIDETRACE_BY_FRAME) && !t->zones)
        return err_set(e, ERR_USAGE, "zones and frames were not loaded (TIDETRACE_OPEN_ZONES)");
    const struct summary_options options = {
        .by = groupings[o.by], .only = &r->base.question.only, .skip = &r->base.question.skip};
    const struct summary_selection rows = {
        .sort = sorts[o.sort], .min_size = o.min_bytes, .min_count = o.min_count};
    if (summary_build(&r->summary, &t->trace, &options, e) != 0 ||
        summary_check_sort(&r->summary, rows.sort, e) != 0)
        return -1;
    summary_select(&r->summary.sites, &rows);
    summary_select(&r->summary.groups, &rows);
    r->sort = rows.sort;
    r->base.rows = rows_of(&r->summary)->len;
    return 0;
}

static void put_name(struct buf *out, const void *of)
{
    summary_row_name(out, of);
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    struct summary *s = &((struct report_result *)r)->summary;
    const struct summary_row *from = &rows_of(s)->at[row];
    struct tidetrace_report_row out = {.pool = lib_text(s->pools.at[from->pool].name),
                                       LIB_FRAME(from->frame),
                                       .callstack = from->callstack,
                                       .type = lib_text(from->type),
                                       .figures = lib_figures(&from->figures)};
    return result_name(r, row, put_name, from, &out.name, e) != 0
               ? -1
               : lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(report, tidetrace_report_options, report_row)

static int give_totals(struct tidetrace_result *r, struct tidetrace_totals *to, struct err *e)
{
    if (r->type != &report_type)
        return err_set(e, ERR_USAGE, "this result is no report");
    struct summary *s = &((struct report_result *)r)->summary;
    const struct tidetrace_totals out = {
        .allocations = s->allocations,
        .frees = s->frees,
        .live_count = s->live,
        .live_bytes = s->live_bytes,
        .total_bytes = s->total_bytes,
        .with_callstack = s->coverage.with_callstack,
        .frames = s->coverage.frames,
        .named_frames = s->coverage.named,
        .unknown_frees = s->unknown_frees,
        .double_allocations = s->double_allocations,
        .rows_left_out = rows_of(s)->filtered,
        .verdict = lib_text((struct view){(const char *)s->verdict.data, s->verdict.len})};
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_report_totals(struct tidetrace_result *result, struct tidetrace_totals *out,
                            struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, give_totals(result, out, &c.err));
}

/* ---- peaks */

static int find_peaks(struct tidetrace *t, const struct tidetrace_selection *selection,
                      struct peaks *p, struct err *e)
{
    struct question q;
    struct selection s;
    int status = question_init(&q, t, selection, NULL, e);
    selection_until(&q.only);
    if (status == 0 && (status = selection_init(&s, &t->trace, &q.only, e)) == 0) {
        status = peaks_find(p, &s, e);
        selection_release(&s);
    }
    question_release(&q);
    return status;
}

int tidetrace_peaks(struct tidetrace *trace, const struct tidetrace_selection *selection,
                    struct tidetrace_peak *peaks, size_t peak_size, size_t room, size_t *count,
                    struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    struct peaks found = {0};
    *count = 0;
    int status = room ? lib_check_element(peak_size, &c.err) : 0;
    if (status == 0)
        status = find_peaks(trace, selection, &found, &c.err);
    for (size_t i = 0; status == 0 && i < found.list.len; i++) {
        const struct timeline_peak *p = &found.list.at[i];
        const struct tidetrace_peak out = {.time = p->time, .bytes = p->bytes, .rise = p->rise};
        if (i < room)
            lib_give_element(peaks, i, peak_size, &out, sizeof out);
        *count = i + 1;
    }
    if (status == 0)
        peaks_release(&found);
    return call_end(&c, status);
}

/* ---- overview */

struct overview_result {
    struct tidetrace_result base;
    struct summary summary;
    struct overview overview;
};

static int overview_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                         struct err *e)
{
    (void)first;
    (void)count;
    return overview_write(&((struct overview_result *)r)->overview, true, out, e);
}

static void overview_free(struct tidetrace_result *r)
{
    overview_release(&((struct overview_result *)r)->overview);
    summary_release(&((struct overview_result *)r)->summary);
}

static int build_overview(struct tidetrace_result *base, const void *options, struct err *e)
{
    struct overview_result *r = (struct overview_result *)base;
    struct tidetrace *t = base->traces[0];
    (void)options;
    static const struct summary_options everything = {.by = GROUP_SITE};
    if (summary_build(&r->summary, &t->trace, &everything, e) != 0)
        return -1;
    return overview_build(&r->overview, &t->trace, &t->counts, &t->info, &r->summary, e);
}

static const struct result_type overview_type = {.size = sizeof(struct overview_result),
                                                 .build = build_overview,
                                                 .write = overview_json,
                                                 .release = overview_free};

int tidetrace_overview(struct tidetrace *trace, struct tidetrace_result **result,
                       struct tidetrace_error *error)
{
    return result_ask(&overview_type, trace, NULL, NULL, result, error);
}
