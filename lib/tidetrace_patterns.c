/* Allocation patterns of sites that cost time or memory. */

#include "analysis/questions/patterns.h"

#include "lib/tidetrace_internal.h"
#include "report/patterns_report.h"

struct patterns_result {
    struct selected_result of;
    struct patterns patterns;
};

static int patterns_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                         struct err *e)
{
    static const struct leak_report_options options = {.format = REPORT_JSON};
    struct patterns_result *p = (struct patterns_result *)r;
    struct patterns part = p->patterns;
    if (first)
        part.rows.at += first;
    part.rows.len = (size_t)count;
    return patterns_write(&part, &p->of.selection, &options, out, e);
}

static void patterns_free(struct tidetrace_result *r)
{
    struct patterns_result *p = (struct patterns_result *)r;
    patterns_release(&p->patterns);
    selection_release(&p->of.selection);
}

static const struct result_type patterns_type = {patterns_json, patterns_free};

static int build(struct patterns_result *r, struct tidetrace *t,
                 const struct tidetrace_site_options *theirs, struct err *e)
{
    struct tidetrace_site_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        result_select(&r->of, t, o.selection, o.skip, o.skip_count, e) != 0)
        return -1;
    if (patterns_build(&r->patterns, &r->of.selection, &r->of.base.question.skip, e) != 0) {
        selection_release(&r->of.selection);
        return -1;
    }
    /* The order of the JSON form. */
    patterns_sort(&r->patterns, PATTERN_BY_BYTES);
    result_built(&r->of.base, r->patterns.rows.len);
    return 0;
}

int tidetrace_patterns(struct tidetrace *trace, const struct tidetrace_site_options *options,
                       struct tidetrace_result **result, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *result = NULL;
    struct patterns_result *r = result_new(&patterns_type, sizeof *r, trace, &c.err);
    int status = r ? build(r, trace, options, &c.err) : -1;
    return call_end(&c, result_finish(r ? &r->of.base : NULL, status, result));
}

static int give_row(struct tidetrace_result *r, uint64_t row, struct tidetrace_pattern_row *to,
                    struct err *e)
{
    if (result_row(r, &patterns_type, row, e) != 0)
        return -1;
    const struct patterns_result *p = (const struct patterns_result *)r;
    const struct pattern_row *from = &p->patterns.rows.at[row];
    const struct tidetrace_pattern_row out = {
        .pool = lib_text(p->of.selection.pools.at[from->pool].name),
        .function = lib_text(from->frame.function),
        .file = lib_text(from->frame.file),
        .image = lib_text(from->frame.image),
        .line = from->frame.line,
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

int tidetrace_pattern_row(struct tidetrace_result *result, uint64_t row,
                          struct tidetrace_pattern_row *out, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, give_row(result, row, out, &c.err));
}
