#pragma once

/* The report's formats for the review of a change: Markdown and JUnit XML. */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/figures/summary.h"
#include "analysis/names/skiplist.h"
#include "analysis/questions/budgets.h"
#include "base/err.h"

enum review_form { REVIEW_NONE, REVIEW_MARKDOWN, REVIEW_JUNIT };

/* "markdown" or "junit"; REVIEW_NONE for any other text. */
enum review_form review_form_parse(const char *text);

/* Rows of a table in Markdown unless --limit is given. */
#define REVIEW_LIMIT 10

/* The outcomes of budgets in the summary; for Markdown also the rest of the summary, and leaks. */
struct review {
    enum review_form form;
    const struct selection_options *only;
    const struct skiplist *skip;
    enum sort_key sort;
    uint64_t limit; /* rows; 0: all */
    bool all_leaks; /* list permanent blocks, too */
};

int review_write(const struct review *r, const struct summary *s, struct trace *t, FILE *out,
                 struct err *e);
