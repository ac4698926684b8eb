/* tidemark tree: the call-stack tree of a trace's allocations. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options/question.h"
#include "report/tree_report.h"

static const char usage[] =
    "usage: tidemark tree FILE [OPTIONS]\n"
    "\n"
    "Prints which callers allocated how much, with all that they called. FILE - is standard\n"
    "input.\n"
    "\n"
    "      --top-down      from the outermost callers inwards (the default)\n"
    "      --bottom-up     from the functions that allocated outwards to their callers\n"
    "      --by WHAT       nodes by function, line, file, image or module, or functions by thread\n"
    "                      or by type of the elements (function)\n"
    "      --metric WHAT   bytes, count, live, live-count, at-peak, at-peak-count or temporary:\n"
    "                      what is highest comes first (bytes)\n"
    "      --depth N       levels to print, 0 for all (0)\n"
    "      --min-share PCT leave out nodes with less of the whole (text: 1,\n"
    "                      markdown: 5, else 0)\n"
    "      --no-inlines    a node for each frame, not for each function that was inlined into it\n"
    "      --all-frames    with the allocator's functions and Tracy's own\n"
    "      --skip REGEX    pass over functions or files that match at the inner end (as\n"
    "                      Perl has them; may be given several times)\n"
    "\n" SELECTION_USAGE BETWEEN_USAGE "\n" RESOLVE_REQUEST_USAGE
    "      --format F      text, json, csv or markdown, a list for a comment (text)\n"
    "  -o, --output FILE   write to FILE instead of standard output\n"
    "  -f, --force         replace FILE when it exists\n"
    "  -h, --help          this text\n"
    "\n"
    "Own: what a node allocated itself; at-peak: live at the peak of all these pools together;\n"
    "temporary: freed by the very next memory event of the same thread in that pool.\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 output exists or cannot be written.\n";

struct tree_command {
    struct question question;
    struct tree_options tree;
    struct tree_report_options report;
    bool share_given;
    struct skiplist skip;
};

enum {
    OPTION_TOP_DOWN = 256,
    OPTION_BOTTOM_UP,
    OPTION_BY,
    OPTION_METRIC,
    OPTION_DEPTH,
    OPTION_MIN_SHARE,
    OPTION_NO_INLINES,
    OPTION_ALL_FRAMES,
    OPTION_SKIP,
};

static const struct option long_options[] = {
    {"top-down", no_argument, NULL, OPTION_TOP_DOWN},
    {"bottom-up", no_argument, NULL, OPTION_BOTTOM_UP},
    {"by", required_argument, NULL, OPTION_BY},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"depth", required_argument, NULL, OPTION_DEPTH},
    {"min-share", required_argument, NULL, OPTION_MIN_SHARE},
    {"no-inlines", no_argument, NULL, OPTION_NO_INLINES},
    {"all-frames", no_argument, NULL, OPTION_ALL_FRAMES},
    {"skip", required_argument, NULL, OPTION_SKIP},
    SELECTION_LONG_OPTIONS,
    BETWEEN_LONG_OPTIONS,
    OUTPUT_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static bool take_share(struct tree_command *c, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    double percent = strtod(value, &end);
    if (errno || end == value || *end || !isfinite(percent) || percent < 0 || percent > 100)
        return refuse_value(e, "--min-share", "a number from 0 to 100", value);
    c->share_given = true;
    c->report.min_share = percent / 100;
    return true;
}

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct tree_command *c = ctx;
    uint64_t depth;
    switch (option) {
    case OPTION_TOP_DOWN:
        c->tree.bottom_up = false;
        return true;
    case OPTION_BOTTOM_UP:
        c->tree.bottom_up = true;
        return true;
    case OPTION_BY:
        return tree_by_parse(value, &c->tree.by) ||
               refuse_value(e, "--by", "function, line, file, image, module, thread or type",
                            value);
    case OPTION_METRIC:
        return tree_metric_parse(value, &c->tree.sort) ||
               refuse_value(e, "--metric",
                            "bytes, count, live, live-count, at-peak, at-peak-count or temporary",
                            value);
    case OPTION_DEPTH:
        if (!option_u64(value, "--depth", 0, UINT32_MAX, &depth, e))
            return false;
        c->report.depth = (uint32_t)depth;
        return true;
    case OPTION_MIN_SHARE:
        return take_share(c, value, e);
    case OPTION_NO_INLINES:
        c->tree.no_inlines = true;
        return true;
    case OPTION_ALL_FRAMES:
        c->tree.all_frames = true;
        return true;
    case OPTION_SKIP:
        return skiplist_add(&c->skip, value, e) == 0;
    case QUESTION_FORMAT:
        c->report.markdown = strcmp(value, "markdown") == 0;
        return c->report.markdown || report_format_parse(value, &c->question.format) ||
               refuse_value(e, "--format", "text, json, csv or markdown", value);
    default:
        return question_take(&c->question, option, value, e);
    }
}

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
    if (selection_init(&s, t, &c->question.selection, e) != 0)
        return -1;
    int status = tree_build(&tree, &s, &c->tree, e);
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
        .letters = "fho:",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark tree FILE [OPTIONS]; try 'tidemark tree --help'\n",
        .take = take_option,
        .rest = take_rest};
    struct tree_command c = {0};
    c.tree.skip = &c.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0)
        status = question_run(&c.question, answer, &c);
    skiplist_release(&c.skip);
    return status;
}
