/* Frames with unusual allocations. */

#include <math.h>
#include <stdlib.h>

#include "analysis/figures/summary_parts.h"

/* The number of frames of the base set that overlap the selected time. */
static int count_frames(struct summary *s, uint64_t *frames, struct err *e)
{
    const struct selection *from = &s->selection;
    struct column_walk w = column_walk(&from->trace->frame_sets.marks);
    uint64_t begun = 0;  /* at the end of the time */
    uint64_t before = 0; /* at its start: all but the last one have ended */
    int status = 0;
    for (const struct frame_mark *mark; (mark = column_walk_next(&w, &status, e));) {
        if (mark->set != FRAME_SET_BASE)
            continue;
        begun += mark->start < from->end;
        before += mark->start <= from->begin;
    }
    *frames = begun - (before && begun ? before - 1 : 0);
    return status;
}

static double score_of(const struct summary_row *r)
{
    double count = fabs((double)r->count_score);
    double bytes = fabs((double)r->bytes_score);
    return count > bytes ? count : bytes;
}

static int compare_scores(const void *a, const void *b)
{
    const struct summary_row *x = a;
    const struct summary_row *y = b;
    double p = score_of(x);
    double q = score_of(y);
    if (p != q)
        return p > q ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Scores the rows of a pool, [first, end), and lists the outliers. Key 0 is no frame. */
static int score_rows(struct summary *s, struct summary_frames *f, size_t first, size_t end,
                      uint64_t *values, struct err *e)
{
    size_t n = 0;
    for (size_t i = first; i < end; i++)
        n += s->groups.at[i].key && s->groups.at[i].figures.count;
    f->frames = n > f->frames ? n : f->frames; /* a file may list marks out of order */
    f->empty = f->frames - n;
    for (int bytes = 0; bytes < 2; bytes++) {
        struct outlier_scale *scale = bytes ? &f->bytes : &f->count;
        size_t at = 0;
        for (size_t i = first; i < end; i++) {
            const struct counter *c = &s->groups.at[i].figures;
            if (s->groups.at[i].key && c->count)
                values[at++] = bytes ? c->bytes : c->count;
        }
        if (outlier_scale_find(scale, values, n, f->frames, e) != 0)
            return -1;
    }
    f->first_outlier = s->outliers.len;
    for (size_t i = first; i < end; i++) {
        struct summary_row *r = &s->groups.at[i];
        if (r->key == 0)
            continue;
        r->count_score = (float)outlier_score(&f->count, r->figures.count);
        r->bytes_score = (float)outlier_score(&f->bytes, r->figures.bytes);
        if (summary_row_is_outlier(r) && !pageable_push(s->pageable, &s->outliers, *r))
            return err_no_memory(e, "outliers");
    }
    f->outlier_count = s->outliers.len - f->first_outlier;
    if (f->outlier_count)
        qsort(&s->outliers.at[f->first_outlier], f->outlier_count, sizeof *s->outliers.at,
              compare_scores);
    return 0;
}

int summary_score_frames(struct summary *s, struct err *e)
{
    const struct row_list *rows = &s->groups;
    uint64_t frames = 0;
    const size_t size = (rows->len + 1) * sizeof(uint64_t);
    uint64_t *values = pageable_zeroed(s->pageable, size);
    int status = values ? count_frames(s, &frames, e) : err_no_memory(e, "outliers");
    size_t end;
    for (size_t i = 0; i < rows->len && status == 0; i = end) {
        struct summary_frames f = {.pool = rows->at[i].pool, .frames = frames};
        for (end = i; end < rows->len && rows->at[end].pool == rows->at[i].pool;)
            end++;
        status = score_rows(s, &f, i, end, values, e);
        if (status == 0 && !vec_push(&s->frames, f))
            status = err_no_memory(e, "frames");
    }
    pageable_free(s->pageable, values, size);
    return status;
}
