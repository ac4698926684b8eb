/* Memory faults with both blocks involved. */

#include "analysis/figures/faults.h"

#include "lib/tidetrace_internal.h"
#include "report/faults_report.h"

LIB_RESULT_OF_ROWS(faults)

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct faults_result *r = (struct faults_result *)base;
    struct tidetrace_site_options o;
    if (lib_take(&o, sizeof o, theirs, e) != 0 ||
        result_select(&r->base, o.selection, SITE_RULES(o), e) != 0)
        return -1;
    if (faults_build(&r->faults, &r->base.selection, &r->base.question.skip, e) != 0)
        return -1;
    r->base.rows = r->faults.rows.len;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct fault_row *from = &((const struct faults_result *)r)->faults.rows.at[row];
    const struct tidetrace_fault_row out = {.kind = from->kind == FAULT_ALLOC_TWICE
                                                        ? TIDETRACE_ALLOCATED_TWICE
                                                        : TIDETRACE_FREE_OF_UNKNOWN,
                                            .callstack = from->callstack,
                                            .pool = lib_text(from->pool),
                                            LIB_FRAME(from->site),
                                            .from_history = from->from_history,
                                            .count = from->count,
                                            .count_least = from->least,
                                            .cases = from->case_count};
    return lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(faults, tidetrace_site_options, fault_row)

static const uint32_t causes[FAULT_CAUSES] = {
    [FAULT_NEVER_SEEN] = TIDETRACE_FAULT_NEVER_SEEN,
    [FAULT_FREED_BEFORE] = TIDETRACE_FAULT_FREED_BEFORE,
    [FAULT_INSIDE_LIVE] = TIDETRACE_FAULT_INSIDE_LIVE,
    [FAULT_INSIDE_FREED] = TIDETRACE_FAULT_INSIDE_FREED,
    [FAULT_IN_OTHER_POOL] = TIDETRACE_FAULT_IN_OTHER_POOL,
    [FAULT_HELD] = TIDETRACE_FAULT_HELD,
};

static int give_case(struct tidetrace_result *r, uint64_t row, uint32_t number,
                     struct tidetrace_fault_case *to, struct err *e)
{
    if (result_row(r, &faults_type, row, e) != 0)
        return -1;
    const struct fault_row *f = &((const struct faults_result *)r)->faults.rows.at[row];
    if (number >= f->case_count)
        return err_set(e, ERR_USAGE, "there is no case %u: the row has %u", number, f->case_count);
    const struct fault_case *c = &f->cases[number];
    const struct fault_block *before = &c->previous;
    struct tidetrace_fault_case out = {.cause = causes[c->cause],
                                       .held_callstack = c->what.other_callstack,
                                       .time = c->what.time,
                                       .address = c->what.ptr,
                                       .size = c->what.size,
                                       .thread_id = c->what.thread,
                                       .has_previous = before->is_known,
                                       .has_around = c->around.is_known};
    if (before->is_known) {
        out.previous_address = before->ptr;
        out.previous_size = before->size;
        out.previous_time = before->time;
        out.previous_free_time = before->is_freed ? before->freed : -1;
        out.previous_callstack = before->callstack;
        out.previous_free_callstack = before->free_callstack;
    }
    if (c->around.is_known) {
        out.around_address = c->around.ptr;
        out.around_size = c->around.size;
        out.around_time = c->around.time;
        out.around_callstack = c->around.callstack;
    }
    return lib_give(to, &out, sizeof out, e);
}

int tidetrace_fault_case(struct tidetrace_result *result, uint64_t row, uint32_t number,
                         struct tidetrace_fault_case *out, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    return call_end(&c, give_case(result, row, number, out, &c.err));
}
