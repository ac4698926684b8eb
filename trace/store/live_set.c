#include "trace/store/live_set.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"

#define HUGE_PAGE ((size_t)2 << 20)

_Static_assert(sizeof(struct live_tags) == 16, "a group's tags are one vector");

/* An empty group for sets without room, so that look-ups need no check: it is never written. */
static const struct live_tags no_tags;
static const struct live_slot no_slots[LIVE_STRIDE];

void live_set_init(struct live_set *s)
{
    *s = (struct live_set){.seed = map_hash(0x6c697665),
                           .tags = (struct live_tags *)&no_tags,
                           .slots = (struct live_slot *)no_slots,
                           .groups = 1};
}

void live_set_release(struct live_set *s)
{
    if (s->limit) {
        free(s->tags);
        free(s->slots);
    }
    *s = (struct live_set){0};
}

/*
 * Look-ups access the table at random: huge pages save a page table walk for each. Smaller tables
 * use ordinary pages.
 */
static void *table_alloc(size_t bytes)
{
    if (bytes < HUGE_PAGE)
        return aligned_alloc(64, (bytes + 63) / 64 * 64);
    bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *table = aligned_alloc(HUGE_PAGE, bytes);
    if (table)
        (void)madvise(table, bytes, MADV_HUGEPAGE);
    return table;
}

static bool live_set_alloc(struct live_set *s, size_t groups)
{
    if (groups > SIZE_MAX / 4 / (LIVE_STRIDE * sizeof *s->slots))
        return false;
    s->groups = groups;
    s->limit = groups * LIVE_GROUP / 4 * 3;
    s->tags = table_alloc(groups * sizeof *s->tags);
    s->slots = table_alloc(groups * LIVE_STRIDE * sizeof *s->slots);
    if (s->tags && s->slots) {
        memset(s->tags, 0, groups * sizeof *s->tags);
        return true;
    }
    free(s->tags);
    free(s->slots);
    return false;
}

/* Takes a vacant slot for a hash. There must be one. */
static struct live_slot *live_set_take(struct live_set *s, uint64_t hash)
{
    size_t group = live_set_home(s, hash);
    struct live_tags *t;
    unsigned vacant;
    while ((vacant = live_tags_match(t = &s->tags[group], 0)) == 0) {
        t->passed = (uint8_t)(t->passed + (t->passed < UINT8_MAX));
        if (++group == s->groups)
            group = 0;
    }
    unsigned i = (unsigned)__builtin_ctz(vacant);
    t->at[i] = live_hash_tag(hash);
    s->count++;
    return &s->slots[group * LIVE_STRIDE + i];
}

/* Grows by half, so that little room is unused. */
static bool live_set_grow(struct live_set *s)
{
    struct live_set bigger = {.seed = s->seed};
    if (!live_set_alloc(&bigger, s->limit ? s->groups + (s->groups + 1) / 2 : 4))
        return false;
    for (size_t group = 0; group < s->groups; group++) {
        for (unsigned i = 0; i < LIVE_GROUP; i++) {
            const struct live_slot *slot = &s->slots[group * LIVE_STRIDE + i];
            if (s->tags[group].at[i])
                *live_set_take(&bigger, live_set_hash(&bigger, slot->ptr)) = *slot;
        }
    }
    struct live_set old = *s;
    *s = bigger;
    live_set_release(&old);
    return true;
}

struct live_slot *live_set_add_slow(struct live_set *s, uint64_t hash)
{
    if (s->count >= s->limit && !live_set_grow(s))
        return NULL;
    return live_set_take(s, hash);
}

bool live_set_next(const struct live_set *s, size_t *iter, struct live_block *out)
{
    for (size_t i = *iter; i < s->groups * LIVE_STRIDE; i++) {
        if (i % LIVE_STRIDE == LIVE_GROUP || !*live_set_tag(s, i))
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
