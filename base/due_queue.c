#include "base/due_queue.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_ITEMS 63u /* 1 KiB with the header */
#define SLAB_CHUNKS 64u

/*
 * A run takes further buckets while it is shorter than RUN_LEAST. Buckets longer than RUN_MOST are
 * divided first.
 */
#define RUN_LEAST 1024u
#define RUN_MOST 16384u

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
    due_file_release(&q->file);
    free(q->coming);
    free(q->going);
    *q = (struct due_queue){0};
}

/* The number of items in a bucket. */
static size_t count(const struct due_bucket *b)
{
    return b->before + (b->newest ? (size_t)(b->next - b->newest->items) : 0);
}

/* Updates the newest chunk's count, which must be done before chunks are traversed. */
static void close_chunk(struct due_bucket *b)
{
    if (b->newest)
        b->newest->n = (size_t)(b->next - b->newest->items);
}

/* Returns the oldest chunk to the vacant ones. */
static void give_back(struct due_queue *q, struct due_bucket *b)
{
    struct due_chunk *c = b->chunks;
    b->chunks = c->next;
    c->next = q->vacant;
    q->vacant = c;
    q->used--;
    if (!b->chunks) {
        b->newest = NULL;
        b->next = b->limit = NULL;
    }
}

/* ---- beyond the bound */

static bool have_extent(struct due_item **room)
{
    if (!*room)
        *room = malloc(DUE_EXTENT * sizeof **room);
    return *room != NULL;
}

static int file_extent(struct due_queue *q, struct due_bucket *b, size_t n, struct err *e)
{
    if (due_file_put(&q->file, &b->extents, q->going, n, e) != 0)
        return -1;
    b->filed += n;
    return 0;
}

/* Writes all of a bucket's items in memory to the file. All extents but one are full. */
static int file_bucket(struct due_queue *q, struct due_bucket *b, struct err *e)
{
    size_t n = 0;
    if (!have_extent(&q->going))
        return err_no_memory(e, "a queue of what is due");
    b->before = count(b);
    close_chunk(b);
    for (; b->chunks; give_back(q, b)) {
        const struct due_chunk *c = b->chunks;
        size_t part = DUE_EXTENT - n < c->n ? DUE_EXTENT - n : c->n;
        memcpy(q->going + n, c->items, part * sizeof *c->items);
        n += part;
        if (n == DUE_EXTENT) {
            if (file_extent(q, b, n, e) != 0)
                return -1;
            n = c->n - part;
            memcpy(q->going, c->items + part, n * sizeof *c->items);
        }
    }
    return n ? file_extent(q, b, n, e) : 0;
}

/*
 * Chooses the bucket to write out: among those that fill an extent, the one due last; else the
 * largest.
 */
static struct due_bucket *to_be_filed(struct due_queue *q)
{
    struct due_bucket *most = NULL;
    size_t most_items = 0;
    for (unsigned level = DUE_LEVELS; level-- > 0;) {
        for (unsigned digit = DUE_DIGITS; digit-- > 0;) {
            struct due_bucket *b = &q->buckets[level][digit];
            size_t items = count(b) - b->filed;
            if (items >= DUE_EXTENT)
                return b;
            if (items > most_items) {
                most = b;
                most_items = items;
            }
        }
    }
    return most;
}

/* When the bound is reached, frees a quarter of it. */
static int keep_bound(struct due_queue *q, struct err *e)
{
    size_t bound = q->bound > DUE_BOUND_LEAST ? q->bound : DUE_BOUND_LEAST;
    size_t chunks = bound / sizeof(struct due_chunk);
    if (q->used < chunks)
        return 0;
    while (q->used > chunks / 4 * 3) {
        struct due_bucket *b = to_be_filed(q);
        if (!b)
            return 0;
        if (file_bucket(q, b, e) != 0)
            return -1;
    }
    return 0;
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

static __attribute__((noinline)) int add_chunk(struct due_queue *q, struct due_bucket *b,
                                               struct err *e)
{
    if (q->bound && keep_bound(q, e) != 0)
        return -1;
    if (!q->vacant && !add_slab(q))
        return err_no_memory(e, "a queue of what is due");
    struct due_chunk *c = q->vacant;
    q->vacant = c->next;
    q->used++;
    for (size_t i = 0; i < sizeof *c; i += 64)
        __builtin_prefetch((char *)c + i, 1);
    close_chunk(b);
    b->before = count(b);
    *(b->newest ? &b->newest->next : &b->chunks) = c;
    b->newest = c;
    c->next = NULL;
    c->n = 0;
    b->next = c->items;
    b->limit = c->items + CHUNK_ITEMS;
    return 0;
}

static inline int put(struct due_queue *q, struct due_item item, struct err *e)
{
    uint64_t differs = item.key ^ q->last;
    unsigned level = differs ? (63 - (unsigned)__builtin_clzll(differs)) / DUE_DIGIT : 0;
    unsigned digit = (unsigned)(item.key >> (level * DUE_DIGIT)) & (DUE_DIGITS - 1);
    struct due_bucket *b = &q->buckets[level][digit];
    if (__builtin_expect(b->next == b->limit, 0)) {
        if (add_chunk(q, b, e) != 0)
            return -1;
        q->occupied[level] |= (uint16_t)(1u << digit);
        q->levels |= 1u << level;
    }
    *b->next++ = item;
    return 0;
}

int due_queue_put(struct due_queue *q, uint64_t key, uint64_t value, struct err *e)
{
    if (put(q, (struct due_item){key < q->last ? q->last : key, value}, e) != 0)
        return -1;
    q->count++;
    return 0;
}

void due_queue_restart(struct due_queue *q)
{
    q->last = 0;
}

/* Empties a bucket. The caller owns its chunks and extents. */
static struct due_bucket cut(struct due_queue *q, unsigned level, unsigned digit)
{
    struct due_bucket b = q->buckets[level][digit];
    close_chunk(&b);
    q->buckets[level][digit] = (struct due_bucket){0};
    q->occupied[level] &= (uint16_t) ~(1u << digit);
    if (!q->occupied[level])
        q->levels &= ~(1u << level);
    return b;
}

/* ---- runs */

static int append(struct due_queue *q, const struct due_item *items, size_t n, struct err *e)
{
    if (!vec_reserve(&q->run, q->run.len + n))
        return err_no_memory(e, "a queue of what is due");
    memcpy(q->run.at + q->run.len, items, n * sizeof *items);
    q->run.len += n;
    return 0;
}

/* Appends the items that are due and puts the others back into buckets relative to q->last. */
static int divide(struct due_queue *q, const struct due_item *items, size_t n, uint64_t until,
                  struct err *e)
{
    if (!vec_reserve(&q->run, q->run.len + n))
        return err_no_memory(e, "a queue of what is due");
    for (size_t i = 0; i < n; i++) {
        if (items[i].key <= until)
            q->run.at[q->run.len++] = items[i];
        else if (put(q, items[i], e) != 0)
            return -1;
    }
    return 0;
}

static int put_back(struct due_queue *q, const struct due_item *items, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (put(q, items[i], e) != 0)
            return -1;
    }
    return 0;
}

/* Takes the first items of equal key: enough to make a run. */
static int take_equal(struct due_queue *q, unsigned digit, struct err *e)
{
    struct due_bucket *b = &q->buckets[0][digit];
    close_chunk(b);
    while (b->extents.first && q->run.len < RUN_LEAST) {
        size_t n;
        if (!have_extent(&q->coming))
            return err_no_memory(e, "a queue of what is due");
        if (due_file_take(&q->file, &b->extents, q->coming, &n, e) != 0 ||
            append(q, q->coming, n, e) != 0)
            return -1;
        b->before -= n;
        b->filed -= n;
    }
    while (b->chunks && q->run.len < RUN_LEAST) {
        if (append(q, b->chunks->items, b->chunks->n, e) != 0)
            return -1;
        b->before -= b->chunks == b->newest ? 0 : b->chunks->n;
        give_back(q, b);
    }
    if (!b->chunks && !b->extents.first)
        cut(q, 0, digit);
    return 0;
}

/* What to do with the items of a bucket that was cut. */
enum handling { PUT_BACK, APPEND, DIVIDE };

static int handle(struct due_queue *q, enum handling how, const struct due_item *items, size_t n,
                  uint64_t until, struct err *e)
{
    switch (how) {
    case PUT_BACK:
        return put_back(q, items, n, e);
    case APPEND:
        return append(q, items, n, e);
    default:
        return divide(q, items, n, until, e);
    }
}

static int handle_bucket(struct due_queue *q, struct due_bucket *b, enum handling how,
                         uint64_t until, struct err *e)
{
    int status = 0;
    if (b->extents.first && !have_extent(&q->coming))
        status = err_no_memory(e, "a queue of what is due");
    /* The older items need the room in memory. */
    if (status == 0 && b->extents.first && b->chunks)
        status = file_bucket(q, b, e);
    while (status == 0 && b->extents.first) {
        size_t n;
        status = due_file_take(&q->file, &b->extents, q->coming, &n, e);
        if (status == 0)
            status = handle(q, how, q->coming, n, until, e);
    }
    for (; b->chunks; give_back(q, b)) {
        if (status == 0)
            status = handle(q, how, b->chunks->items, b->chunks->n, until, e);
    }
    return status;
}

/* Appends the due items of the lowest bucket. *more is false when there are none. */
static int take_bucket(struct due_queue *q, uint64_t until, bool *more, struct err *e)
{
    *more = q->levels != 0;
    if (!*more)
        return 0;
    unsigned level = (unsigned)__builtin_ctz(q->levels);
    unsigned digit = (unsigned)__builtin_ctz(q->occupied[level]);
    unsigned shift = level * DUE_DIGIT;
    uint64_t width = (UINT64_C(1) << shift) - 1;
    uint64_t first = (q->last & ~(width | (uint64_t)(DUE_DIGITS - 1) << shift)) | (uint64_t)digit
                                                                                      << shift;
    if (first > until) {
        *more = false;
        return 0;
    }
    if (level == 0) {
        q->last = first;
        return take_equal(q, digit, e);
    }
    struct due_bucket b = cut(q, level, digit);
    bool large = count(&b) > RUN_MOST;
    bool whole = first + width <= until;
    q->last = large || whole ? first : until;
    return handle_bucket(q, &b, large ? PUT_BACK : whole ? APPEND : DIVIDE, until, e);
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

#define PASS_BITS 11u /* the most key bits per pass */

/* One stable radix-sort pass over `bits` bits of the key at `shift`. */
static void sort_pass(const struct due_item *from, struct due_item *to, size_t n, unsigned shift,
                      unsigned bits)
{
    uint32_t place[1u << PASS_BITS];
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint32_t sum = 0;
    memset(place, 0, sizeof *place << bits);
    for (size_t i = 0; i < n; i++)
        place[from[i].key >> shift & mask]++;
    for (size_t i = 0; i <= mask; i++) {
        uint32_t here = place[i];
        place[i] = sum;
        sum += here;
    }
    for (size_t i = 0; i < n; i++)
        to[place[from[i].key >> shift & mask]++] = from[i];
}

/*
 * Sorts in as few passes as the differing key bits need. Returns the array that holds the result.
 */
static struct due_item *sort(struct due_item *a, struct due_item *room, size_t n, unsigned loose)
{
    uint64_t any = 0;
    if (n <= 24) {
        sort_few(a, n);
        return a;
    }
    for (size_t i = 1; i < n; i++)
        any |= a[i].key ^ a[0].key;
    any >>= loose;
    unsigned bits = any ? 64 - (unsigned)__builtin_clzll(any) : 0;
    unsigned most = n < 1024 ? 8 : PASS_BITS;
    unsigned passes = (bits + most - 1) / most;
    for (unsigned i = 0; i < passes; i++) {
        unsigned part = (bits + passes - 1) / passes;
        sort_pass(a, room, n, loose + i * part, part);
        struct due_item *t = a;
        a = room;
        room = t;
    }
    return a;
}

int due_queue_take(struct due_queue *q, uint64_t until, const struct due_item **items, size_t *n,
                   struct err *e)
{
    bool more = true;
    q->run.len = 0;
    while (more && q->run.len < RUN_LEAST) {
        if (take_bucket(q, until, &more, e) != 0)
            return -1;
    }
    *n = q->run.len;
    q->count -= *n;
    if (!vec_reserve(&q->room, *n))
        return err_no_memory(e, "a queue of what is due");
    *items = sort(q->run.at, q->room.at, *n, q->loose);
    return 0;
}
