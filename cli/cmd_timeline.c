/* tidemark timeline: memory use over time. */

#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options/question.h"
#include "report/picture/timeline_picture.h"
#include "report/timeline_report.h"

#define BUCKETS 200
#define BUCKETS_MAX 1000000
#define CHART_MARGIN 12 /* columns beside a chart */

static const char usage[] =
    "usage: tidemark timeline FILE [OPTIONS]\n"
    "\n"
    "Prints how much memory was in use over time, for each pool. FILE - is standard input.\n"
    "With --range: in this stretch of time, with blocks that were allocated before it.\n"
    "\n"
    "      --buckets N     pieces of time (text: as many as the terminal is wide; svg, png: 840;\n"
    "                      else 200)\n"
    "      --rows N        text: the chart's height (8)\n"
    "      --together      all pools as one\n"
    "\n" SELECTION_USAGE BETWEEN_USAGE "\n" PICTURE_OUTPUT_USAGE "\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 output exists or cannot be written.\n";

struct timeline_command {
    struct question question;
    struct timeline_report_options report;
    enum picture_format picture; /* instead of the report's format */
    uint64_t buckets;            /* 0: not given */
    struct timeline_options window;
};

enum { OPTION_BUCKETS = 256, OPTION_ROWS, OPTION_TOGETHER };

static const struct option long_options[] = {
    {"buckets", required_argument, NULL, OPTION_BUCKETS},
    {"rows", required_argument, NULL, OPTION_ROWS},
    {"together", no_argument, NULL, OPTION_TOGETHER},
    SELECTION_LONG_OPTIONS,
    BETWEEN_LONG_OPTIONS,
    OUTPUT_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct timeline_command *c = ctx;
    uint64_t rows;
    switch (option) {
    case OPTION_BUCKETS:
        return option_u64(value, "--buckets", 1, BUCKETS_MAX, &c->buckets, e);
    case OPTION_ROWS:
        if (!option_u64(value, "--rows", 1, 200, &rows, e))
            return false;
        c->report.rows = (unsigned)rows;
        return true;
    case OPTION_TOGETHER:
        c->window.together = true;
        return true;
    case QUESTION_FORMAT:
        return question_take_picture(&c->question, value, &c->picture, e);
    default:
        return question_take(&c->question, option, value, e);
    }
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct timeline_command *c = ctx;
    c->report.format = c->question.format;
    if (c->picture && c->buckets > TIMELINE_PICTURE_BUCKETS_MAX) {
        err_set(e, ERR_USAGE, "a picture has at most %u --buckets", TIMELINE_PICTURE_BUCKETS_MAX);
        return false;
    }
    return question_check_picture(&c->question, c->picture, e) &&
           option_one_trace(n, arguments, &c->question.trace, e);
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct timeline_command *c = ctx;
    struct selection_options *o = &c->question.selection;
    struct selection s;
    struct timeline line;
    bool drawn = c->report.format == REPORT_TEXT;
    struct timeline_options window = c->window;
    /* The range is what is drawn: what is in use then may have been allocated before. */
    window.begin = o->has_range && o->begin != INT64_MIN ? o->begin : 0;
    window.end = o->has_range ? o->end : INT64_MAX;
    o->has_range = false;
    window.buckets = c->picture ? TIMELINE_PICTURE_BUCKETS
                     : drawn    ? terminal_width(out) - CHART_MARGIN
                                : BUCKETS;
    if (c->buckets)
        window.buckets = c->buckets;
    if (selection_init(&s, t, &c->question.selection, e) != 0)
        return -1;
    c->report.colors = drawn && terminal_takes_colors(out);
    int64_t last = selection_end(&s);
    window.end = window.end <= last ? window.end : last + 1;
    int status = timeline_build(&line, &s, &window, e);
    if (status == 0) {
        status = c->picture ? timeline_draw(&line, t, c->picture, out, e)
                            : timeline_write(&line, t, &c->report, out, e);
        timeline_release(&line);
    }
    selection_release(&s);
    return status;
}

int cmd_timeline(int argc, char **argv)
{
    const struct command_line line = {
        .letters = "fho:",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark timeline FILE [OPTIONS]; try 'tidemark timeline --help'\n",
        .take = take_option,
        .rest = take_rest};
    struct timeline_command c = {.report.rows = 8};
    int status = command_line_parse(&line, &c, argc, argv);
    return status >= 0 ? status : question_run(&c.question, answer, &c);
}
