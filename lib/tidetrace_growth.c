/* Sites that grew between two times. */

#include "analysis/questions/growth.h"

#include "lib/tidetrace_internal.h"
#include "report/leaks_report.h"

LIB_RESULT_OF_ROWS(growth)

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct growth_result *r = (struct growth_result *)base;
    struct tidetrace_growth_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        result_select(&r->base, o.selection, SITE_RULES(o), e) != 0)
        return -1;
    int64_t end = selection_end(&r->base.selection);
    int64_t to = o.to < end ? o.to : end;
    int64_t from = o.from < 0 ? -1 : o.from;
    int status =
        to > from
            ? growth_build(&r->growth, &r->base.selection, &r->base.question.skip, from, to, e)
            : err_set(e, ERR_USAGE,
                      "growth is from one time to a later one, of which the last that is "
                      "seen is %lld ns",
                      (long long)end);
    if (status != 0)
        return -1;
    r->base.rows = r->growth.rows.len;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct growth_result *g = (const struct growth_result *)r;
    const struct growth_row *from = &g->growth.rows.at[row];
    const struct tidetrace_growth_row out = {
        .pool = lib_text(g->base.selection.pools.at[from->pool].name),
        LIB_FRAME(from->frame),
        .callstack = from->callstack,
        .count_before = from->count_before,
        .bytes_before = from->bytes_before,
        .count_after = from->count_after,
        .bytes_after = from->bytes_after,
        .allocations = from->allocations,
        .frees = from->frees};
    return lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(growth, tidetrace_growth_options, growth_row)
