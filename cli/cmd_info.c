/* tidemark info: what is in a trace file. */

#include <stdio.h>
#include <string.h>

#include "analysis/figures/stream_figures.h"
#include "analysis/questions/overview.h"
#include "base/memory_bound.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "report/write/progress.h"
#include "report/overview_report.h"
#include "server/capture/stored_summary.h"
#include "trace/load/load.h"

static const char usage[] =
    "usage: tidemark info FILE [OPTIONS]\n"
    "\n"
    "Prints what is in a trace: file version and packing, program and host, how many of each kind\n"
    "of event, how many bytes they take, how many addresses have names, and whether the figures\n"
    "of the summary are stored behind the trace. FILE - is standard input.\n";

static const char footer[] =
    "Exit status: 0 done; 1 the trace had figures only, and they are gone; 2 usage; 3 unreadable\n"
    "trace; 4 out of memory.\n";

struct info_command {
    const char *trace;
    bool json, quiet;
    uint64_t memory;
};

#define FIELD(NAME) OPTION_FIELD(struct info_command, NAME)

static const struct option_row rows[] = {
    {"--format", "F", "{}", "text", .type = VALUE_WORD, .words = "text or json", FIELD(json)},
    QUIET_ROW(struct info_command, quiet),
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {
    {.rows = rows}, MEMORY_GROUP(struct info_command, memory), {0}};
static const struct option_row positional[] = {{"trace", FIELD(trace)}, {0}};

static int run(const struct info_command *c, struct trace *t, struct err *e)
{
    struct summary_options everything = {.by = GROUP_SITE};
    struct stream_figures stream;
    struct trace_counts counts;
    struct trace_info info;
    struct summary s;
    struct overview o;
    int status = summary_load(&stream, t, c->trace, &everything, &counts, &info, e);
    if (status == 0)
        status = summary_build(&s, t, &everything, e);
    stream_figures_release(&stream);
    if (status != 0)
        return -1;
    status = overview_build(&o, t, &counts, &info, &s, e);
    if (status == 0) {
        o.stored_bytes = stored_summary_bytes(t, c->trace);
        o.stored = t->memory.only.is ? OVERVIEW_STORED_ONLY
                   : o.stored_bytes  ? OVERVIEW_STORED_THERE
                                     : OVERVIEW_STORED_NONE;
        status = overview_write(&o, c->json, stdout, e);
        overview_release(&o);
    }
    summary_release(&s);
    return status;
}

int cmd_info(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .positional = positional};
    struct info_command c = {0};
    struct err e = {0};
    struct trace t;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status >= 0)
        return status;
    const struct trace_options store = {.resident_budget = memory_bound_share(c.memory)};
    memory_bound_set(c.memory);
    struct progress progress = progress_of_file(c.trace, c.quiet);
    status = trace_init(&t, &store, &e);
    if (status == 0) {
        progress_watch(&progress, &t);
        status = run(&c, &t, &e);
        trace_release(&t);
    }
    if (status == 0)
        return 0;
    memory_bound_explain(c.memory, &e);
    return print_error(&e);
}
