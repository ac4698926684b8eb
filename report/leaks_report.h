#pragma once

/*
 * Leaks ("tidemark.leaks/1") and growth between two times ("tidemark.grown/1") as text, JSON,
 * CSV or Markdown.
 */

#include <stdio.h>

#include "analysis/questions/growth.h"
#include "analysis/questions/leaks.h"
#include "base/err.h"
#include "report/report.h"

struct leak_report_options {
    enum report_format format;
    uint64_t limit;    /* rows; 0: all */
    uint64_t first;    /* what is resident: the first of them */
    bool stack_traces; /* text, Markdown: a call stack of each row */
};

/* `suppress` may be NULL; its counts are printed. ERR_OUTPUT if `out` cannot be written. */
int leaks_write(const struct leaks *l, const struct selection *s,
                const struct suppressions *suppress, const struct leak_report_options *options,
                FILE *out, struct err *e);

/* The first `n` leaks as a table in Markdown, within a document on more than leaks. */
void leaks_short_table(struct document *d, const struct leaks *l, const struct selection *s,
                       size_t n);

int growth_write(const struct growth *g, const struct selection *s,
                 const struct leak_report_options *options, FILE *out, struct err *e);
