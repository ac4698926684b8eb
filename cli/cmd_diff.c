/* tidemark diff: what changed between two traces. */

#include <stdlib.h>
#include <string.h>

#include "analysis/questions/budget_summary.h"
#include "analysis/questions/budgets.h"
#include "base/memory_bound.h"
#include "cli/cmd_diff_runs.h"
#include "cli/commands.h"
#include "cli/html_source.h"
#include "cli/options/question.h"
#include "report/diff_report.h"
#include "report/html/html_diff_write.h"
#include "report/write/progress.h"
#include "trace/load/load.h"
#include "trace/load/load_beside.h"

#define TEXT_LIMIT 10

static const char usage[] =
    "usage: tidemark diff BASE NEW [OPTIONS]\n"
    "       tidemark diff [BASE...] -- NEW... [OPTIONS]\n"
    "\n"
    "Prints what changed from one trace to another: totals, and sites that are new, gone, grown\n"
    "or shrunk. Sites are matched by the names of their functions and files, and their lines by\n"
    "order and by what they allocate: lines, addresses and folders may have moved.\n"
    "Options that choose allocations are for both traces.\n"
    "\n"
    "With several runs on each side, such as 5, a change is reported if it exceeds the noise\n"
    "between runs: of each pool and function the median, the spread and an interval for the\n"
    "change, corrected for the number of figures. A run is a trace or a file that\n"
    "`tidemark baseline` wrote; a folder stands for those in it. Without a BASE there are medians\n"
    "and spreads only.\n";

static const char footer[] =
    "Exit status: 0 done; 1 --fail-if holds; 2 usage; 3 unreadable trace; 4 output exists or\n"
    "cannot be written.\n";

struct diff_command {
    struct question question; /* of the new trace */
    const char *base;
    struct selection_options
        base_selection; /* as the new trace's, but with its own range of messages */
    struct diff_options diff;
    struct diff_report_options report;
    bool limit_given;
    bool all_leaks;
    struct skiplist skip;
    struct budgets fail_if;
    struct runs_question runs;
    char separator[1]; /* stands for "--" among the arguments, which getopt would take away */
};

#define FIELD(NAME) OPTION_FIELD(struct diff_command, NAME)

static const struct option_row rows[] = {
    {"--by", "WHAT", "rows by {} of the elements; a site is a line of a function (site)",
     .type = VALUE_WORD, .words = "site, callstack or type", FIELD(diff.by)},
    {"--metric", "WHAT", "{}: what rows are compared by (bytes)", .type = VALUE_WORD,
     .words = "bytes, count, live or peak", FIELD(diff.metric)},
    {"--limit", "N", "rows of each kind, 0 for all (text, markdown: 10, else all)",
     .type = VALUE_NUMBER, FIELD(report.limit),
     .given = offsetof(struct diff_command, limit_given)},
    SKIP_ROWS(struct diff_command, skip, "when looking for the site"),
    {"--stack-traces", NULL, "a call stack under each row (text)", FIELD(report.stack_traces)},
    {"--fail-if", "EXPR",
     "exit with 1 when this is true of the new trace's figures, such as 'leaked>0', or of their "
     "change, such as 'peak>+5%'; may be given several times",
     .type = VALUE_CHANGE, FIELD(fail_if)},
    {"--no-suppressions", NULL,
     "count as leaked what the C library, the C++ library and the loader keep until the end",
     FIELD(all_leaks)},
    {"--format", "F", "{}; html is one page for a browser, which chooses and sorts rows itself",
     "text", .type = VALUE_WORD, .words = "text, json, csv, html, markdown or junit",
     FIELD(report.format)},
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_output_rows, .base = offsetof(struct diff_command, question)},
    MEMORY_GROUP(struct diff_command, question.memory),
    {.rows = runs_rows, .base = offsetof(struct diff_command, runs), .title = "Several runs"},
    QUESTION_SELECTION_GROUP(struct diff_command),
    {.rows = question_between_rows, .base = offsetof(struct diff_command, question)},
    {.rows = question_resolve_rows,
     .base = offsetof(struct diff_command, question),
     .hidden = true},
    QUESTION_FILE_GROUPS(struct diff_command),
    {0},
};

/* Of the loaded runs; the trace is not used. */
static int load_runs(void *ctx, struct trace *t, struct err *e)
{
    struct diff_command *c = ctx;
    const struct run_input_options options = {.quiet = c->question.quiet,
                                              .only = &c->question.selection,
                                              .skip = &c->skip,
                                              .all_leaks = c->all_leaks,
                                              .resident_budget =
                                                  memory_bound_share(c->question.memory)};
    (void)t;
    return runs_question_load(&c->runs, &options, e);
}

static int answer_runs(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct diff_command *c = ctx;
    (void)t;
    return runs_question_answer(&c->runs, c->diff.metric, &c->report, &c->fail_if, out, e);
}

/* The expression that asks for a change; NULL if there is none. */
static const char *change_asked(const struct budgets *b)
{
    for (size_t i = 0; i < b->list.len; i++) {
        if (b->list.at[i].needs_base)
            return b->list.at[i].text;
    }
    return NULL;
}

static bool check_runs(struct diff_command *c, struct err *e)
{
    const char *change = c->runs.count[0] ? NULL : change_asked(&c->fail_if);
    c->question.trace = c->runs.paths[1][0];
    c->question.load = load_runs;
    if (c->diff.by != DIFF_SITE)
        err_set(e, ERR_USAGE,
                "--by is for one trace on each side: several runs are compared by "
                "function");
    else if (c->report.stack_traces || c->question.resolve.wanted ||
             c->question.selection.from_message)
        err_set(e, ERR_USAGE,
                "--stack-traces, --resolve and --between are for one trace on each "
                "side");
    else if (change)
        err_set(e, ERR_USAGE, "--fail-if: '%.200s' asks for a change: which base runs?", change);
    else
        return true;
    return false;
}

/* The page has all rows. */
static bool check_html(const struct diff_command *c, struct err *e)
{
    if (c->report.format != DIFF_HTML)
        return true;
    if (!page_source_available(e))
        return false;
    if (c->limit_given || c->report.stack_traces)
        err_set(
            e, ERR_USAGE,
            "rows are chosen and sorted in the page: --format html goes with neither --limit nor "
            "--stack-traces");
    else
        return true;
    return false;
}

static bool check_traces(struct diff_command *c, int n, char **arguments, struct err *e)
{
    c->base = n > 0 ? arguments[0] : NULL;
    c->question.trace = n > 1 ? arguments[1] : NULL;
    if (n < 2)
        err_set(e, ERR_USAGE, n ? "which new trace?" : "which base trace?");
    else if (n > 2)
        err_set(e, ERR_USAGE, "unexpected argument '%s': several runs are BASE... -- NEW...",
                arguments[2]);
    else if (strcmp(c->base, "-") == 0 && strcmp(c->question.trace, "-") == 0)
        err_set(e, ERR_USAGE, "only one of the traces can be standard input");
    else
        return true;
    return false;
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct diff_command *c = ctx;
    if (!c->limit_given && (c->report.format == DIFF_TEXT || c->report.format == DIFF_MARKDOWN))
        c->report.limit = TEXT_LIMIT;
    if (!runs_question_take(&c->runs, n, arguments, c->separator, e))
        return false;
    return check_html(c, e) &&
           (c->runs.asked ? check_runs(c, e) : check_traces(c, n, arguments, e));
}

/* ---- expressions on the summaries of both */

/* Reports the first expression that is true. */
static void judge(const struct budget_checks *checks, struct err *verdict)
{
    for (size_t i = 0; i < checks->list.len && !verdict->code; i++) {
        const struct summary_check *one = &checks->list.at[i];
        if (!one->holds)
            err_set(verdict, ERR_CHECK, "fail-if %.100s: %s", one->name, one->detail);
    }
}

/* ---- */

static int write_page(struct diff_command *c, const struct diff *d, struct selection *before,
                      struct selection *after, FILE *out, struct err *e)
{
    struct page_diff p;
    if (page_diff_build(&p, d, before, after, e) != 0)
        return -1;
    int status = html_diff_write(&p, c->report.checks, c->report.check_count, out, e);
    page_diff_release(&p);
    return status;
}

static int compare(struct diff_command *c, struct trace *base, struct trace *now, FILE *out,
                   struct err *e)
{
    struct selection before;
    struct selection after;
    struct diff d;
    if (selection_init(&before, base, &c->base_selection, e) != 0)
        return -1;
    int status = selection_init(&after, now, &c->question.selection, e);
    if (status == 0) {
        status = diff_build(&d, &before, &after, &c->diff, e);
        if (status == 0) {
            status = c->report.format == DIFF_HTML ? write_page(c, &d, &before, &after, out, e)
                                                   : diff_write(&d, &c->report, out, e);
            diff_release(&d);
        }
        selection_release(&after);
    }
    selection_release(&before);
    return status;
}

static int answer_with(struct diff_command *c, struct trace *base, struct trace *now, FILE *out,
                       struct err *e)
{
    const struct summary_options options = {.by = GROUP_SITE,
                                            .only = &c->question.selection,
                                            .skip = &c->skip,
                                            .all_leaks = c->all_leaks};
    struct err verdict = {0};
    struct budget_checks checks;
    if (c->fail_if.list.len == 0)
        return compare(c, base, now, out, e);
    const struct budget_list list = {c->fail_if.list.at, c->fail_if.list.len};
    if (budget_summary_compare(&checks, base, now, &options, &c->base_selection, list, e) != 0)
        return -1;
    judge(&checks, &verdict);
    question_print_doubts(checks.list.at, checks.list.len);
    c->report.checks = checks.list.at;
    c->report.check_count = checks.list.len;
    int status = compare(c, base, now, out, e);
    vec_release(&checks.list);
    if (status == 0 && verdict.code) {
        *e = verdict;
        status = -1;
    }
    return status;
}

static int answer(void *ctx, struct trace *now, FILE *out, struct err *e)
{
    struct diff_command *c = ctx;
    const struct trace_load_options more = {.zones = c->question.selection.zone != NULL,
                                            .frames = c->question.selection.has_frame};
    const struct trace_options store = {.resident_budget = memory_bound_share(c->question.memory)};
    struct trace base;
    c->base_selection = c->question.selection;
    if (c->base_selection.from_message)
        c->base_selection.has_range = false;
    if (question_find_range(&c->base_selection, c->base, e) != 0 ||
        trace_init(&base, &store, e) != 0)
        return -1;
    struct progress progress = progress_of_file(c->base, c->question.quiet);
    progress_watch(&progress, &base);
    int status = trace_load_with(&base, c->base, &more, NULL, NULL, e);
    if (status == 0)
        status = trace_load_resident(&base, c->base, e);
    if (status == 0)
        status = trace_load_resident(now, c->question.trace, e);
    if (status == 0) {
        print_behind(c->base, base.behind);
        status = answer_with(c, &base, now, out, e);
    }
    trace_release(&base);
    return status;
}

static int diff(int argc, char **argv, const char *suite)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = take_rest};
    struct diff_command c = {.report.suite = suite};
    struct err e = {0};
    c.diff.skip = &c.skip;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            argv[i] = c.separator;
            break;
        }
    }
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0)
        status = question_run(&c.question, c.runs.asked ? answer_runs : answer, &c);
    if (status == 0 && run_inputs_check(&c.runs.runs, &e) != 0)
        status = print_error(&e);
    runs_question_release(&c.runs);
    skiplist_release(&c.skip);
    budgets_release(&c.fail_if);
    return status;
}

int cmd_diff(int argc, char **argv)
{
    return diff(argc, argv, "tidemark diff");
}

int cmd_diff_of_run(int argc, char **argv)
{
    return diff(argc, argv, "tidemark run");
}
