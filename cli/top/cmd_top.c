/* tidemark top: an interactive call-stack tree of a trace, or of a running client. */

#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/question.h"
#include "cli/options/tree_options.h"
#include "cli/top/top.h"
#include "cli/top/top_live.h"
#include "report/official_csv.h"

static const char usage[] =
    "usage: tidemark top FILE [OPTIONS]\n"
    "       tidemark top -a ADDRESS [-p PORT] [-o FILE] [OPTIONS]\n"
    "\n"
    "Shows which callers allocated how much, as a tree on a terminal: of a trace, or of a client\n"
    "that is recorded meanwhile. FILE - is standard input; keys come from the terminal. ? lists\n"
    "the keys.\n";

static const char footer[] =
    "Exit status: 0 done; 2 usage, or no terminal; 3 unreadable trace; 4 output exists or cannot\n"
    "be written; 5 no connection.\n";

struct top_command {
    struct question question;
    struct tree_choice tree;
    struct top_live live;
};

static bool take_compat(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct csv_release release;
    ((struct top_live *)ctx)->as_released = true; /* all releases behave alike here */
    return csv_release_parse(value, &release, e) == 0;
}

#define LIVE(NAME) OPTION_FIELD(struct top_live, NAME)

static const struct option_row live_rows[] = {
    {"-a", "ADDRESS", "where it is", "127.0.0.1", LIVE(connect.address),
     .given = offsetof(struct top_live, asked)},
    {"-p", "PORT", "its port", "8086", .type = VALUE_NUMBER, .least = 1, LIVE(connect.port),
     .given = offsetof(struct top_live, asked)},
    {"--connect-timeout", "S", "wait so many seconds for it (default: for ever)",
     .type = VALUE_SECONDS, LIVE(connect.timeout)},
    {"--compat", "TAG", "as the official server of a release, v0.14.0 or older (see capture)",
     .take = take_compat},
    {"--output", "FILE", "at the end save what was recorded (default: it is dropped)",
     .letter = 'o', LIVE(output)},
    {"--force", NULL, "replace FILE when it exists", .letter = 'f', LIVE(replace)},
    {0},
};

static const struct option_row help_rows[] = {OPTION_HELP_ROW, {0}};

static const struct option_group groups[] = {
    {.rows = tree_rows, .base = offsetof(struct top_command, tree)},
    {.rows = help_rows},
    {.rows = live_rows,
     .base = offsetof(struct top_command, live),
     .title = "Of a running client, whose figures are updated each second"},
    {.rows = question_resolve_rows,
     .base = offsetof(struct top_command, question),
     .title = "Of a trace"},
    {.rows = question_selection_rows, .base = offsetof(struct top_command, question)},
    QUESTION_FILE_GROUPS(struct top_command),
    {0},
};

static const struct option_rule rules[] = {
    {"--output --compat --connect-timeout", OPTION_NEEDS, "-a -p",
     "-o, --compat and --connect-timeout are for a running client: -a or -p"},
    {"-a -p", OPTION_EXCLUDES,
     "--pool --thread --range --at --size --match --frame --zone --resolve --images-from-trace "
     "--modules --base --sysroot --debug-dir --substitute --debuginfod --no-debuginfod "
     "--symbol-cache --symbol-cache-size --no-symbol-cache --time-limit --threads",
     "a running client is recorded completely: options that choose allocations, and --resolve, "
     "are for a trace"},
    {0},
};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct top_command *c = ctx;
    if (c->tree.tree.sort == TREE_RESIDENT) {
        err_set(e, ERR_USAGE, "--metric resident is of `tidemark tree`");
        return false;
    }
    if (!isatty(STDOUT_FILENO)) {
        err_set(e, ERR_USAGE, "top needs a terminal; `tidemark tree` prints the same");
        return false;
    }
    if (!c->live.asked)
        return option_one_trace(n, arguments, &c->question.trace, e);
    if (n > 0)
        err_set(e, ERR_USAGE, "unexpected argument '%s': -a and -p are of a running client",
                arguments[0]);
    return n == 0;
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct top_command *c = ctx;
    struct stop stop;
    struct top top = {.trace = t,
                      .file = c->question.trace,
                      .only = c->question.selection,
                      .options = c->tree.tree};
    (void)out;
    if (stop_init(&stop, e) != 0)
        return -1;
    int status = top_open(&top, strcmp(c->question.trace, "-") == 0, e);
    if (status == 0)
        status = top_loop(&top, &stop, e);
    top_close(&top);
    stop_release(&stop);
    return status;
}

int cmd_top(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rules = rules, .rest = take_rest};
    struct top_command c = {
        .tree.tree.sort = TREE_METRICS, /* none given */
        .live.connect = {.timeout = -1},
    };
    c.tree.tree.skip = &c.tree.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    if (c.tree.tree.sort == TREE_METRICS)
        c.tree.tree.sort = c.live.asked ? TREE_LIVE_BYTES : TREE_PEAK_BYTES;
    if (status < 0) {
        c.live.tree = c.tree.tree;
        status = c.live.asked ? top_live_run(&c.live) : question_run(&c.question, answer, &c);
    }
    skiplist_release(&c.tree.skip);
    return status;
}
