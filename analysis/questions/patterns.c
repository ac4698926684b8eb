#include "analysis/questions/patterns.h"

#include <stdlib.h>

#include "analysis/figures/sites.h"
#include "analysis/questions/histograms.h"
#include "base/map.h"
#include "base/saturate.h"

/* A sequence of temporary blocks. */
struct loop {
    uint64_t run; /* its length */
    uint32_t site;
    unsigned since; /* steps since the newest of them was freed; 3: too many */
};

/* The last step of a thread in a pool. */
struct last_step {
    bool is_alloc, is_set;
    uint64_t ptr, size;
    uint32_t callstack; /* of the step */
    uint32_t site;      /* of the block */
    uint32_t by;        /* the site of the step itself */
    uint32_t chain;     /* for a free: growth steps of the freed block */
    bool is_told;       /* for a free: it was part of a growth step */
    struct loop loop;
};

/* Pools of one name are one pool here, but their allocations are numbered apart. */
#define SEVERAL_POOLS UINT64_MAX

struct builder {
    struct patterns *p;
    struct selection *s;
    struct sites sites;
    struct map numbers; /* pool << 32 | site → number of the row */
    struct map threads; /* pool << 16 | thread → number in `last` */
    VEC(struct last_step) last;
    struct map *chains; /* by pool: address of a block that has grown → steps so far */
    uint64_t *newest;   /* by pool: index of its latest allocation so far, or SEVERAL_POOLS */
};

static uint32_t site_of(const struct builder *b, uint32_t callstack)
{
    return callstack < b->sites.callstack_count ? b->sites.of_callstack[callstack] : 0;
}

static struct pattern_row *row_of(struct builder *b, const struct memory_op *op, struct err *e)
{
    bool fresh;
    uint32_t site = site_of(b, op->block.callstack);
    uint64_t *number = map_add(&b->numbers, (uint64_t)op->pool << 32 | site, &fresh);
    if (number && fresh) {
        struct pattern_row r = {.pool = op->pool,
                                .frame = b->sites.list.at[site].frame,
                                .no_callstack = site == SITE_NO_CALLSTACK,
                                .only_size = op->block.size};
        *number = b->p->rows.len;
        if (!vec_push(&b->p->rows, r))
            number = NULL;
    }
    if (!number) {
        err_no_memory(e, "allocation sites");
        return NULL;
    }
    return &b->p->rows.at[*number];
}

static struct last_step *last_of(struct builder *b, const struct memory_op *op, struct err *e)
{
    bool fresh;
    uint64_t *number = map_add(&b->threads, (uint64_t)op->pool << 16 | op->thread, &fresh);
    if (number && fresh) {
        *number = b->last.len;
        if (!vec_push(&b->last, (struct last_step){.loop.since = 3}))
            number = NULL;
    }
    if (!number) {
        err_no_memory(e, "threads");
        return NULL;
    }
    return &b->last.at[*number];
}

/* A block replaced another one. `steps`: growth steps of the replaced block. */
static int note_growth(struct builder *b, struct pattern_row *r, uint32_t pool, uint64_t ptr,
                       uint64_t steps, struct err *e)
{
    uint64_t *chain = map_add(&b->chains[pool], ptr, NULL);
    if (!chain)
        return err_no_memory(e, "blocks that have grown");
    *chain = steps + 1;
    r->chains += steps == 0;
    r->grown++;
    r->longest = *chain > r->longest ? *chain : r->longest;
    return 0;
}

static void note_down(struct pattern_row *r, uint64_t by, bool has_grown)
{
    r->down++;
    if (has_grown)
        r->given_back = saturating_add(r->given_back, by);
}

static int count_alloc(struct builder *b, struct pattern_row *r, const struct last_step *last,
                       const struct memory_op *op, uint32_t site, struct err *e)
{
    uint64_t size = op->block.size;
    uint64_t waste = glibc_chunk(size) - size;
    if (r->count == 0 || size > r->largest) {
        r->largest = size;
        r->callstack = op->block.callstack;
    }
    r->count++;
    r->bytes = saturating_add(r->bytes, size);
    r->live_bytes = saturating_add(r->live_bytes, size);
    r->peak_bytes = r->live_bytes > r->peak_bytes ? r->live_bytes : r->peak_bytes;
    r->only_size = size == r->only_size ? size : 0;
    r->waste = saturating_add(r->waste, waste);
    r->live_waste = saturating_add(r->live_waste, waste);
    r->peak_waste = r->live_waste > r->peak_waste ? r->live_waste : r->peak_waste;
    /* A reported realloc: freed and allocated at one line of the program. */
    bool follows = last->is_set && !last->is_alloc && !last->is_told && op->callstack &&
                   last->callstack && last->by == site;
    if (!follows || size == last->size)
        return 0;
    if (size < last->size) {
        note_down(r, last->size - size, last->chain != 0);
        return 0;
    }
    if (op->block.ptr != last->ptr)
        r->copied = saturating_add(r->copied, last->size);
    return note_growth(b, r, op->pool, op->block.ptr, last->chain, e);
}

static void count_temporary(struct pattern_row *r, struct loop *l, const struct memory_op *op,
                            uint32_t site)
{
    l->since += l->since < 3;
    if (op->kind == MEMORY_ALLOC || !op->temporary)
        return;
    r->temporary++;
    r->temporary_bytes = saturating_add(r->temporary_bytes, op->block.size);
    l->run = l->since == 2 && l->site == site ? l->run + 1 : 1;
    l->site = site;
    l->since = 0;
    r->longest_run = l->run > r->longest_run ? l->run : r->longest_run;
}

static void count_brief(struct builder *b, struct pattern_row *r, const struct memory_op *op)
{
    uint64_t *newest = &b->newest[op->pool];
    if (*newest == SEVERAL_POOLS)
        return;
    if (op->kind == MEMORY_ALLOC) {
        *newest = op->block.index > *newest ? op->block.index : *newest;
        return;
    }
    uint64_t between = saturating_sub(*newest, op->block.index);
    if (op->temporary || between >= PATTERN_SHORT)
        return;
    r->brief++;
    r->brief_bytes = saturating_add(r->brief_bytes, op->block.size);
    r->brief_allocations += between;
    if (op->time > op->block.time)
        r->brief_time =
            saturating_add(r->brief_time, (uint64_t)op->time - (uint64_t)op->block.time);
}

static int count_free(struct builder *b, struct pattern_row *r, const struct last_step *last,
                      const struct memory_op *op, uint32_t site, struct last_step *now,
                      struct err *e)
{
    uint64_t size = op->block.size;
    uint64_t *steps = map_find(&b->chains[op->pool], op->block.ptr);
    now->chain = steps ? (uint32_t)*steps : 0;
    map_remove(&b->chains[op->pool], op->block.ptr);
    r->live_bytes = saturating_sub(r->live_bytes, size);
    r->live_waste = saturating_sub(r->live_waste, glibc_chunk(size) - size);
    if (!last->is_set || !last->is_alloc || last->ptr == op->block.ptr || last->site != site ||
        !op->block.callstack)
        return 0;
    now->is_told = size != last->size;
    if (size > last->size)
        note_down(r, size - last->size, now->chain != 0);
    if (size >= last->size)
        return 0;
    r->copied = saturating_add(r->copied, size);
    return note_growth(b, r, op->pool, last->ptr, now->chain, e);
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct builder *b = ctx;
    struct pattern_row *r = row_of(b, op, e);
    struct last_step *last = r ? last_of(b, op, e) : NULL;
    uint32_t site = site_of(b, op->block.callstack);
    if (!last)
        return -1;
    struct last_step now = {.is_set = true,
                            .is_alloc = op->kind == MEMORY_ALLOC,
                            .ptr = op->block.ptr,
                            .size = op->block.size,
                            .callstack = op->callstack,
                            .site = site,
                            .by = site_of(b, op->callstack)};
    int status = now.is_alloc ? count_alloc(b, r, last, op, site, e)
                              : count_free(b, r, last, op, site, &now, e);
    count_temporary(r, &last->loop, op, site);
    count_brief(b, r, op);
    now.loop = last->loop;
    *last = now;
    return status;
}

static int begin_pools(struct builder *b, struct err *e)
{
    const struct selection *s = b->s;
    b->chains = calloc(s->pools.len + 1, sizeof *b->chains);
    b->newest = calloc(s->pools.len + 1, sizeof *b->newest);
    uint8_t *met = calloc(s->pools.len + 1, 1);
    if (!b->chains || !b->newest || !met) {
        free(met);
        return err_no_memory(e, "memory pools");
    }
    for (size_t i = 0; i < s->trace->memory.pools.len; i++) {
        uint32_t pool = s->pool_of[i];
        if (pool < s->pools.len && met[pool])
            b->newest[pool] = SEVERAL_POOLS;
        if (pool < s->pools.len)
            met[pool] = 1;
    }
    free(met);
    return 0;
}

static int end(void *ctx, bool passed, struct err *e)
{
    struct builder *b = ctx;
    (void)e;
    if (passed)
        patterns_sort(b->p, PATTERN_BY_BYTES);
    else
        patterns_release(b->p);
    for (size_t i = 0; b->chains && i < b->s->pools.len; i++)
        map_release(&b->chains[i]);
    free(b->chains);
    free(b->newest);
    sites_release(&b->sites);
    map_release(&b->numbers);
    map_release(&b->threads);
    vec_release(&b->last);
    free(b);
    return passed ? 0 : -1;
}

int patterns_begin(struct selection_pass *pass, struct patterns *p, struct selection *s,
                   const struct skiplist *skip, struct err *e)
{
    static const struct skiplist built_in = {0};
    struct builder *b = calloc(1, sizeof *b);
    *p = (struct patterns){0};
    if (!b)
        return err_no_memory(e, "allocation sites");
    b->p = p;
    b->s = s;
    *pass = (struct selection_pass){.to = {.ctx = b, .op = take, .beside = true}, .end = end};
    if (sites_build(&b->sites, s->trace, skip ? skip : &built_in, SITE_BY_LINE, e) == 0 &&
        begin_pools(b, e) == 0)
        return 0;
    return end(b, false, e);
}

int patterns_build(struct patterns *p, struct selection *s, const struct skiplist *skip,
                   struct err *e)
{
    struct selection_pass pass;
    return patterns_begin(&pass, p, s, skip, e) != 0 ? -1 : selection_answer(s, &pass, 1, 0, e);
}

void patterns_release(struct patterns *p)
{
    vec_release(&p->rows);
}

/* ---- order */

static int compare(uint64_t x, uint64_t y, const struct pattern_row *a, const struct pattern_row *b)
{
    if (x != y)
        return x > y ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->pool != b->pool)
        return a->pool < b->pool ? -1 : 1;
    return (a->callstack > b->callstack) - (a->callstack < b->callstack);
}

#define ORDER(NAME, MEMBER)                                                                        \
    static int NAME(const void *a, const void *b)                                                  \
    {                                                                                              \
        const struct pattern_row *x = a;                                                           \
        const struct pattern_row *y = b;                                                           \
        return compare(x->MEMBER, y->MEMBER, x, y);                                                \
    }

ORDER(by_bytes, bytes)
ORDER(by_copied, copied)
ORDER(by_temporary, temporary)
ORDER(by_brief, brief)
ORDER(by_peak, peak_bytes)
ORDER(by_waste, peak_waste)

void patterns_sort(struct patterns *p, enum pattern_order order)
{
    static int (*const orders[])(const void *, const void *) = {
        [PATTERN_BY_BYTES] = by_bytes,         [PATTERN_BY_COPIED] = by_copied,
        [PATTERN_BY_TEMPORARY] = by_temporary, [PATTERN_BY_BRIEF] = by_brief,
        [PATTERN_BY_PEAK] = by_peak,           [PATTERN_BY_WASTE] = by_waste,
    };
    if (p->rows.len)
        qsort(p->rows.at, p->rows.len, sizeof *p->rows.at, orders[order]);
}
