/* Histograms of block sizes and lifetimes. */

#include "analysis/questions/histograms.h"

#include "lib/tidetrace_internal.h"
#include "report/histograms_report.h"

struct histograms_result {
    struct tidetrace_result base;
    struct histograms histograms;
    VEC(struct tidetrace_class_row) rows;
};

static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    const struct histograms_result *h = (const struct histograms_result *)r;
    (void)first;
    (void)count;
    return histograms_write(&h->histograms, &h->base.selection, REPORT_JSON, out, e);
}

static void release(struct tidetrace_result *r)
{
    struct histograms_result *h = (struct histograms_result *)r;
    vec_release(&h->rows);
}

static uint64_t life_end(unsigned class)
{
    int64_t end = life_class_end(class);
    return end == INT64_MAX ? UINT64_MAX : (uint64_t)end;
}

static int list_rows(struct histograms_result *r, struct err *e)
{
    const struct histograms *h = &r->histograms;
    bool ok = true;
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        const struct size_class *c = &h->sizes[i];
        const struct tidetrace_class_row row = {.kind = TIDETRACE_CLASS_SIZE,
                                                .from = size_class_begin(i),
                                                .to = i + 1 < SIZE_CLASSES ? size_class_begin(i + 1)
                                                                           : UINT64_MAX,
                                                .count = c->count,
                                                .bytes = c->bytes,
                                                .live_count = c->live_count,
                                                .live_bytes = c->live_bytes,
                                                .temporary = c->temporary,
                                                .glibc_bytes = c->waste};
        ok = (c->count == 0 || vec_push(&r->rows, row)) && ok;
    }
    for (unsigned i = 0; i < LIFE_CLASSES; i++) {
        const struct life_class *c = &h->lives[i];
        bool live = i == LIFE_LIVE;
        const struct tidetrace_class_row row = {.kind = live ? TIDETRACE_CLASS_LIVE
                                                             : TIDETRACE_CLASS_LIFETIME,
                                                .from = i && !live ? life_end(i - 1) : 0,
                                                .to = live ? UINT64_MAX : life_end(i),
                                                .count = c->count,
                                                .bytes = c->bytes};
        ok = (c->count == 0 || vec_push(&r->rows, row)) && ok;
    }
    return ok ? 0 : err_no_memory(e, "a result");
}

static int build(struct tidetrace_result *base, const void *selection, struct err *e)
{
    struct histograms_result *r = (struct histograms_result *)base;
    if (result_select(&r->base, selection, NULL, e) != 0)
        return -1;
    if (histograms_build(&r->histograms, &r->base.selection, e) != 0 || list_rows(r, e) != 0) {
        return -1;
    }
    r->base.rows = r->rows.len;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct tidetrace_class_row *out = &((const struct histograms_result *)r)->rows.at[row];
    return lib_give(to, out, sizeof *out, e);
}

LIB_QUESTION(histograms, tidetrace_selection, class_row)
