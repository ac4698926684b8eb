/* Allocations that are not freed. */

#include "analysis/questions/leaks.h"

#include <string.h>

#include "lib/tidetrace_internal.h"
#include "report/leaks_report.h"

struct leaks_result {
    struct tidetrace_result base;
    struct selection selection;
    struct suppressions suppress;
    struct leaks leaks;
};

static int leaks_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    struct leaks_result *l = (struct leaks_result *)r;
    static const struct leak_report_options options = {.format = REPORT_JSON};
    struct leaks part = l->leaks;
    if (first)
        part.rows.at += first;
    part.rows.len = (size_t)count;
    return leaks_write(&part, &l->selection, &l->suppress, &options, out, e);
}

static void leaks_free(struct tidetrace_result *r)
{
    struct leaks_result *l = (struct leaks_result *)r;
    leaks_release(&l->leaks);
    selection_release(&l->selection);
    suppressions_release(&l->suppress);
}

static const struct result_type leaks_type = {leaks_json, leaks_free};

static int build(struct leaks_result *r, struct tidetrace *t,
                 const struct tidetrace_leak_options *theirs, struct err *e)
{
    struct tidetrace_leak_options o;
    struct question *q = &r->base.question;
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        question_init(q, t, o.selection, o.skip, o.skip_count, e) != 0)
        return -1;
    int status = o.suppressions
                     ? suppressions_parse(&r->suppress, view_of(o.suppressions), "suppressions", e)
                     : 0;
    if (status == 0 && (status = selection_init(&r->selection, &t->trace, &q->only, e)) == 0) {
        status = leaks_build(&r->leaks, &r->selection, &q->skip, &r->suppress, e);
        if (status != 0)
            selection_release(&r->selection);
    }
    if (status != 0) {
        suppressions_release(&r->suppress);
        return -1;
    }
    r->base.built = true;
    r->base.rows = r->leaks.rows.len;
    return 0;
}

int tidetrace_leaks(struct tidetrace *trace, const struct tidetrace_leak_options *options,
                    struct tidetrace_result **result, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *result = NULL;
    struct leaks_result *r = result_new(&leaks_type, sizeof *r, trace, &c.err);
    int status = r ? build(r, trace, options, &c.err) : -1;
    return call_end(&c, result_finish(r ? &r->base : NULL, status, result));
}

static const uint32_t kinds[LEAK_KINDS] = {
    [LEAK_GROWING] = TIDETRACE_LEAK_GROWING,
    [LEAK_HELD] = TIDETRACE_LEAK_HELD,
    [LEAK_AT_START] = TIDETRACE_LEAK_AT_START,
};

static const uint32_t confidences[] = {
    [LEAK_NOT_GROWING] = TIDETRACE_LEAK_UNKNOWN,
    [LEAK_LOW] = TIDETRACE_LEAK_LOW,
    [LEAK_MEDIUM] = TIDETRACE_LEAK_MEDIUM,
    [LEAK_HIGH] = TIDETRACE_LEAK_HIGH,
};

static int give_row(struct tidetrace_result *r, uint64_t row, struct tidetrace_leak_row *to,
                    struct err *e)
{
    if (result_row(r, &leaks_type, row, e) != 0)
        return -1;
    const struct leaks_result *l = (const struct leaks_result *)r;
    const struct leak_row *from = &l->leaks.rows.at[row];
    const struct tidetrace_leak_row out = {.kind = kinds[from->kind],
                                           .callstack = from->callstack,
                                           .pool = lib_text(l->selection.pools.at[from->pool].name),
                                           .function = lib_text(from->frame.function),
                                           .file = lib_text(from->frame.file),
                                           .image = lib_text(from->frame.image),
                                           .line = from->frame.line,
                                           .spread = from->spread,
                                           .count = from->count,
                                           .bytes = from->bytes,
                                           .allocations = from->allocations,
                                           .first = from->first,
                                           .last = from->last,
                                           .bytes_per_second = from->rate,
                                           .p = from->p,
                                           .confidence = confidences[from->confidence]};
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_leak_row(struct tidetrace_result *result, uint64_t row,
                       struct tidetrace_leak_row *out, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, give_row(result, row, out, &c.err));
}
