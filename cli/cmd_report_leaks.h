#pragma once

/* `report --leaks`, `--grown`, `--peak`, `--histograms`, `--patterns`, `--resident` and `--faults`:
 * the questions of the report with separate answers. */

#include <stdio.h>

#include "analysis/figures/selection.h"
#include "analysis/names/skiplist.h"
#include "cli/options/option_table.h"
#include "report/leaks_report.h"

struct leak_question {
    bool leaks, grown, peak, histograms, patterns, faults, resident;
    const char *suppressions; /* a file's name */
    bool all_leaks;           /* also permanent blocks */
    int64_t from, to;         /* of --grown */
    uint64_t which;           /* of --peak: 1 is the highest */
    uint64_t look;            /* of --resident: 1 is the first; 0: that with most resident bytes */
    struct leak_report_options report;
};

extern const struct option_row leak_rows[]; /* of struct leak_question */

/* The number of questions whose answers are not the summary; leak_question_answer writes them. */
unsigned leak_question_count(const struct leak_question *q);

int leak_question_answer(const struct leak_question *q, const struct selection_options *only,
                         const struct skiplist *skip, struct trace *t, FILE *out, struct err *e);

/*
 * Makes `only` select what was live at the wanted peak of all these pools together; with `at` at
 * one of those until then.
 */
int leak_question_find_peak(const struct leak_question *q, struct selection_options *only,
                            struct trace *t, struct err *e);
