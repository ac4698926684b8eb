#include "analysis/questions/memory_map.h"

#include <stdlib.h>

#include "analysis/questions/interval_tree.h"
#include "base/saturate.h"

struct live_pool {
    struct interval_tree tree;
    uint64_t bytes;
};

struct builder {
    struct memory_map *m;
    const struct map_options *options;
    struct live_pool *live; /* by pool of the selection */
    int64_t now;
    unsigned sampled;
};

/* The time of sample `i`. The last one is at the end. */
static int64_t sample_time(const struct builder *b, unsigned i)
{
    int64_t begin = b->options->begin < b->m->time ? b->options->begin : b->m->time;
    unsigned __int128 length = (unsigned __int128)((uint64_t)b->m->time - (uint64_t)begin);
    return begin + (int64_t)(uint64_t)(length * (i + 1) / b->options->samples);
}

/* ---- a scan of all live blocks */

struct look {
    struct map_sample *sample;
    uint64_t reached; /* highest covered address so far */
    uint64_t last_page;
};

static bool look_at_block(void *ctx, const struct interval *i)
{
    struct look *l = ctx;
    struct map_sample *s = l->sample;
    bool first = s->blocks++ == 0;
    uint64_t from = i->first;
    if (first)
        s->low = i->first;
    if (!first && i->last <= l->reached)
        return true; /* within others */
    if (!first && from <= l->reached)
        from = l->reached + 1;
    uint64_t page = from / MAP_PAGE;
    if (!first && from - l->reached > 1 && page <= l->last_page + 1) {
        uint64_t hole = from - l->reached - 1;
        s->holes++;
        s->hole_bytes = saturating_add(s->hole_bytes, hole);
        s->largest_hole = hole > s->largest_hole ? hole : s->largest_hole;
    }
    s->covered = saturating_add(s->covered, i->last - from + 1 ? i->last - from + 1 : UINT64_MAX);
    s->pages += i->last / MAP_PAGE - page + (first || page != l->last_page);
    l->last_page = i->last / MAP_PAGE;
    l->reached = s->high = i->last;
    return true;
}

static int take_samples(struct builder *b, int64_t time, struct err *e)
{
    for (size_t i = 0; i < b->m->pools.len; i++) {
        struct map_sample s = {.time = time, .bytes = b->live[i].bytes};
        struct look l = {.sample = &s};
        interval_tree_overlap(&b->live[i].tree, 0, UINT64_MAX, look_at_block, &l);
        if (!vec_push(&b->m->pools.at[i].samples, s))
            return err_no_memory(e, "the memory map");
    }
    return 0;
}

/* ---- the sweep */

/* Distinguishes blocks at one address, which pools of one name can have; includes the time. */
static uint64_t value_of(const struct live_block *b)
{
    return (uint64_t)b->time << 16 | (b->index & 0xffff);
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct builder *b = ctx;
    while (b->sampled + 1 < b->options->samples && op->time > sample_time(b, b->sampled)) {
        if (take_samples(b, sample_time(b, b->sampled), e) != 0)
            return -1;
        b->sampled++;
    }
    struct live_pool *p = &b->live[op->pool];
    uint64_t value = value_of(&op->block);
    if (op->kind == MEMORY_FREE) {
        p->bytes = saturating_sub(p->bytes, op->block.size);
        (void)interval_tree_remove(&p->tree, op->block.ptr, value);
        return 0;
    }
    struct interval i = interval_of_block(op->block.ptr, op->block.size, value);
    p->bytes = saturating_add(p->bytes, op->block.size);
    return interval_tree_insert(&p->tree, &i) ? 0 : err_no_memory(e, "the memory map");
}

/* ---- lines */

#define CELL_LEAST UINT64_C(16)

struct liner {
    struct memory_map *m;
    struct map_pool *pool;
    unsigned shift; /* of a line: log2 of its bytes */
    uint64_t lines; /* current count */
    uint64_t last;  /* the newest line's number */
    uint64_t limit;
    uint64_t reached; /* as in struct look */
    bool any;
    bool failed;
};

static bool count_lines(void *ctx, const struct interval *i)
{
    struct liner *l = ctx;
    uint64_t from = i->first >> l->shift;
    uint64_t to = i->last >> l->shift;
    if (l->any && from <= l->last)
        from = l->last + 1;
    if (!l->any || to > l->last) {
        l->lines = saturating_add(l->lines, to - from + 1);
        l->last = to;
    }
    l->any = true;
    return l->lines <= l->limit;
}

static struct map_line *line_at(struct liner *l, uint64_t number)
{
    struct map_pool *p = l->pool;
    if (!p->lines.len || p->lines.at[p->lines.len - 1].address >> l->shift != number) {
        struct map_line line = {.address = number << l->shift,
                                .cells = calloc(l->m->columns, sizeof *line.cells)};
        if (!line.cells || !vec_push(&p->lines, line)) {
            free(line.cells);
            return NULL;
        }
    }
    return &p->lines.at[p->lines.len - 1];
}

/* Adds a range within one line; ages are summed over bytes until fill_lines divides them. */
static bool fill(struct liner *l, uint64_t from, uint64_t to, uint64_t age)
{
    struct map_line *line = line_at(l, from >> l->shift);
    uint64_t cell = l->pool->cell;
    while (line && from <= to) {
        uint64_t at = (from - line->address) / cell;
        uint64_t end = line->address + at * cell + (cell - 1);
        end = end < to ? end : to;
        struct map_cell *c = &line->cells[at];
        uint64_t bytes = end - from + 1;
        /* The mean of the existing and the new bytes. */
        c->age = (uint64_t)(((unsigned __int128)c->age * c->used + (unsigned __int128)age * bytes) /
                            ((unsigned __int128)c->used + bytes));
        c->used += bytes;
        if (end == to)
            return true;
        from = end + 1;
    }
    return line != NULL;
}

static bool fill_lines(void *ctx, const struct interval *i)
{
    struct liner *l = ctx;
    int64_t time = (int64_t)i->value >> 16;
    uint64_t age = l->m->time > time ? (uint64_t)(l->m->time - time) : 0;
    uint64_t from = i->first;
    if (l->any && i->last <= l->reached)
        return true;
    if (l->any && from <= l->reached)
        from = l->reached + 1;
    l->any = true;
    l->reached = i->last;
    while (!l->failed) {
        uint64_t end = from | ((UINT64_C(1) << l->shift) - 1);
        end = end < i->last ? end : i->last;
        l->failed = !fill(l, from, end, age);
        if (end == i->last)
            break;
        from = end + 1;
    }
    return !l->failed;
}

/* The smallest cells with which the pool's lines are few enough. */
static int draw_lines(struct builder *b, size_t pool, struct err *e)
{
    struct map_pool *p = &b->m->pools.at[pool];
    const struct interval_tree *tree = &b->live[pool].tree;
    unsigned shift = (unsigned)__builtin_ctzll(b->m->columns * CELL_LEAST);
    for (;; shift++) {
        struct liner counted = {.shift = shift, .limit = b->options->lines};
        interval_tree_overlap(tree, 0, UINT64_MAX, count_lines, &counted);
        if (counted.lines <= b->options->lines || shift == 63)
            break;
    }
    p->cell = (UINT64_C(1) << shift) / b->m->columns;
    struct liner l = {.m = b->m, .pool = p, .shift = shift};
    interval_tree_overlap(tree, 0, UINT64_MAX, fill_lines, &l);
    return l.failed ? err_no_memory(e, "the memory map") : 0;
}

/* ---- all of it */

static int build(struct builder *b, struct selection *s, struct err *e)
{
    const struct memory_observer to = {.ctx = b, .op = take, .beside = true};
    for (size_t i = 0; i < s->pools.len; i++) {
        if (!vec_push(&b->m->pools, (struct map_pool){.name = s->pools.at[i].name}))
            return err_no_memory(e, "the memory map");
    }
    if (selection_sweep(s, &to, e) != 0)
        return -1;
    for (; b->sampled < b->options->samples; b->sampled++) {
        if (take_samples(b, sample_time(b, b->sampled), e) != 0)
            return -1;
    }
    for (size_t i = 0; i < b->m->pools.len && b->options->columns; i++) {
        if (draw_lines(b, i, e) != 0)
            return -1;
    }
    return 0;
}

int memory_map_build(struct memory_map *m, struct selection *s, const struct map_options *options,
                     struct err *e)
{
    *m = (struct memory_map){.time = selection_end(s), .columns = options->columns};
    struct builder b = {.m = m, .options = options};
    b.live = calloc(s->pools.len + 1, sizeof *b.live);
    int status = b.live ? build(&b, s, e) : err_no_memory(e, "the memory map");
    for (size_t i = 0; b.live && i < s->pools.len; i++)
        interval_tree_release(&b.live[i].tree);
    free(b.live);
    if (status != 0)
        memory_map_release(m);
    return status;
}

void memory_map_release(struct memory_map *m)
{
    for (size_t i = 0; i < m->pools.len; i++) {
        struct map_pool *p = &m->pools.at[i];
        for (size_t k = 0; k < p->lines.len; k++)
            free(p->lines.at[k].cells);
        vec_release(&p->lines);
        vec_release(&p->samples);
    }
    vec_release(&m->pools);
    *m = (struct memory_map){0};
}
