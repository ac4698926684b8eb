/* What the live blocks had in memory. */

#include "analysis/questions/resident.h"

#include "lib/tidetrace_internal.h"
#include "report/resident_report.h"

LIB_RESULT(resident, resident, resident)

static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    const struct resident_result *of = (const struct resident_result *)r;
    const struct leak_report_options options = {
        .format = REPORT_JSON, .first = count ? first : r->rows, .limit = count};
    return resident_write(&of->resident, &r->selection, &options, out, e);
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct resident_result *r = (struct resident_result *)base;
    struct tidetrace_resident_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0)
        return -1;
    const struct page_look *look = resident_find_look(&base->traces[0]->trace, o.look, e);
    if (!look || result_select(base, o.selection, SITE_RULES(o), e) != 0 ||
        resident_build(&r->resident, &base->selection, &base->question.skip, look, e) != 0)
        return -1;
    base->rows = r->resident.rows.len;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct resident_row *from = &((struct resident_result *)r)->resident.rows.at[row];
    const struct tidetrace_resident_row out = {.pool =
                                                   lib_text(r->selection.pools.at[from->pool].name),
                                               LIB_FRAME(from->frame),
                                               .callstack = from->callstack,
                                               .count = from->count,
                                               .bytes = from->bytes,
                                               .resident = from->of.present,
                                               .pinned = from->pinned,
                                               .swapped = from->of.swapped,
                                               .not_resident = from->of.absent,
                                               .unsure = from->of.unsure,
                                               .outside = from->of.outside,
                                               .nested = from->nested.present};
    return lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(resident, tidetrace_resident_options, resident_row)
