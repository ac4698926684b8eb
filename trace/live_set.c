#include "trace/live_set.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"

void live_set_release(struct live_set *s)
{
    free(s->slots);
    *s = (struct live_set){0};
}

/*
 * Look-ups jump about the whole table: huge pages spare a walk of the page table for each. A table
 * below that size stays on ordinary pages.
 */
static struct live_slot *slots_alloc(size_t n)
{
    const size_t huge = (size_t)2 << 20;
    if (n > SIZE_MAX / 2 / sizeof(struct live_slot))
        return NULL;
    size_t bytes = n * sizeof(struct live_slot);
    if (bytes < huge)
        return malloc(bytes);
    struct live_slot *slots = aligned_alloc(huge, bytes);
    if (slots)
        (void)madvise(slots, bytes, MADV_HUGEPAGE);
    return slots;
}

static bool live_set_grow(struct live_set *s)
{
    size_t n = s->slots ? (s->mask + 1) * 2 : 64;
    struct live_set bigger = {.mask = n - 1, .count = s->count};
    bigger.seed = s->slots ? s->seed : map_hash(0x6c697665);
    bigger.slots = slots_alloc(n);
    if (!bigger.slots)
        return false;
    memset(bigger.slots, 0xff, n * sizeof *bigger.slots); /* LIVE_SLOT_FREE everywhere */
    for (size_t i = 0; s->slots && i <= s->mask; i++) {
        if (s->slots[i].callstack == LIVE_SLOT_FREE)
            continue;
        size_t at = live_set_home(&bigger, s->slots[i].ptr);
        while (bigger.slots[at].callstack != LIVE_SLOT_FREE)
            at = (at + 1) & bigger.mask;
        bigger.slots[at] = s->slots[i];
    }
    free(s->slots);
    *s = bigger;
    return true;
}

struct live_slot *live_set_seek(struct live_set *s, uint64_t ptr)
{
    if ((!s->slots || s->count >= (s->mask + 1) / 8 * 5) && !live_set_grow(s))
        return NULL;
    size_t i = live_set_home(s, ptr);
    while (s->slots[i].callstack != LIVE_SLOT_FREE && s->slots[i].ptr != ptr)
        i = (i + 1) & s->mask;
    return &s->slots[i];
}

void live_set_fill(struct live_set *s, struct live_slot *slot, const struct live_block *b)
{
    *slot = (struct live_slot){
        .ptr = b->ptr,
        .size_thread = b->size | (uint64_t)b->thread << 48,
        .time_index_high = ((uint64_t)b->time & ((UINT64_C(1) << 48) - 1)) | (b->index >> 32) << 48,
        .index_low = (uint32_t)b->index,
        .callstack = b->callstack,
    };
    s->count++;
}

void live_set_remove(struct live_set *s, struct live_slot *slot)
{
    /* Close the gap: move back every follower that probing could no longer reach across it. */
    size_t gap = (size_t)(slot - s->slots);
    for (size_t i = (gap + 1) & s->mask; s->slots[i].callstack != LIVE_SLOT_FREE;
         i = (i + 1) & s->mask) {
        size_t home = live_set_home(s, s->slots[i].ptr);
        if (((i - home) & s->mask) >= ((i - gap) & s->mask)) {
            s->slots[gap] = s->slots[i];
            gap = i;
        }
    }
    s->slots[gap].callstack = LIVE_SLOT_FREE;
    s->count--;
}

bool live_set_next(const struct live_set *s, size_t *iter, struct live_block *out)
{
    if (!s->slots)
        return false;
    for (size_t i = *iter; i <= s->mask; i++) {
        if (s->slots[i].callstack == LIVE_SLOT_FREE)
            continue;
        *out = live_slot_block(&s->slots[i]);
        *iter = i + 1;
        return true;
    }
    return false;
}

static int compare_index(const void *a, const void *b)
{
    const struct live_block *x = a;
    const struct live_block *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

struct live_block *live_set_list(const struct live_set *s)
{
    size_t iter = 0;
    struct live_block *blocks = malloc((s->count + 1) * sizeof *blocks);
    for (size_t i = 0; blocks && i < s->count && live_set_next(s, &iter, &blocks[i]); i++)
        ;
    if (blocks && s->count)
        qsort(blocks, s->count, sizeof *blocks, compare_index);
    return blocks;
}
