/* Allocations at an address. */

#include "analysis/questions/find.h"

#include "lib/tidetrace_internal.h"
#include "report/find_report.h"

struct found_result {
    struct tidetrace_result base;
    struct history history;
    struct find_result found;
};

static int found_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    static const struct find_report_options options = {.format = REPORT_JSON};
    struct found_result *f = (struct found_result *)r;
    struct find_result part = f->found;
    vec_part(&part.list, first, count);
    return find_write(&part, &f->history, &options, out, e);
}

static void found_free(struct tidetrace_result *r)
{
    struct found_result *f = (struct found_result *)r;
    find_release(&f->found);
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct found_result *r = (struct found_result *)base;
    struct tidetrace_find_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 || result_select(base, o.selection, NULL, e) != 0)
        return -1;
    if (o.flags & ~(uint32_t)TIDETRACE_FIND_TIME || o.low > o.high || base->question.only.has_at)
        return err_set(e, ERR_USAGE,
                       "find takes a range of addresses with the lower one first, and the time in "
                       "its options, not in the selection");
    const struct find_options options = {.low = o.low,
                                         .high = o.high,
                                         .has_time = o.flags & TIDETRACE_FIND_TIME,
                                         .time = o.time,
                                         .limit = o.limit};
    int status = history_build(&r->history, &r->base.selection, e);
    if (status == 0) {
        status = find_run(&r->found, &r->history, &options, e);
        /* The result needs only the selection; the rest can be large. */
        history_release(&r->history);
        r->history.selection = &r->base.selection;
    }
    if (status != 0)
        return -1;
    r->base.rows = r->found.list.len;
    return 0;
}

static const uint32_t whens[] = {
    [FIND_ANY] = TIDETRACE_FOUND,
    [FIND_AT] = TIDETRACE_FOUND_AT,
    [FIND_BEFORE] = TIDETRACE_FOUND_BEFORE,
    [FIND_AFTER] = TIDETRACE_FOUND_AFTER,
};

/* What a row is, beside what is in an allocation. */
struct found_to {
    struct tidetrace_allocation *allocation;
    uint32_t *when;
};

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct found_to *found = to;
    const struct found_block *f = &((const struct found_result *)r)->found.list.at[row];
    const struct tidetrace_allocation out = {.address = f->block.ptr,
                                             .size = f->block.size,
                                             .time = f->block.time,
                                             .free_time = f->block.freed,
                                             .pool = f->block.pool,
                                             .callstack = f->callstack,
                                             .free_callstack = f->free_callstack,
                                             .thread = f->thread,
                                             .free_thread = f->free_thread,
                                             .zone = lib_text((struct view){"", 0})};
    *found->when = whens[f->when];
    return lib_give(found->allocation, &out, sizeof out, e);
}

static const struct result_type found_type = {.size = sizeof(struct found_result),
                                              .build = build,
                                              .write = found_json,
                                              .row = give_row,
                                              .release = found_free};

LIB_ASK(find, tidetrace_find_options, found_type)

int tidetrace_found_row(struct tidetrace_result *result, uint64_t row, uint32_t *when,
                        struct tidetrace_allocation *out, struct tidetrace_error *error)
{
    struct found_to to = {out, when};
    *when = 0;
    return result_give(&found_type, result, row, &to, error);
}
