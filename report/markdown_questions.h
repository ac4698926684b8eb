#ifndef TIDEMARK_REPORT_MARKDOWN_QUESTIONS_H
#define TIDEMARK_REPORT_MARKDOWN_QUESTIONS_H

/*
 * The report's questions with answers of their own as Markdown, for the comment on a change: what
 * matters as a sentence, then tables of `options->limit` rows (0: all), call stacks behind clicks
 * with `options->stack_traces`. ERR_OUTPUT when `out` cannot be written.
 */

#include <stdio.h>

#include "analysis/questions/growth.h"
#include "analysis/questions/histograms.h"
#include "analysis/questions/leaks.h"
#include "analysis/questions/patterns.h"
#include "analysis/questions/related.h"
#include "base/err.h"
#include "report/leaks_report.h"

int markdown_leaks(const struct leaks *l, const struct selection *s,
                   const struct suppressions *suppress, const struct leak_report_options *options,
                   FILE *out, struct err *e);
int markdown_growth(const struct growth *g, const struct selection *s,
                    const struct leak_report_options *options, FILE *out, struct err *e);
int markdown_histograms(const struct histograms *h, const struct selection *s, FILE *out,
                        struct err *e);
int markdown_patterns(struct patterns *p, const struct selection *s,
                      const struct leak_report_options *options, FILE *out, struct err *e);
int markdown_related(const struct related *r, const struct selection *s, uint64_t limit, FILE *out,
                     struct err *e);

#endif
