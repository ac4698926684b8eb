#include "analysis/questions/patterns.h"

#include <stdlib.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/figure_bytes.h"
#include "analysis/figures/figures_only.h"
#include "analysis/figures/sites.h"
#include "analysis/figures/stream_figures.h"
#include "analysis/questions/figure_parts.h"
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

/* An entry of a map that was found lately; number 0: none. */
struct recent {
    uint64_t key, number;
};

#define RECENT 8192u

/* Pools of one name are one pool here, but their allocations are numbered apart. */
#define SEVERAL_POOLS UINT64_MAX

struct builder {
    struct patterns *p;
    struct selection *s;
    struct sites sites;
    struct map numbers; /* pool << 32 | site → number of the row */
    struct map threads; /* pool << 16 | thread → number in `last` */
    VEC(struct last_step) last;
    struct recent recent_rows[RECENT], recent_threads[RECENT];
    size_t pool_count;
    bool by_callstack;  /* each call stack is a site */
    struct map *chains; /* by pool: address of a block that has grown → steps so far */
    uint64_t *newest;   /* by pool: index of its latest allocation so far, or SEVERAL_POOLS */
};

static uint32_t site_of(const struct builder *b, uint32_t callstack)
{
    if (b->by_callstack)
        return callstack;
    return callstack < b->sites.callstack_count ? b->sites.of_callstack[callstack] : 0;
}

static struct pattern_row *row_of(struct builder *b, uint32_t pool, uint32_t callstack,
                                  uint64_t size, struct err *e)
{
    bool fresh;
    uint32_t site = site_of(b, callstack);
    uint64_t key = (uint64_t)pool << 32 | site;
    struct recent *recent = &b->recent_rows[(site << 1 ^ pool) % RECENT];
    if (recent->number && recent->key == key)
        return &b->p->rows.at[recent->number - 1];
    uint64_t *number = map_add(&b->numbers, key, &fresh);
    if (number && fresh) {
        struct pattern_row r = {.pool = pool, .callstack = callstack, .only_size = size};
        if (!b->by_callstack) {
            r.frame = b->sites.list.at[site].frame;
            r.no_callstack = site == SITE_NO_CALLSTACK;
        }
        *number = b->p->rows.len;
        if (!vec_push(&b->p->rows, r))
            number = NULL;
    }
    if (!number) {
        err_no_memory(e, "allocation sites");
        return NULL;
    }
    *recent = (struct recent){key, *number + 1};
    return &b->p->rows.at[*number];
}

static struct last_step *last_of(struct builder *b, const struct memory_op *op, struct err *e)
{
    bool fresh;
    uint64_t key = (uint64_t)op->pool << 16 | op->thread;
    struct recent *recent = &b->recent_threads[op->thread % RECENT];
    if (recent->number && recent->key == key)
        return &b->last.at[recent->number - 1];
    uint64_t *number = map_add(&b->threads, key, &fresh);
    if (number && fresh) {
        *number = b->last.len;
        if (!vec_push(&b->last, (struct last_step){.loop.since = 3}))
            number = NULL;
    }
    if (!number) {
        err_no_memory(e, "threads");
        return NULL;
    }
    *recent = (struct recent){key, *number + 1};
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
    if (steps)
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
    struct pattern_row *r = row_of(b, op->pool, op->block.callstack, op->block.size, e);
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

static bool make_pools(struct builder *b, size_t n)
{
    b->pool_count = n;
    b->chains = calloc(n + 1, sizeof *b->chains);
    b->newest = calloc(n + 1, sizeof *b->newest);
    return b->chains && b->newest;
}

static int begin_pools(struct builder *b, struct err *e)
{
    const struct selection *s = b->s;
    uint8_t *met = calloc(s->pools.len + 1, 1);
    if (!make_pools(b, s->pools.len) || !met) {
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

static void release(struct builder *b)
{
    for (size_t i = 0; b->chains && i < b->pool_count; i++)
        map_release(&b->chains[i]);
    free(b->chains);
    free(b->newest);
    sites_release(&b->sites);
    map_release(&b->numbers);
    map_release(&b->threads);
    vec_release(&b->last);
    free(b);
}

static int end(void *ctx, bool passed, struct err *e)
{
    struct builder *b = ctx;
    (void)e;
    if (passed)
        patterns_sort(b->p, PATTERN_BY_BYTES);
    else
        patterns_release(b->p);
    release(b);
    return passed ? 0 : -1;
}

/* ---- a part of figures: rows by call stack */

struct counting {
    struct builder *builder;
    struct patterns patterns;
};

static void release_part(void *state)
{
    struct counting *c = state;
    if (c->builder)
        release(c->builder);
    patterns_release(&c->patterns);
    free(c);
}

static void *begin_part(void)
{
    struct counting *c = calloc(1, sizeof *c);
    struct builder *b = c ? calloc(1, sizeof *b) : NULL;
    if (!b) {
        free(c);
        return NULL;
    }
    *b = (struct builder){.p = &c->patterns, .by_callstack = true};
    c->builder = b;
    if (make_pools(b, 1))
        return c;
    release_part(c);
    return NULL;
}

static int take_part(void *state, const struct memory_op *op, struct err *e)
{
    struct counting *c = state;
    return take(c->builder, op, e);
}

/* What the counters of figures do not have. */
static const size_t fields[] = {
    offsetof(struct pattern_row, chains),
    offsetof(struct pattern_row, grown),
    offsetof(struct pattern_row, copied),
    offsetof(struct pattern_row, longest),
    offsetof(struct pattern_row, down),
    offsetof(struct pattern_row, given_back),
    offsetof(struct pattern_row, longest_run),
    offsetof(struct pattern_row, brief),
    offsetof(struct pattern_row, brief_bytes),
    offsetof(struct pattern_row, brief_time),
    offsetof(struct pattern_row, brief_allocations),
    offsetof(struct pattern_row, only_size),
    offsetof(struct pattern_row, waste),
    offsetof(struct pattern_row, live_waste),
    offsetof(struct pattern_row, peak_waste),
    offsetof(struct pattern_row, largest),
};

#define FIELDS (sizeof fields / sizeof *fields)

static int put_part(const void *state, const struct pool *pool, struct buf *out, struct err *e)
{
    const struct counting *c = state;
    uint32_t before = 0;
    (void)pool;
    (void)e;
    figures_put(out, c->patterns.rows.len);
    for (size_t i = 0; i < c->patterns.rows.len; i++) {
        figures_put_signed(out, (uint64_t)c->patterns.rows.at[i].callstack - before);
        before = c->patterns.rows.at[i].callstack;
    }
    for (size_t k = 0; k < FIELDS; k++) {
        for (size_t i = 0; i < c->patterns.rows.len; i++)
            figures_put(out, load_u64((const uint8_t *)&c->patterns.rows.at[i] + fields[k]));
    }
    return 0;
}

const struct figures_part patterns_part = {
    .begin = begin_part, .take = take_part, .put = put_part, .release = release_part};

/* ---- of figures only */

static void add_row(struct pattern_row *r, const struct pattern_row *one)
{
    if (one->largest > r->largest) {
        r->largest = one->largest;
        r->callstack = one->callstack;
    }
    r->chains += one->chains;
    r->grown += one->grown;
    r->copied = saturating_add(r->copied, one->copied);
    r->longest = one->longest > r->longest ? one->longest : r->longest;
    r->down += one->down;
    r->given_back = saturating_add(r->given_back, one->given_back);
    r->longest_run = one->longest_run > r->longest_run ? one->longest_run : r->longest_run;
    r->brief += one->brief;
    r->brief_bytes = saturating_add(r->brief_bytes, one->brief_bytes);
    r->brief_time = saturating_add(r->brief_time, one->brief_time);
    r->brief_allocations += one->brief_allocations;
    r->only_size = r->only_size == one->only_size ? r->only_size : 0;
    r->waste = saturating_add(r->waste, one->waste);
    r->live_waste = saturating_add(r->live_waste, one->live_waste);
    r->peak_waste = saturating_add(r->peak_waste, one->peak_waste);
}

static int damaged(struct err *e)
{
    return err_set(e, ERR_INPUT, "figures behind the trace: patterns are damaged");
}

static int add_rows(struct builder *b, uint32_t pool, struct view bytes, struct err *e)
{
    struct cursor in = cursor_over(bytes.p, bytes.len);
    uint64_t n = figures_take(&in), id = 0;
    if (in.short_read || n > cursor_left(&in) / (FIELDS + 1))
        return damaged(e);
    struct pattern_row *rows = calloc(n + 1, sizeof *rows);
    if (!rows)
        return err_no_memory(e, "allocation sites");
    for (uint64_t i = 0; i < n; i++) {
        id += figures_take_signed(&in);
        rows[i].callstack = (uint32_t)id;
    }
    for (size_t k = 0; k < FIELDS; k++) {
        for (uint64_t i = 0; i < n; i++)
            store_u64((uint8_t *)&rows[i] + fields[k], figures_take(&in));
    }
    int status = in.short_read || cursor_left(&in) ? damaged(e) : 0;
    for (uint64_t i = 0; i < n && status == 0; i++) {
        struct pattern_row *r = row_of(b, pool, rows[i].callstack, rows[i].only_size, e);
        if (r)
            add_row(r, &rows[i]);
        status = r ? 0 : -1;
    }
    free(rows);
    return status;
}

/* The counters of sites. */
static int add_counters(struct builder *b, struct err *e)
{
    const struct sites *sites = &b->sites;
    struct stream_figures *f;
    struct accounting a;
    const struct accounting_options by = {.groups = sites->of_callstack,
                                          .group_count = sites->callstack_count};
    if (figures_only_find(b->s->trace, &f, e) != 0)
        return -1;
    accounting_init(&a, &by);
    const struct stream_grouping grouping = {by.groups, by.group_count, &a};
    int status = stream_figures_group(f, b->s, &grouping, 1, e);
    for (uint32_t pool = 0; pool < b->s->pools.len && status == 0; pool++) {
        uint64_t iter = 0;
        uint32_t site;
        for (struct counter c; accounting_next(&a, pool, &iter, &site, &c);) {
            const uint64_t *number = map_find(&b->numbers, (uint64_t)pool << 32 | site);
            struct pattern_row *r = number ? &b->p->rows.at[*number] : NULL;
            if (!r)
                continue;
            r->count = c.count;
            r->bytes = c.bytes;
            r->live_bytes = c.live_bytes;
            r->peak_bytes = c.peak_bytes;
            r->temporary = c.temporary;
            r->temporary_bytes = c.temporary_bytes;
        }
    }
    accounting_release(&a);
    return status;
}

static int take_figures(void *ctx, struct err *e)
{
    struct builder *b = ctx;
    b->p->by_callstack = true;
    for (uint32_t i = 0; i < b->s->trace->memory.pools.len; i++) {
        struct view bytes;
        if (b->s->pool_of[i] == UINT32_MAX)
            continue;
        if (figures_only_part(b->s->trace, i, PART_PATTERNS, &bytes, e) != 0 ||
            (bytes.len && add_rows(b, b->s->pool_of[i], bytes, e) != 0))
            return -1;
    }
    return add_counters(b, e);
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
    *pass = (struct selection_pass){
        .to = {.ctx = b, .op = take, .beside = true}, .end = end, .figures = take_figures};
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
