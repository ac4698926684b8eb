#include "cli/cmd_report_related.h"

#include "cli/options/options.h"
#include "report/markdown_questions.h"
#include "report/related_report.h"
#include "trace/load/load.h"

bool related_question_take(struct related_question *q, int option, const char *value, struct err *e)
{
    if (option == RELATED_RELATED)
        return q->asked = true;
    q->window_given = true;
    if (!option_time(value, "--window", &q->options.window, e))
        return false;
    if (q->options.window <= 0)
        err_set(e, ERR_USAGE, "--window is a time above 0, not '%s'", value);
    return q->options.window > 0;
}

bool related_question_check(const struct related_question *q, struct err *e)
{
    if (!q->window_given || q->asked)
        return true;
    err_set(e, ERR_USAGE, "--window goes with --related");
    return false;
}

int related_question_load(struct related_question *q, const char *path,
                          const struct selection_options *s, struct trace *t, struct err *e)
{
    const struct record_sink beside = {&q->input, related_input_put};
    bool wanted[REC_TYPE_COUNT];
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
        status = report->markdown ? markdown_related(&r, &s, report->limit, out, e)
                                  : related_write(&r, &s, report->format, report->limit, out, e);
        related_release(&r);
    }
    selection_release(&s);
    return status;
}
