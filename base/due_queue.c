#include "base/due_queue.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_ITEMS 63u /* with the head a KiB */
#define SLAB_CHUNKS 64u

/* A run goes on with further buckets while it is shorter; a longer bucket is divided first. */
#define RUN_LEAST 256u
#define RUN_MOST 2048u

struct due_chunk {
    struct due_chunk *next;
    size_t n;
    struct due_item items[CHUNK_ITEMS];
};

void due_queue_release(struct due_queue *q)
{
    for (size_t i = 0; i < q->slabs.len; i++)
        free(q->slabs.at[i]);
    vec_release(&q->slabs);
    vec_release(&q->run);
    vec_release(&q->room);
    *q = (struct due_queue){0};
}

/* ---- buckets */

static bool add_slab(struct due_queue *q)
{
    struct due_chunk *slab = malloc(SLAB_CHUNKS * sizeof *slab);
    if (!slab || !vec_push(&q->slabs, slab)) {
        free(slab);
        return false;
    }
    for (unsigned i = 0; i < SLAB_CHUNKS; i++) {
        slab[i].next = q->vacant;
        q->vacant = &slab[i];
    }
    return true;
}

static bool add_chunk(struct due_queue *q, struct due_bucket *b)
{
    if (!q->vacant && !add_slab(q))
        return false;
    struct due_chunk *c = q->vacant;
    q->vacant = c->next;
    c->next = b->chunks;
    c->n = 0;
    b->chunks = c;
    return true;
}

static inline bool put(struct due_queue *q, struct due_item item)
{
    uint64_t differs = item.key ^ q->last;
    unsigned level = differs ? (63 - (unsigned)__builtin_clzll(differs)) / DUE_DIGIT : 0;
    unsigned digit = (unsigned)(item.key >> (level * DUE_DIGIT)) & (DUE_DIGITS - 1);
    struct due_bucket *b = &q->buckets[level][digit];
    if (__builtin_expect(!b->chunks || b->chunks->n == CHUNK_ITEMS, 0)) {
        if (!add_chunk(q, b))
            return false;
        q->occupied[level] |= (uint16_t)(1u << digit);
        q->levels |= 1u << level;
    }
    b->chunks->items[b->chunks->n++] = item;
    b->count++;
    return true;
}

bool due_queue_put(struct due_queue *q, uint64_t key, uint64_t value)
{
    if (!put(q, (struct due_item){key < q->last ? q->last : key, value}))
        return false;
    q->count++;
    return true;
}

void due_queue_restart(struct due_queue *q)
{
    q->last = 0;
}

/* Empties a bucket; its chunks are the caller's. */
static struct due_chunk *cut(struct due_queue *q, unsigned level, unsigned digit)
{
    struct due_bucket *b = &q->buckets[level][digit];
    struct due_chunk *chunks = b->chunks;
    *b = (struct due_bucket){0};
    q->occupied[level] &= (uint16_t) ~(1u << digit);
    if (!q->occupied[level])
        q->levels &= ~(1u << level);
    return chunks;
}

static struct due_chunk *give_back(struct due_queue *q, struct due_chunk *c)
{
    struct due_chunk *next = c->next;
    c->next = q->vacant;
    q->vacant = c;
    return next;
}

/* ---- runs */

/* Appends a chunk to the run. */
static bool append(struct due_queue *q, const struct due_chunk *c)
{
    if (!vec_reserve(&q->run, q->run.len + c->n))
        return false;
    memcpy(q->run.at + q->run.len, c->items, c->n * sizeof *c->items);
    q->run.len += c->n;
    return true;
}

/* Appends the items that are due, and puts the others back, relative to q->last. */
static bool divide(struct due_queue *q, const struct due_chunk *c, uint64_t until)
{
    if (!vec_reserve(&q->run, q->run.len + c->n))
        return false;
    for (size_t i = 0; i < c->n; i++) {
        if (c->items[i].key <= until)
            q->run.at[q->run.len++] = c->items[i];
        else if (!put(q, c->items[i]))
            return false;
    }
    return true;
}

static bool put_back(struct due_queue *q, const struct due_chunk *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!put(q, c->items[i]))
            return false;
    }
    return true;
}

/* Keys of one value: as many as make a run are enough. */
static bool take_equal(struct due_queue *q, unsigned digit)
{
    struct due_bucket *b = &q->buckets[0][digit];
    while (b->chunks && q->run.len < RUN_LEAST) {
        struct due_chunk *c = b->chunks;
        if (!append(q, c))
            return false;
        b->count -= c->n;
        b->chunks = give_back(q, c);
    }
    if (!b->chunks)
        cut(q, 0, digit);
    return true;
}

/* Appends the lowest bucket's items that are due. *more is false when there are none. */
static bool take_bucket(struct due_queue *q, uint64_t until, bool *more)
{
    *more = q->levels != 0;
    if (!*more)
        return true;
    unsigned level = (unsigned)__builtin_ctz(q->levels);
    unsigned digit = (unsigned)__builtin_ctz(q->occupied[level]);
    unsigned shift = level * DUE_DIGIT;
    uint64_t width = (UINT64_C(1) << shift) - 1;
    uint64_t first = (q->last & ~(width | (uint64_t)(DUE_DIGITS - 1) << shift)) | (uint64_t)digit
                                                                                      << shift;
    if (first > until) {
        *more = false;
        return true;
    }
    if (level == 0) {
        q->last = first;
        return take_equal(q, digit);
    }
    bool large = q->buckets[level][digit].count > RUN_MOST;
    bool whole = first + width <= until;
    struct due_chunk *chunks = cut(q, level, digit);
    q->last = large || whole ? first : until;
    bool ok = true;
    for (; chunks; chunks = give_back(q, chunks)) {
        ok = ok && (large   ? put_back(q, chunks)
                    : whole ? append(q, chunks)
                            : divide(q, chunks, until));
    }
    return ok;
}

static void sort_few(struct due_item *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct due_item item = a[i];
        size_t k = i;
        for (; k > 0 && a[k - 1].key > item.key; k--)
            a[k] = a[k - 1];
        a[k] = item;
    }
}

/* One byte of the key, lowest first; stable. */
static void sort_pass(const struct due_item *from, struct due_item *to, size_t n, unsigned shift)
{
    uint32_t place[256] = {0};
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        place[(from[i].key >> shift) & 0xff]++;
    for (unsigned i = 0; i < 256; i++) {
        uint32_t here = place[i];
        place[i] = sum;
        sum += here;
    }
    for (size_t i = 0; i < n; i++)
        to[place[(from[i].key >> shift) & 0xff]++] = from[i];
}

/* Bytes in which no two keys differ are left out. Returns where the sorted items are. */
static struct due_item *sort(struct due_item *a, struct due_item *room, size_t n, unsigned loose)
{
    uint64_t any = 0;
    if (n <= 24) {
        sort_few(a, n);
        return a;
    }
    for (size_t i = 1; i < n; i++)
        any |= a[i].key ^ a[0].key;
    for (unsigned shift = loose; shift < 64; shift += 8) {
        if ((any >> shift & 0xff) == 0)
            continue;
        sort_pass(a, room, n, shift);
        struct due_item *t = a;
        a = room;
        room = t;
    }
    return a;
}

bool due_queue_take(struct due_queue *q, uint64_t until, const struct due_item **items, size_t *n)
{
    bool more = true;
    q->run.len = 0;
    while (more && q->run.len < RUN_LEAST) {
        if (!take_bucket(q, until, &more))
            return false;
    }
    *n = q->run.len;
    q->count -= *n;
    if (!vec_reserve(&q->room, *n))
        return false;
    *items = sort(q->run.at, q->room.at, *n, q->loose);
    return true;
}
