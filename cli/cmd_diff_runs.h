#pragma once

/* `diff BASE… -- NEW…`: several runs on each side. */

#include <stdio.h>

#include "analysis/questions/budgets.h"
#include "analysis/runs/runs_diff.h"
#include "cli/options/option_table.h"
#include "cli/run_input.h"
#include "report/diff_report.h"

struct runs_question {
    bool asked;
    double confidence; /* percent */
    double unstable;   /* percent */
    bool mute_unstable;
    const char *mute; /* a regular expression */
    char **paths[2];  /* of the base, of which there may be none, and of the new runs */
    size_t count[2];
    struct run_inputs runs;
    size_t loaded[2];
};

extern const struct option_row runs_rows[]; /* of struct runs_question */

/*
 * Takes the arguments around `separator`, a pointer that stands for "--" among them; q->asked says
 * whether it is there.
 */
bool runs_question_take(struct runs_question *q, int n, char **arguments, const char *separator,
                        struct err *e);

int runs_question_load(struct runs_question *q, const struct run_input_options *options,
                       struct err *e);
void runs_question_release(struct runs_question *q);

int runs_question_answer(struct runs_question *q, enum diff_metric metric,
                         const struct diff_report_options *report, const struct budgets *fail_if,
                         FILE *out, struct err *e);
