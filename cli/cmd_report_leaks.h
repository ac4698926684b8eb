#ifndef TIDEMARK_CLI_CMD_REPORT_LEAKS_H
#define TIDEMARK_CLI_CMD_REPORT_LEAKS_H

/* `report --leaks`, `--grown`, `--peak`, `--histograms`, `--patterns` and `--faults`: the questions
 * of the report with separate answers. */

#include <getopt.h>
#include <stdio.h>

#include "analysis/figures/selection.h"
#include "analysis/names/skiplist.h"
#include "report/leaks_report.h"

struct leak_question {
    bool leaks, grown, peak, histograms, patterns, faults;
    const char *suppressions; /* a file's name */
    int64_t from, to;         /* of --grown */
    uint64_t which;           /* of --peak: 1 is the highest */
    struct leak_report_options report;
};

enum {
    LEAK_OPTIONS = 540,
    LEAK_LEAKS = LEAK_OPTIONS,
    LEAK_SUPPRESSIONS,
    LEAK_GROWN,
    LEAK_PEAK,
    LEAK_HISTOGRAMS,
    LEAK_PATTERNS,
    LEAK_FAULTS,
    LEAK_OPTIONS_END,
};

#define LEAK_LONG_OPTIONS                                                                          \
    {"leaks", no_argument, NULL, LEAK_LEAKS},                                                      \
        {"suppressions", required_argument, NULL, LEAK_SUPPRESSIONS},                              \
        {"grown", required_argument, NULL, LEAK_GROWN},                                            \
        {"histograms", no_argument, NULL, LEAK_HISTOGRAMS},                                        \
        {"patterns", no_argument, NULL, LEAK_PATTERNS},                                            \
        {"faults", no_argument, NULL, LEAK_FAULTS},                                                \
    {                                                                                              \
        "peak", optional_argument, NULL, LEAK_PEAK                                                 \
    }

/* One of these options. False with `e` filled when it is wrong. */
bool leak_question_take(struct leak_question *q, int option, const char *value, struct err *e);

/* Whether they go together, once all are known. */
bool leak_question_check(const struct leak_question *q, struct err *e);

/* Whether the answer is not the summary; then leak_question_answer writes it. */
static inline bool leak_question_is_own(const struct leak_question *q)
{
    return q->leaks || q->grown || q->histograms || q->patterns || q->faults;
}

int leak_question_answer(const struct leak_question *q, const struct selection_options *only,
                         const struct skiplist *skip, struct trace *t, FILE *out, struct err *e);

/*
 * Makes `only` select what was live at the wanted peak of all these pools together; with `at` at
 * one of those until then.
 */
int leak_question_find_peak(const struct leak_question *q, struct selection_options *only,
                            struct trace *t, struct err *e);

#endif
