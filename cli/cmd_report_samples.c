#include "cli/cmd_report_samples.h"

#include "report/sample_table.h"
#include "trace/load/load.h"

int sample_question_load(struct sample_question *q, const char *path,
                         const struct selection_options *s, struct trace *t, struct err *e)
{
    const struct record_sink beside = {&q->input, sample_input_put};
    bool wanted[REC_TYPE_COUNT] = {false};
    q->input = (struct sample_input){.has_range = s->has_range, .begin = s->begin, .end = s->end};
    sample_input_wanted(wanted);
    const struct trace_load_options options = {
        .no_events = true, .beside = &beside, .beside_wanted = wanted};
    return trace_load_with(t, path, &options, NULL, NULL, e);
}

int sample_question_answer(const struct sample_question *q, const struct selection_options *only,
                           enum report_format format, uint64_t limit, struct trace *t, FILE *out,
                           struct err *e)
{
    struct selection s;
    struct sample_profile p;
    if (selection_init(&s, t, only, e) != 0)
        return -1;
    int status = sample_profile_build(&p, &q->input, &s, e);
    if (status == 0) {
        status = sample_table_write(&p, t, format, limit, out, e);
        sample_profile_release(&p);
    }
    selection_release(&s);
    return status;
}
