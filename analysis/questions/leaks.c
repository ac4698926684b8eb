#include "analysis/questions/leaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/sites.h"
#include "analysis/names/permanent.h"
#include "analysis/questions/stack_steps.h"
#include "base/format.h"
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

/* Mann 1945, Kendall 1975; the variance is corrected for equal values. */
double mann_kendall(const uint64_t *values, size_t n)
{
    double s = 0;
    double count = (double)n;
    double variance = count * (count - 1) * (2 * count + 5);
    if (n < 3 || n > LEAK_BUCKETS)
        return 0;
    for (size_t i = 0; i < n; i++) {
        double equal = 0;
        for (size_t k = 0; k < n; k++) {
            s += k > i ? (values[k] > values[i]) - (values[k] < values[i]) : 0;
            equal += values[k] == values[i];
        }
        variance -= (equal - 1) * (2 * equal + 5);
    }
    if (variance <= 0 || s == 0)
        return 0;
    return (s > 0 ? s - 1 : s + 1) / sqrt(variance / 18);
}

#define SLOPES (LEAK_BUCKETS * (LEAK_BUCKETS - 1) / 2)

/*
 * The k-th smallest value, from 0 (Hoare 1961). Values are moved without a branch: processors
 * cannot predict it.
 */
static double kth(double *v, size_t n, size_t k)
{
    double less[SLOPES] = {0}, more[SLOPES] = {0};
    for (;;) {
        double pivot = v[n / 2];
        size_t below = 0, above = 0;
        for (size_t i = 0; i < n; i++) {
            double x = v[i];
            less[below] = x;
            below += x < pivot;
            more[above] = x;
            above += x > pivot;
        }
        if (k >= below && k < n - above)
            return pivot;
        if (k < below) {
            v = less;
            n = below;
        } else {
            v = more;
            k -= n - above;
            n = above;
        }
    }
}

/* Sen 1968. */
double sen_slope(const uint64_t *values, size_t n)
{
    double slopes[SLOPES] = {0};
    size_t count = 0;
    if (n < 2 || n > LEAK_BUCKETS)
        return 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++)
            slopes[count++] = ((double)values[k] - (double)values[i]) / (double)(k - i);
    }
    double middle = kth(slopes, count, count / 2);
    return count % 2 ? middle : (kth(slopes, count, count / 2 - 1) + middle) / 2;
}

/* ---- the sweep */

/* What steps change comes first: it is one cache line, and a floor is in another. */
struct site_state {
    uint64_t use;
    int64_t now;
    uint64_t allocations;
    uint32_t number; /* in builder.states */
    uint32_t pool, site;
    unsigned bucket;              /* of `now` */
    uint64_t buckets;             /* bit i: a never-freed block was allocated in bucket i */
    uint64_t floor[LEAK_BUCKETS]; /* UINT64_MAX: not known yet */
    uint64_t count, bytes;
    int64_t first, last;
    uint32_t callstack;
    uint64_t callstack_bytes;
};

/* The bucket of times that rarely decrease. */
struct bucket_cursor {
    unsigned bucket;
    int64_t begin, end; /* its first time, and the first one behind it */
};

/* Never-freed blocks, by (state, call stack). */
struct stack_sum {
    uint32_t state, callstack;
    uint64_t bytes;
};

/* A call stack in a pool: what hides its blocks, else the state of its site. */
struct recent {
    uint64_t key; /* pool << 32 | call stack */
    struct suppression *hides;
    struct site_state *state;
};

#define RECENT 65536u

struct builder {
    struct leaks *l;
    struct selection *s;
    struct suppressions *suppress;
    uint32_t *suppressed; /* by call stack id; NULL: none */
    bool all_leaks;
    struct suppression permanent[UINT8_MAX + 1]; /* by kind */
    struct sites sites;
    struct map numbers;               /* pool << 32 | site → state */
    struct recent *recent;            /* RECENT of them */
    struct bucket_cursor now, before; /* of the newest step, and of the nanosecond before it */
    VEC(struct site_state *) states;
    struct map stack_numbers; /* state << 32 | call stack → stack */
    VEC(struct stack_sum) stacks;
    uint64_t length;
    size_t floors;    /* buckets whose floors are tested */
    uint64_t floored; /* ns; of all of them */
    bool of_figures;  /* floors are known */
};

/* The first time of a bucket; INT64_MAX behind the last one, which has all later times. */
static int64_t bucket_begin(const struct builder *b, unsigned bucket)
{
    unsigned __int128 at = (unsigned __int128)bucket * b->length + LEAK_BUCKETS - 1;
    return bucket < LEAK_BUCKETS ? b->l->begin + (int64_t)(at / LEAK_BUCKETS) : INT64_MAX;
}

static struct bucket_cursor first_bucket(const struct builder *b)
{
    return (struct bucket_cursor){.begin = INT64_MIN, .end = bucket_begin(b, 1)};
}

/* The bucket of a time. */
static unsigned bucket_of(const struct builder *b, struct bucket_cursor *c, int64_t time)
{
    if (__builtin_expect(time < c->begin, 0))
        *c = first_bucket(b);
    while (time >= c->end && c->bucket + 1 < LEAK_BUCKETS)
        *c = (struct bucket_cursor){c->bucket + 1, c->end, bucket_begin(b, c->bucket + 2)};
    return c->bucket;
}

/* Records the site's use since `now`, in the buckets up to `last`. */
static void settle(struct site_state *x, unsigned last)
{
    for (unsigned i = x->bucket; i <= last; i++) {
        if (x->use < x->floor[i])
            x->floor[i] = x->use;
    }
}

static struct site_state *state_of(struct builder *b, uint32_t pool, uint32_t callstack,
                                   struct err *e)
{
    uint32_t site = callstack < b->sites.callstack_count ? b->sites.of_callstack[callstack] : 0;
    bool fresh;
    uint64_t *at = map_add(&b->numbers, (uint64_t)pool << 32 | site, &fresh);
    if (!at) {
        err_no_memory(e, "leaks");
        return NULL;
    }
    if (fresh) {
        struct site_state *x = calloc(1, sizeof *x);
        if (!x || !vec_push(&b->states, x)) {
            free(x);
            err_no_memory(e, "leaks");
            return NULL;
        }
        *x = (struct site_state){
            .pool = pool, .site = site, .number = (uint32_t)b->states.len - 1, .now = b->l->begin};
        memset(x->floor, 0xff, sizeof x->floor);
        *at = b->states.len - 1;
    }
    return b->states.at[*at];
}

/* Adds bytes of never-freed blocks to the call stack's. */
static int add_to_stack(struct builder *b, struct site_state *x, uint32_t callstack, uint64_t bytes,
                        struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&b->stack_numbers, (uint64_t)x->number << 32 | callstack, &fresh);
    if (!at)
        return err_no_memory(e, "leaks");
    if (fresh) {
        *at = b->stacks.len;
        if (!vec_push(&b->stacks, (struct stack_sum){x->number, callstack, 0}))
            return err_no_memory(e, "leaks");
    }
    struct stack_sum *sum = &b->stacks.at[*at];
    sum->bytes = saturating_add(sum->bytes, bytes);
    x->bytes = saturating_add(x->bytes, bytes);
    return 0;
}

static int add_leaked(struct builder *b, struct site_state *x, const struct memory_op *op,
                      struct err *e)
{
    if (x->count++ == 0)
        x->first = op->time;
    x->last = op->time;
    x->buckets |= UINT64_C(1) << bucket_of(b, &b->now, op->time);
    return add_to_stack(b, x, op->block.callstack, op->block.size, e);
}

/* What hides the blocks of a call stack of the trace; NULL: nothing. */
static struct suppression *hidden_by(struct builder *b, uint32_t id)
{
    if (!callstacks_get(&b->s->trace->callstacks, id))
        return NULL;
    if (b->suppressed && b->suppressed[id] != SUPPRESSION_NONE)
        return &b->suppress->list.at[b->suppressed[id]];
    unsigned kind = b->sites.list.at[b->sites.of_callstack[id]].permanent;
    return kind == PERMANENT_NOT || b->all_leaks ? NULL : &b->permanent[kind];
}

static bool is_leaked(const struct builder *b, const struct memory_op *op)
{
    return op->kind == MEMORY_ALLOC && is_live_before(op->freed, b->s->end);
}

/* NULL with `e` if memory is short. */
static const struct recent *recent_of(struct builder *b, const struct memory_op *op, struct err *e)
{
    uint32_t callstack = op->block.callstack;
    uint64_t key = (uint64_t)op->pool << 32 | callstack;
    struct recent *r = &b->recent[(callstack << 1 ^ op->pool) % RECENT];
    if ((r->hides || r->state) && r->key == key)
        return r;
    *r = (struct recent){.key = key, .hides = hidden_by(b, callstack)};
    if (!r->hides && !(r->state = state_of(b, op->pool, callstack, e)))
        return NULL;
    return r;
}

/* Counts never-freed blocks for the suppression that hides them. */
static void count_hidden(const struct builder *b, struct suppression *s, uint64_t count,
                         uint64_t bytes)
{
    s->count += count;
    s->bytes = saturating_add(s->bytes, bytes);
    b->l->suppressed_count += count;
    b->l->suppressed_bytes = saturating_add(b->l->suppressed_bytes, bytes);
}

static int count(struct builder *b, struct site_state *x, const struct memory_op *op, struct err *e)
{
    bool is_alloc = op->kind == MEMORY_ALLOC;
    if (op->time > x->now) {
        settle(x, bucket_of(b, &b->before, op->time - 1));
        x->now = op->time;
        x->bucket = bucket_of(b, &b->now, op->time);
    }
    uint64_t size = op->block.size;
    x->use = is_alloc ? saturating_add(x->use, size) : saturating_sub(x->use, size);
    x->allocations += is_alloc;
    return is_leaked(b, op) ? add_leaked(b, x, op, e) : 0;
}

static void expect_state(const struct builder *b, const struct site_state *x)
{
    __builtin_prefetch(x, 1);
    __builtin_prefetch(&x->floor[b->now.bucket], 1);
}

#define GROUP 64u /* steps whose states are prefetched before they are counted */

static int count_group(struct builder *b, const struct memory_op *ops, size_t n, struct err *e)
{
    struct site_state *of[GROUP];
    for (size_t i = 0; i < n; i++) {
        const struct recent *r = recent_of(b, &ops[i], e);
        if (!r)
            return -1;
        of[i] = r->state;
        if (r->hides && is_leaked(b, &ops[i]))
            count_hidden(b, r->hides, 1, ops[i].block.size);
        if (!r->hides)
            expect_state(b, of[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (of[i] && count(b, of[i], &ops[i], e) != 0)
            return -1;
    }
    return 0;
}

static int take(void *ctx, const struct memory_op *ops, size_t n, struct err *e)
{
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i += GROUP)
        status = count_group(ctx, ops + i, n - i < GROUP ? n - i : GROUP, e);
    return status;
}

/* ---- of figures only */

/* Adds what a call stack held at least in each step, and what it holds at the end. */
static int add_history(struct builder *b, uint32_t pool, const struct stack_history *h,
                       size_t begin, struct err *e)
{
    struct suppression *hides = hidden_by(b, h->callstack);
    const struct stack_step *last = &h->steps.at[h->steps.len - 1];
    const struct stack_live *live = &h->live;
    if (hides) {
        count_hidden(b, hides, last->live, last->bytes);
        return 0;
    }
    struct site_state *x = state_of(b, pool, h->callstack, e);
    if (!x)
        return -1;
    for (size_t i = 0; i < h->steps.len; i++)
        x->allocations += h->steps.at[i].allocations;
    for (size_t i = 0; i < b->floors; i++) {
        const uint64_t low = stack_history_at(h, begin + i).low;
        x->floor[i] = x->floor[i] == UINT64_MAX ? low : saturating_add(x->floor[i], low);
    }
    if (live->spread == 0)
        return 0;
    x->first = x->count == 0 || live->first < x->first ? live->first : x->first;
    x->last = x->count == 0 || live->last > x->last ? live->last : x->last;
    x->count += last->live;
    x->buckets |= live->spread;
    return add_to_stack(b, x, h->callstack, last->bytes, e);
}

static int take_figures(void *ctx, struct err *e)
{
    struct builder *b = ctx;
    struct stack_pools pools;
    int status = stack_pools_read(&pools, b->s, e);
    const size_t begin = (size_t)((uint64_t)b->l->begin >> pools.shift);
    const size_t end = (size_t)((uint64_t)b->l->end >> pools.shift);
    b->of_figures = true;
    b->floors = end - begin < LEAK_BUCKETS ? end - begin + 1 : LEAK_BUCKETS;
    b->floored = (uint64_t)b->floors << pools.shift;
    for (size_t i = 0; i < pools.list.len; i++) {
        const struct stack_steps *of = &pools.list.at[i];
        for (size_t k = 0; k < of->stacks.len && status == 0; k++)
            status = add_history(b, of->pool, &of->stacks.at[k], begin, e);
    }
    stack_pools_release(&pools);
    return status;
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
    } levels[] = {{LEAK_HIGH, 4, 100, 0.99, LEAK_BUCKETS / 8},
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
    if (r.spread >= 3) {
        r.z = mann_kendall(x->floor, b->floors);
        r.p = erfc(r.z / sqrt(2)) / 2;
        r.rate = sen_slope(x->floor, b->floors) * (double)b->floors * 1e9 / (double)b->floored;
    }
    r.kind = judge(b, &r);
    r.confidence = weigh(&r);
    b->l->count[r.kind] += r.count;
    b->l->bytes[r.kind] = saturating_add(b->l->bytes[r.kind], r.bytes);
    return vec_push(&b->l->rows, r) ? 0 : err_no_memory(e, "leaks");
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
static void find_window(struct builder *b)
{
    const struct memory *m = &b->s->trace->memory;
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < m->pools.len; i++) {
        const struct pool *p = m->pools.at[i];
        if (b->s->pool_of[i] == UINT32_MAX || p->totals.allocations == 0)
            continue;
        last = p->last_time > last ? p->last_time : last;
        first = p->first_time < first ? p->first_time : first;
    }
    b->l->end = last < selection_end(b->s) ? last : selection_end(b->s);
    first = first < b->s->begin ? b->s->begin : first;
    b->l->begin = first < b->l->end ? first : b->l->end;
    b->length = (uint64_t)(b->l->end - b->l->begin) + 1;
    b->floors = LEAK_BUCKETS;
    b->floored = b->length;
    b->now = b->before = first_bucket(b);
}

/* Lists the kinds of permanent blocks that were hidden. */
static int list_permanent(struct builder *b, struct err *e)
{
    for (unsigned kind = 1; b->suppress && kind <= permanent_kinds(); kind++) {
        struct suppression one = b->permanent[kind];
        if (one.count == 0)
            continue;
        one.built_in = true;
        one.pattern = strdup(permanent_reason(kind));
        if (!one.pattern || !vec_push(&b->suppress->list, one)) {
            free(one.pattern);
            return err_no_memory(e, "leaks");
        }
    }
    return 0;
}

static int begin(struct builder *b, const struct skiplist *skip, struct err *e)
{
    b->recent = calloc(RECENT, sizeof *b->recent);
    if (!b->recent)
        return err_no_memory(e, "leaks");
    find_window(b);
    if (sites_build(&b->sites, b->s->trace, skip, SITE_BY_LINE, e) != 0)
        return -1;
    if (b->suppress && b->suppress->list.len &&
        !(b->suppressed = suppressions_of_callstacks(b->suppress, b->s->trace, e)))
        return -1;
    return 0;
}

static int finish(struct builder *b, struct err *e)
{
    if (list_permanent(b, e) != 0)
        return -1;
    for (size_t i = 0; i < b->stacks.len; i++) {
        struct site_state *x = b->states.at[b->stacks.at[i].state];
        if (b->stacks.at[i].bytes >= x->callstack_bytes) {
            x->callstack_bytes = b->stacks.at[i].bytes;
            x->callstack = b->stacks.at[i].callstack;
        }
    }
    struct bucket_cursor end = first_bucket(b);
    for (size_t i = 0; i < b->states.len; i++) {
        if (!b->of_figures)
            settle(b->states.at[i], bucket_of(b, &end, b->l->end));
        if (b->states.at[i]->count && add_row(b, b->states.at[i], e) != 0)
            return -1;
    }
    if (b->l->rows.len)
        qsort(b->l->rows.at, b->l->rows.len, sizeof *b->l->rows.at, compare_rows);
    return 0;
}

static int end(void *ctx, bool passed, struct err *e)
{
    struct builder *b = ctx;
    int status = passed ? finish(b, e) : -1;
    if (status != 0)
        leaks_release(b->l);
    for (size_t i = 0; i < b->states.len; i++)
        free(b->states.at[i]);
    vec_release(&b->states);
    vec_release(&b->stacks);
    map_release(&b->numbers);
    map_release(&b->stack_numbers);
    free(b->suppressed);
    free(b->recent);
    sites_release(&b->sites);
    free(b);
    return status;
}

int leaks_begin(struct selection_pass *p, struct leaks *l, struct selection *s,
                const struct skiplist *skip, struct suppressions *suppress, struct err *e)
{
    static const struct skiplist built_in = {0};
    struct builder *b = malloc(sizeof *b);
    *l = (struct leaks){.left_count = trace_fact_number(s->trace, "left_blocks"),
                        .left_bytes = trace_fact_number(s->trace, "left_bytes"),
                        .heap = trace_fact(s->trace, "runtime_heap", 0)};
    if (!b)
        return err_no_memory(e, "leaks");
    *b = (struct builder){.l = l, .s = s, .suppress = suppress};
    b->all_leaks = suppress && suppress->all_leaks;
    *p = (struct selection_pass){
        .to = {.ctx = b, .batch = take, .beside = true}, .end = end, .figures = take_figures};
    return begin(b, skip ? skip : &built_in, e) == 0 ? 0 : end(b, false, e);
}

int leaks_build(struct leaks *l, struct selection *s, const struct skiplist *skip,
                struct suppressions *suppress, struct err *e)
{
    struct selection_pass p;
    return leaks_begin(&p, l, s, skip, suppress, e) != 0 ? -1 : selection_answer(s, &p, 1, 0, e);
}

void leaks_total(const struct leaks *l, uint64_t *count, uint64_t *bytes)
{
    *count = *bytes = 0;
    for (int i = 0; i < LEAK_KINDS; i++) {
        *count += l->count[i];
        *bytes = saturating_add(*bytes, l->bytes[i]);
    }
}

void leaks_put_head(const struct leaks *l, struct buf *out)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    uint64_t count, bytes;
    leaks_total(l, &count, &bytes);
    if (count == 0) {
        buf_puts(out, "nothing is live at the end");
    } else {
        uint64_t sites = 0;
        while (sites < l->rows.len && l->rows.at[sites].kind == LEAK_GROWING)
            sites++;
        buf_printf(out, "%s live at the end (%s)", format_counted(a, count, "allocation"),
                   format_bytes(b, bytes));
        if (sites)
            buf_printf(out, "; growing: %s at %s", format_bytes(b, l->bytes[LEAK_GROWING]),
                       format_counted(a, sites, "site"));
        else
            buf_puts(out, "; none growing");
    }
    if (l->suppressed_count)
        buf_printf(out, "; suppressed: %s (%s)", format_count(a, l->suppressed_count),
                   format_bytes(b, l->suppressed_bytes));
    if (l->left_count)
        buf_printf(out, "; freed by the end of a process only: %s (%s)",
                   format_counted(a, l->left_count, "block"), format_bytes(b, l->left_bytes));
    if (l->heap.p) {
        buf_puts(out, "; objects in the heap of ");
        format_terminal(out, l->heap);
        buf_puts(out, " were not recorded");
    }
}

void leaks_release(struct leaks *l)
{
    vec_release(&l->rows);
    *l = (struct leaks){0};
}
