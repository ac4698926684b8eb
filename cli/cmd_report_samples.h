#pragma once

/* `report --by sample`: where the program spent its time, by call stack samples. */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/code/sample_profile.h"
#include "report/report.h"

struct sample_question {
    bool asked;
    struct sample_input input;
};

/* Loads the trace with its samples; the input is released by sample_input_release. */
int sample_question_load(struct sample_question *q, const char *path,
                         const struct selection_options *s, struct trace *t, struct err *e);

int sample_question_answer(const struct sample_question *q, const struct selection_options *only,
                           enum report_format format, uint64_t limit, struct trace *t, FILE *out,
                           struct err *e);
