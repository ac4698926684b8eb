#include "analysis/questions/verify.h"

#include <stdarg.h>
#include <stdio.h>

#include "analysis/figures/no_data.h"
#include "analysis/questions/budget_summary.h"
#include "base/format.h"

struct verifier {
    struct verify_result *result;
    const struct summary *s;
    const struct trace_counts *counts;
    const struct verify_options *options;
    bool failed; /* memory was short */
};

static void check(struct verifier *v, const char *name, bool holds, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void check(struct verifier *v, const char *name, bool holds, const char *fmt, ...)
{
    struct summary_check c = {.name = name, .holds = holds};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c.detail, sizeof c.detail, fmt, ap);
    va_end(ap);
    v->failed |= !vec_push(&v->result->checks, c);
    v->result->holds &= holds;
}

static void verify_data(struct verifier *v)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    if (v->s->trace->memory.only.is)
        check(v, "memory-data", v->options->figures_ok, "figures only, no events: %s, %s",
              format_counted(a, v->s->allocations, "allocation"),
              format_counted(b, v->s->frees, "free"));
    else if (v->s->allocations)
        check(v, "memory-data", true, "%s, %s", format_counted(a, v->s->allocations, "allocation"),
              format_counted(b, v->s->frees, "free"));
    else
        check(v, "memory-data", false, "%.*s", (int)v->s->verdict.len,
              (const char *)v->s->verdict.data);
    if (v->result->checks.len)
        v->result->checks.at[0].causes = v->s->causes;
}

static void verify_allocations(struct verifier *v)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    double got = (double)v->s->allocations;
    double want = (double)v->options->allocations;
    double within = v->options->within;
    bool few = got * within < want;
    bool many = got > want * within;
    check(v, "allocations", !few && !many, "%s%s, expected %s within a factor of %g",
          format_counted(a, v->s->allocations, "allocation"),
          few    ? ": too few"
          : many ? ": too many"
                 : "",
          format_count(b, v->options->allocations), within);
}

static void verify_callstacks(struct verifier *v)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    char c[FORMAT_SIZE];
    const struct summary_coverage *cover = &v->s->coverage;
    if (cover->allocations == 0) {
        check(v, "call-stacks", false, "there are no allocations");
        return;
    }
    bool enough =
        cover->with_callstack && (double)cover->with_callstack * 100 >=
                                     v->options->callstacks_percent * (double)cover->allocations;
    if (cover->with_callstack == 0)
        check(v, "call-stacks", false, "none of %s allocations has a call stack",
              format_count(a, cover->allocations));
    else
        check(v, "call-stacks", enough, "%s of %s allocations (%s) have a call stack",
              format_count(a, cover->with_callstack), format_count(b, cover->allocations),
              format_percent(c, cover->with_callstack, cover->allocations));
}

/* Adds a note on missing or shallow call stacks, with the settings that control them. */
static void note_callstacks(struct verifier *v)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    struct buf *note = &v->result->note;
    const struct summary_coverage *cover = &v->s->coverage;
    if (cover->with_callstack < cover->allocations - cover->with_callstack)
        buf_printf(note, "%s of %s allocations have a call stack",
                   format_count(a, cover->with_callstack), format_count(b, cover->allocations));
    else if (cover->shallow > cover->with_callstack - cover->shallow)
        buf_printf(note, "call stacks of %s of %s allocations have %u frames or fewer",
                   format_count(a, cover->shallow), format_count(b, cover->with_callstack),
                   SUMMARY_SHALLOW);
    else
        return;
    buf_puts(note, "; ");
    no_data_put_stack_settings(note, v->s->trace);
    v->failed |= note->failed;
}

static void verify_symbols(struct verifier *v)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    char c[FORMAT_SIZE];
    const struct summary_coverage *cover = &v->s->coverage;
    if (cover->frames == 0) {
        check(v, "symbols", false,
              "there are no call stacks of allocations, so nothing has a name");
        return;
    }
    bool enough = (double)cover->named * 100 >= v->options->symbols_percent * (double)cover->frames;
    if (cover->named == 0)
        check(v, "symbols", enough,
              "all %s frames are [unknown]: the program has no symbols, or its client could not "
              "read them",
              format_count(a, cover->frames));
    else
        check(v, "symbols", enough, "%s of %s frames (%s) have a name, %g %% wanted",
              format_count(a, cover->named), format_count(b, cover->frames),
              format_percent(c, cover->named, cover->frames), v->options->symbols_percent);
}

static void verify_count(struct verifier *v, const char *name, uint64_t n, const char *what,
                         const char *cause)
{
    char a[FORMAT_SIZE];
    if (n)
        check(v, name, true, "%s %s", format_count(a, n), what);
    else
        check(v, name, false, "no %s: %s", what, cause);
}

static void verify_expression(struct verifier *v, const struct budget *b)
{
    struct budget_summaries both = {.now = v->s};
    const struct summary *one = v->s;
    struct buf why = {0};
    bool known = !budget_summary_lacks(b, v->s, &why);
    bool holds = known && budget_holds(b, budget_summary_figure, &both, &why);
    bool unmatched = known && budget_summary_remark(b, &(struct budget_scope){&one, 1, 1}, &why);
    check(v, "expect", holds, "%.100s: %s", b->text, buf_str(&why));
    if (v->result->checks.len) {
        struct summary_check *made = &v->result->checks.at[v->result->checks.len - 1];
        made->expression = b->text;
        made->unmatched = unmatched;
    }
    buf_end(&why, &v->failed);
}

/* Compares the figures stored with the trace with those of its events, bit by bit. */
static int compare_stored(struct verify_options *options, const struct stored_figures *swept,
                          struct err *e)
{
    struct buf stored = {0}, now = {0};
    stored_figures_encode(options->stored, &stored);
    stored_figures_encode(swept, &now);
    bool failed = stored.failed || now.failed;
    bool agree = stored.len == now.len && memcmp(stored.data, now.data, now.len) == 0;
    options->stored_state = agree ? STORED_AGREE : STORED_DIFFER;
    buf_release(&stored);
    buf_release(&now);
    return failed ? err_no_memory(e, "checks") : 0;
}

static int summarize_all(struct summary *s, struct trace *t, struct verify_options *options,
                         const struct summary_options *wanted, struct err *e)
{
    struct stored_figures swept;
    struct summary_options storing = *wanted;
    bool storable = false;
    storing.store = &swept;
    storing.storable = &storable;
    int status = summary_build(s, t, &storing, e);
    if (status == 0 && storable && compare_stored(options, &swept, e) != 0) {
        summary_release(s);
        status = -1;
    }
    if (storable)
        stored_figures_release(&swept);
    return status;
}

int verify_summarize(struct summary *s, struct trace *t, struct verify_options *options,
                     struct err *missing, struct err *e)
{
    struct selection_options only = options->only;
    const struct skiplist skip = {.names_alone = budgets_select_sites((struct budget_list){
                                      options->expect, options->expect_count})};
    struct summary_options wanted = {.by = GROUP_SITE, .only = &only, .stream = options->stream};
    if (options->stored && !only.pool && !selection_is_narrow(&only)) {
        int status = summarize_all(s, t, options, &wanted, e);
        if (status != 0 || !skip.names_alone)
            return status;
        summary_release(s);
    }
    wanted.skip = &skip;
    if (summary_build(s, t, &wanted, e) == 0)
        return 0;
    bool is_pool = !only.thread && !only.zone && !only.has_frame;
    if (e->code != ERR_USAGE || (is_pool && !only.pool))
        return -1;
    *missing = *e;
    only.pool = NULL;
    only.thread = NULL;
    only.zone = NULL;
    only.has_frame = false;
    *e = (struct err){0};
    if (summary_build(s, t, &wanted, e) != 0)
        return -1;
    options->missing = missing->text;
    options->missing_name = is_pool ? "pool" : "selection";
    return 0;
}

int verify_run(struct verify_result *r, const struct summary *s, const struct trace_counts *counts,
               const struct verify_options *options, struct err *e)
{
    *r = (struct verify_result){.holds = true};
    struct verifier v = {.result = r, .s = s, .counts = counts, .options = options};
    verify_data(&v);
    if (s->trace->behind[0])
        check(&v, "whole-file", false, "%s", s->trace->behind);
    note_callstacks(&v);
    if (options->missing)
        check(&v, options->missing_name, false, "%s", options->missing);
    if (options->expect_allocations)
        verify_allocations(&v);
    if (options->require_callstacks)
        verify_callstacks(&v);
    if (options->require_symbols)
        verify_symbols(&v);
    if (options->require_samples)
        verify_count(&v, "samples", counts->samples, "call stack samples",
                     "sampling was off or not permitted, or they were stripped");
    /*
     * Fibers have context switches, too, but only those of system threads are listed by processor.
     */
    if (options->require_context_switches)
        verify_count(&v, "context-switches", counts->cpu_switches, "context switches",
                     "system tracing was off or not permitted, or they were stripped");
    if (options->stored_state != STORED_UNKNOWN)
        check(&v, "stored-figures", options->stored_state == STORED_AGREE, "%s",
              options->stored_state == STORED_AGREE
                  ? "what was stored with the trace is what its memory events give"
                  : "what was stored with the trace is not what its memory events give: "
                    "`tidemark report --recount` goes by those");
    for (size_t i = 0; i < options->expect_count; i++)
        verify_expression(&v, &options->expect[i]);
    if (!v.failed)
        return 0;
    verify_release(r);
    return err_no_memory(e, "checks");
}

void verify_release(struct verify_result *r)
{
    vec_release(&r->checks);
    buf_release(&r->note);
    r->holds = false;
}
