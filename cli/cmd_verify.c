/* tidemark verify: checks that a trace has the data that a build or a test needs. */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/figures/stream_figures.h"
#include "analysis/questions/budgets.h"
#include "analysis/questions/verify.h"
#include "base/memory_bound.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "report/write/progress.h"
#include "cli/options/question.h"
#include "report/verify_report.h"
#include "server/capture/stored_summary.h"
#include "trace/load/load.h"
#include "trace/load/load_beside.h"

static const char usage[] =
    "usage: tidemark verify FILE [OPTIONS]\n"
    "\n"
    "Checks that the memory data of a trace is really there. Prints one line per check. FILE - is\n"
    "standard input. Without options: that there are memory events at all.\n";

static const char footer[] =
    "Exit status: 0 all checks hold; 1 one does not; 2 usage; 3 unreadable trace; 4 out of\n"
    "memory.\n";

struct verify_command {
    const char *trace;
    enum verify_format format;
    struct verify_options verify;
    struct budgets expect;
    bool all_leaks;
    struct question question; /* for its selection and --memory */
    struct err missing;       /* why there is no such pool, thread, frame or zone */
};

#define FIELD(NAME) OPTION_FIELD(struct verify_command, NAME)
#define GIVEN(NAME) .given = offsetof(struct verify_command, verify.NAME)

static const struct option_row rows[] = {
    {"--expect-allocations", "N", "about so many allocations: see --within", .type = VALUE_COUNT,
     FIELD(verify.allocations), GIVEN(expect_allocations)},
    {"--within", "FACTOR", "between N / FACTOR and N * FACTOR of them", "10", .type = VALUE_REAL,
     .least = 1, .most = 1000000000, FIELD(verify.within)},
    {"--figures-ok", NULL, "the trace may have figures only, and no events",
     FIELD(verify.figures_ok)},
    {"--require-callstacks", "[=PCT]", "some allocations, or PCT percent, have a call stack",
     .type = VALUE_REAL, .most = 100, FIELD(verify.callstacks_percent), GIVEN(require_callstacks)},
    {"--require-symbols", "PCT", "so many percent of their frames have a name", .type = VALUE_REAL,
     .most = 100, FIELD(verify.symbols_percent), GIVEN(require_symbols)},
    {"--require-samples", NULL, "there are call stack samples", FIELD(verify.require_samples)},
    {"--require-context-switches", NULL, "there are context switches",
     FIELD(verify.require_context_switches)},
    {"--expect", "EXPR",
     "this is true of the figures, such as 'peak<512M' or 'count(site=~\"parse\")>0'; may be given "
     "several times",
     .type = VALUE_EXPRESSION, FIELD(expect)},
    {"--no-suppressions", NULL,
     "count as leaked what the C library, the C++ library and the loader keep until the end",
     FIELD(all_leaks)},
    {"--format", "F", "{}", "text", .type = VALUE_WORD, .words = "text, json, junit or markdown",
     FIELD(format)},
    QUIET_ROW(struct verify_command, question.quiet),
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {
    {.rows = rows},
    MEMORY_GROUP(struct verify_command, question.memory),
    QUESTION_SELECTION_GROUP(struct verify_command),
    {0},
};
static const struct option_row positional[] = {{"trace", FIELD(trace)}, {0}};

static int summarize(struct verify_command *c, struct trace *t, struct trace_counts *counts,
                     struct summary *s, struct err *e)
{
    struct summary_options options = {.by = GROUP_SITE, .only = &c->question.selection};
    struct stream_figures stream;
    struct stored_figures stored;
    int status = summary_load(&stream, t, c->trace, &options, counts, NULL, e);
    c->verify.only = c->question.selection;
    c->verify.stream = options.stream;
    if (status == 0)
        status = trace_load_resident(t, c->trace, e);
    if (status == 0) {
        bool is_stored = stored_summary_figures(&stored, t, c->trace);
        c->verify.stored = is_stored ? &stored : NULL;
        status = verify_summarize(s, t, &c->verify, &c->missing, e);
        if (is_stored)
            stored_figures_release(&stored);
    }
    c->verify.stored = NULL;
    c->verify.stream = NULL;
    stream_figures_release(&stream);
    return status;
}

static int run(struct verify_command *c, struct trace *t, bool *holds, struct err *e)
{
    struct trace_counts counts;
    struct summary s;
    struct verify_result r;
    c->verify.expect = c->expect.list.at;
    c->verify.expect_count = c->expect.list.len;
    if (summarize(c, t, &counts, &s, e) != 0)
        return -1;
    s.all_leaks = c->all_leaks;
    int status = verify_run(&r, &s, &counts, &c->verify, e);
    if (status == 0) {
        *holds = r.holds;
        status = verify_write(&r, c->format, stdout, e);
        verify_release(&r);
    }
    summary_release(&s);
    return status;
}

int cmd_verify(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .positional = positional};
    struct verify_command c = {0};
    struct err e = {0};
    struct trace t;
    bool holds = false;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0) {
        const uint64_t memory = c.question.memory;
        const struct trace_options store = {.resident_budget = memory_bound_share(memory)};
        memory_bound_set(memory);
        struct progress progress = progress_of_file(c.trace, c.question.quiet);
        status = trace_init(&t, &store, &e);
        if (status == 0) {
            progress_watch(&progress, &t);
            status = run(&c, &t, &holds, &e);
            trace_release(&t);
        }
        if (status == 0) {
            status = holds ? 0 : 1;
        } else {
            memory_bound_explain(memory, &e);
            status = print_error(&e);
        }
    }
    budgets_release(&c.expect);
    return status;
}
