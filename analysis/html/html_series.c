#include "analysis/html/html_series.h"

#include <stdlib.h>

#include "base/saturate.h"

/* The state of one pool during the sweep. */
struct page_series_pool {
    uint64_t live_bytes;
    uint64_t blocks;
    int64_t now;    /* nanosecond of the newest event */
    uint64_t peak;  /* of this step, including its begin; not yet of the nanosecond `now` */
    uint64_t epoch; /* number of that peak */
    uint32_t slot;  /* of the current point */
    struct page_point points[PAGE_SLOTS];
    uint32_t joined_first, joined_half; /* the slots for which peak_is_later was computed */
    bool peak_is_later;
};

/* Values of the cells of the map. */
enum block_value {
    BLOCK_BYTES,  /* change of the bytes in a piece by blocks that fill it partly */
    BLOCK_COVER,  /* blocks that fill all pieces from here on, minus those until here */
    BLOCK_ALLOCS, /* allocations that begin in it */
    BLOCK_VALUES,
};

static void add(int64_t *to, uint64_t n)
{
    *to = saturating_sum(*to, n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

static void subtract(int64_t *from, uint64_t n)
{
    *from = saturating_sum(*from, n > INT64_MAX ? INT64_MIN : -(int64_t)n);
}

/* The change of live blocks or bytes within the step. */
static int64_t net(const int64_t *v, enum page_value in, enum page_value out)
{
    return saturating_sum(v[in], v[out] == INT64_MIN ? INT64_MAX : -v[out]);
}

/* ---- peaks */

static void note_peak(struct page_series *s, uint32_t key, int64_t *v)
{
    v[PAGE_PEAK] = net(v, PAGE_ALLOCS, PAGE_FREES);
    v[PAGE_PEAK_BYTES] = net(v, PAGE_ALLOC_BYTES, PAGE_FREE_BYTES);
    s->epochs.at[key] = s->pools[s->keys.at[key].pool].epoch;
}

/* Values that changed before the newest peak and not since are those of the peak. */
static void settle_peak(void *ctx, uint32_t key, int64_t *v)
{
    struct page_series *s = ctx;
    if (s->epochs.at[key] != s->pools[s->keys.at[key].pool].epoch)
        note_peak(s, key, v);
}

static uint64_t highest(const struct page_series_pool *p, uint32_t first, uint32_t n)
{
    uint64_t max = 0;
    for (uint32_t i = first; i < first + n; i++) {
        if (p->points[i].max > max)
            max = p->points[i].max;
    }
    return max;
}

static void join_peaks(void *ctx, uint32_t key, uint32_t first, uint32_t half, const int64_t *a,
                       const int64_t *b, int64_t *out)
{
    struct page_series *s = ctx;
    struct page_series_pool *p = &s->pools[s->keys.at[key].pool];
    static const int64_t nothing[PAGE_VALUES_MAX];
    if (p->joined_first != first || p->joined_half != half) {
        p->joined_first = first;
        p->joined_half = half;
        p->peak_is_later = highest(p, first + half, half) > highest(p, first, half);
    }
    a = a ? a : nothing;
    b = b ? b : nothing;
    for (unsigned i = 0; i < PAGE_PEAK; i++)
        out[i] = saturating_sum(a[i], b[i]);
    out[PAGE_PEAK] = p->peak_is_later
                         ? saturating_sum(net(a, PAGE_ALLOCS, PAGE_FREES), b[PAGE_PEAK])
                         : a[PAGE_PEAK];
    out[PAGE_PEAK_BYTES] =
        p->peak_is_later
            ? saturating_sum(net(a, PAGE_ALLOC_BYTES, PAGE_FREE_BYTES), b[PAGE_PEAK_BYTES])
            : a[PAGE_PEAK_BYTES];
}

/* Ends the nanosecond `now` of the pool. */
static void use_advance(struct page_series_pool *p, int64_t time)
{
    struct page_point *point = &p->points[p->slot];
    if (p->live_bytes > p->peak) {
        p->peak = p->live_bytes;
        p->epoch++;
    }
    if (p->live_bytes > point->max)
        point->max = p->live_bytes;
    p->now = time;
}

/* Ends the pool's points before `slot`. */
static void pool_fill(struct page_series_pool *p, uint32_t slot)
{
    use_advance(p, p->now);
    while (p->slot < slot) {
        struct page_point *point = &p->points[p->slot];
        point->end = p->live_bytes;
        point->blocks = p->blocks;
        if (++p->slot < PAGE_SLOTS)
            p->points[p->slot].max = p->live_bytes;
    }
}

static int advance(struct page_series *s, uint32_t slot, struct err *e)
{
    uint32_t step = s->cells.step;
    unsigned shift = s->cells.shift;
    for (uint32_t i = 0; i < s->options.pool_count; i++)
        pool_fill(&s->pools[i], slot);
    if (page_cells_advance(&s->cells, slot, e) != 0 ||
        page_cells_advance(&s->histogram, slot, e) != 0 ||
        page_cells_advance(&s->blocks, slot, e) != 0)
        return -1;
    for (uint32_t i = 0;
         i < s->options.pool_count && (shift != s->cells.shift || step != s->cells.step); i++) {
        struct page_series_pool *p = &s->pools[i];
        p->peak = p->live_bytes;
        p->epoch++;
    }
    return 0;
}

/* ---- keys */

static size_t key_place(const struct page_series *s, struct page_key key)
{
    return (size_t)key.stack * s->options.thread_count + key.thread;
}

static bool add_key(struct page_series *s, struct page_key key)
{
    size_t place = key_place(s, key);
    while (s->newest_key.len <= place) {
        if (!vec_push(&s->newest_key, 0))
            return false;
    }
    uint32_t *newest = &s->newest_key.at[place];
    if (!vec_push(&s->key_before, *newest) || !vec_push(&s->keys, key) || !vec_push(&s->epochs, 0))
        return false;
    *newest = (uint32_t)s->keys.len;
    return true;
}

/* The key's number + 1, or 0. */
static uint32_t find_key(const struct page_series *s, struct page_key key)
{
    size_t place = key_place(s, key);
    uint32_t at = place < s->newest_key.len ? s->newest_key.at[place] : 0;
    while (at && s->keys.at[at - 1].pool != key.pool)
        at = s->key_before.at[at - 1];
    return at;
}

/* The first keys, one for each pool, are for blocks without a separate key. */
static int key_number(struct page_series *s, struct page_key key, uint64_t allocations,
                      uint32_t *number, struct err *e)
{
    uint32_t known = find_key(s, key);
    if (known) {
        *number = known - 1;
        return 0;
    }
    if (s->keys.len >= PAGE_KEYS_MAX) {
        s->folded += allocations;
        *number = key.pool;
        return 0;
    }
    *number = (uint32_t)s->keys.len;
    return add_key(s, key) ? 0 : err_no_memory(e, "figures of the page");
}

static struct page_key key_of(const struct page_series *s, const struct memory_op *op)
{
    const struct page_series_options *o = &s->options;
    struct page_key key = {s->shown_as[op->pool], o->thread_other, o->stack_other};
    if (op->block.thread < o->thread_limit)
        key.thread = o->threads[op->block.thread];
    if (op->block.callstack < o->stack_limit)
        key.stack = o->stacks[op->block.callstack];
    return key;
}

/* ---- one step of the history */

static unsigned class_of(uint64_t n)
{
    unsigned class = n ? 64 - (unsigned)__builtin_clzll(n) : 0;
    return class < PAGE_CLASSES ? class : PAGE_CLASSES - 1;
}

static int count_histogram(struct page_series *s, const struct memory_op *op, uint32_t key,
                           struct err *e)
{
    const struct page_key *k = &s->keys.at[key];
    uint64_t n =
        op->kind == MEMORY_ALLOC ? op->block.size : (uint64_t)op->time - (uint64_t)op->block.time;
    enum page_histogram which = op->kind == MEMORY_ALLOC ? PAGE_SIZES : PAGE_LIFETIMES;
    bool fresh;
    int64_t *v = page_cells_at(
        &s->histogram, page_histogram_key(&s->options, k->pool, k->thread, which, class_of(n)),
        &fresh, e);
    if (!v)
        return -1;
    add(&v[0], 1);
    add(&v[1], op->block.size);
    return 0;
}

static int count_piece(struct page_series *s, uint32_t piece, enum block_value which, bool up,
                       uint64_t n, struct err *e)
{
    bool fresh;
    int64_t *v = page_cells_at(&s->blocks, piece, &fresh, e);
    if (!v)
        return -1;
    if (up)
        add(&v[which], n);
    else
        subtract(&v[which], n);
    return 0;
}

static void count_owners(struct page_series *s, const struct memory_op *op,
                         const struct page_span *at)
{
    const struct page_series_options *o = &s->options;
    const struct live_block *b = &op->block;
    uint32_t thread = b->thread < o->thread_limit ? o->threads[b->thread] : o->thread_other;
    unsigned owner[PAGE_MAP_KINDS] = {PAGE_MAP_OWNERS, PAGE_MAP_OWNERS};
    if (thread < PAGE_MAP_OWNERS && thread != o->thread_other)
        owner[PAGE_MAP_THREADS] = thread;
    if (o->owners && b->callstack < o->stack_limit)
        owner[PAGE_MAP_SITES] = o->owners[b->callstack];
    page_map_count(s->options.map, at, owner);
}

static int count_map(struct page_series *s, const struct memory_op *op, struct err *e)
{
    struct page_span at =
        page_map_find(s->options.map, s->shown_as[op->pool], op->block.ptr, op->block.size);
    bool up = op->kind == MEMORY_ALLOC;
    if (at.count == 0)
        return 0;
    if (up)
        count_owners(s, op, &at);
    uint32_t last = at.first + at.count - 1;
    if (count_piece(s, at.first, BLOCK_BYTES, up, at.head, e) != 0 ||
        (up && count_piece(s, at.first, BLOCK_ALLOCS, true, 1, e) != 0) ||
        (at.tail && count_piece(s, last, BLOCK_BYTES, up, at.tail, e) != 0))
        return -1;
    if (at.count < 3)
        return 0;
    if (count_piece(s, at.first + 1, BLOCK_COVER, up, 1, e) != 0)
        return -1;
    return count_piece(s, last, BLOCK_COVER, !up, 1, e);
}

static int count_key(struct page_series *s, const struct memory_op *op, uint32_t key, struct err *e)
{
    struct page_series_pool *p = &s->pools[s->keys.at[key].pool];
    bool fresh;
    int64_t *v = page_cells_at(&s->cells, key, &fresh, e);
    if (!v)
        return -1;
    if (fresh || s->epochs.at[key] != p->epoch)
        note_peak(s, key, v);
    uint64_t size = op->block.size;
    if (op->kind == MEMORY_ALLOC) {
        add(&v[PAGE_ALLOCS], 1);
        add(&v[PAGE_ALLOC_BYTES], size);
        p->blocks++;
        p->live_bytes = saturating_add(p->live_bytes, size);
        p->points[p->slot].allocs++;
        return 0;
    }
    add(&v[PAGE_FREES], 1);
    add(&v[PAGE_FREE_BYTES], size);
    add(&v[PAGE_TEMPORARY], op->temporary);
    add(&v[PAGE_TEMPORARY_BYTES], op->temporary ? size : 0);
    p->blocks--;
    p->live_bytes = saturating_sub(p->live_bytes, size);
    return 0;
}

/* The slot of a time; blocks from before the first event shown count for the first slot. */
static uint32_t slot_of(const struct page_series *s, int64_t time)
{
    uint64_t since = time > s->options.from ? (uint64_t)time - (uint64_t)s->options.from : 0;
    uint64_t slot = since / s->slot_ns;
    return slot < PAGE_SLOTS ? (uint32_t)slot : PAGE_SLOTS - 1;
}

static int count_life(struct page_series *s, const struct memory_op *op, uint32_t key,
                      uint32_t slot, struct err *e)
{
    const struct page_key *k = &s->keys.at[key];
    if (op->kind == MEMORY_ALLOC || !s->options.sites)
        return 0;
    uint32_t row = s->options.sites[k->stack] * s->options.pool_count + k->pool;
    return page_lives_add(&s->lives, row, slot_of(s, op->block.time), slot, op->block.size, e);
}

static int take_step(struct page_series *s, const struct memory_op *op, uint32_t key, struct err *e)
{
    struct page_series_pool *p = &s->pools[s->shown_as[op->pool]];
    uint32_t slot = slot_of(s, op->time);
    if (slot > p->slot && advance(s, slot, e) != 0)
        return -1;
    if (op->time > p->now)
        use_advance(p, op->time);
    if (count_key(s, op, key, e) != 0 || count_histogram(s, op, key, e) != 0 ||
        count_life(s, op, key, p->slot, e) != 0)
        return -1;
    return count_map(s, op, e);
}

#define AHEAD 8u /* steps whose sums are prefetched */

/* The keys of all steps come first, so that the processor waits for several of them at a time. */
static int take_steps(void *ctx, const struct memory_op *ops, size_t n, struct err *e)
{
    struct page_series *s = ctx;
    uint32_t keys[SWEEP_BATCH];
    for (size_t i = 0; i < n; i++) {
        const struct memory_op *op = &ops[i];
        keys[i] = UINT32_MAX;
        if (s->shown_as[op->pool] < s->options.pool_count &&
            key_number(s, key_of(s, op), op->kind == MEMORY_ALLOC, &keys[i], e) != 0)
            return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            page_cells_prefetch(&s->cells, keys[i + AHEAD]);
        if (keys[i] != UINT32_MAX && take_step(s, &ops[i], keys[i], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- all of it */

static int begin_pools(struct page_series *s, struct err *e)
{
    const struct page_series_options *o = &s->options;
    const struct selection *from = o->selection;
    s->pools = calloc(o->pool_count + 1, sizeof *s->pools);
    s->shown_as = calloc(from->pools.len + 1, sizeof *s->shown_as);
    if (!s->pools || !s->shown_as)
        return err_no_memory(e, "figures of memory pools");
    for (size_t i = 0; i < from->trace->memory.pools.len; i++) {
        if (from->pool_of[i] != UINT32_MAX)
            s->shown_as[from->pool_of[i]] = o->pools[i];
    }
    for (uint32_t i = 0; i < o->pool_count; i++) {
        s->pools[i].now = INT64_MIN;
        if (!add_key(s, (struct page_key){i, o->thread_other, o->stack_other}))
            return err_no_memory(e, "figures of the page");
    }
    return 0;
}

static int build(struct page_series *s, const struct memory_observer *also, struct err *e)
{
    const struct memory_observer to[] = {{.ctx = s, .batch = take_steps, .beside = true},
                                         also ? *also : (struct memory_observer){0}};
    if (begin_pools(s, e) != 0 || page_map_settle(s->options.map, e) != 0 ||
        selection_sweep_all(s->options.selection, to, also ? 2 : 1, e) != 0)
        return -1;
    for (uint32_t i = 0; i < s->options.pool_count; i++)
        pool_fill(&s->pools[i], PAGE_SLOTS);
    if (page_cells_finish(&s->cells, e) != 0 || page_cells_finish(&s->histogram, e) != 0)
        return -1;
    return page_cells_finish(&s->blocks, e);
}

static size_t limit(size_t max)
{
    return max ? max : SIZE_MAX;
}

/* `slots`: the maximum number of steps. */
static void init(struct page_series *s, const struct page_series_options *options, uint32_t slots)
{
    *s = (struct page_series){.options = *options};
    uint64_t span = (uint64_t)options->to - (uint64_t)options->from;
    s->slot_ns = span / PAGE_SLOTS + 1;
    const struct page_cells_options cells = {.values = PAGE_VALUES,
                                             .slots = slots,
                                             .steps_min = options->steps_min,
                                             .cells_max = limit(options->cells_max),
                                             .ctx = s,
                                             .settle = settle_peak,
                                             .join = join_peaks};
    const struct page_cells_options histogram = {.values = 2,
                                                 .slots = slots,
                                                 .steps_min =
                                                     options->all_threads ? options->steps_min : 0,
                                                 .cells_max = limit(options->histogram_max)};
    const struct page_cells_options blocks = {.values = BLOCK_VALUES,
                                              .slots = slots,
                                              .steps_min = options->steps_min,
                                              .cells_max = limit(options->map_max)};
    page_cells_init(&s->cells, &cells);
    page_cells_init(&s->histogram, &histogram);
    page_cells_init(&s->blocks, &blocks);
    page_lives_init(&s->lives, PAGE_SLOTS, limit(options->lives_max));
}

int page_series_build(struct page_series *s, const struct page_series_options *options,
                      const struct memory_observer *also, struct err *e)
{
    init(s, options, PAGE_SLOTS);
    if (build(s, also, e) == 0)
        return 0;
    page_series_release(s);
    return -1;
}

/* ---- of figures only */

static int add_stack(struct page_series *s, uint32_t pool, const struct summary_stack *stack,
                     struct err *e)
{
    const struct page_series_options *o = &s->options;
    const struct counter *c = &stack->figures;
    const struct page_key key = {pool, o->thread_other,
                                 stack->callstack < o->stack_limit ? o->stacks[stack->callstack]
                                                                   : o->stack_other};
    uint32_t number;
    bool fresh;
    if (key_number(s, key, c->count, &number, e) != 0)
        return -1;
    int64_t *v = page_cells_at(&s->cells, number, &fresh, e);
    if (!v)
        return -1;
    add(&v[PAGE_ALLOCS], c->count);
    add(&v[PAGE_ALLOC_BYTES], c->bytes);
    add(&v[PAGE_FREES], c->count - c->live_count);
    add(&v[PAGE_FREE_BYTES], saturating_sub(c->bytes, c->live_bytes));
    add(&v[PAGE_TEMPORARY], c->temporary);
    add(&v[PAGE_TEMPORARY_BYTES], c->temporary_bytes);
    add(&v[PAGE_PEAK], c->at_peak_count);
    add(&v[PAGE_PEAK_BYTES], c->at_peak_bytes);
    return 0;
}

/* A slot has the highest use of the buckets that it meets, and else what the last of them has. */
static void take_use(struct page_series *s, const struct timeline *use)
{
    for (size_t i = 0; i < use->series.len; i++) {
        struct page_point *points = s->pools[s->shown_as[i]].points;
        const struct timeline_bucket *b = use->series.at[i].buckets;
        int64_t end = s->options.from;
        for (size_t k = 0, at = 0; k < PAGE_SLOTS; k++) {
            uint64_t high = b[at].high;
            end += (int64_t)s->slot_ns;
            while (at + 1 < use->count && timeline_time(use, at + 1) < end) {
                at++;
                high = b[at].high > high ? b[at].high : high;
            }
            points[k] = (struct page_point){high, b[at].last, b[at].last_live, b[at].allocations};
        }
    }
}

int page_series_figures(struct page_series *s, const struct page_series_options *options,
                        const struct summary *sums, const struct timeline *use, struct err *e)
{
    init(s, options, 1);
    int status = begin_pools(s, e);
    for (size_t i = 0; i < sums->sites.len && status == 0; i++) {
        const struct summary_row *row = &sums->sites.at[i];
        const struct summary_stack *stacks = &sums->stacks.at[row->first_stack];
        for (size_t k = 0; k < row->stack_count && status == 0; k++)
            status = add_stack(s, row->pool, &stacks[k], e);
    }
    if (status == 0) {
        take_use(s, use);
        status = page_cells_finish(&s->cells, e);
    }
    if (status != 0)
        page_series_release(s);
    return status;
}

void page_series_release(struct page_series *s)
{
    free(s->pools);
    free(s->shown_as);
    vec_release(&s->keys);
    vec_release(&s->newest_key);
    vec_release(&s->key_before);
    vec_release(&s->epochs);
    page_lives_release(&s->lives);
    page_cells_release(&s->cells);
    page_cells_release(&s->histogram);
    page_cells_release(&s->blocks);
    *s = (struct page_series){0};
}

const struct page_point *page_series_points(const struct page_series *s, uint32_t pool)
{
    return s->pools[pool].points;
}
