#include "analysis/questions/growth.h"

#include <stdlib.h>

#include "analysis/figures/sites.h"
#include "base/map.h"
#include "base/saturate.h"

struct builder {
    struct growth *g;
    struct sites sites;
    struct map numbers; /* pool << 32 | site → row */
};

static struct growth_row *row_of(struct builder *b, const struct memory_op *op, struct err *e)
{
    bool fresh;
    uint32_t id = op->block.callstack;
    uint32_t site = id < b->sites.callstack_count ? b->sites.of_callstack[id] : 0;
    uint64_t *at = map_add(&b->numbers, (uint64_t)op->pool << 32 | site, &fresh);
    if (at && fresh) {
        struct growth_row row = {.pool = op->pool,
                                 .frame = b->sites.list.at[site].frame,
                                 .no_callstack = site == SITE_NO_CALLSTACK};
        *at = b->g->rows.len;
        if (!vec_push(&b->g->rows, row))
            at = NULL;
    }
    if (!at) {
        err_no_memory(e, "what grew");
        return NULL;
    }
    return &b->g->rows.at[*at];
}

static void change(uint64_t *count, uint64_t *bytes, bool is_alloc, uint64_t size)
{
    *count += is_alloc ? 1 : UINT64_MAX;
    *bytes = is_alloc ? saturating_add(*bytes, size) : saturating_sub(*bytes, size);
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct builder *b = ctx;
    struct growth *g = b->g;
    bool is_alloc = op->kind == MEMORY_ALLOC;
    uint64_t size = op->block.size;
    if (op->time > g->to)
        return 0;
    struct growth_row *r = row_of(b, op, e);
    if (!r)
        return -1;
    change(&r->count_after, &r->bytes_after, is_alloc, size);
    change(&g->count_after, &g->bytes_after, is_alloc, size);
    if (op->time <= g->from) {
        change(&r->count_before, &r->bytes_before, is_alloc, size);
        change(&g->count_before, &g->bytes_before, is_alloc, size);
        return 0;
    }
    r->allocations += is_alloc;
    r->frees += !is_alloc;
    if (is_alloc)
        r->callstack = op->block.callstack;
    return 0;
}

static int compare_rows(const void *a, const void *b)
{
    const struct growth_row *x = a;
    const struct growth_row *y = b;
    int64_t p = growth_of(x->bytes_before, x->bytes_after);
    int64_t q = growth_of(y->bytes_before, y->bytes_after);
    if (p != q)
        return p > q ? -1 : 1;
    p = growth_of(x->count_before, x->count_after);
    q = growth_of(y->count_before, y->count_after);
    if (p != q)
        return p > q ? -1 : 1;
    if (x->pool != y->pool)
        return x->pool < y->pool ? -1 : 1;
    return (x->allocations < y->allocations) - (x->allocations > y->allocations);
}

static void drop_unchanged(struct growth *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->rows.len; i++) {
        const struct growth_row *r = &g->rows.at[i];
        if (r->bytes_before != r->bytes_after || r->count_before != r->count_after)
            g->rows.at[kept++] = *r;
    }
    g->rows.len = kept;
    if (kept)
        qsort(g->rows.at, kept, sizeof *g->rows.at, compare_rows);
}

static int end(void *ctx, bool passed, struct err *e)
{
    struct builder *b = ctx;
    (void)e;
    if (passed)
        drop_unchanged(b->g);
    else
        growth_release(b->g);
    sites_release(&b->sites);
    map_release(&b->numbers);
    free(b);
    return passed ? 0 : -1;
}

int growth_begin(struct selection_pass *p, struct growth *g, struct selection *s,
                 const struct skiplist *skip, int64_t from, int64_t to, struct err *e)
{
    static const struct skiplist built_in = {0};
    struct builder *b = calloc(1, sizeof *b);
    *g = (struct growth){.from = from, .to = to};
    if (!b)
        return err_no_memory(e, "what grew");
    b->g = g;
    *p = (struct selection_pass){.to = {.ctx = b, .op = take, .beside = true}, .end = end};
    if (sites_build(&b->sites, s->trace, skip ? skip : &built_in, SITE_BY_LINE, e) == 0)
        return 0;
    return end(b, false, e);
}

int growth_build(struct growth *g, struct selection *s, const struct skiplist *skip, int64_t from,
                 int64_t to, struct err *e)
{
    struct selection_pass p;
    if (growth_begin(&p, g, s, skip, from, to, e) != 0)
        return -1;
    return selection_answer(s, &p, 1, 0, e);
}

void growth_release(struct growth *g)
{
    vec_release(&g->rows);
    *g = (struct growth){0};
}
