#pragma once

/* `report --related`: which plots and messages moved with memory. */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/figures/selection.h"
#include "analysis/questions/related.h"
#include "cli/options/option_table.h"
#include "report/leaks_report.h"

struct related_question {
    bool asked;
    struct related_options options;
    struct related_input input;
};

extern const struct option_row related_rows[]; /* of struct related_question */

/* Loads the trace with what is asked for; the input is released by related_input_release. */
int related_question_load(struct related_question *q, const char *path,
                          const struct selection_options *s, struct trace *t, struct err *e);

int related_question_answer(struct related_question *q, const struct selection_options *only,
                            const struct leak_report_options *report, struct trace *t, FILE *out,
                            struct err *e);
