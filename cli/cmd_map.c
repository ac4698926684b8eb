/* tidemark map: the addresses, ages and fragmentation of live blocks. */

#include "cli/commands.h"
#include "cli/options/question.h"
#include "report/memory_map_report.h"
#include "report/picture/map_picture.h"
#include "report/write/terminal_form.h"

static const char usage[] =
    "usage: tidemark map FILE [OPTIONS]\n"
    "\n"
    "Draws where the live blocks of each pool lie, at the end or at the time of --at, and prints\n"
    "how scattered they were until then. FILE - is standard input. Shades show how full a cell "
    "is,\n"
    "colours (on a terminal) how old its blocks are.\n";

static const char footer[] =
    "Exit status: 0 done; 1 the trace has figures only, no events; 2 usage; 3 unreadable trace;\n"
    "4 output exists or cannot be written.\n";

struct map_command {
    struct question question;
    struct map_options map;
    bool columns_given;
    struct map_report_options report;
};

static bool take_columns(void *ctx, const char *option, const char *value, struct err *e)
{
    struct map_command *c = ctx;
    uint64_t n;
    if (!option_u64(value, option, 1, 1024, &n, e))
        return false;
    c->map.columns = (unsigned)n;
    return (n & (n - 1)) == 0 || refuse_value(e, option, "a power of two", value);
}

#define FIELD(NAME) OPTION_FIELD(struct map_command, NAME)

static const struct option_row rows[] = {
    {"--columns", "N",
     "cells in a line, a power of two up to 1024 (text on a terminal: as many as it is wide)", "64",
     .take = take_columns, .given = offsetof(struct map_command, columns_given)},
    {"--rows", "N", "lines of each pool, at most", "32", .type = VALUE_NUMBER, .least = 1,
     .most = 100000, FIELD(map.lines)},
    {"--samples", "N",
     "times at which the pool is examined, from the trace's begin or that of --range on", "8",
     .type = VALUE_NUMBER, .least = 1, .most = 100000, FIELD(map.samples)},
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_picture_rows, .base = offsetof(struct map_command, question)},
    QUESTION_GROUPS(struct map_command),
    {0},
};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct map_command *c = ctx;
    c->report.format = c->question.format;
    return question_check_picture(&c->question, e) &&
           option_one_trace(n, arguments, &c->question.trace, e);
}

/* The power of two of cells that a terminal has room for; at least 8. */
static unsigned columns_that_fit(struct terminal_form form, unsigned columns)
{
    if (form.width == 0)
        return columns;
    unsigned room = form.width > MAP_MARGIN ? form.width - MAP_MARGIN : 0;
    for (columns = 8; columns * 2 <= room && columns < 512;)
        columns *= 2;
    return columns;
}

/* A time is that of the drawing, but earlier samples are needed, too. */
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
    if (c->report.format == REPORT_TEXT && !c->question.picture && !c->columns_given)
        c->map.columns = columns_that_fit(terminal_form_of(out), c->map.columns);
    int status = memory_map_build(&m, &s, &c->map, e);
    if (status == 0) {
        status = c->question.picture ? memory_map_draw(&m, t, c->question.picture, out, e)
                                     : memory_map_write(&m, t, &c->report, out, e);
        memory_map_release(&m);
    }
    selection_release(&s);
    return status;
}

int cmd_map(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = take_rest};
    struct map_command c = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    return status >= 0 ? status : question_run(&c.question, answer, &c);
}
