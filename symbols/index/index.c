/* Look-ups in a built or loaded index. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/order.h"
#include "symbols/index/index_ahead.h"
#include "symbols/index/index_parts.h"
#include "symbols/pdb/pdb_types.h"

void symbol_index_free(struct symbol_index *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->units.len; i++) {
        if (x->units.at[i].owned)
            free((void *)x->units.at[i].block.p);
    }
    vec_release(&x->units);
    vec_release(&x->ranges);
    index_names_release(x);
    pdb_types_free(x->types);
    if (x->mapped)
        munmap(x->mapped, x->mapped_size);
    free(x);
}

/* ---- units by address */

static bool in_range(const struct index_range *r, uint64_t address)
{
    return r->low <= address && address < r->high;
}

/* Searches from `near`, the last result: most addresses are there or in the next range. */
static const struct index_range *range_at(const struct symbol_index *x, uint64_t address,
                                          size_t near)
{
    size_t low = 0, high = x->ranges.len;
    for (size_t i = near; i < near + 2 && i < high; i++) {
        if (in_range(&x->ranges.at[i], address))
            return x->ranges.at[i].unit < x->units.len ? &x->ranges.at[i] : NULL;
    }
    BISECT(low, high, at, x->ranges.at[at].low <= address);
    const struct index_range *r = low > 0 ? &x->ranges.at[low - 1] : NULL;
    return r && address < r->high && r->unit < x->units.len ? r : NULL;
}

struct index_unit *index_unit_at(const struct symbol_index *x, uint64_t address)
{
    const struct index_range *r = range_at(x, address, 0);
    return r ? &x->units.at[r->unit] : NULL;
}

bool symbol_index_covers(const struct symbol_index *x, uint64_t address)
{
    return range_at(x, address, 0) != NULL;
}

bool symbol_index_lacks(const struct symbol_index *x, const uint64_t *addresses, size_t n)
{
    size_t near = 0;
    for (size_t i = 0; i < n; i++) {
        const struct index_range *r = range_at(x, addresses[i], near);
        if (r && x->units.at[r->unit].state == UNIT_WAITING)
            return true;
        near = r ? (size_t)(r - x->ranges.at) : near;
    }
    return false;
}

struct claim_end {
    uint64_t address;
    uint32_t unit;
    bool begins;
};

static int compare_ends(const void *a, const void *b)
{
    const struct claim_end *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/*
 * How often each unit claims the current address, and a heap of the claiming units with the lowest
 * on top.
 */
struct claimants {
    uint32_t *count;
    uint32_t *heap;
    size_t len;
};

static void claimants_push(struct claimants *c, uint32_t unit)
{
    size_t i = c->len++;
    for (; i > 0 && c->heap[(i - 1) / 2] > unit; i = (i - 1) / 2)
        c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = unit;
}

static void claimants_pop(struct claimants *c)
{
    uint32_t last = c->heap[--c->len];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < c->len; i = child) {
        if (child + 1 < c->len && c->heap[child + 1] < c->heap[child])
            child++;
        if (c->heap[child] >= last)
            break;
        c->heap[i] = c->heap[child];
    }
    c->heap[i] = last;
}

static bool add_range(struct symbol_index *x, uint64_t low, uint64_t high, struct claimants *c)
{
    struct index_range *last = x->ranges.len ? &x->ranges.at[x->ranges.len - 1] : NULL;
    if (last && last->high == low && c->count[last->unit] > 0) {
        last->high = high;
        return true;
    }
    while (c->len > 0 && c->count[c->heap[0]] == 0)
        claimants_pop(c);
    if (c->len == 0)
        return true;
    return vec_push(&x->ranges, (struct index_range){.low = low, .high = high, .unit = c->heap[0]});
}

static bool sweep(struct symbol_index *x, const struct claim_end *ends, size_t n,
                  struct claimants *c)
{
    size_t open = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && ends[i - 1].address < ends[i].address && open > 0 &&
            !add_range(x, ends[i - 1].address, ends[i].address, c))
            return false;
        if (ends[i].begins) {
            open++;
            c->count[ends[i].unit]++;
            claimants_push(c, ends[i].unit);
        } else {
            open--;
            c->count[ends[i].unit]--;
        }
    }
    return true;
}

bool index_settle(struct symbol_index *x, unit_claims *claims)
{
    size_t n = claims->len;
    struct claim_end *ends = calloc(2 * n + 1, sizeof *ends);
    struct claimants c = {.count = calloc(x->units.len + 1, sizeof(uint32_t)),
                          .heap = calloc(n + 1, sizeof(uint32_t))};
    bool fits = ends && c.count && c.heap;
    x->ranges.len = 0;
    if (fits) {
        for (size_t i = 0; i < n; i++) {
            const struct unit_claim *claim = &claims->at[i];
            ends[2 * i] = (struct claim_end){claim->low, claim->unit, true};
            ends[2 * i + 1] = (struct claim_end){claim->high, claim->unit, false};
        }
        qsort(ends, 2 * n, sizeof *ends, compare_ends);
        fits = sweep(x, ends, 2 * n, &c);
    }
    free(ends);
    free(c.count);
    free(c.heap);
    return fits;
}

/* ---- frames */

/* The source position of a frame: of the address itself, or of a call. */
struct place {
    uint32_t file, line, column;
};

static void set_place(struct symbol_index *x, struct symbol_frame *f, const struct block *b,
                      const struct place *p)
{
    struct index_name name;
    uint32_t number = index_name_of_text(x, b, block_file(b, p->file), true);
    if (index_name_get(x, number, &name)) {
        f->file = name.linkage;
        f->file_number = number;
    }
    f->line = p->line;
    f->column = p->column;
}

static void set_function(struct symbol_index *x, struct symbol_frame *f, const struct block *b,
                         const struct block_scope *scope)
{
    struct index_name name;
    uint32_t number = index_name_of_text(x, b, scope->name, false);
    if (index_name_get(x, number, &name)) {
        f->linkage = name.linkage;
        f->function = name.function;
        f->function_number = number;
    }
    f->inlined = (scope->flags & SCOPE_INLINED) != 0;
    f->start = scope->low == UINT32_MAX ? 0 : b->header.base + scope->low;
}

/*
 * Walks from the innermost scope outwards; each inlined scope has the call position of the next
 * frame.
 */
static size_t give_frames(struct symbol_index *x, const struct block *b, uint32_t scope,
                          struct place at, struct symbol_frame *frames, size_t max)
{
    size_t n = 0;
    while (scope != 0) {
        const struct block_scope *s = &b->scopes[scope - 1];
        if (n < max) {
            frames[n] = (struct symbol_frame){0};
            set_place(x, &frames[n], b, &at);
            set_function(x, &frames[n], b, s);
        }
        n++;
        at = (struct place){s->call_file, s->call_line, s->call_column};
        /* Parents must have lower numbers, so the walk ends even if a cache file is damaged. */
        scope = (s->flags & SCOPE_INLINED) && s->parent < scope ? s->parent : 0;
    }
    return n;
}

/* Opens the unit's block, which is often the one of the last look-up. NULL if it is invalid. */
static const struct block *open_block(struct symbol_index *x, const struct index_unit *u)
{
    if (!u || u->state == UNIT_WAITING)
        return NULL;
    if (x->at_hand_bytes == u->block.p)
        return &x->at_hand;
    x->at_hand_bytes = NULL;
    x->near_row = x->near_segment = 0;
    if (!block_open(&x->at_hand, u->block))
        return NULL;
    x->at_hand_bytes = u->block.p;
    return &x->at_hand;
}

void symbol_index_find(struct symbol_index *x, uint64_t address, struct symbol_index_place *at)
{
    const struct index_range *r = range_at(x, address, x->near_range);
    const struct block *b = open_block(x, r ? &x->units.at[r->unit] : NULL);
    x->near_range = r ? (size_t)(r - x->ranges.at) : x->near_range;
    *at = (struct symbol_index_place){.known = b != NULL};
    if (!b)
        return;
    at->block = *b;
    at->row = block_row_at(b, address, &x->near_row);
    at->scope = block_scope_at(b, address, &x->near_segment);
    if (at->scope)
        __builtin_prefetch(&b->scopes[at->scope - 1]);
}

static void fetch_text(const struct symbol_index *x, const struct block *b, uint32_t text)
{
    uint32_t number = text > 0 && text <= b->header.n_texts ? b->names[text - 1] : 0;
    if (number > 0 && number <= x->n_cached)
        __builtin_prefetch(&x->cached[number - 1]);
}

/*
 * Follows give_frames for a few frames. Few places have more, and prefetching more would evict
 * data.
 */
void symbol_index_fetch(const struct symbol_index *x, const struct symbol_index_place *at)
{
    uint32_t scope = at->scope;
    if (at->row)
        fetch_text(x, &at->block, block_file(&at->block, at->row->file));
    for (unsigned depth = 0; depth < 8 && scope != 0; depth++) {
        const struct block_scope *s = &at->block.scopes[scope - 1];
        fetch_text(x, &at->block, s->name);
        scope = (s->flags & SCOPE_INLINED) && s->parent < scope ? s->parent : 0;
    }
}

bool symbol_index_take(struct symbol_index *x, const struct symbol_index_place *found,
                       struct symbol_frame *frames, size_t max, size_t *n)
{
    const struct block_row *row = found->row;
    struct place at = {0};
    *n = 0;
    if (!found->known)
        return false;
    if (row)
        at = (struct place){row->file, row->line, row->column};
    *n = give_frames(x, &found->block, found->scope, at, frames, max);
    if (found->scope != 0 || !row)
        return found->scope != 0;
    *n = 1;
    if (max > 0) {
        frames[0] = (struct symbol_frame){0};
        set_place(x, &frames[0], &found->block, &at);
    }
    return true;
}

bool symbol_index_lookup(struct symbol_index *x, uint64_t address, struct symbol_frame *frames,
                         size_t max, size_t *n)
{
    struct symbol_index_place at;
    symbol_index_find(x, address, &at);
    return symbol_index_take(x, &at, frames, max, n);
}

void symbol_index_facts(const struct symbol_index *x, struct index_facts *out)
{
    *out = (struct index_facts){.units = x->units.len, .bytes = x->bytes + x->mapped_size};
    for (size_t i = 0; i < x->units.len; i++) {
        const struct index_unit *u = &x->units.at[i];
        out->units_built += u->state != UNIT_WAITING;
        out->units_incomplete += u->state == UNIT_PARTLY;
        out->splits_missing += (u->flags & UNIT_SPLIT_MISSING) != 0;
    }
    memcpy(out->first_fault, x->fault, sizeof out->first_fault);
}
