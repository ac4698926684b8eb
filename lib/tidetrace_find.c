/* Allocations at an address. */

#include "analysis/questions/find.h"

#include "lib/tidetrace_internal.h"
#include "report/find_report.h"

struct found_result {
    struct tidetrace_result base;
    struct selection selection;
    struct history history;
    struct find_result found;
};

static int found_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    static const struct find_report_options options = {.format = REPORT_JSON};
    struct found_result *f = (struct found_result *)r;
    struct find_result part = f->found;
    if (first)
        part.list.at += first;
    part.list.len = (size_t)count;
    return find_write(&part, &f->history, &options, out, e);
}

static void found_free(struct tidetrace_result *r)
{
    struct found_result *f = (struct found_result *)r;
    find_release(&f->found);
    selection_release(&f->selection);
}

static const struct result_type found_type = {found_json, found_free};

static int build(struct found_result *r, struct tidetrace *t,
                 const struct tidetrace_find_options *theirs, struct err *e)
{
    struct tidetrace_find_options o;
    struct question *q = &r->base.question;
    if (lib_take(&o, sizeof o, theirs, e) != 0 || question_init(q, t, o.selection, NULL, 0, e) != 0)
        return -1;
    if (o.flags & ~(uint32_t)TIDETRACE_FIND_TIME || o.low > o.high || q->only.has_at)
        return err_set(e, ERR_USAGE,
                       "find takes a range of addresses with the lower one first, and the time in "
                       "its options, not in the selection");
    const struct find_options options = {.low = o.low,
                                         .high = o.high,
                                         .has_time = o.flags & TIDETRACE_FIND_TIME,
                                         .time = o.time,
                                         .limit = o.limit};
    if (selection_init(&r->selection, &t->trace, &q->only, e) != 0)
        return -1;
    int status = history_build(&r->history, &r->selection, e);
    if (status == 0) {
        status = find_run(&r->found, &r->history, &options, e);
        /* The result needs only the selection; the rest can be large. */
        history_release(&r->history);
        r->history.selection = &r->selection;
    }
    if (status != 0) {
        selection_release(&r->selection);
        return -1;
    }
    r->base.built = true;
    r->base.rows = r->found.list.len;
    return 0;
}

int tidetrace_find(struct tidetrace *trace, const struct tidetrace_find_options *options,
                   struct tidetrace_result **result, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *result = NULL;
    struct found_result *r = result_new(&found_type, sizeof *r, trace, &c.err);
    int status = r ? build(r, trace, options, &c.err) : -1;
    return call_end(&c, result_finish(r ? &r->base : NULL, status, result));
}

static const uint32_t whens[] = {
    [FIND_ANY] = TIDETRACE_FOUND,
    [FIND_AT] = TIDETRACE_FOUND_AT,
    [FIND_BEFORE] = TIDETRACE_FOUND_BEFORE,
    [FIND_AFTER] = TIDETRACE_FOUND_AFTER,
};

static int give_row(struct tidetrace_result *r, uint64_t row, uint32_t *when,
                    struct tidetrace_allocation *to, struct err *e)
{
    if (result_row(r, &found_type, row, e) != 0)
        return -1;
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
    *when = whens[f->when];
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_found_row(struct tidetrace_result *result, uint64_t row, uint32_t *when,
                        struct tidetrace_allocation *out, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *when = 0;
    return call_end(&c, give_row(result, row, when, out, &c.err));
}
