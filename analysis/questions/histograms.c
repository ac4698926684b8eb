#include "analysis/questions/histograms.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/figure_bytes.h"
#include "analysis/figures/figures_only.h"
#include "analysis/questions/figure_parts.h"
#include "base/map.h"
#include "base/saturate.h"

unsigned size_class_of(uint64_t size)
{
    unsigned class = size ? 64 - (unsigned)__builtin_clzll(size) : 0;
    return class < SIZE_CLASSES ? class : SIZE_CLASSES - 1;
}

uint64_t size_class_begin(unsigned class)
{
    return class ? UINT64_C(1) << (class - 1) : 0;
}

int64_t life_class_end(unsigned class)
{
    int64_t end = 100;
    for (unsigned i = 0; i < class; i++)
        end *= 10;
    return class + 1 < LIFE_LIVE ? end : INT64_MAX;
}

unsigned life_class_of(int64_t ns)
{
    unsigned class = 0;
    for (int64_t end = 100; class + 1 < LIFE_LIVE && ns >= end; end *= 10)
        class ++;
    return class;
}

#define MAPPED_FROM (UINT64_C(128) << 10)
#define PAGE UINT64_C(4096)

uint64_t glibc_chunk(uint64_t size)
{
    if (size >= MAPPED_FROM)
        return (size + 16 + PAGE - 1) & ~(PAGE - 1);
    uint64_t chunk = (size + 8 + 15) & ~UINT64_C(15);
    return chunk < 32 ? 32 : chunk;
}

/* The newest step of a thread in a pool. */
struct last_step {
    uint64_t size;
    uint32_t callstack;
    bool is_alloc;
};

struct builder {
    struct histograms *h;
    struct selection *s;
    struct map steps; /* pool << 16 | thread → in last */
    VEC(struct last_step) last;
    uint64_t newest_key, newest; /* of the newest step: in `last` */
    uint64_t waste;              /* of live blocks */
};

static void add(struct life_class *c, uint64_t size)
{
    c->count++;
    c->bytes = saturating_add(c->bytes, size);
}

static void take_away(struct life_class *c, uint64_t size)
{
    c->count--;
    c->bytes = saturating_sub(c->bytes, size);
}

static void count_alloc(struct builder *b, uint64_t size)
{
    struct histograms *h = b->h;
    uint64_t waste = glibc_chunk(size) - size;
    struct size_class *c = &h->sizes[size_class_of(size)];
    c->count++;
    c->bytes = saturating_add(c->bytes, size);
    c->live_count++;
    c->live_bytes = saturating_add(c->live_bytes, size);
    c->waste = saturating_add(c->waste, waste);
    add(&h->lives[LIFE_LIVE], size);
    add(&h->total, size);
    h->waste = saturating_add(h->waste, waste);
    b->waste = saturating_add(b->waste, waste);
    h->peak_waste = b->waste > h->peak_waste ? b->waste : h->peak_waste;
}

static void count_free(struct builder *b, const struct memory_op *op)
{
    struct histograms *h = b->h;
    uint64_t size = op->block.size;
    struct size_class *c = &h->sizes[size_class_of(size)];
    c->live_count--;
    c->live_bytes = saturating_sub(c->live_bytes, size);
    c->temporary += op->temporary;
    take_away(&h->lives[LIFE_LIVE], size);
    add(&h->lives[life_class_of(op->time - op->block.time)], size);
    b->waste = saturating_sub(b->waste, glibc_chunk(size) - size);
    if (op->thread != op->block.thread)
        add(&h->elsewhere, size);
}

/* `key`: of a thread in a pool. */
static struct last_step *last_of(struct builder *b, uint64_t key, struct err *e)
{
    bool fresh = false;
    if (b->last.len && b->newest_key == key)
        return &b->last.at[b->newest];
    uint64_t *at = map_add(&b->steps, key, &fresh);
    if (at && fresh) {
        *at = b->last.len;
        if (!vec_push(&b->last, (struct last_step){0}))
            at = NULL;
    }
    if (!at) {
        err_no_memory(e, "threads");
        return NULL;
    }
    b->newest_key = key;
    b->newest = *at;
    return &b->last.at[*at];
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct builder *b = ctx;
    struct last_step *last = last_of(b, (uint64_t)op->pool << 16 | op->thread, e);
    if (!last)
        return -1;
    const struct live_block *block = &op->block;
    bool is_alloc = op->kind == MEMORY_ALLOC;
    /* The opposite order, free then allocation, is what every loop with a buffer does. */
    if (!is_alloc && last->is_alloc && block->callstack && block->callstack == last->callstack &&
        block->size < last->size)
        add(&b->h->regrown, block->size);
    *last = (struct last_step){block->size, block->callstack, is_alloc};
    if (is_alloc)
        count_alloc(b, block->size);
    else
        count_free(b, op);
    return 0;
}

static void release(void *ctx)
{
    struct builder *b = ctx;
    map_release(&b->steps);
    vec_release(&b->last);
    free(b);
}

static int end(void *ctx, bool passed, struct err *e)
{
    (void)e;
    release(ctx);
    return passed ? 0 : -1;
}

/* ---- a part of figures: all fields of struct histograms, most of them 0 */

#define FIELDS (sizeof(struct histograms) / 8)

/* Of one pool. */
struct counting {
    struct builder builder;
    struct histograms h;
};

static void *begin_part(void)
{
    struct counting *c = calloc(1, sizeof *c);
    if (c)
        c->builder.h = &c->h;
    return c;
}

static int put(const void *state, const struct pool *pool, struct buf *out, struct err *e)
{
    const struct counting *c = state;
    (void)pool;
    (void)e;
    figures_put_all(out, &c->h, FIELDS);
    return 0;
}

const struct figures_part histograms_part = {
    .begin = begin_part, .take = take, .put = put, .release = release};

static int take_figures(void *ctx, struct err *e)
{
    struct builder *b = ctx;
    const struct selection *s = b->s;
    if (s->pools.len > 1)
        return memory_refuse("the waste of several pools together is not known: choose one", e);
    for (uint32_t i = 0; i < s->trace->memory.pools.len; i++) {
        struct view bytes;
        if (s->pool_of[i] == UINT32_MAX)
            continue;
        if (figures_only_part(s->trace, i, PART_SIZES, &bytes, e) != 0)
            return -1;
        struct cursor in = cursor_over(bytes.p, bytes.len);
        if (bytes.len)
            figures_take_all(&in, b->h, FIELDS);
        if (in.short_read || cursor_left(&in))
            return err_set(e, ERR_INPUT, "figures behind the trace: histograms are damaged");
    }
    return 0;
}

int histograms_begin(struct selection_pass *p, struct histograms *h, struct selection *s,
                     struct err *e)
{
    struct builder *b = calloc(1, sizeof *b);
    memset(h, 0, sizeof *h);
    if (!b)
        return err_no_memory(e, "histograms");
    b->h = h;
    b->s = s;
    *p = (struct selection_pass){
        .to = {.ctx = b, .op = take, .beside = true}, .end = end, .figures = take_figures};
    return 0;
}

int histograms_build(struct histograms *h, struct selection *s, struct err *e)
{
    struct selection_pass p;
    return histograms_begin(&p, h, s, e) != 0 ? -1 : selection_answer(s, &p, 1, 0, e);
}
