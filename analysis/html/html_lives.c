#include "analysis/html/html_lives.h"

#include <stdlib.h>

#include "base/saturate.h"

void page_lives_init(struct page_lives *l, uint32_t slots, size_t max)
{
    *l = (struct page_lives){.slots = slots, .parts = PAGE_LIVES_PARTS, .max = max};
}

void page_lives_release(struct page_lives *l)
{
    map_release(&l->numbers);
    vec_release(&l->list);
    vec_release(&l->recent);
}

/* The pair's number, SIZE_MAX if memory is short. */
static size_t number_of(struct page_lives *l, const struct page_life *life)
{
    bool fresh;
    uint64_t *number = map_add(
        &l->numbers, (uint64_t)life->row << 16 | (uint64_t)life->born << 8 | life->freed, &fresh);
    if (!number || (fresh && !vec_push(&l->list, ((struct page_life){life->row, life->born,
                                                                     life->freed, 0, 0}))))
        return SIZE_MAX;
    if (fresh)
        *number = l->list.len - 1;
    return *number;
}

static struct page_life *recent_of(const struct page_lives *l, const struct page_life *life)
{
    if (life->row >= l->recent.len || l->recent.at[life->row] >= l->list.len)
        return NULL;
    struct page_life *last = &l->list.at[l->recent.at[life->row]];
    bool same = last->row == life->row && last->born == life->born && last->freed == life->freed;
    return same ? last : NULL;
}

static int count(struct page_lives *l, const struct page_life *life, struct err *e)
{
    struct page_life *to = recent_of(l, life);
    if (!to) {
        size_t number = number_of(l, life);
        while (l->recent.len <= life->row && number != SIZE_MAX) {
            if (!vec_push(&l->recent, 0))
                number = SIZE_MAX;
        }
        if (number == SIZE_MAX)
            return err_no_memory(e, "lives of blocks");
        l->recent.at[life->row] = (uint32_t)number;
        to = &l->list.at[number];
    }
    to->count += life->count;
    to->bytes = saturating_add(to->bytes, life->bytes);
    return 0;
}

/* More pairs than at the end, since rows may be combined by then. */
#define PAIRS_TIMES 4u

/* Makes parts 2^shift times as long, and combines rows. */
static int remake(struct page_lives *l, unsigned shift, uint32_t rows, uint32_t pools,
                  struct err *e)
{
    struct page_lives coarse = {.slots = l->slots, .parts = l->parts >> shift, .max = l->max};
    int status = 0;
    for (size_t i = 0; i < l->list.len && status == 0; i++) {
        struct page_life life = l->list.at[i];
        life.born = (uint8_t)(life.born >> shift);
        life.freed = (uint8_t)(life.freed >> shift);
        life.row = life.row < rows ? life.row : life.row % pools;
        status = count(&coarse, &life, e);
    }
    struct page_lives fine = *l;
    *l = coarse;
    page_lives_release(&fine);
    return status;
}

static int keep_max(struct page_lives *l, size_t max, struct err *e)
{
    int status = 0;
    while (status == 0 && l->list.len > max && l->parts > 1)
        status = remake(l, 1, UINT32_MAX, 1, e);
    return status;
}

int page_lives_add(struct page_lives *l, uint32_t row, uint32_t born, uint32_t freed, uint64_t size,
                   struct err *e)
{
    uint32_t part = l->slots / l->parts;
    const struct page_life life = {row, (uint8_t)(born / part), (uint8_t)(freed / part), 1, size};
    size_t max = l->max < SIZE_MAX / PAIRS_TIMES ? PAIRS_TIMES * l->max : SIZE_MAX;
    return count(l, &life, e) == 0 ? keep_max(l, max, e) : -1;
}

int page_lives_combine(struct page_lives *l, uint32_t rows, uint32_t pools, struct err *e)
{
    return remake(l, 0, rows, pools, e);
}

static int compare(const void *a, const void *b)
{
    const struct page_life *x = a;
    const struct page_life *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->born != y->born ? x->born - y->born : x->freed - y->freed;
}

int page_lives_finish(struct page_lives *l, struct err *e)
{
    int status = keep_max(l, l->max, e);
    map_release(&l->numbers);
    if (l->list.len)
        qsort(l->list.at, l->list.len, sizeof *l->list.at, compare);
    return status;
}
