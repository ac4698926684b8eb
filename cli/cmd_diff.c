/* tidemark diff: what changed between two traces. */

#include <stdlib.h>
#include <string.h>

#include "analysis/questions/budget_summary.h"
#include "analysis/questions/budgets.h"
#include "cli/commands.h"
#include "cli/options/question.h"
#include "report/diff_report.h"
#include "trace/load/load.h"

#define TEXT_LIMIT 10

static const char usage[] =
    "usage: tidemark diff BASE NEW [OPTIONS]\n"
    "\n"
    "Prints what changed from one trace to another: totals, and sites that are new, gone, grown "
    "or\n"
    "shrunk. Sites are matched by the names of their functions and files, and their lines by "
    "order\n"
    "and by what they allocate: lines, addresses and folders may have moved.\n"
    "\n"
    "      --by WHAT       rows by site, a line of a function; by callstack; or by type "
    "of\n"
    "                      the elements (site)\n"
    "      --metric WHAT   bytes, count, live or peak: what rows are compared by (bytes)\n"
    "      --limit N       rows of each kind, 0 for all (text, markdown: 10, else all)\n"
    "      --skip REGEX    pass over functions or files that match when looking for the site\n"
    "                      (as Perl has them; may be given several times)\n"
    "      --stack-traces  a call stack under each row (text)\n"
    "      --fail-if EXPR  exit with 1 when this is true of the new trace's figures, such as\n"
    "                      'leaked>0', or of their change, such as 'peak>+5%'; may be given "
    "several\n"
    "                      times\n"
    "      --format F      text, json, csv, markdown or junit (text)\n"
    "  -o, --output FILE   write to FILE instead of standard output\n"
    "  -f, --force         replace FILE when it exists\n"
    "  -h, --help          this text\n"
    "\n"
    "Of both traces:\n" SELECTION_USAGE BETWEEN_USAGE "\n"
    "Exit status: 0 done; 1 --fail-if holds; 2 usage; 3 unreadable trace; 4 output exists or\n"
    "cannot be written.\n";

struct diff_command {
    struct question question; /* of the new trace */
    const char *base;
    struct selection_options
        base_selection; /* as the new trace's; a range of messages is its own */
    struct diff_options diff;
    struct diff_report_options report;
    bool limit_given;
    struct skiplist skip;
    struct budgets fail_if;
};

enum {
    OPTION_BY = 256,
    OPTION_METRIC,
    OPTION_LIMIT,
    OPTION_SKIP,
    OPTION_STACK_TRACES,
    OPTION_FAIL_IF,
};

static const struct option long_options[] = {
    {"by", required_argument, NULL, OPTION_BY},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"skip", required_argument, NULL, OPTION_SKIP},
    {"stack-traces", no_argument, NULL, OPTION_STACK_TRACES},
    {"fail-if", required_argument, NULL, OPTION_FAIL_IF},
    SELECTION_LONG_OPTIONS,
    BETWEEN_LONG_OPTIONS,
    OUTPUT_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct diff_command *c = ctx;
    switch (option) {
    case OPTION_BY:
        return diff_by_parse(value, &c->diff.by) ||
               refuse_value(e, "--by", "site, callstack or type", value);
    case OPTION_METRIC:
        return diff_metric_parse(value, &c->diff.metric) ||
               refuse_value(e, "--metric", "bytes, count, live or peak", value);
    case OPTION_LIMIT:
        c->limit_given = true;
        return option_u64(value, "--limit", 0, UINT64_MAX, &c->report.limit, e);
    case OPTION_SKIP:
        return skiplist_add(&c->skip, value, e) == 0;
    case OPTION_STACK_TRACES:
        c->report.stack_traces = true;
        return true;
    case OPTION_FAIL_IF:
        return budgets_add(&c->fail_if, "--fail-if", value, false, e);
    case QUESTION_FORMAT:
        return diff_format_parse(value, &c->report.format) ||
               refuse_value(e, "--format", "text, json, csv, markdown or junit", value);
    default:
        return question_take(&c->question, option, value, e);
    }
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct diff_command *c = ctx;
    if (!c->limit_given && (c->report.format == DIFF_TEXT || c->report.format == DIFF_MARKDOWN))
        c->report.limit = TEXT_LIMIT;
    if (n < 2) {
        err_set(e, ERR_USAGE, n ? "which trace is the new one?" : "which traces?");
        return false;
    }
    if (n > 2) {
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[2]);
        return false;
    }
    c->base = arguments[0];
    c->question.trace = arguments[1];
    if (strcmp(c->base, "-") != 0 || strcmp(c->question.trace, "-") != 0)
        return true;
    err_set(e, ERR_USAGE, "only one of the traces can be standard input");
    return false;
}

/* ---- expressions, which look at summaries of both */

/* What the first of them says that is true, and should not be. */
static void judge(const struct budget_checks *checks, struct err *verdict)
{
    for (size_t i = 0; i < checks->list.len && !verdict->code; i++) {
        const struct summary_check *one = &checks->list.at[i];
        if (!one->holds)
            err_set(verdict, ERR_CHECK, "fail-if %.100s: %s", one->name, one->detail);
    }
}

/* ---- */

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
            status = diff_write(&d, &c->report, out, e);
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
    const struct summary_options options = {
        .by = GROUP_SITE, .only = &c->question.selection, .skip = &c->skip};
    struct err verdict = {0};
    struct budget_checks checks;
    if (c->fail_if.list.len == 0)
        return compare(c, base, now, out, e);
    const struct budget_list list = {c->fail_if.list.at, c->fail_if.list.len};
    if (budget_summary_compare(&checks, base, now, &options, &c->base_selection, list, e) != 0)
        return -1;
    judge(&checks, &verdict);
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
    struct trace base;
    c->base_selection = c->question.selection;
    if (c->base_selection.from_message)
        c->base_selection.has_range = false;
    if (question_find_range(&c->base_selection, c->base, e) != 0 || trace_init(&base, NULL, e) != 0)
        return -1;
    int status = trace_load_with(&base, c->base, &more, NULL, NULL, e);
    if (status == 0) {
        print_behind(c->base, base.behind);
        status = answer_with(c, &base, now, out, e);
    }
    trace_release(&base);
    return status;
}

int cmd_diff(int argc, char **argv)
{
    const struct command_line line = {
        .letters = "fho:",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark diff BASE NEW [OPTIONS]; try 'tidemark diff --help'\n",
        .take = take_option,
        .rest = take_rest};
    struct diff_command c = {0};
    c.diff.skip = &c.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0)
        status = question_run(&c.question, answer, &c);
    skiplist_release(&c.skip);
    budgets_release(&c.fail_if);
    return status;
}
