/* tidemark map: where live blocks lie, how old they are, how scattered they were. */

#include "cli/commands.h"
#include "cli/options/question.h"
#include "report/memory_map_report.h"
#include "report/picture/map_picture.h"

static const char usage[] =
    "usage: tidemark map FILE [OPTIONS]\n"
    "\n"
    "Draws where the live blocks of each pool lie, at the end or at the time of --at, and prints\n"
    "how scattered they were until then. FILE - is standard input. Shades say how full a cell is,\n"
    "colours (on a terminal) how old its blocks are.\n"
    "\n"
    "      --columns N     cells in a line, a power of two up to 1024 (64)\n"
    "      --rows N        lines of each pool, at most (32)\n"
    "      --samples N     times at which the pool is looked at, from the trace's begin or that "
    "of\n"
    "                      --range on (8)\n"
    "\n" SELECTION_USAGE BETWEEN_USAGE "\n" PICTURE_OUTPUT_USAGE "\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 output exists or cannot be written.\n";

struct map_command {
    struct question question;
    struct map_options map;
    struct map_report_options report;
    enum picture_format picture; /* instead of the report's format */
};

enum { OPTION_COLUMNS = 256, OPTION_ROWS, OPTION_SAMPLES };

static const struct option long_options[] = {
    {"columns", required_argument, NULL, OPTION_COLUMNS},
    {"rows", required_argument, NULL, OPTION_ROWS},
    {"samples", required_argument, NULL, OPTION_SAMPLES},
    SELECTION_LONG_OPTIONS,
    BETWEEN_LONG_OPTIONS,
    OUTPUT_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static bool take_number(const char *option, const char *value, uint64_t most, unsigned *to,
                        struct err *e)
{
    uint64_t n;
    if (!option_u64(value, option, 1, most, &n, e))
        return false;
    *to = (unsigned)n;
    return true;
}

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct map_command *c = ctx;
    switch (option) {
    case OPTION_COLUMNS:
        return take_number("--columns", value, 1024, &c->map.columns, e) &&
               ((c->map.columns & (c->map.columns - 1)) == 0 ||
                refuse_value(e, "--columns", "a power of two", value));
    case OPTION_ROWS:
        return take_number("--rows", value, 100000, &c->map.lines, e);
    case OPTION_SAMPLES:
        return take_number("--samples", value, 100000, &c->map.samples, e);
    case QUESTION_FORMAT:
        return question_take_picture(&c->question, value, &c->picture, e);
    default:
        return question_take(&c->question, option, value, e);
    }
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct map_command *c = ctx;
    c->report.format = c->question.format;
    return question_check_picture(&c->question, c->picture, e) &&
           option_one_trace(n, arguments, &c->question.trace, e);
}

/* A time is when the map is drawn, but what was there before is looked at, too. */
static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct map_command *c = ctx;
    struct selection_options *o = &c->question.selection;
    struct selection s;
    struct memory_map m;
    c->map.begin = o->has_range && o->begin != INT64_MIN ? o->begin : 0;
    o->all_pools = true;
    selection_until(o);
    if (selection_init(&s, t, o, e) != 0)
        return -1;
    c->report.colors = c->report.format == REPORT_TEXT && terminal_takes_colors(out);
    int status = memory_map_build(&m, &s, &c->map, e);
    if (status == 0) {
        status = c->picture ? memory_map_draw(&m, t, c->picture, out, e)
                            : memory_map_write(&m, t, &c->report, out, e);
        memory_map_release(&m);
    }
    selection_release(&s);
    return status;
}

int cmd_map(int argc, char **argv)
{
    const struct command_line line = {
        .letters = "fho:",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark map FILE [OPTIONS]; try 'tidemark map --help'\n",
        .take = take_option,
        .rest = take_rest};
    struct map_command c = {.map = {.columns = 64, .lines = 32, .samples = 8}};
    int status = command_line_parse(&line, &c, argc, argv);
    return status >= 0 ? status : question_run(&c.question, answer, &c);
}
