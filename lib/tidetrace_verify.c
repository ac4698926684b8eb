/* Checks that the trace contains the expected data. */

#include "analysis/questions/verify.h"

#include "lib/tidetrace_internal.h"
#include "report/verify_report.h"

struct verify_own {
    struct tidetrace_result base;
    struct verify_result result;
};

static int verify_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                       struct err *e)
{
    struct verify_result part = ((struct verify_own *)r)->result;
    part.checks.at += first;
    part.checks.len = (size_t)count;
    return verify_write(&part, VERIFY_JSON, out, e);
}

static void verify_free(struct tidetrace_result *r)
{
    verify_release(&((struct verify_own *)r)->result);
}

/* ---- options */

static int take_options(struct verify_options *v, const struct tidetrace_verify_options *o,
                        struct err *e)
{
    const uint32_t all = TIDETRACE_VERIFY_ALLOCATIONS | TIDETRACE_VERIFY_CALLSTACKS |
                         TIDETRACE_VERIFY_SYMBOLS | TIDETRACE_VERIFY_SAMPLES |
                         TIDETRACE_VERIFY_CONTEXT_SWITCHES;
    *v = (struct verify_options){.expect_allocations = o->flags & TIDETRACE_VERIFY_ALLOCATIONS,
                                 .allocations = o->allocations,
                                 .within = o->within == 0 ? 10 : o->within,
                                 .require_callstacks = o->flags & TIDETRACE_VERIFY_CALLSTACKS,
                                 .callstacks_percent = o->callstacks_percent,
                                 .require_symbols = o->flags & TIDETRACE_VERIFY_SYMBOLS,
                                 .symbols_percent = o->symbols_percent,
                                 .require_samples = o->flags & TIDETRACE_VERIFY_SAMPLES,
                                 .require_context_switches =
                                     o->flags & TIDETRACE_VERIFY_CONTEXT_SWITCHES};
    bool within = v->within >= 1 && v->within <= 1e9;
    bool percent = v->callstacks_percent >= 0 && v->callstacks_percent <= 100 &&
                   v->symbols_percent >= 0 && v->symbols_percent <= 100;
    return within && percent && !(o->flags & ~all)
               ? 0
               : err_set(e, ERR_USAGE, "unknown flags, or figures out of range, to verify");
}

/* ---- verification */

static int run(struct verify_own *r, struct tidetrace *t, struct verify_options *v, struct err *e)
{
    struct summary s;
    struct err missing = {0};
    if (verify_summarize(&s, &t->trace, v, &missing, e) != 0)
        return -1;
    int status = verify_run(&r->result, &s, &t->counts, v, e);
    summary_release(&s);
    if (status != 0)
        return -1;
    r->base.rows = r->result.checks.len;
    return 0;
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct verify_own *r = (struct verify_own *)base;
    struct tidetrace_verify_options o;
    struct verify_options v;
    struct expressions x = {0};
    struct question *q = &r->base.question;
    if (lib_take(&o, sizeof o, theirs, e) != 0 || take_options(&v, &o, e) != 0 ||
        question_init(q, base->traces[0], o.selection, NULL, e) != 0)
        return -1;
    v.only = q->only;
    if (o.pool)
        v.only.pool = o.pool;
    int status = expressions_take(&x, o.expect, o.expect_count, true, e);
    v.expect = x.list.at;
    v.expect_count = x.list.len;
    if (status == 0)
        status = run(r, base->traces[0], &v, e);
    expressions_release(&x);
    return status;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    return lib_give_check(to, &((const struct verify_own *)r)->result.checks.at[row], e);
}

static const struct result_type verify_type = {.size = sizeof(struct verify_own),
                                               .build = build,
                                               .write = verify_json,
                                               .row = give_row,
                                               .release = verify_free};

LIB_ASK(verify, tidetrace_verify_options, verify_type)

int tidetrace_check_row(struct tidetrace_result *result, uint64_t row, struct tidetrace_check *out,
                        struct tidetrace_error *error)
{
    return result_give(&verify_type, result, row, out, error);
}
