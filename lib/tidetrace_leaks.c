/* Allocations that are not freed. */

#include "analysis/questions/leaks.h"

#include <string.h>

#include "lib/tidetrace_internal.h"
#include "report/leaks_report.h"

struct leaks_result {
    struct tidetrace_result base;
    struct suppressions suppress;
    struct leaks leaks;
};

static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    struct leaks_result *l = (struct leaks_result *)r;
    static const struct leak_report_options options = {.format = REPORT_JSON};
    struct leaks part = l->leaks;
    vec_part(&part.rows, first, count);
    return leaks_write(&part, &l->base.selection, &l->suppress, &options, out, e);
}

static void release(struct tidetrace_result *r)
{
    struct leaks_result *l = (struct leaks_result *)r;
    leaks_release(&l->leaks);
    suppressions_release(&l->suppress);
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct leaks_result *r = (struct leaks_result *)base;
    struct tidetrace_leak_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        result_select(base, o.selection, SITE_RULES(o), e) != 0)
        return -1;
    if (o.suppressions &&
        suppressions_parse(&r->suppress, view_of(o.suppressions), "suppressions", e) != 0)
        return -1;
    if (leaks_build(&r->leaks, &base->selection, &base->question.skip, &r->suppress, e) != 0)
        return -1;
    r->base.rows = r->leaks.rows.len;
    return 0;
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

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct leaks_result *l = (const struct leaks_result *)r;
    const struct leak_row *from = &l->leaks.rows.at[row];
    const struct tidetrace_leak_row out = {
        .kind = kinds[from->kind],
        .callstack = from->callstack,
        .pool = lib_text(l->base.selection.pools.at[from->pool].name),
        LIB_FRAME(from->frame),
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

LIB_QUESTION(leaks, tidetrace_leak_options, leak_row)
