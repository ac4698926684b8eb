#include "analysis/questions/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/order.h"

#define FANOUT_SHIFT 6
#define FANOUT ((size_t)1 << FANOUT_SHIFT)

_Static_assert(sizeof(struct history_entry) == 30, "within 32 bytes with its share of `reach`");

#define BITS48 ((UINT64_C(1) << 48) - 1)

static int64_t time_of(const struct history_entry *x)
{
    return (int64_t)((uint64_t)x->time << 16) >> 16;
}

static int64_t freed_at(const struct history_entry *x)
{
    return x->after ? time_of(x) + (int64_t)(x->after - 1) : NEVER_FREED;
}

static uint64_t last_of(const struct history_entry *x)
{
    return interval_of_block(x->first, x->size, 0).last;
}

/* ---- order: by address, then by index, which is time order */

static bool is_before(const struct history_entry *a, const struct history_entry *b)
{
    return a->first < b->first || (a->first == b->first && a->index < b->index);
}

static void sort_few(struct history_entry *at, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct history_entry x = at[i];
        size_t k = i;
        for (; k && is_before(&x, &at[k - 1]); k--)
            at[k] = at[k - 1];
        at[k] = x;
    }
}

static uint64_t key_of(const struct history_entry *x, bool by_index)
{
    return by_index ? x->index : x->first;
}

struct stretch {
    size_t begin, n;
    bool by_index; /* the addresses are equal */
};

#define FEW 24
#define DIGITS 256

/*
 * Sorts the range by the 8 highest bits in which its keys differ, in place, and returns the starts
 * of the parts with equal bits (McIlroy, Bostic, McIlroy 1993: American flag sort). False if all
 * keys are equal.
 */
static bool divide(struct history_entry *at, const struct stretch *s, size_t starts[DIGITS + 1])
{
    uint64_t differ = 0;
    uint64_t one = key_of(&at[0], s->by_index);
    size_t next[DIGITS];
    size_t count[DIGITS] = {0};
    for (size_t i = 1; i < s->n; i++)
        differ |= key_of(&at[i], s->by_index) ^ one;
    if (differ == 0)
        return false;
    int shift = 56 - __builtin_clzll(differ);
    shift = shift < 0 ? 0 : shift;
    for (size_t i = 0; i < s->n; i++)
        count[key_of(&at[i], s->by_index) >> shift & (DIGITS - 1)]++;
    size_t sum = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        starts[d] = next[d] = sum;
        sum += count[d];
    }
    starts[DIGITS] = sum;
    for (size_t d = 0; d < DIGITS; d++) {
        while (next[d] < starts[d + 1]) {
            struct history_entry x = at[next[d]];
            for (;;) {
                size_t to = key_of(&x, s->by_index) >> shift & (DIGITS - 1);
                if (to == d)
                    break;
                struct history_entry y = at[next[to]];
                at[next[to]++] = x;
                x = y;
            }
            at[next[d]++] = x;
        }
    }
    return true;
}

/* Unsorted parts wait in a list: at most 256 parts for each of 12 digits. */
static int sort_entries(struct history_entry *entries, size_t n, struct err *e)
{
    VEC(struct stretch) waiting = {0};
    struct stretch all = {0, n, false};
    bool ok = vec_push(&waiting, all);
    while (ok && waiting.len) {
        struct stretch s = waiting.at[--waiting.len];
        size_t starts[DIGITS + 1];
        if (s.n <= FEW) {
            sort_few(entries + s.begin, s.n);
            continue;
        }
        if (!divide(entries + s.begin, &s, starts)) {
            if (!s.by_index)
                ok = vec_push(&waiting, (struct stretch){s.begin, s.n, true});
            continue;
        }
        for (size_t d = 0; d < DIGITS && ok; d++) {
            struct stretch part = {s.begin + starts[d], starts[d + 1] - starts[d], s.by_index};
            ok = part.n < 2 || vec_push(&waiting, part);
        }
    }
    vec_release(&waiting);
    return ok ? 0 : err_no_memory(e, "all allocations in order of address");
}

/* ---- reading */

/* A run of both columns, which have the same indices. */
static void take_run(const struct history *h, struct history_pool *p, const struct memory_alloc *a,
                     const struct memory_free *f, size_t n, uint64_t index)
{
    int64_t end = h->selection->end;
    for (size_t i = 0; i < n; i++) {
        struct selection_block b = {.pool = p->number,
                                    .thread = memory_alloc_thread(&a[i]),
                                    .callstack = a[i].callstack,
                                    .size = memory_alloc_size(&a[i]),
                                    .time = a[i].time,
                                    .freed = memory_free_time(&a[i], &f[i])};
        if (!selection_wants(h->selection, &b))
            continue;
        bool seen_freed = !is_live_before(b.freed, end);
        p->entries[p->count++] =
            (struct history_entry){.first = a[i].ptr,
                                   .size = b.size & BITS48,
                                   .time = (uint64_t)a[i].time & BITS48,
                                   .after = seen_freed ? f[i].after_thread & BITS48 : 0,
                                   .index = (uint32_t)(index + i)};
    }
}

static int read_columns(const struct history *h, struct history_pool *p, struct pool *from,
                        struct err *e)
{
    struct column_reader allocs;
    struct column_reader frees;
    const struct memory_alloc *a;
    const struct memory_free *f;
    size_t n;
    column_reader_init(&allocs, &from->allocs);
    column_reader_init(&frees, &from->frees);
    for (;;) {
        uint64_t index = allocs.next;
        size_t same;
        a = column_reader_next(&allocs, &n, e);
        f = column_reader_next(&frees, &same, e);
        if (!a || !f)
            break;
        take_run(h, p, a, f, n < same ? n : same, index);
    }
    column_reader_release(&allocs);
    column_reader_release(&frees);
    return e->code ? -1 : 0;
}

static int build_reach(struct history_pool *p, struct err *e)
{
    size_t below = p->count;
    for (unsigned level = 0; level < HISTORY_LEVELS && below > FANOUT; level++) {
        size_t n = (below + FANOUT - 1) >> FANOUT_SHIFT;
        uint64_t *reach = calloc(n, sizeof *reach);
        if (!reach)
            return err_no_memory(e, "all allocations");
        for (size_t i = 0; i < below; i++) {
            uint64_t last = level ? p->reach[level - 1][i] : last_of(&p->entries[i]);
            uint64_t *to = &reach[i >> FANOUT_SHIFT];
            *to = last > *to ? last : *to;
        }
        p->reach[level] = reach;
        p->reach_count[level] = below = n;
        p->levels = level + 1;
    }
    return 0;
}

static int read_pool(const struct history *h, struct history_pool *p, struct err *e)
{
    struct pool *from = h->selection->trace->memory.pools.at[p->number];
    if (from->allocs.len > UINT32_MAX)
        return err_set(e, ERR_INPUT, "a pool has more than 2^32 allocations: too many to keep all");
    if (from->allocs.len == 0)
        return 0;
    p->entries = calloc(from->allocs.len, sizeof *p->entries); /* large: zero pages are free */
    if (!p->entries)
        return err_no_memory(e, "all allocations");
    if (read_columns(h, p, from, e) != 0 || sort_entries(p->entries, p->count, e) != 0)
        return -1;
    /* A selection may leave most of it unused. */
    struct history_entry *fit = realloc(p->entries, (p->count + 1) * sizeof *fit);
    p->entries = fit ? fit : p->entries;
    return build_reach(p, e);
}

int history_build(struct history *h, struct selection *s, struct err *e)
{
    *h = (struct history){.selection = s};
    int status = s->trace->memory.only.is ? memory_refuse("there are no single blocks", e) : 0;
    for (uint32_t i = 0; i < s->trace->memory.pools.len && status == 0; i++) {
        if (s->pool_of[i] == UINT32_MAX)
            continue;
        if (!vec_push(&h->pools, (struct history_pool){.number = i}))
            status = err_no_memory(e, "all allocations");
        else
            status = read_pool(h, &h->pools.at[h->pools.len - 1], e);
    }
    if (status != 0)
        history_release(h);
    return status;
}

void history_release(struct history *h)
{
    for (size_t i = 0; i < h->pools.len; i++) {
        free(h->pools.at[i].entries);
        for (unsigned level = 0; level < h->pools.at[i].levels; level++)
            free(h->pools.at[i].reach[level]);
    }
    vec_release(&h->pools);
    *h = (struct history){0};
}

/* ---- queries */

/* The number of entries that begin at or before `address`. */
static size_t count_up_to(const struct history_pool *p, uint64_t address)
{
    size_t low = 0;
    BISECT(low, p->count, i, p->entries[i].first <= address);
    return low;
}

struct search {
    const struct history_pool *pool;
    uint64_t low;
    size_t end; /* entries from here on begin beyond the range */
    history_visit *visit;
    void *ctx;
};

static bool visit_entry(const struct search *s, size_t at)
{
    const struct history_entry *x = &s->pool->entries[at];
    if (last_of(x) < s->low)
        return true;
    struct history_block b = {.pool = s->pool->number,
                              .index = x->index,
                              .ptr = x->first,
                              .size = x->size,
                              .time = time_of(x),
                              .freed = freed_at(x)};
    return s->visit(s->ctx, &b);
}

/* Item `at` of a level covers 64 items of the level below; on level 0, 64 entries. */
static bool visit_level(const struct search *s, unsigned level, size_t at)
{
    if (s->pool->reach[level][at] < s->low)
        return true;
    size_t from = at << FANOUT_SHIFT;
    size_t below = level ? s->pool->reach_count[level - 1] : s->end;
    size_t to = from + FANOUT < below ? from + FANOUT : below;
    for (size_t i = from; i < to; i++) {
        /* The first entry of an item shows whether any of it can begin before the end. */
        if (level && i << FANOUT_SHIFT * level >= s->end)
            break;
        if (!(level ? visit_level(s, level - 1, i) : visit_entry(s, i)))
            return false;
    }
    return true;
}

static bool search_pool(const struct history_pool *p, uint64_t low, uint64_t high,
                        history_visit *visit, void *ctx)
{
    struct search s = {p, low, count_up_to(p, high), visit, ctx};
    if (p->levels == 0) {
        for (size_t i = 0; i < s.end; i++) {
            if (!visit_entry(&s, i))
                return false;
        }
        return true;
    }
    unsigned top = p->levels - 1;
    for (size_t i = 0; i < p->reach_count[top] && i << FANOUT_SHIFT * (top + 1) < s.end; i++) {
        if (!visit_level(&s, top, i))
            return false;
    }
    return true;
}

void history_overlap(const struct history *h, uint64_t low, uint64_t high, history_visit *visit,
                     void *ctx)
{
    for (size_t i = 0; i < h->pools.len; i++) {
        if (!search_pool(&h->pools.at[i], low, high, visit, ctx))
            return;
    }
}
