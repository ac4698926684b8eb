#ifndef TIDEMARK_REPORT_MARKDOWN_QUESTIONS_H
#define TIDEMARK_REPORT_MARKDOWN_QUESTIONS_H

/*
 * The separate analyses of `report` in Markdown, for a pull request comment: a summary sentence,
 * then tables of at most `options->limit` rows (0: all), with collapsible call stacks if
 * `options->stack_traces`. ERR_OUTPUT if `out` cannot be written.
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
