/* tidemark top: an interactive call-stack tree of a trace, or of a running client. */

#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/question.h"
#include "cli/top/top.h"
#include "cli/top/top_live.h"
#include "report/official_csv.h"

static const char usage[] =
    "usage: tidemark top FILE [OPTIONS]\n"
    "       tidemark top -a ADDRESS [-p PORT] [-o FILE] [OPTIONS]\n"
    "\n"
    "Shows which callers allocated how much, to walk through on a terminal: of a trace, or of a\n"
    "client that is recorded meanwhile. FILE - is standard input; keys come from the terminal.\n"
    "? lists the keys.\n"
    "\n"
    "      --top-down      from the outermost callers inwards (the default)\n"
    "      --bottom-up     from the functions that allocated outwards to their callers\n"
    "      --by WHAT       nodes by function, line, file, image or module, or functions by thread\n"
    "                      or by type of the elements (function)\n"
    "      --metric WHAT   bytes, count, live, live-count, at-peak, at-peak-count or temporary:\n"
    "                      what is highest comes first (live)\n"
    "      --no-inlines    a node for each frame, not for each function that was inlined into it\n"
    "      --all-frames    with the allocator's functions and Tracy's own\n"
    "      --skip REGEX    pass over functions or files that match at the inner end (as\n"
    "                      Perl has them; may be given several times)\n"
    "  -h, --help          this text\n"
    "\n"
    "Of a running client, figures are brought up to date each second:\n"
    "  -a ADDRESS          where it is (127.0.0.1)\n"
    "  -p PORT             its port (8086)\n"
    "      --connect-timeout S  wait so many seconds for it (default: for ever)\n"
    "      --compat TAG    as the official server of a release, v0.14.0 or older (see capture)\n"
    "  -o, --output FILE   at the end save what was recorded (default: it is dropped)\n"
    "  -f, --force         replace FILE when it exists\n"
    "\n"
    "Of a trace:\n" RESOLVE_REQUEST_USAGE SELECTION_USAGE "\n"
    "Exit status: 0 done; 2 usage, or no terminal; 3 unreadable trace; 4 output exists or cannot "
    "be\n"
    "written; 5 no connection.\n";

struct top_command {
    struct question question;
    struct tree_options tree;
    struct top_live live;
    bool is_live;
    bool of_trace; /* an option for traces only */
    struct skiplist skip;
};

enum {
    OPTION_TOP_DOWN = 256,
    OPTION_BOTTOM_UP,
    OPTION_BY,
    OPTION_METRIC,
    OPTION_NO_INLINES,
    OPTION_ALL_FRAMES,
    OPTION_SKIP,
    OPTION_CONNECT_TIMEOUT,
    OPTION_COMPAT,
};

static const struct option long_options[] = {
    {"top-down", no_argument, NULL, OPTION_TOP_DOWN},
    {"bottom-up", no_argument, NULL, OPTION_BOTTOM_UP},
    {"by", required_argument, NULL, OPTION_BY},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"no-inlines", no_argument, NULL, OPTION_NO_INLINES},
    {"all-frames", no_argument, NULL, OPTION_ALL_FRAMES},
    {"skip", required_argument, NULL, OPTION_SKIP},
    {"connect-timeout", required_argument, NULL, OPTION_CONNECT_TIMEOUT},
    {"compat", required_argument, NULL, OPTION_COMPAT},
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    SELECTION_LONG_OPTIONS,
    RESOLVE_REQUEST_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static bool take_live(struct top_command *c, int option, const char *value, struct err *e)
{
    struct csv_release release;
    uint64_t port;
    c->is_live |= option == 'a' || option == 'p';
    switch (option) {
    case 'a':
        c->live.connect.address = value;
        return true;
    case 'p':
        if (!option_u64(value, "-p", 1, 65535, &port, e))
            return false;
        c->live.connect.port = (uint16_t)port;
        return true;
    case 'o':
        c->live.output = value;
        return true;
    case 'f':
        c->live.replace = true;
        return true;
    case OPTION_COMPAT: /* all releases behave alike where this option matters */
        c->live.as_released = true;
        return csv_release_parse(value, &release, e) == 0;
    default:
        return option_seconds(value, "--connect-timeout", &c->live.connect.timeout, e);
    }
}

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct top_command *c = ctx;
    switch (option) {
    case OPTION_TOP_DOWN:
    case OPTION_BOTTOM_UP:
        c->tree.bottom_up = option == OPTION_BOTTOM_UP;
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
    case OPTION_NO_INLINES:
        return c->tree.no_inlines = true;
    case OPTION_ALL_FRAMES:
        return c->tree.all_frames = true;
    case OPTION_SKIP:
        return skiplist_add(&c->skip, value, e) == 0;
    case 'a':
    case 'p':
    case 'o':
    case 'f':
    case OPTION_CONNECT_TIMEOUT:
    case OPTION_COMPAT:
        return take_live(c, option, value, e);
    default:
        c->of_trace = true;
        return question_take(&c->question, option, value, e);
    }
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct top_command *c = ctx;
    if (!isatty(STDOUT_FILENO)) {
        err_set(e, ERR_USAGE, "top needs a terminal; `tidemark tree` prints the same");
        return false;
    }
    if (!c->is_live && (c->live.output || c->live.as_released || c->live.connect.timeout >= 0)) {
        err_set(e, ERR_USAGE,
                "-o, --compat and --connect-timeout are for a running client: -a or -p");
        return false;
    }
    if (!c->is_live)
        return option_one_trace(n, arguments, &c->question.trace, e);
    if (n > 0)
        err_set(e, ERR_USAGE, "what is '%s' for? -a and -p are of a running client", arguments[0]);
    else if (c->of_trace)
        err_set(e, ERR_USAGE,
                "a running client is recorded whole: what is selected, and --resolve, "
                "are for a trace");
    else
        return true;
    return false;
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct top_command *c = ctx;
    struct stop stop;
    struct top top = {.trace = t, .only = c->question.selection, .options = c->tree};
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
    const struct command_line line = {.letters = "a:fho:p:",
                                      .names = long_options,
                                      .usage = usage,
                                      .hint = "usage: tidemark top FILE [OPTIONS], or tidemark top "
                                              "-a ADDRESS [-p PORT]; try 'tidemark top --help'\n",
                                      .take = take_option,
                                      .rest = take_rest};
    struct top_command c = {
        .tree.sort = TREE_LIVE_BYTES,
        .live.connect = {.address = "127.0.0.1", .port = 8086, .timeout = -1},
    };
    c.tree.skip = &c.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0) {
        c.live.tree = c.tree;
        status = c.is_live ? top_live_run(&c.live) : question_run(&c.question, answer, &c);
    }
    skiplist_release(&c.skip);
    return status;
}
