/* tidemark verify: is the data that a build or a test counts on really in a trace? */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/questions/budgets.h"
#include "analysis/questions/verify.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/options/question.h"
#include "report/verify_report.h"
#include "server/capture/stored_summary.h"
#include "trace/load/load.h"

static const char usage[] =
    "usage: tidemark verify FILE [OPTIONS]\n"
    "\n"
    "Checks that the memory data of a trace is really there. Prints one line per check. FILE - is\n"
    "standard input. Without options: that there are memory events at all.\n"
    "\n"
    "      --expect-allocations N      about so many allocations …\n"
    "      --within FACTOR             … between N / FACTOR and N * FACTOR (10)\n"
    "      --require-callstacks[=PCT]  some allocations, or PCT percent, have a call stack\n"
    "      --require-symbols PCT       so many percent of their frames have a name\n"
    "      --require-samples           there are call stack samples\n"
    "      --require-context-switches  there are context switches\n"
    "      --expect EXPR               this is true of the figures, such as 'peak<512M' or\n"
    "                                  'count(site=~\"parse\")>0'; may be given several times\n"
    "      --format F                  text, json, junit or markdown (text)\n"
    "  -h, --help                      this text\n"
    "\n" SELECTION_USAGE "\n"
    "Exit status: 0 all checks hold; 1 one does not; 2 usage; 3 unreadable trace.\n";

struct verify_command {
    const char *trace;
    enum verify_format format;
    struct verify_options verify;
    struct budgets expect;
    struct question question; /* for its selection */
    struct err missing;       /* why there is no such pool, thread, frame or zone */
};

enum {
    OPTION_EXPECT = 256,
    OPTION_WITHIN,
    OPTION_CALLSTACKS,
    OPTION_SYMBOLS,
    OPTION_SAMPLES,
    OPTION_CONTEXT_SWITCHES,
    OPTION_EXPECT_THAT,
    OPTION_FORMAT,
};

static const struct option long_options[] = {
    {"expect-allocations", required_argument, NULL, OPTION_EXPECT},
    {"within", required_argument, NULL, OPTION_WITHIN},
    SELECTION_LONG_OPTIONS,
    {"require-callstacks", optional_argument, NULL, OPTION_CALLSTACKS},
    {"require-symbols", required_argument, NULL, OPTION_SYMBOLS},
    {"require-samples", no_argument, NULL, OPTION_SAMPLES},
    {"require-context-switches", no_argument, NULL, OPTION_CONTEXT_SWITCHES},
    {"expect", required_argument, NULL, OPTION_EXPECT_THAT},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int parse_real(const char *option, const char *text, double least, double most, double *out,
                      struct err *e)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(value) || value < least || value > most)
        return err_set(e, ERR_USAGE, "%s takes a number from %g to %g, not '%s'", option, least,
                       most, text);
    *out = value;
    return 0;
}

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct verify_command *c = ctx;
    struct verify_options *v = &c->verify;
    switch (option) {
    case OPTION_EXPECT:
        v->expect_allocations = true;
        return format_parse_count("--expect-allocations", value, &v->allocations, e) == 0;
    case OPTION_WITHIN:
        return parse_real("--within", value, 1, 1e9, &v->within, e) == 0;
    case OPTION_CALLSTACKS:
        v->require_callstacks = true;
        return !value ||
               parse_real("--require-callstacks", value, 0, 100, &v->callstacks_percent, e) == 0;
    case OPTION_SYMBOLS:
        v->require_symbols = true;
        return parse_real("--require-symbols", value, 0, 100, &v->symbols_percent, e) == 0;
    case OPTION_SAMPLES:
        v->require_samples = true;
        return true;
    case OPTION_CONTEXT_SWITCHES:
        v->require_context_switches = true;
        return true;
    case OPTION_EXPECT_THAT:
        return budgets_add(&c->expect, "--expect", value, true, e);
    case OPTION_FORMAT:
        if (verify_format_parse(value, &c->format))
            return true;
        err_set(e, ERR_USAGE, "--format is text, json, junit or markdown, not '%s'", value);
        return false;
    default:
        return question_take(&c->question, option, value, e);
    }
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    return option_one_trace(n, arguments, &((struct verify_command *)ctx)->trace, e);
}

static int run(struct verify_command *c, struct trace *t, bool *holds, struct err *e)
{
    struct trace_counts counts;
    struct summary s;
    struct verify_result r;
    const struct selection_options *only = &c->question.selection;
    const struct trace_load_options more = {.zones = only->zone != NULL, .frames = only->has_frame};
    struct stored_figures stored;
    c->verify.only = *only;
    if (trace_load_with(t, c->trace, &more, &counts, NULL, e) != 0)
        return -1;
    bool is_stored = stored_summary_figures(&stored, t, c->trace);
    c->verify.stored = is_stored ? &stored : NULL;
    int status = verify_summarize(&s, t, &c->verify, &c->missing, e);
    if (is_stored)
        stored_figures_release(&stored);
    c->verify.stored = NULL;
    if (status != 0)
        return -1;
    c->verify.expect = c->expect.list.at;
    c->verify.expect_count = c->expect.list.len;
    status = verify_run(&r, &s, &counts, &c->verify, e);
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
        .letters = "h",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark verify FILE [OPTIONS]; try 'tidemark verify --help'\n",
        .take = parse_option,
        .rest = parse_rest};
    struct verify_command c = {.verify.within = 10};
    struct err e = {0};
    struct trace t;
    bool holds = false;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0) {
        status = trace_init(&t, NULL, &e);
        if (status == 0) {
            status = run(&c, &t, &holds, &e);
            trace_release(&t);
        }
        if (status == 0) {
            status = holds ? 0 : 1;
        } else {
            print_error(&e);
            status = err_exit_status(&e);
        }
    }
    budgets_release(&c.expect);
    return status;
}
