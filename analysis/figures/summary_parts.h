#pragma once

/* The steps of summary_build, in separate files. For summary*.c only. */

#include "analysis/figures/summary.h"

/* summary_select.c: a copy of `text` that lives as long as the summary; p == NULL: no memory. */
struct view summary_keep(struct summary *s, struct view text);

/* summary_faults.c: s->faults and the counts beside them. `pool` NULL: all. */
int summary_read_faults(struct summary *s, const char *pool, struct err *e);

/* summary_verdict.c: coverage of the allocations' call stacks; s->checks; s->verdict. */
int summary_cover(struct summary *s, const struct accounting *by_callstack, struct err *e);
int summary_judge(struct summary *s, struct err *e);

/* The pool with the highest peak, the first of several. There is at least one pool. */
const struct summary_pool *summary_highest_pool(const struct summary *s);

/* summary_answer.c: s->answer, from all of s->sites. */
int summary_answer(struct summary *s, struct err *e);

/* What the allocations of a row from one call stack come to. */
struct stack_share {
    size_t row;
    uint32_t callstack;
    uint64_t count, bytes;
};

/* summary_callers.c: s->callers, and the callers of each row. */
int summary_attach_callers(struct summary *s, struct row_list *rows, struct program_frames *program,
                           const struct stack_share *shares, size_t n, struct err *e);

/* summary_frames.c: s->frames, s->outliers and the scores of the rows of s->groups. */
int summary_score_frames(struct summary *s, struct err *e);
