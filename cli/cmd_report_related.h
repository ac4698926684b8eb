#ifndef TIDEMARK_CLI_CMD_REPORT_RELATED_H
#define TIDEMARK_CLI_CMD_REPORT_RELATED_H

/* `report --related`: which plots and messages moved with memory. */

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "analysis/figures/selection.h"
#include "analysis/questions/related.h"
#include "report/leaks_report.h"

struct related_question {
    bool asked, window_given;
    struct related_options options;
    struct related_input input;
};

enum {
    RELATED_OPTIONS = 560,
    RELATED_RELATED = RELATED_OPTIONS,
    RELATED_WINDOW,
    RELATED_OPTIONS_END,
};

#define RELATED_LONG_OPTIONS                                                                       \
    {"related", no_argument, NULL, RELATED_RELATED},                                               \
    {                                                                                              \
        "window", required_argument, NULL, RELATED_WINDOW                                          \
    }

/* One of these options. False with `e` filled when it is wrong. */
bool related_question_take(struct related_question *q, int option, const char *value,
                           struct err *e);

/* Whether they go together, once all are known. */
bool related_question_check(const struct related_question *q, struct err *e);

/* Loads the trace with what is asked for; the input is released by related_input_release. */
int related_question_load(struct related_question *q, const char *path,
                          const struct selection_options *s, struct trace *t, struct err *e);

int related_question_answer(struct related_question *q, const struct selection_options *only,
                            const struct leak_report_options *report, struct trace *t, FILE *out,
                            struct err *e);

#endif
