#include "analysis/questions/step_curve.h"

#include <stdlib.h>

#include "analysis/figures/figure_bytes.h"
#include "base/saturate.h"

#define SHIFT_MAX 52u /* times fit in 61 bits */
#define FIELDS (sizeof(struct timeline_bucket) / 8)

void timeline_bucket_use(struct timeline_bucket *b, int64_t time, uint64_t use, uint64_t live)
{
    if (use < b->low)
        b->low = use;
    if (use > b->high || b->high_time == INT64_MIN) {
        b->high = use;
        b->high_time = time;
    }
    if (live > b->high_live)
        b->high_live = live;
    b->last = use;
    b->last_live = live;
}

void timeline_bucket_join(struct timeline_bucket *b, const struct timeline_bucket *next)
{
    if (next->high_time != INT64_MIN) {
        b->low = next->low < b->low ? next->low : b->low;
        if (next->high > b->high || b->high_time == INT64_MIN) {
            b->high = next->high;
            b->high_time = next->high_time;
        }
        b->high_live = next->high_live > b->high_live ? next->high_live : b->high_live;
        b->last = next->last;
        b->last_live = next->last_live;
    }
    b->allocations += next->allocations;
    b->frees += next->frees;
    b->allocated = saturating_add(b->allocated, next->allocated);
    b->freed = saturating_add(b->freed, next->freed);
}

void step_curve_coarsen(struct step_curve *c, unsigned shift)
{
    for (; c->shift < shift; c->shift++) {
        for (size_t i = 0; i < c->count; i++) {
            if (i % 2)
                timeline_bucket_join(&c->at[i / 2], &c->at[i]);
            else
                c->at[i / 2] = c->at[i];
        }
        c->count = (c->count + 1) / 2;
    }
}

/* ---- while steps come */

static struct timeline_bucket *bucket_at(struct step_curve *c, int64_t time)
{
    unsigned shift = c->shift;
    while ((uint64_t)time >> shift >= CURVE_STEPS)
        shift++;
    step_curve_coarsen(c, shift);
    size_t i = (size_t)((uint64_t)time >> shift);
    while (c->count <= i)
        c->at[c->count++] = TIMELINE_BUCKET_NEW;
    return &c->at[i];
}

/* The use at the end of the newest nanosecond counts until then. */
static void settle(struct step_curve *c, int64_t until)
{
    bucket_at(c, until - 1);
    size_t last = (size_t)((uint64_t)(until - 1) >> c->shift);
    for (size_t i = (size_t)((uint64_t)c->now >> c->shift); i <= last; i++) {
        int64_t begin = (int64_t)(i << c->shift);
        timeline_bucket_use(&c->at[i], c->now > begin ? c->now : begin, c->use, c->live);
    }
}

static int take(void *state, const struct memory_op *op, struct err *e)
{
    struct step_curve *c = state;
    const bool is_alloc = op->kind == MEMORY_ALLOC;
    const uint64_t size = op->block.size;
    (void)e;
    if (op->time > c->now) {
        settle(c, op->time);
        c->now = op->time;
    }
    c->use = is_alloc ? saturating_add(c->use, size) : saturating_sub(c->use, size);
    c->live += is_alloc ? 1 : UINT64_MAX;
    struct timeline_bucket *b = bucket_at(c, c->now);
    b->allocations += is_alloc;
    b->frees += !is_alloc;
    b->allocated = saturating_add(b->allocated, is_alloc ? size : 0);
    b->freed = saturating_add(b->freed, is_alloc ? 0 : size);
    return 0;
}

static void *begin(void)
{
    return calloc(1, sizeof(struct step_curve));
}

/* ---- bytes */

/* Fields of adjacent steps are alike: each is the difference from the one before. */
static void put_fields(const struct step_curve *c, struct buf *out)
{
    for (size_t field = 0; field < FIELDS; field++) {
        uint64_t before = 0;
        for (size_t i = 0; i < c->count; i++) {
            uint64_t n = load_u64((const uint8_t *)&c->at[i] + field * 8);
            figures_put_signed(out, n - before);
            before = n;
        }
    }
}

static int put(const void *state, const struct pool *pool, struct buf *out, struct err *e)
{
    struct step_curve *c = malloc(sizeof *c);
    (void)pool;
    if (!c)
        return err_no_memory(e, "the use over time");
    *c = *(const struct step_curve *)state;
    settle(c, c->now + 1);
    figures_put(out, c->shift);
    figures_put(out, c->count);
    put_fields(c, out);
    free(c);
    return 0;
}

static int damaged(struct err *e)
{
    return err_set(e, ERR_INPUT, "figures behind the trace: steps of time are damaged");
}

int step_curve_decode(struct step_curve *c, struct view bytes, struct err *e)
{
    struct cursor in = cursor_over(bytes.p, bytes.len);
    uint64_t shift = figures_take(&in), count = figures_take(&in);
    *c = (struct step_curve){0};
    if (in.short_read || shift > SHIFT_MAX || count > CURVE_STEPS ||
        count * FIELDS > cursor_left(&in))
        return damaged(e);
    c->shift = (unsigned)shift;
    c->count = (size_t)count;
    for (size_t field = 0; field < FIELDS; field++) {
        uint64_t n = 0;
        for (size_t i = 0; i < count; i++) {
            n += figures_take_signed(&in);
            store_u64((uint8_t *)&c->at[i] + field * 8, n);
        }
    }
    bool right = !in.short_read && cursor_left(&in) == 0;
    for (size_t i = 0; i < count && right; i++)
        right = c->at[i].high_time >> shift == (int64_t)i;
    return right ? 0 : damaged(e);
}

const struct figures_part step_curve_part = {
    .begin = begin, .take = take, .put = put, .release = free};

struct timeline_bucket step_curve_bucket(const struct step_curve *c, uint64_t first, uint64_t n)
{
    struct timeline_bucket b = TIMELINE_BUCKET_NEW;
    for (uint64_t i = first; i < first + n && i < c->count; i++)
        timeline_bucket_join(&b, &c->at[i]);
    if (first >= c->count && c->count) {
        const struct timeline_bucket *end = &c->at[c->count - 1];
        timeline_bucket_use(&b, (int64_t)(first << c->shift), end->last, end->last_live);
    }
    return b;
}
