/* Allocation patterns of sites that cost time or memory. */

#include "analysis/questions/patterns.h"

#include "lib/tidetrace_internal.h"
#include "report/patterns_report.h"

LIB_RESULT_OF_ROWS(patterns)

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct patterns_result *r = (struct patterns_result *)base;
    struct tidetrace_site_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        result_select(&r->base, o.selection, SITE_RULES(o), e) != 0)
        return -1;
    if (patterns_build(&r->patterns, &r->base.selection, &r->base.question.skip, e) != 0)
        return -1;
    /* The order of the JSON form. */
    patterns_sort(&r->patterns, PATTERN_BY_BYTES);
    r->base.rows = r->patterns.rows.len;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct patterns_result *p = (const struct patterns_result *)r;
    const struct pattern_row *from = &p->patterns.rows.at[row];
    const struct tidetrace_pattern_row out = {
        .pool = lib_text(p->base.selection.pools.at[from->pool].name),
        LIB_FRAME(from->frame),
        .callstack = from->callstack,
        .flags = (pattern_grows(from) ? (uint32_t)TIDETRACE_PATTERN_GROWS : 0) |
                 (pattern_never_grew(from) ? (uint32_t)TIDETRACE_PATTERN_NEVER_GREW : 0),
        .count = from->count,
        .bytes = from->bytes,
        .largest = from->largest,
        .live_bytes = from->live_bytes,
        .peak_bytes = from->peak_bytes,
        .only_size = from->only_size,
        .chains = from->chains,
        .steps = from->grown,
        .copied_bytes = from->copied,
        .longest = from->longest,
        .steps_down = from->down,
        .given_back_bytes = from->given_back,
        .temporary = from->temporary,
        .temporary_bytes = from->temporary_bytes,
        .longest_run = from->longest_run,
        .glibc_bytes = from->waste,
        .glibc_peak_bytes = from->peak_waste};
    return lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(patterns, tidetrace_site_options, pattern_row)
