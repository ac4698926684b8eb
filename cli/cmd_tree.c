/* tidemark tree: the call-stack tree of a trace's allocations. */

#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options/question.h"
#include "cli/options/tree_options.h"
#include "report/tree_report.h"
#include "trace/load/load_beside.h"

static const char usage[] =
    "usage: tidemark tree FILE [OPTIONS]\n"
    "\n"
    "Prints which callers allocated how much, with all that they called. FILE - is standard\n"
    "input.\n";

static const char footer[] =
    "Own: what a node allocated itself; at-peak: live at the peak of all these pools together;\n"
    "temporary: freed by the very next memory event of the same thread in that pool.\n"
    "Exit status: 0 done; 1 the trace has figures only, no events; 2 usage; 3 unreadable trace;\n"
    "4 output exists or cannot be written.\n";

struct tree_command {
    struct question question;
    struct tree_choice tree;
    struct tree_report_options report;
    bool share_given;
};

static bool take_share(void *ctx, const char *option, const char *value, struct err *e)
{
    struct tree_command *c = ctx;
    if (!option_real(value, option, 0, 100, &c->report.min_share, e))
        return false;
    c->report.min_share /= 100;
    return true;
}

static bool take_format(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    (void)e;
    struct tree_command *c = ctx;
    c->report.markdown = strcmp(value, "markdown") == 0;
    return c->report.markdown || report_format_parse(value, &c->question.format);
}

#define FIELD(NAME) OPTION_FIELD(struct tree_command, NAME)

static const struct option_row rows[] = {
    {"--depth", "N", "levels to print, 0 for all", "0", .type = VALUE_NUMBER, FIELD(report.depth)},
    {"--min-share", "PCT", "leave out nodes with less of the whole (text: 1, markdown: 5, else 0)",
     .take = take_share, .given = offsetof(struct tree_command, share_given)},
    {"--format", "F", "{} (a list for a comment)", "text", .words = "text, json, csv or markdown",
     .take = take_format},
    {0},
};

static const struct option_group groups[] = {
    {.rows = tree_rows, .base = offsetof(struct tree_command, tree)},
    {.rows = rows},
    QUESTION_GROUPS(struct tree_command),
    {0},
};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct tree_command *c = ctx;
    c->report.format = c->report.markdown ? REPORT_TEXT : c->question.format;
    c->report.only = &c->question.selection;
    if (!c->share_given && c->report.format == REPORT_TEXT)
        c->report.min_share = c->report.markdown ? 0.05 : 0.01;
    return option_one_trace(n, arguments, &c->question.trace, e);
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct tree_command *c = ctx;
    struct selection s;
    struct tree tree;
    if (trace_load_resident(t, c->question.trace, e) != 0 ||
        selection_init(&s, t, &c->question.selection, e) != 0)
        return -1;
    int status = tree_build(&tree, &s, &c->tree.tree, e);
    if (status == 0) {
        status = tree_write(&tree, &c->report, out, e);
        tree_release(&tree);
    }
    selection_release(&s);
    return status;
}

int cmd_tree(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = take_rest};
    struct tree_command c = {.question.steps = STEPS_TOGETHER};
    c.tree.tree.skip = &c.tree.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0)
        status = question_run(&c.question, answer, &c);
    skiplist_release(&c.tree.skip);
    return status;
}
