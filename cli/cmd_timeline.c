/* tidemark timeline: memory use over time. */

#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/question.h"
#include "report/picture/timeline_picture.h"
#include "report/timeline_report.h"
#include "report/write/terminal_form.h"

#define BUCKETS 200
#define BUCKETS_MAX 1000000
#define CHART_MARGIN 12 /* columns beside a chart */

static const char usage[] =
    "usage: tidemark timeline FILE [OPTIONS]\n"
    "\n"
    "Prints how much memory was in use over time, for each pool. FILE - is standard input.\n"
    "With --range: in this stretch of time, with blocks that were allocated before it.\n";

static const char footer[] =
    "Exit status: 0 done; 1 the trace has figures only, no events; 2 usage; 3 unreadable trace;\n"
    "4 output exists or cannot be written.\n";

struct timeline_command {
    struct question question;
    struct timeline_report_options report;
    uint64_t buckets; /* 0: not given */
    bool range_given;
    size_t *columns; /* of the chart */
    struct timeline_options window;
};

#define FIELD(NAME) OPTION_FIELD(struct timeline_command, NAME)

static const struct option_row rows[] = {
    {"--buckets", "N",
     "pieces of time (text: as many as the terminal is wide; svg, png: 840; else 200)",
     .type = VALUE_NUMBER, .least = 1, .most = BUCKETS_MAX, FIELD(buckets)},
    {"--rows", "N", "text: the chart's height", "8", .type = VALUE_NUMBER, .least = 1, .most = 200,
     FIELD(report.rows)},
    {"--together", NULL, "all pools as one", FIELD(window.together)},
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_picture_rows, .base = offsetof(struct timeline_command, question)},
    QUESTION_GROUPS(struct timeline_command),
    {0},
};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct timeline_command *c = ctx;
    c->report.format = c->question.format;
    if (c->question.picture && c->buckets > TIMELINE_PICTURE_BUCKETS_MAX) {
        err_set(e, ERR_USAGE, "a picture has at most %u --buckets", TIMELINE_PICTURE_BUCKETS_MAX);
        return false;
    }
    return question_check_picture(&c->question, e) &&
           option_one_trace(n, arguments, &c->question.trace, e);
}

/* A tenth of the chart: what time without events at its ends may take. */
#define IDLE_SHARE 10u

/*
 * The window without the time before the first and after the last event, if that is much. False: it
 * stays, as it does if the RSS has readings, which are of all the time.
 */
static bool trim(struct timeline_options *window, const struct timeline *t)
{
    size_t first = t->count, last = 0;
    for (size_t i = 0; i < t->series.len; i++) {
        for (size_t k = 0; k < t->count; k++) {
            const struct timeline_bucket *b = &t->series.at[i].buckets[k];
            if (b->allocations == 0 && b->frees == 0)
                continue;
            first = k < first ? k : first;
            last = k > last ? k : last;
        }
    }
    if (t->kernel.buckets || first > last ||
        (t->count - (last + 1 - first)) * IDLE_SHARE < t->count)
        return false;
    window->begin = timeline_time(t, first);
    window->end = timeline_time(t, last + 1);
    return true;
}

/* How much more buckets than columns there may be when stretches without events are left out. */
#define FINER_MOST 500u
#define TRIES 8u

/*
 * Leaves out stretches without events, and divides the rest of the time so that it fills the
 * columns. c->columns is NULL if there is nothing to leave out.
 */
static int leave_out_gaps(struct timeline *line, struct selection *s, struct timeline_command *c,
                          const struct timeline_options *window, struct err *e)
{
    struct timeline_options finer = *window;
    size_t most = line->count, least = most / IDLE_SHARE + 2, n = 0, gaps = 0;
    c->columns = malloc(most * FINER_MOST * sizeof *c->columns);
    if (!c->columns)
        return err_no_memory(e, "the timeline");
    /* Finer buckets show more stretches: several times, until the columns are filled. */
    for (unsigned i = 0;; i++) {
        n = timeline_columns(line, least, c->columns, &gaps);
        bool filled = n <= most && (n >= most - most / 8 || line->count == most * FINER_MOST);
        if (gaps == 0 || n == gaps || gaps + i >= most || filled || i == TRIES)
            break;
        size_t buckets =
            (size_t)((double)line->count * (double)(most - gaps - i) / (double)(n - gaps));
        finer.buckets = buckets < most * FINER_MOST ? buckets : most * FINER_MOST;
        timeline_release(line);
        if (timeline_build(line, s, &finer, e) != 0)
            return -1;
    }
    if (n > most) {
        timeline_release(line);
        return timeline_build(line, s, window, e);
    }
    c->report.columns = gaps ? c->columns : NULL;
    c->report.column_count = n;
    c->report.gaps = gaps;
    return 0;
}

/* On a terminal without --range, the time with events. */
static int build(struct timeline *line, struct selection *s, struct timeline_command *c,
                 struct timeline_options *window, FILE *out, struct err *e)
{
    int status = timeline_build(line, s, window, e);
    if (status != 0 || c->range_given || c->question.picture || c->report.format != REPORT_TEXT ||
        !isatty(fileno(out)))
        return status;
    c->report.trimmed = trim(window, line);
    if (c->report.trimmed) {
        timeline_release(line);
        status = timeline_build(line, s, window, e);
    }
    return status == 0 ? leave_out_gaps(line, s, c, window, e) : status;
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct timeline_command *c = ctx;
    struct selection_options *o = &c->question.selection;
    struct selection s;
    struct timeline line;
    bool drawn = c->report.format == REPORT_TEXT;
    struct timeline_options window = c->window;
    /* The range is the time to draw; blocks in use then may have been allocated before. */
    window.begin = o->has_range && o->begin != INT64_MIN ? o->begin : 0;
    window.end = o->has_range ? o->end : INT64_MAX;
    c->range_given = o->has_range;
    o->has_range = false;
    o->all_pools = !c->window.together;
    window.buckets = c->question.picture ? TIMELINE_PICTURE_BUCKETS
                     : drawn             ? terminal_width(out) - CHART_MARGIN
                                         : BUCKETS;
    if (c->buckets)
        window.buckets = c->buckets;
    if (selection_init(&s, t, &c->question.selection, e) != 0)
        return -1;
    int64_t last = selection_end(&s);
    window.end = window.end <= last ? window.end : last + 1;
    int status = build(&line, &s, c, &window, out, e);
    if (status == 0) {
        status = c->question.picture ? timeline_draw(&line, t, c->question.picture, out, e)
                                     : timeline_write(&line, t, &c->report, out, e);
        timeline_release(&line);
    }
    free(c->columns);
    selection_release(&s);
    return status;
}

int cmd_timeline(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = take_rest};
    struct timeline_command c = {.question.kernel = true};
    int status = command_line_parse(&line, &c, argc, argv);
    return status >= 0 ? status : question_run(&c.question, answer, &c);
}
