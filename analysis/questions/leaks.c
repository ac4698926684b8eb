#include "analysis/questions/leaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/sites.h"
#include "base/map.h"
#include "base/saturate.h"

const char *leak_kind_name(enum leak_kind kind)
{
    static const char *const names[] = {
        [LEAK_GROWING] = "growing", [LEAK_HELD] = "held", [LEAK_AT_START] = "at-start"};
    return names[kind];
}

const char *leak_confidence_name(enum leak_confidence c)
{
    static const char *const names[] = {NULL, "low", "medium", "high"};
    return names[c];
}

/* ---- statistics */

static int compare_values(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Mann 1945, Kendall 1975; the variance is corrected for equal values. */
double mann_kendall(const uint64_t *values, size_t n)
{
    uint64_t sorted[LEAK_BUCKETS];
    double s = 0;
    double count = (double)n;
    double variance = count * (count - 1) * (2 * count + 5);
    if (n < 3 || n > LEAK_BUCKETS)
        return 0;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = values[i];
        for (size_t k = i + 1; k < n; k++)
            s += (values[k] > values[i]) - (values[k] < values[i]);
    }
    qsort(sorted, n, sizeof *sorted, compare_values);
    for (size_t i = 0; i < n;) {
        size_t equal = 1;
        while (i + equal < n && sorted[i + equal] == sorted[i])
            equal++;
        double t = (double)equal;
        variance -= t * (t - 1) * (2 * t + 5);
        i += equal;
    }
    if (variance <= 0 || s == 0)
        return 0;
    return (s > 0 ? s - 1 : s + 1) / sqrt(variance / 18);
}

static int compare_slopes(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sen 1968. */
double sen_slope(const uint64_t *values, size_t n)
{
    double slopes[LEAK_BUCKETS * (LEAK_BUCKETS - 1) / 2];
    size_t count = 0;
    if (n < 2 || n > LEAK_BUCKETS)
        return 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++)
            slopes[count++] = ((double)values[k] - (double)values[i]) / (double)(k - i);
    }
    qsort(slopes, count, sizeof *slopes, compare_slopes);
    return count % 2 ? slopes[count / 2] : (slopes[count / 2 - 1] + slopes[count / 2]) / 2;
}

/* ---- the sweep */

struct site_state {
    uint32_t pool, site;
    uint64_t use;
    int64_t now;
    uint64_t floor[LEAK_BUCKETS]; /* UINT64_MAX: not known yet */
    uint64_t buckets;             /* bit i: a never-freed block was allocated in bucket i */
    uint64_t allocations;
    uint64_t count, bytes;
    int64_t first, last;
    uint32_t callstack;
    uint64_t callstack_bytes;
};

/* Never-freed blocks, by (state, call stack). */
struct stack_sum {
    uint32_t state, callstack;
    uint64_t bytes;
};

struct builder {
    struct leaks *l;
    struct selection *s;
    struct suppressions *suppress;
    uint32_t *suppressed; /* by call stack id; NULL: none */
    struct sites sites;
    struct map numbers; /* pool << 32 | site → state */
    VEC(struct site_state *) states;
    struct map stack_numbers; /* state << 32 | call stack → stack */
    VEC(struct stack_sum) stacks;
    uint64_t length;
};

static int no_room(struct err *e)
{
    return err_no_memory(e, "leaks");
}

static unsigned bucket_of(const struct builder *b, int64_t time)
{
    if (time <= b->l->begin)
        return 0;
    unsigned __int128 at = (unsigned __int128)(uint64_t)(time - b->l->begin) * LEAK_BUCKETS;
    uint64_t i = (uint64_t)(at / b->length);
    return i < LEAK_BUCKETS ? (unsigned)i : LEAK_BUCKETS - 1;
}

/* Records the site's use from the end of `now` until before `until`. */
static void settle(const struct builder *b, struct site_state *x, int64_t until)
{
    unsigned last = bucket_of(b, until);
    for (unsigned i = bucket_of(b, x->now); i <= last; i++) {
        if (x->use < x->floor[i])
            x->floor[i] = x->use;
    }
}

static struct site_state *state_of(struct builder *b, uint32_t pool, uint32_t site,
                                   uint32_t *number, struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&b->numbers, (uint64_t)pool << 32 | site, &fresh);
    if (!at) {
        no_room(e);
        return NULL;
    }
    if (fresh) {
        struct site_state *x = calloc(1, sizeof *x);
        if (!x || !vec_push(&b->states, x)) {
            free(x);
            no_room(e);
            return NULL;
        }
        *x = (struct site_state){.pool = pool, .site = site, .now = b->l->begin};
        memset(x->floor, 0xff, sizeof x->floor);
        *at = b->states.len - 1;
    }
    *number = (uint32_t)*at;
    return b->states.at[*at];
}

static int add_leaked(struct builder *b, struct site_state *x, uint32_t number,
                      const struct memory_op *op, struct err *e)
{
    bool fresh;
    uint64_t key = (uint64_t)number << 32 | op->block.callstack;
    uint64_t *at = map_add(&b->stack_numbers, key, &fresh);
    if (!at)
        return no_room(e);
    if (fresh) {
        *at = b->stacks.len;
        if (!vec_push(&b->stacks, (struct stack_sum){number, op->block.callstack, 0}))
            return no_room(e);
    }
    struct stack_sum *sum = &b->stacks.at[*at];
    sum->bytes = saturating_add(sum->bytes, op->block.size);
    if (x->count++ == 0)
        x->first = op->time;
    x->last = op->time;
    x->bytes = saturating_add(x->bytes, op->block.size);
    x->buckets |= UINT64_C(1) << bucket_of(b, op->time);
    return 0;
}

/* Whether a suppression hides the block; never-freed blocks are counted for it. */
static bool is_hidden(struct builder *b, const struct memory_op *op, bool leaked)
{
    uint32_t id = op->block.callstack;
    if (!b->suppressed || !callstacks_get(&b->s->trace->callstacks, id) ||
        b->suppressed[id] == SUPPRESSION_NONE)
        return false;
    if (leaked) {
        struct suppression *s = &b->suppress->list.at[b->suppressed[id]];
        s->count++;
        s->bytes = saturating_add(s->bytes, op->block.size);
        b->l->suppressed_count++;
        b->l->suppressed_bytes = saturating_add(b->l->suppressed_bytes, op->block.size);
    }
    return true;
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct builder *b = ctx;
    bool is_alloc = op->kind == MEMORY_ALLOC;
    bool leaked = is_alloc && is_live_before(op->freed, b->s->end);
    if (is_hidden(b, op, leaked))
        return 0;
    uint32_t id = op->block.callstack;
    uint32_t site = id < b->sites.callstack_count ? b->sites.of_callstack[id] : 0;
    uint32_t number;
    struct site_state *x = state_of(b, op->pool, site, &number, e);
    if (!x)
        return -1;
    if (op->time > x->now) {
        settle(b, x, op->time - 1);
        x->now = op->time;
    }
    uint64_t size = op->block.size;
    x->use = is_alloc ? saturating_add(x->use, size) : saturating_sub(x->use, size);
    x->allocations += is_alloc;
    return leaked ? add_leaked(b, x, number, op, e) : 0;
}

/* ---- rows */

#define Z_SIGNIFICANT 2.3263 /* one-sided p < 0.01 */

static enum leak_kind judge(const struct builder *b, const struct leak_row *r)
{
    double length = (double)b->length;
    double last = (double)(r->last - b->l->begin) / length;
    bool evident = r->count >= LEAK_BLOCKS_LEAST && r->spread >= LEAK_SPREAD_LEAST;
    bool rises = r->z >= Z_SIGNIFICANT && r->rate * length >= 1e9; /* by at least a byte */
    if (evident && rises && last >= 0.75)
        return LEAK_GROWING;
    return last <= 0.2 ? LEAK_AT_START : LEAK_HELD;
}

static enum leak_confidence weigh(const struct leak_row *r)
{
    /* Minimum values: z (p < 0.00003 and 0.001), blocks, share of never-freed blocks, buckets. */
    static const struct {
        enum leak_confidence confidence;
        double z;
        uint64_t count;
        double share;
        unsigned spread;
    } levels[] = {{LEAK_HIGH, 4, 100, 0.5, LEAK_BUCKETS / 8},
                  {LEAK_MEDIUM, 3.09, 30, 0.1, LEAK_SPREAD_LEAST}};
    double share = (double)r->count / (double)r->allocations;
    if (r->kind != LEAK_GROWING)
        return LEAK_NOT_GROWING;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (r->z >= levels[i].z && r->count >= levels[i].count && share >= levels[i].share &&
            r->spread >= levels[i].spread)
            return levels[i].confidence;
    }
    return LEAK_LOW;
}

static int add_row(struct builder *b, struct site_state *x, struct err *e)
{
    const struct site *site = &b->sites.list.at[x->site];
    struct leak_row r = {.pool = x->pool,
                         .frame = site->frame,
                         .no_callstack = x->site == SITE_NO_CALLSTACK,
                         .callstack = x->callstack,
                         .count = x->count,
                         .bytes = x->bytes,
                         .allocations = x->allocations,
                         .first = x->first,
                         .last = x->last,
                         .spread = (unsigned)__builtin_popcountll(x->buckets),
                         .p = 1};
    settle(b, x, b->l->end);
    if (r.spread >= 3) {
        r.z = mann_kendall(x->floor, LEAK_BUCKETS);
        r.p = erfc(r.z / sqrt(2)) / 2;
        r.rate = sen_slope(x->floor, LEAK_BUCKETS) * LEAK_BUCKETS * 1e9 / (double)b->length;
    }
    r.kind = judge(b, &r);
    r.confidence = weigh(&r);
    b->l->count[r.kind] += r.count;
    b->l->bytes[r.kind] = saturating_add(b->l->bytes[r.kind], r.bytes);
    return vec_push(&b->l->rows, r) ? 0 : no_room(e);
}

static int compare_rows(const void *a, const void *b)
{
    const struct leak_row *x = a;
    const struct leak_row *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->confidence != y->confidence)
        return x->confidence > y->confidence ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* From the first allocation of the selected pools to the last: outside of it nothing can rise. */
static int find_window(struct builder *b, struct err *e)
{
    const struct memory *m = &b->s->trace->memory;
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < m->pools.len; i++) {
        struct column_reader r;
        size_t n;
        if (b->s->pool_of[i] == UINT32_MAX || m->pools.at[i]->allocs.len == 0)
            continue;
        if (m->pools.at[i]->last_time > last)
            last = m->pools.at[i]->last_time;
        column_reader_init(&r, &m->pools.at[i]->allocs);
        const struct memory_alloc *a = column_reader_next(&r, &n, e);
        if (a && a->time < first)
            first = a->time;
        column_reader_release(&r);
        if (!a)
            return -1;
    }
    b->l->end = last < selection_end(b->s) ? last : selection_end(b->s);
    first = first < b->s->begin ? b->s->begin : first;
    b->l->begin = first < b->l->end ? first : b->l->end;
    b->length = (uint64_t)(b->l->end - b->l->begin) + 1;
    return 0;
}

static int build(struct builder *b, const struct skiplist *skip, struct err *e)
{
    const struct memory_observer to = {.ctx = b, .op = take};
    if (find_window(b, e) != 0 || sites_build(&b->sites, b->s->trace, skip, SITE_BY_LINE, e) != 0)
        return -1;
    if (b->suppress && b->suppress->list.len &&
        !(b->suppressed = suppressions_of_callstacks(b->suppress, b->s->trace, e)))
        return -1;
    if (selection_sweep(b->s, &to, e) != 0)
        return -1;
    for (size_t i = 0; i < b->stacks.len; i++) {
        struct site_state *x = b->states.at[b->stacks.at[i].state];
        if (b->stacks.at[i].bytes >= x->callstack_bytes) {
            x->callstack_bytes = b->stacks.at[i].bytes;
            x->callstack = b->stacks.at[i].callstack;
        }
    }
    for (size_t i = 0; i < b->states.len; i++) {
        if (b->states.at[i]->count && add_row(b, b->states.at[i], e) != 0)
            return -1;
    }
    if (b->l->rows.len)
        qsort(b->l->rows.at, b->l->rows.len, sizeof *b->l->rows.at, compare_rows);
    return 0;
}

int leaks_build(struct leaks *l, struct selection *s, const struct skiplist *skip,
                struct suppressions *suppress, struct err *e)
{
    static const struct skiplist built_in = {0};
    *l = (struct leaks){0};
    struct builder b = {.l = l, .s = s, .suppress = suppress};
    int status = build(&b, skip ? skip : &built_in, e);
    for (size_t i = 0; i < b.states.len; i++)
        free(b.states.at[i]);
    vec_release(&b.states);
    vec_release(&b.stacks);
    map_release(&b.numbers);
    map_release(&b.stack_numbers);
    free(b.suppressed);
    sites_release(&b.sites);
    if (status != 0)
        leaks_release(l);
    return status;
}

void leaks_total(const struct leaks *l, uint64_t *count, uint64_t *bytes)
{
    *count = *bytes = 0;
    for (int i = 0; i < LEAK_KINDS; i++) {
        *count += l->count[i];
        *bytes = saturating_add(*bytes, l->bytes[i]);
    }
}

void leaks_release(struct leaks *l)
{
    vec_release(&l->rows);
    *l = (struct leaks){0};
}
