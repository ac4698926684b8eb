#include "analysis/html/html_map.h"

#include <stdlib.h>

#include "base/saturate.h"

/* A piece as a key: its pool above the number of at most 52 bits. */
#define POOL_SHIFT 56

void page_map_init(struct page_map *m)
{
    *m = (struct page_map){.shift = PAGE_MAP_SHIFT_MIN};
}

void page_map_release(struct page_map *m)
{
    map_release(&m->seen);
    vec_release(&m->pieces);
    free(m->owners);
    m->owners = NULL;
}

static uint64_t last_address(uint64_t ptr, uint64_t size)
{
    uint64_t more = size ? size - 1 : 0;
    return ptr > UINT64_MAX - more ? UINT64_MAX : ptr + more;
}

static uint64_t piece_key(uint32_t pool, uint64_t piece)
{
    return (uint64_t)pool << POOL_SHIFT | piece;
}

/* Doubles the size of a piece. */
static int coarsen(struct page_map *m, struct err *e)
{
    struct map coarse = {0};
    size_t iter = 0;
    for (const struct map_slot *s; (s = map_next(&m->seen, &iter));) {
        uint64_t piece = s->key & ((UINT64_C(1) << POOL_SHIFT) - 1);
        uint32_t pool = (uint32_t)(s->key >> POOL_SHIFT);
        if (!map_add(&coarse, piece_key(pool, piece >> 1), NULL)) {
            map_release(&coarse);
            return err_no_memory(e, "the memory map");
        }
    }
    map_release(&m->seen);
    m->seen = coarse;
    m->shift++;
    return 0;
}

int page_map_touch(struct page_map *m, uint32_t pool, uint64_t ptr, uint64_t size, struct err *e)
{
    uint64_t end = last_address(ptr, size);
    uint64_t mark = map_hash(ptr ^ map_hash(size ^ map_hash(pool))) | 1;
    uint64_t *recent = &m->recent[mark >> 8 & (PAGE_MAP_RECENT - 1)];
    if (*recent == mark)
        return 0;
    while ((end >> m->shift) - (ptr >> m->shift) >= PAGE_MAP_PIECES) {
        if (coarsen(m, e) != 0)
            return -1;
    }
    uint64_t first = ptr >> m->shift;
    uint64_t n = (end >> m->shift) - first + 1;
    for (uint64_t i = 0; i < n; i++) {
        if (!map_add(&m->seen, piece_key(pool, first + i), NULL))
            return err_no_memory(e, "the memory map");
    }
    while (m->seen.count > PAGE_MAP_PIECES && m->shift < 63) {
        if (coarsen(m, e) != 0)
            return -1;
    }
    *recent = mark;
    return 0;
}

static int compare_pieces(const void *a, const void *b)
{
    const struct page_piece *x = a;
    const struct page_piece *y = b;
    if (x->pool != y->pool)
        return x->pool < y->pool ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

int page_map_settle(struct page_map *m, struct err *e)
{
    size_t iter = 0;
    m->pieces.len = 0;
    for (const struct map_slot *s; (s = map_next(&m->seen, &iter));) {
        uint64_t piece = s->key & ((UINT64_C(1) << POOL_SHIFT) - 1);
        struct page_piece p = {(uint32_t)(s->key >> POOL_SHIFT), piece << m->shift};
        if (!vec_push(&m->pieces, p))
            return err_no_memory(e, "the memory map");
    }
    free(m->owners);
    m->owners = calloc(m->pieces.len + 1, sizeof *m->owners);
    if (!m->owners)
        return err_no_memory(e, "the memory map");
    if (m->pieces.len)
        qsort(m->pieces.at, m->pieces.len, sizeof *m->pieces.at, compare_pieces);
    for (size_t i = 0; i < m->pieces.len; i++) {
        const struct page_piece *p = &m->pieces.at[i];
        uint64_t *number = map_find(&m->seen, piece_key(p->pool, p->start >> m->shift));
        if (number)
            *number = i;
    }
    return 0;
}

struct page_span page_map_find(const struct page_map *m, uint32_t pool, uint64_t ptr, uint64_t size)
{
    struct page_span span = {0};
    uint64_t end = last_address(ptr, size);
    uint64_t first = ptr >> m->shift;
    const uint64_t *number = map_find(&m->seen, piece_key(pool, first));
    if (!number || size == 0)
        return span;
    span.first = (uint32_t)*number;
    span.count = (uint32_t)((end >> m->shift) - first + 1);
    if (span.first + span.count > m->pieces.len)
        return (struct page_span){0};
    span.head = span.count == 1 ? end - ptr + 1 : ((first + 1) << m->shift) - ptr;
    span.tail = span.count == 1 ? 0 : end - (end >> m->shift << m->shift) + 1;
    return span;
}

void page_map_count(struct page_map *m, const struct page_span *at,
                    const unsigned owner[PAGE_MAP_KINDS])
{
    if (at->count == 0)
        return;
    for (unsigned k = 0; k < PAGE_MAP_KINDS; k++) {
        struct page_owners *first = &m->owners[at->first];
        struct page_owners *last = first + at->count - 1;
        unsigned who = owner[k];
        first->bytes[k][who] = saturating_add(first->bytes[k][who], at->head);
        last->bytes[k][who] = saturating_add(last->bytes[k][who], at->tail);
        if (at->count < 3)
            continue;
        first[1].cover[k][who]++;
        last->cover[k][who]--;
    }
}

void page_map_owners(const struct page_map *m, enum page_map_kind kind, uint8_t *most)
{
    uint64_t whole[PAGE_MAP_OWNERS + 1] = {0};
    for (size_t i = 0; i < m->pieces.len; i++) {
        const struct page_owners *o = &m->owners[i];
        uint64_t highest = 0;
        most[i] = PAGE_MAP_NOBODY;
        for (unsigned who = 0; who <= PAGE_MAP_OWNERS; who++) {
            uint64_t covered;
            whole[who] += (uint64_t)o->cover[kind][who];
            if (__builtin_mul_overflow(whole[who], UINT64_C(1) << m->shift, &covered))
                covered = SATURATED;
            uint64_t bytes = saturating_add(o->bytes[kind][who], covered);
            if (bytes > highest) {
                highest = bytes;
                most[i] = (uint8_t)who;
            }
        }
    }
}
