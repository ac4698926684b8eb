#include "cli/cmd_report_related.h"

#include "cli/options/options.h"
#include "report/related_report.h"
#include "trace/load/load.h"

static bool take_window(void *ctx, const char *option, const char *value, struct err *e)
{
    struct related_question *q = ctx;
    if (!option_time(value, option, &q->options.window, e))
        return false;
    return q->options.window > 0 || refuse_value(e, option, "a time above 0", value);
}

const struct option_row related_rows[] = {
    {"--related", NULL, "which plots and messages moved with memory",
     OPTION_FIELD(struct related_question, asked)},
    {"--window", "T", "with --related: how long after a message use may rise (0.5 % of all)",
     .take = take_window},
    {0},
};

int related_question_load(struct related_question *q, const char *path,
                          const struct selection_options *s, struct trace *t, struct err *e)
{
    const struct record_sink beside = {&q->input, related_input_put};
    bool wanted[REC_TYPE_COUNT] = {false};
    if (related_input_init(&q->input, t, NULL, RELATED_INPUT_BUDGET, e) != 0)
        return -1;
    related_input_wanted(wanted);
    const struct trace_load_options options = {.zones = s->zone != NULL,
                                               .frames = s->has_frame,
                                               .beside = &beside,
                                               .beside_wanted = wanted};
    return trace_load_with(t, path, &options, NULL, NULL, e);
}

int related_question_answer(struct related_question *q, const struct selection_options *only,
                            const struct leak_report_options *report, struct trace *t, FILE *out,
                            struct err *e)
{
    struct selection s;
    struct related r;
    if (selection_init(&s, t, only, e) != 0)
        return -1;
    int status = related_build(&r, &s, &q->input, &q->options, e);
    if (status == 0) {
        status = related_write(&r, &s, report->format, report->limit, out, e);
        related_release(&r);
    }
    selection_release(&s);
    return status;
}
