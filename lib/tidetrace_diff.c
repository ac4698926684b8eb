/* Differences between two traces. */

#include "analysis/diff/diff.h"

#include <string.h>

#include "analysis/questions/budget_summary.h"
#include "lib/tidetrace_internal.h"
#include "report/diff_report.h"

struct diff_result {
    struct tidetrace_result base;
    struct selection after; /* of the second trace */
    struct diff diff;
    struct expressions fail_if;
    struct budget_checks checks;
};

/* Rows are sorted by kind, and the writer uses their number per kind. */
static int diff_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                     struct err *e)
{
    const struct diff_result *d = (const struct diff_result *)r;
    const struct diff_report_options options = {
        .format = DIFF_JSON, .checks = d->checks.list.at, .check_count = d->checks.list.len};
    struct diff part = d->diff;
    vec_part(&part.rows, first, count);
    memset(part.count, 0, sizeof part.count);
    for (size_t i = 0; i < part.rows.len; i++)
        part.count[part.rows.at[i].kind]++;
    return diff_write(&part, &options, out, e);
}

static void diff_free(struct tidetrace_result *r)
{
    struct diff_result *d = (struct diff_result *)r;
    diff_release(&d->diff);
    selection_release(&d->after);
    vec_release(&d->checks.list);
    expressions_release(&d->fail_if);
}

static const enum diff_metric metrics[] = {
    [TIDETRACE_DIFF_BYTES] = DIFF_BYTES,
    [TIDETRACE_DIFF_COUNT] = DIFF_COUNT,
    [TIDETRACE_DIFF_LIVE] = DIFF_LIVE,
    [TIDETRACE_DIFF_PEAK] = DIFF_PEAK,
};

static const enum diff_by groupings[] = {
    [TIDETRACE_DIFF_BY_SITE] = DIFF_SITE,
    [TIDETRACE_DIFF_BY_CALLSTACK] = DIFF_CALLSTACK,
    [TIDETRACE_DIFF_BY_TYPE] = DIFF_TYPE,
};

static const uint32_t kinds[DIFF_KINDS] = {
    [DIFF_NEW] = TIDETRACE_DIFF_NEW,
    [DIFF_GROWN] = TIDETRACE_DIFF_GROWN,
    [DIFF_SHRUNK] = TIDETRACE_DIFF_SHRUNK,
    [DIFF_GONE] = TIDETRACE_DIFF_GONE,
};

static int build_selected(struct diff_result *r, const struct tidetrace_diff_options *o,
                          struct err *e)
{
    const struct diff_options options = {
        .by = groupings[o->by], .metric = metrics[o->metric], .skip = &r->base.question.skip};
    struct trace *base = &r->base.traces[0]->trace;
    struct trace *now = &r->base.traces[1]->trace;
    const struct selection_options *only = &r->base.question.only;
    if (selection_init(&r->base.selection, base, only, e) != 0 ||
        selection_init(&r->after, now, only, e) != 0)
        return -1;
    return diff_build(&r->diff, &r->base.selection, &r->after, &options, e);
}

static int check(struct diff_result *r, const struct tidetrace_diff_options *o, struct err *e)
{
    const struct summary_options options = {
        .by = GROUP_SITE, .only = &r->base.question.only, .skip = &r->base.question.skip};
    if (o->fail_if_count == 0)
        return 0;
    if (expressions_take(&r->fail_if, o->fail_if, o->fail_if_count, false, e) != 0)
        return -1;
    const struct budget_list list = {r->fail_if.list.at, r->fail_if.list.len};
    return budget_summary_compare(&r->checks, &r->base.traces[0]->trace, &r->base.traces[1]->trace,
                                  &options, options.only, list, e);
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct diff_result *r = (struct diff_result *)base;
    struct tidetrace_diff_options o;
    const struct tidetrace *poorer = base->traces[base->traces[1]->zones ? 0 : 1];
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        question_init(&r->base.question, poorer, o.selection, SITE_RULES(o), e) != 0)
        return -1;
    if (o.by > TIDETRACE_DIFF_BY_TYPE || o.metric > TIDETRACE_DIFF_PEAK)
        return err_set(e, ERR_USAGE, "unknown rows or metric for a comparison");
    if (check(r, &o, e) != 0 || build_selected(r, &o, e) != 0)
        return -1;
    r->base.rows = r->diff.rows.len;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct diff_row *from = &((const struct diff_result *)r)->diff.rows.at[row];
    struct tidetrace_diff_row out = {.kind = kinds[from->kind],
                                     .line = from->frame.line,
                                     .pool = lib_text(from->pool),
                                     .function = lib_text(from->frame.function),
                                     .file = lib_text(from->frame.file),
                                     .image = lib_text(from->frame.image),
                                     .type = lib_text(from->type),
                                     .other_types = from->more_types};
    if (from->side[0].there) {
        out.base = lib_figures(&from->side[0].figures);
        out.base_callstack = from->side[0].callstack;
    }
    if (from->side[1].there) {
        out.now = lib_figures(&from->side[1].figures);
        out.now_callstack = from->side[1].callstack;
    }
    return lib_give(to, &out, sizeof out, e);
}

static const struct result_type diff_type = {.size = sizeof(struct diff_result),
                                             .build = build,
                                             .write = diff_json,
                                             .row = give_row,
                                             .release = diff_free};

int tidetrace_diff(struct tidetrace *base, struct tidetrace *now,
                   const struct tidetrace_diff_options *options, struct tidetrace_result **result,
                   struct tidetrace_error *error)
{
    return result_ask(&diff_type, base, now, options, result, error);
}

LIB_ROW(diff_row, diff_type)

static int give_check(struct tidetrace_result *r, uint64_t check, struct tidetrace_check *to,
                      struct err *e)
{
    const struct diff_result *d = (const struct diff_result *)r;
    if (r->type != &diff_type || check >= d->checks.list.len)
        return err_set(e, ERR_USAGE, "there is no such check");
    return lib_give_check(to, &d->checks.list.at[check], e);
}

int tidetrace_diff_check(struct tidetrace_result *result, uint64_t check,
                         struct tidetrace_check *out, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, give_check(result, check, out, &c.err));
}
