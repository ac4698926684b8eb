#include "analysis/questions/growth.h"

#include <stdlib.h>

#include "analysis/figures/sites.h"
#include "analysis/questions/stack_steps.h"
#include "base/format.h"
#include "base/map.h"
#include "base/saturate.h"

struct builder {
    struct growth *g;
    struct selection *s;
    struct sites sites;
    struct map numbers;  /* pool << 32 | site → row */
    VEC(int64_t) newest; /* of figures, by row: the last step with an allocation */
};

static struct growth_row *row_of(struct builder *b, uint32_t pool, uint32_t id, struct err *e)
{
    bool fresh;
    uint32_t site = id < b->sites.callstack_count ? b->sites.of_callstack[id] : 0;
    uint64_t *at = map_add(&b->numbers, (uint64_t)pool << 32 | site, &fresh);
    if (at && fresh) {
        struct growth_row row = {.pool = pool,
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
    struct growth_row *r = row_of(b, op->pool, op->block.callstack, e);
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

/* ---- of figures only */

/* Adds what a call stack had at the end of both steps; -1: before the first one. */
static int add_history(struct builder *b, uint32_t pool, const struct stack_history *h,
                       int64_t from, int64_t to, struct err *e)
{
    struct growth *g = b->g;
    struct growth_row *r = row_of(b, pool, h->callstack, e);
    const struct stack_step none = {0};
    const struct stack_step before = from < 0 ? none : stack_history_at(h, (uint64_t)from);
    const struct stack_step after = to < 0 ? none : stack_history_at(h, (uint64_t)to);
    uint64_t allocations = 0;
    if (!r || !vec_reserve(&b->newest, g->rows.len))
        return r ? err_no_memory(e, "what grew") : -1;
    while (b->newest.len < g->rows.len)
        b->newest.at[b->newest.len++] = -1;
    int64_t *newest = &b->newest.at[r - g->rows.at];
    for (size_t i = 0; i < h->steps.len; i++) {
        int64_t at = h->steps.at[i].number;
        if (at <= from || at > to || h->steps.at[i].allocations == 0)
            continue;
        allocations += h->steps.at[i].allocations;
        r->callstack = at >= *newest ? h->callstack : r->callstack;
        *newest = at > *newest ? at : *newest;
    }
    r->count_before += before.live;
    r->count_after += after.live;
    r->bytes_before = saturating_add(r->bytes_before, before.bytes);
    r->bytes_after = saturating_add(r->bytes_after, after.bytes);
    g->count_before += before.live;
    g->count_after += after.live;
    g->bytes_before = saturating_add(g->bytes_before, before.bytes);
    g->bytes_after = saturating_add(g->bytes_after, after.bytes);
    r->frees += allocations - ((uint64_t)after.live - before.live);
    r->allocations += allocations;
    return 0;
}

/* The last step that ends by then: all steps, if nothing follows. -1: none. */
static int64_t last_step(const struct builder *b, unsigned shift, int64_t *time)
{
    if (*time >= b->s->trace->facts.last_time)
        return STACK_STEPS;
    int64_t n = *time < 0 ? 0 : (int64_t)(((uint64_t)*time + 1) >> shift);
    *time = (int64_t)((uint64_t)n << shift) - 1;
    return n - 1;
}

static int add_pools(struct builder *b, const struct stack_pools *pools, struct err *e)
{
    int64_t from = last_step(b, pools->shift, &b->g->from);
    int64_t to = last_step(b, pools->shift, &b->g->to);
    char text[FORMAT_SIZE];
    if (from >= to) {
        format_duration(text, (int64_t)1 << pools->shift);
        return err_set(e, ERR_CHECK, "figures only, no events: their steps have %s", text);
    }
    for (size_t i = 0; i < pools->list.len; i++) {
        const struct stack_steps *of = &pools->list.at[i];
        for (size_t k = 0; k < of->stacks.len; k++) {
            if (add_history(b, of->pool, &of->stacks.at[k], from, to, e) != 0)
                return -1;
        }
    }
    return 0;
}

static int take_figures(void *ctx, struct err *e)
{
    struct builder *b = ctx;
    struct stack_pools pools;
    int status = stack_pools_read(&pools, b->s, e);
    if (status == 0)
        status = add_pools(b, &pools, e);
    stack_pools_release(&pools);
    return status;
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
    vec_release(&b->newest);
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
    b->s = s;
    *p = (struct selection_pass){
        .to = {.ctx = b, .op = take, .beside = true}, .end = end, .figures = take_figures};
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
