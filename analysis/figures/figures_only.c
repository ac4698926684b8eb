#include "analysis/figures/figures_only.h"

#include <stdlib.h>
#include <unistd.h>

#include "analysis/figures/figure_bytes.h"
#include "analysis/figures/sites.h"
#include "analysis/figures/stream_figures.h"
#include "analysis/figures/stream_parts.h"
#include "analysis/names/program_frames.h"
#include "analysis/names/types.h"
#include "trace/file/appendix.h"

/* Sizes are summed without a check for overflow. */
#define BYTES_MAX (UINT64_C(1) << 62)

/* Bytes of counters in memory, and of the first pool's log. */
#define COUNTERS_BUDGET ((size_t)64 << 20)
#define LOG_BUDGET ((size_t)16 << 20)

/* Minimum size of a pool, a call stack and a group, in bytes. */
#define POOL_LEAST (6 + POOL_FIELDS + 3)
#define CALLSTACK_LEAST (1 + COUNTER_FIELDS)
#define GROUP_LEAST (8u + 1)

/* Steps of a pool in its log, from which the log is begun anew: about 64 MiB. */
#define FOLD_STEPS ((uint64_t)1 << 24)

/* The ways in which call stacks are divided into groups. */
enum { DIVISIONS = 7 };

/* The groups when the log was begun anew. */
struct past {
    uint32_t *groups; /* by call stack; NULL: the log has all steps */
    size_t count;
    struct map peaks; /* see struct stream_past */
};

/* What counts a pool; of a loaded trace, only the peaks are used. */
struct feed {
    struct stream_counting counting;
    struct spool spool; /* of the log */
    bool has_spool;
    int64_t now; /* ns; of the newest step, or of a later one before it */
    struct map peaks;
    struct past past[DIVISIONS];
};

struct only {
    struct trace *trace;
    struct stream_figures figures;
    struct accounting threads; /* by allocating thread */
    VEC(struct feed *) feeds;  /* by number of pool; NULL: without steps */
    bool sealed;               /* the peaks of groups are known, and no step came since */
    uint64_t fold_steps;       /* FOLD_STEPS, but for tests */
    void (*name)(void *ctx, struct trace *t); /* see figures_only_name_by */
    void *name_ctx;
};

static int no_memory(struct err *e)
{
    return err_no_memory(e, "figures of call stacks");
}

/* ---- the life of figures */

static void release_log(struct feed *f)
{
    stream_log_release(&f->counting.log);
    if (f->has_spool)
        spool_release(&f->spool);
    f->has_spool = false;
}

static void release_feed(struct feed *f)
{
    if (!f)
        return;
    release_log(f);
    map_release(&f->peaks);
    for (unsigned i = 0; i < DIVISIONS; i++) {
        free(f->past[i].groups);
        map_release(&f->past[i].peaks);
    }
    free(f);
}

static void forget(struct only *o)
{
    for (size_t i = 0; i < o->feeds.len; i++)
        release_feed(o->feeds.at[i]);
    vec_release(&o->feeds);
    stream_figures_release(&o->figures);
    accounting_release(&o->threads);
    o->sealed = false;
}

static void release(void *figures)
{
    struct only *o = figures;
    forget(o);
    free(o);
}

static void start(struct only *o)
{
    static const struct accounting_options by_thread = {.by_thread = true};
    accounting_init(&o->threads, &by_thread);
    stream_figures_init(&o->figures, o->trace);
    o->figures.of_store = true;
    o->figures.counting.pageable.budget = COUNTERS_BUDGET;
}

static struct only *new_only(struct trace *t, struct err *e)
{
    struct only *o = aligned_alloc(_Alignof(struct only), sizeof *o);
    if (!o) {
        no_memory(e);
        return NULL;
    }
    *o = (struct only){.trace = t, .fold_steps = FOLD_STEPS};
    start(o);
    t->memory.only.is = true;
    t->memory.only.figures = o;
    t->memory.only.release = release;
    return o;
}

/* The pool's, made if it is the first step. NULL with `e`. */
static struct feed *feed_of(struct only *o, uint32_t pool, struct err *e)
{
    while (o->feeds.len <= pool) {
        if (!vec_push(&o->feeds, NULL)) {
            no_memory(e);
            return NULL;
        }
    }
    if (o->feeds.at[pool])
        return o->feeds.at[pool];
    struct feed *f = aligned_alloc(_Alignof(struct feed), sizeof *f);
    if (!f) {
        no_memory(e);
        return NULL;
    }
    *f = (struct feed){.now = INT64_MIN};
    const struct stream_pool p = {.number = pool};
    f->counting.account = accounting_add_pool(&o->figures.callstacks, pool, e);
    if (!f->counting.account || !vec_push(&o->figures.pools, p)) {
        free(f);
        no_memory(e);
        return NULL;
    }
    o->feeds.at[pool] = f;
    return f;
}

static int begin_log(struct only *o, struct feed *f, struct err *e)
{
    /* With any number of pools, the logs take about ten times the budget at most. */
    size_t budget = LOG_BUDGET / o->figures.pools.len;
    if (spool_init(&f->spool, o->trace->spool.dir, budget, e) != 0)
        return -1;
    f->has_spool = true;
    stream_log_init(&f->counting.log, &f->spool);
    return 0;
}

/* ---- steps */

/* Counts the waiting steps of a pool, and takes its sums from the store. */
static int flush(struct only *o, uint32_t pool, struct err *e)
{
    struct feed *f = o->feeds.at[pool];
    struct pool_figures *figures = &f->counting.account->figures;
    const struct pool_totals *totals = &o->trace->memory.pools.at[pool]->totals;
    if (f->counting.run.steps.n && stream_count_run(&f->counting, e) != 0)
        return -1;
    figures->allocations = totals->allocations;
    figures->frees = totals->frees;
    figures->total_bytes = totals->total_bytes;
    return 0;
}

/* ---- the peaks of groups */

/* Takes the peaks of a pool's groups in one of the divisions: `division` says which. */
typedef int take_division(struct only *o, uint32_t pool, unsigned division,
                          const struct stream_grouping *grouping, struct err *e);

static int divide_sites(struct only *o, uint32_t pool, unsigned division,
                        struct program_frames *program, enum site_detail detail,
                        take_division *take, struct err *e)
{
    struct sites sites = {0};
    int status = sites_build_from(&sites, program, detail, e);
    const struct stream_grouping grouping = {sites.of_callstack, sites.callstack_count, NULL};
    if (status == 0)
        status = take(o, pool, division, &grouping, e);
    sites_release(&sites);
    return status;
}

static int divide_types(struct only *o, uint32_t pool, unsigned division,
                        struct program_frames *program, take_division *take, struct err *e)
{
    struct types types = {0};
    int status = types_build(&types, program, e);
    const struct stream_grouping grouping = {types.of_callstack, types.callstack_count, NULL};
    if (status == 0)
        status = take(o, pool, division, &grouping, e);
    types_release(&types);
    return status;
}

static int divide_by_rules(struct only *o, uint32_t pool, unsigned division,
                           const struct skiplist *skip, take_division *take, struct err *e)
{
    struct program_frames program = {0};
    int status = program_frames_init(&program, o->trace, skip, e);
    if (status == 0)
        status = divide_sites(o, pool, division, &program, SITE_BY_LINE, take, e);
    if (status == 0)
        status = divide_sites(o, pool, division + 1, &program, SITE_BY_FUNCTION, take, e);
    if (status == 0)
        status = divide_types(o, pool, division + 2, &program, take, e);
    program_frames_release(&program);
    return status;
}

/* Divides the call stacks of a pool as frames are named now. */
static int divide(struct only *o, uint32_t pool, take_division *take, struct err *e)
{
    static const struct skiplist names = {.names_alone = true};
    const struct stream_grouping one = {0};
    return take(o, pool, 0, &one, e) == 0 && divide_by_rules(o, pool, 1, NULL, take, e) == 0
               ? divide_by_rules(o, pool, 4, &names, take, e)
               : -1;
}

static int find_peaks(struct only *o, uint32_t pool, unsigned division,
                      const struct stream_grouping *grouping, bool by_hash, struct map *peaks,
                      struct err *e)
{
    struct feed *f = o->feeds.at[pool];
    const struct past *p = &f->past[division];
    const struct stream_past past = {p->groups, p->count, &p->peaks};
    return stream_figures_peaks(&o->figures, pool, &f->counting.log, grouping,
                                p->groups ? &past : NULL, by_hash, peaks, e);
}

static int keep_by_hash(struct only *o, uint32_t pool, unsigned division,
                        const struct stream_grouping *grouping, struct err *e)
{
    return find_peaks(o, pool, division, grouping, true, &o->feeds.at[pool]->peaks, e);
}

static int keep_by_group(struct only *o, uint32_t pool, unsigned division,
                         const struct stream_grouping *grouping, struct err *e)
{
    struct past *p = &o->feeds.at[pool]->past[division];
    struct past fresh = {.count = o->trace->callstacks.list.len + 1};
    fresh.groups = calloc(fresh.count, sizeof *fresh.groups);
    if (!fresh.groups)
        return no_memory(e);
    if (find_peaks(o, pool, division, grouping, false, &fresh.peaks, e) != 0) {
        map_release(&fresh.peaks);
        free(fresh.groups);
        return -1;
    }
    for (size_t i = 0; i < fresh.count && i < grouping->group_count; i++)
        fresh.groups[i] = grouping->groups[i];
    free(p->groups);
    map_release(&p->peaks);
    *p = fresh;
    return 0;
}

/* Between two nanoseconds of a pool: keeps the peaks so far, and begins the log anew. */
static int fold(struct only *o, uint32_t pool, struct err *e)
{
    struct feed *f = o->feeds.at[pool];
    if (o->name)
        o->name(o->name_ctx, o->trace);
    if (flush(o, pool, e) != 0 || divide(o, pool, keep_by_group, e) != 0)
        return -1;
    release_log(f);
    return begin_log(o, f, e);
}

/* Finds the peaks as frames are named now. */
static int seal(struct only *o, struct err *e)
{
    for (uint32_t i = 0; i < o->feeds.len; i++) {
        if (!o->feeds.at[i])
            continue;
        map_release(&o->feeds.at[i]->peaks);
        if (flush(o, i, e) != 0 || divide(o, i, keep_by_hash, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < o->figures.pools.len; i++)
        o->figures.pools.at[i].peaks = &o->feeds.at[o->figures.pools.at[i].number]->peaks;
    o->figures.counted = o->sealed = true;
    return 0;
}

/* ---- taking steps */

static bool is_temporary(const struct memory_op *op, const struct account_thread *t)
{
    return op->kind == MEMORY_FREE && op->block.thread == op->thread &&
           t->previous <= op->block.time;
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct only *o = ctx;
    const uint32_t callstack = op->block.callstack, at = callstack & (COUNTER_PAGE_KEYS - 1);
    struct feed *f = feed_of(o, op->pool, e);
    if (!f || (!f->has_spool && begin_log(o, f, e) != 0))
        return -1;
    if (o->trace->memory.pools.at[op->pool]->totals.total_bytes > BYTES_MAX)
        return err_set(e, ERR_INPUT, "allocations of 2^62 bytes cannot be counted");
    struct counter_page *page = pool_page(f->counting.account, callstack, e);
    struct account_thread *thread = pool_thread(f->counting.account, op->thread, e);
    if (!page || !thread || accounting_op(&o->threads, op, e) != 0)
        return -1;
    const int64_t time = op->time > 0 ? op->time : 0;
    const bool later = time > f->now;
    if (later && __builtin_expect(f->counting.log.len >= o->fold_steps, 0) &&
        fold(o, op->pool, e) != 0)
        return -1;
    f->now = later ? time : f->now;
    struct stream_run *r = &f->counting.run;
    o->sealed = false;
    thread_step(thread, f->now);
    if (is_temporary(op, thread))
        counter_temporary(f->counting.account, &page->cold[at], op->block.size);
    r->key[r->steps.n] = (uint64_t)f->now << STEP_TIME | op->thread;
    r->steps.size[r->steps.n] = op->block.size;
    r->steps.what[r->steps.n] =
        callstack << 2 | (op->kind == MEMORY_FREE ? LOG_FREE : 0) | (later ? LOG_LATER : 0);
    return ++r->steps.n == LOG_RUN ? stream_count_run(&f->counting, e) : 0;
}

static void anew(void *ctx)
{
    struct only *o = ctx;
    forget(o);
    start(o);
}

/* ---- bytes */

static uint64_t count_keys(const struct accounting *a, uint32_t pool)
{
    uint64_t iter = 0, n = 0;
    uint32_t key;
    struct counter c;
    while (accounting_next(a, pool, &iter, &key, &c))
        n++;
    return n;
}

/* Numbers of threads change in a file: by their ids. */
static void put_threads(const struct only *o, uint32_t pool, struct buf *out)
{
    const struct trace_threads *threads = &o->trace->threads;
    uint64_t iter = 0;
    uint32_t number;
    figures_put(out, count_keys(&o->threads, pool));
    for (struct counter c; accounting_next(&o->threads, pool, &iter, &number, &c);) {
        figures_put(out, number < threads->list.len ? threads->list.at[number].id : 0);
        figures_put_all(out, &c, COUNTER_FIELDS);
    }
}

static void put_pool(const struct only *o, uint32_t number, struct buf *out)
{
    const struct pool *p = o->trace->memory.pools.at[number];
    const struct map *peaks = &o->feeds.at[number]->peaks;
    const uint64_t head[] = {p->key,      p->totals.low_address,   p->totals.high_address,
                             p->disorder, (uint64_t)p->first_time, (uint64_t)p->last_time};
    struct pool_figures figures;
    accounting_pool(&o->figures.callstacks, number, &figures);
    figures_put_all(out, head, sizeof head / sizeof *head);
    figures_put_all(out, &figures, POOL_FIELDS);
    figures_put(out, count_keys(&o->figures.callstacks, number));
    figures_put(out, peaks->count);
    uint64_t iter = 0;
    uint32_t id, before = 0;
    for (struct counter c; accounting_next(&o->figures.callstacks, number, &iter, &id, &c);) {
        figures_put(out, id - before);
        figures_put_all(out, &c, COUNTER_FIELDS);
        before = id;
    }
    size_t at = 0;
    for (const struct map_slot *slot; (slot = map_next(peaks, &at));) {
        buf_u64(out, slot->key);
        figures_put(out, slot->value);
    }
    put_threads(o, number, out);
}

static void encode(const struct only *o, struct buf *out)
{
    buf_u64(out, APPENDIX_SECTIONS);
    buf_u32(out, APPENDIX_ONLY);
    buf_u32(out, APPENDIX_VERSION);
    size_t length = out->len;
    buf_u64(out, 0);
    figures_put(out, o->figures.pools.len);
    for (uint32_t i = 0; i < o->feeds.len; i++) {
        if (o->feeds.at[i])
            put_pool(o, i, out);
    }
    if (!out->failed)
        store_u64(out->data + length, out->len - length - 8);
}

static int append(void *figures, int fd, struct err *e)
{
    struct only *o = figures;
    struct buf bytes = {0};
    if (!o->sealed && seal(o, e) != 0)
        return err_prefix(e, "figures behind the trace");
    encode(o, &bytes);
    int status = bytes.failed ? no_memory(e) : appendix_write(fd, buf_view(&bytes), e);
    buf_release(&bytes);
    return status;
}

static int refuse(const struct cursor *c, const char *what, struct err *e)
{
    return err_set(e, ERR_INPUT, "figures behind the trace, offset %zu: %s", cursor_offset(c),
                   c->short_read ? "they end before they should" : what);
}

static int take_stacks(struct only *o, struct cursor *c, uint32_t pool, uint64_t n, struct err *e)
{
    struct memory *m = &o->trace->memory;
    const struct pool_account *account = o->feeds.at[pool]->counting.account;
    uint64_t count = 0, live = 0, id = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct counter one;
        uint64_t step = figures_take(c);
        figures_take_all(c, &one, COUNTER_FIELDS);
        if (c->short_read || (i && step == 0) || step > o->trace->callstacks.list.len - id)
            return refuse(c, "call stacks out of order", e);
        if (one.count == 0 || one.live_count > one.count)
            return refuse(c, "a call stack without allocations", e);
        id += step;
        count += one.count;
        live += one.live_count;
        if (accounting_put_counter(&o->figures.callstacks, pool, (uint32_t)id, &one, e) != 0 ||
            memory_sum_stack(m, (uint32_t)id, one.count, one.bytes, e) != 0)
            return -1;
    }
    const struct pool_figures *f = &account->figures;
    bool right = count == f->allocations && live == f->live && f->frees <= count &&
                 f->live == count - f->frees;
    return right ? 0 : refuse(c, "they do not add up", e);
}

static int take_groups(struct cursor *c, struct map *peaks, uint64_t n, struct err *e)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = cursor_u64(c), peak = figures_take(c);
        if (c->short_read)
            return refuse(c, "", e);
        uint64_t *to = map_add(peaks, hash, NULL);
        if (!to)
            return no_memory(e);
        *to = peak;
    }
    return 0;
}

static int take_threads(struct only *o, struct cursor *c, uint32_t pool, struct err *e)
{
    const struct pool_figures *figures = &o->feeds.at[pool]->counting.account->figures;
    uint64_t n = figures_take(c), count = 0;
    if (c->short_read || n > cursor_left(c) / CALLSTACK_LEAST)
        return refuse(c, "more threads than there are bytes", e);
    if (accounting_put_pool(&o->threads, pool, figures, e) != 0)
        return -1;
    for (uint64_t i = 0; i < n; i++) {
        struct counter one;
        const uint64_t *number = map_find(&o->trace->threads.numbers, figures_take(c));
        figures_take_all(c, &one, COUNTER_FIELDS);
        if (c->short_read || !number || one.count == 0)
            return refuse(c, "an unknown thread", e);
        count += one.count;
        if (accounting_put_counter(&o->threads, pool, (uint32_t)*number, &one, e) != 0)
            return -1;
    }
    return count == figures->allocations ? 0 : refuse(c, "they do not add up", e);
}

static int take_pool(struct only *o, struct cursor *c, struct err *e)
{
    uint64_t head[6];
    uint32_t number;
    struct pool_figures figures;
    figures_take_all(c, head, 6);
    figures_take_all(c, &figures, POOL_FIELDS);
    uint64_t stacks = figures_take(c), groups = figures_take(c);
    if (c->short_read || stacks > cursor_left(c) / CALLSTACK_LEAST ||
        groups > (cursor_left(c) - stacks * CALLSTACK_LEAST) / GROUP_LEAST)
        return refuse(c, "more call stacks or groups than there are bytes", e);
    if (memory_pool(&o->trace->memory, head[0], &number, e) != 0)
        return -1;
    if (number < o->feeds.len && o->feeds.at[number])
        return refuse(c, "a pool twice", e);
    struct feed *f = feed_of(o, number, e);
    if (!f)
        return -1;
    struct pool *p = o->trace->memory.pools.at[number];
    p->totals = (struct pool_totals){.frees = figures.frees,
                                     .allocations = figures.allocations,
                                     .live = figures.live,
                                     .total_bytes = figures.total_bytes,
                                     .live_bytes = figures.live_bytes,
                                     .low_address = head[1],
                                     .high_address = head[2]};
    p->disorder = head[3];
    p->first_time = (int64_t)head[4];
    p->last_time = (int64_t)head[5];
    f->counting.account->figures = figures;
    o->figures.pools.at[o->figures.pools.len - 1].peaks = &f->peaks;
    if (take_stacks(o, c, number, stacks, e) != 0 || take_groups(c, &f->peaks, groups, e) != 0)
        return -1;
    return take_threads(o, c, number, e);
}

static int decode(struct only *o, struct view bytes, struct err *e)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    uint64_t n = figures_take(&c);
    if (c.short_read || n > cursor_left(&c) / POOL_LEAST || n > POOLS_MAX)
        return refuse(&c, "more pools than there are bytes", e);
    for (uint64_t i = 0; i < n; i++) {
        if (take_pool(o, &c, e) != 0)
            return -1;
    }
    o->figures.counted = o->sealed = true;
    return cursor_left(&c) ? refuse(&c, "bytes behind them", e) : 0;
}

/* ---- for callers */

int figures_only_begin(struct trace *t, struct err *e)
{
    struct only *o = new_only(t, e);
    if (!o)
        return -1;
    t->memory.observer = (struct memory_observer){.ctx = o, .op = take, .anew = anew};
    t->memory.only.append = append;
    return 0;
}

void figures_only_fold_after(struct trace *t, uint64_t steps)
{
    struct only *o = t->memory.only.figures;
    o->fold_steps = steps;
}

void figures_only_name_by(struct trace *t, void (*name)(void *ctx, struct trace *t), void *ctx)
{
    struct only *o = t->memory.only.figures;
    if (!t->memory.only.append)
        return;
    o->name = name;
    o->name_ctx = ctx;
}

int figures_only_note(struct trace *t, struct err *e)
{
    return t->memory.only.append ? trace_add_fact(t, e, FIGURES_FACT, FIGURES_ONLY) : 0;
}

int figures_only_load(struct trace *t, struct err *e)
{
    if (!t->memory.only.is || t->memory.only.figures)
        return 0;
    if (t->memory.only.bytes.len == 0)
        return memory_refuse(t->memory.only.piped
                                 ? "figures are read from a regular file, not from a pipe"
                                 : "and the figures are not behind the trace any more",
                             e);
    struct only *o = new_only(t, e);
    if (!o)
        return -1;
    if (decode(o, buf_view(&t->memory.only.bytes), e) != 0) {
        release(o);
        t->memory.only.figures = NULL;
        t->memory.only.release = NULL;
        return -1;
    }
    buf_release(&t->memory.only.bytes);
    return 0;
}

/* Whether no two pools with steps have one name. */
static bool are_apart(const struct only *o)
{
    const struct trace *t = o->trace;
    for (size_t i = 0; i < o->figures.pools.len; i++) {
        for (size_t k = 0; k < i; k++) {
            char room[32], other[32];
            const struct pool *a = t->memory.pools.at[o->figures.pools.at[i].number];
            const struct pool *b = t->memory.pools.at[o->figures.pools.at[k].number];
            if (view_equal(trace_pool_name(t, a, room), trace_pool_name(t, b, other)))
                return false;
        }
    }
    return true;
}

int figures_only_find(struct trace *t, struct stream_figures **f, struct err *e)
{
    if (figures_only_load(t, e) != 0)
        return -1;
    struct only *o = t->memory.only.figures;
    if (!o->sealed && seal(o, e) != 0)
        return -1;
    if (!are_apart(o))
        return memory_refuse(
            "several pools have one name, and their figures together are not known", e);
    *f = &o->figures;
    return 0;
}

int figures_only_threads(struct trace *t, const struct selection *s, struct accounting *into,
                         struct err *e)
{
    const struct only *o = t->memory.only.figures;
    for (uint32_t i = 0; i < o->feeds.len; i++) {
        uint32_t pool = s->pool_of[i];
        if (o->feeds.at[i] && pool != UINT32_MAX &&
            accounting_borrow(into, pool, &o->threads, i, e) != 0)
            return -1;
    }
    return 0;
}
