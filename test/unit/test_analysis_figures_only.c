/* Figures that were counted as the steps came, held against those of the same steps that are kept.
 */

#include <setjmp.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/figures/figures_only.h"
#include "analysis/figures/summary.h"
#include "analysis/questions/figure_parts.h"
#include "analysis/questions/growth.h"
#include "analysis/questions/histograms.h"
#include "analysis/questions/history.h"
#include "analysis/questions/leaks.h"
#include "analysis/questions/patterns.h"
#include "analysis/questions/stack_steps.h"
#include "analysis/questions/timeline.h"
#include "analysis/questions/tree.h"
#include "test/unit/random_history.h"
#include "test/unit/summary_compare.h"
#include "trace/file/appendix.h"
#include "trace/ingest/ingest.h"
#include "trace/load/load.h"
#include "trace/save/save_file.h"

#define SEEDS 12

/* ---- the same steps twice */

struct pair {
    struct random_history kept, counted;
    struct trace loaded;
    char path[64];
};

static void save(struct trace *t, const char *path, struct trace *loaded)
{
    const struct save_options options = {.layout = file_layout_find(FILE_VERSION(0, 14, 0)),
                                         .container = container_options_default(),
                                         .replace = true};
    struct trace_write_stats stats;
    struct buf losses = {0};
    struct err e = {0};
    assert_int_equal(figure_parts_note(t, &e), 0);
    if (trace_save_file(t, path, &options, &stats, &losses, &e) != 0)
        fail_msg("%s", e.text);
    buf_release(&losses);
    assert_int_equal(trace_init(loaded, NULL, &e), 0);
    if (trace_load(loaded, path, NULL, NULL, &e) != 0)
        fail_msg("%s", e.text);
}

/* With a log that is begun anew again and again. */
static int begin_folding(struct trace *t, struct err *e)
{
    if (figure_parts_begin(t, e) != 0)
        return -1;
    figures_only_fold_after(t, 1);
    return 0;
}

static void pair_init_with(struct pair *p, uint64_t seed, const char *two,
                           int (*begin)(struct trace *t, struct err *e))
{
    rh_make_with(&p->kept, seed, "one", two, NULL);
    rh_make_with(&p->counted, seed, "one", two, begin);
    snprintf(p->path, sizeof p->path, "/tmp/figures-XXXXXX");
    int fd = mkstemp(p->path);
    assert_true(fd >= 0);
    close(fd);
    save(&p->counted.trace, p->path, &p->loaded);
}

static void pair_init(struct pair *p, uint64_t seed, const char *two)
{
    pair_init_with(p, seed, two, figure_parts_begin);
}

static void pair_release(struct pair *p)
{
    rh_release(&p->kept);
    rh_release(&p->counted);
    trace_release(&p->loaded);
    unlink(p->path);
}

static void compare_with(struct trace *counted, struct trace *kept, enum grouping by,
                         const char *pool, const struct skiplist *skip)
{
    struct summary a, b;
    struct err e = {0};
    struct summary_options options = {
        .by = by, .pool = pool, .skip = skip, .stacks = true, .callers = true};
    assert_int_equal(summary_build(&b, kept, &options, &e), 0);
    if (summary_build(&a, counted, &options, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(a.allocations, b.allocations);
    compare(&a, &b);
    summary_release(&a);
    summary_release(&b);
}

static void compare_all(struct trace *counted, struct trace *kept)
{
    static const struct skiplist names = {.names_alone = true};
    static const enum grouping by[] = {GROUP_SITE, GROUP_FUNCTION, GROUP_CALLSTACK,
                                       GROUP_TYPE, GROUP_POOL,     GROUP_THREAD};
    static const char *const pools[] = {NULL, "two", "default"};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        for (size_t k = 0; k < 3; k++) {
            compare_with(counted, kept, by[i], pools[k], NULL);
            compare_with(counted, kept, by[i], pools[k], &names);
        }
    }
}

static void test_summaries(void **state)
{
    struct pair p;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        pair_init(&p, seed, "two");
        assert_int_equal(p.counted.trace.memory.pools.at[0]->allocs.len, 0);
        assert_int_equal(p.loaded.memory.pools.at[0]->allocs.len, 0);
        compare_all(&p.counted.trace, &p.kept.trace);
        compare_all(&p.loaded, &p.kept.trace);
        pair_release(&p);
    }
}

static void test_a_log_that_is_begun_anew(void **state)
{
    struct pair p;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        pair_init_with(&p, seed, "two", begin_folding);
        compare_all(&p.counted.trace, &p.kept.trace);
        compare_all(&p.loaded, &p.kept.trace);
        pair_release(&p);
    }
}

static void name_frame(struct trace *t, uint64_t address, const char *function)
{
    struct err e = {0};
    struct rec_inline_frame in = {.function = strings_intern(&t->strings, view_of(function), &e)};
    assert_int_equal(callstacks_resolve(&t->callstacks, address, 0, &in, 1, &e), 0);
}

static uint32_t stack_of(struct trace *t, uint64_t address)
{
    struct err e = {0};
    uint32_t id;
    bool fresh;
    assert_int_equal(callstacks_intern(&t->callstacks, &address, 1, &id, &fresh, &e), 0);
    return id;
}

static void put_block(struct trace *t, uint64_t ptr, uint64_t size, int64_t time, uint32_t stack)
{
    struct err e = {0};
    bool found;
    const struct memory_place at = {time, 0, stack};
    if (size)
        assert_int_equal(alloc_in(&t->memory, 0, ptr, size, at, &found, &e), 0);
    else
        assert_int_equal(free_in(&t->memory, 0, ptr, at, true, &found, &e), 0);
}

/* Names that come later make one site of two, whose use together was not kept. */
static void test_names_that_change(void **state)
{
    struct err e = {0};
    struct trace t;
    struct summary s;
    uint32_t number;
    const struct summary_options options = {.by = GROUP_SITE};
    (void)state;
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(begin_folding(&t, &e), 0);
    assert_int_equal(memory_pool(&t.memory, 0, &number, &e), 0);
    const uint32_t a = stack_of(&t, 16), b = stack_of(&t, 32), c = stack_of(&t, 48);
    name_frame(&t, 16, "one");
    name_frame(&t, 48, "other");
    put_block(&t, 0x5000, 7, 0, c);
    put_block(&t, 0x1000, 1000, 1, a);
    put_block(&t, 0x3000, 300, 2, b);
    put_block(&t, 0x1000, 0, 3, a);
    for (int64_t i = 0; i < 600; i++)
        put_block(&t, 0x10000 + 64 * (uint64_t)i, 1, 10 + i, a);
    name_frame(&t, 32, "one");
    put_block(&t, 0x90000, 1, 9999, b);
    if (summary_build(&s, &t, &options, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(s.sites.len, 2);
    const struct summary_row *one = &s.sites.at[s.sites.at[0].figures.count == 1];
    assert_int_equal(one->figures.count, 603);
    assert_int_equal(one->figures.peak_bytes, 1000); /* 1300 together */
    assert_int_equal(s.peak_bounds, 1);
    bool found = false;
    for (size_t i = 0; i < s.checks.len; i++)
        found |= strcmp(s.checks.at[i].name, "site-peaks") == 0 && !s.checks.at[i].holds;
    assert_true(found);
    summary_release(&s);
    trace_release(&t);
}

/* A summary while steps come changes nothing in those after them. */
static void test_summary_on_the_way(void **state)
{
    struct pair p;
    struct summary s;
    struct err e = {0};
    const struct summary_options options = {.by = GROUP_SITE};
    (void)state;
    pair_init(&p, 77, "two");
    struct random_history *const both[] = {&p.kept, &p.counted};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(summary_build(&s, &both[i]->trace, &options, &e), 0);
        summary_release(&s);
        both[i]->n = RH_BLOCKS / 2;
        for (size_t k = 0; k < both[i]->n; k++) {
            struct rh_block *b = &both[i]->blocks[k];
            bool found;
            struct memory_place at = {both[i]->now + 10, 1, 0};
            if (b->end == INT64_MAX)
                assert_int_equal(
                    free_in(&both[i]->trace.memory, b->pool, b->ptr, at, true, &found, &e), 0);
        }
    }
    compare_all(&p.counted.trace, &p.kept.trace);
    pair_release(&p);
}

/* ---- parts */

static int take_part(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return 0;
}

static void nothing_held(void *ctx, void (*take)(void *ctx, uint32_t *id), void *take_ctx)
{
    (void)ctx;
    (void)take;
    (void)take_ctx;
}

/* Begins another part, with more steps. */
static void continue_in_part(struct random_history *h, uint64_t apart)
{
    const struct ingest_holder holder = {.each = nothing_held};
    struct ingest in;
    struct err e = {0};
    assert_int_equal(ingest_init(&in, &h->trace, &e), 0);
    in.part_full = take_part;
    assert_int_equal(ingest_begin_part(&in, &e), 0);
    assert_int_equal(ingest_compact(&in, &holder, &e), 0);
    ingest_release(&in);
    size_t live = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (h->blocks[i].end == INT64_MAX)
            h->blocks[live++] = h->blocks[i];
    }
    h->n = live;
    h->now = 5;
    while (h->n < RH_BLOCKS) {
        h->now += (int64_t)(apart + rh_rnd(h, 3));
        if (rh_rnd(h, 9) < 5)
            rh_alloc(h);
        else
            rh_free(h);
    }
    h->trace.facts.last_time = h->now;
}

static void test_parts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_init(&p, seed, "two");
        continue_in_part(&p.kept, 0);
        continue_in_part(&p.counted, 0);
        compare_all(&p.counted.trace, &p.kept.trace);
        trace_release(&p.loaded);
        save(&p.counted.trace, p.path, &p.loaded);
        compare_all(&p.loaded, &p.kept.trace);
        pair_release(&p);
    }
}

static void compare_trees(const struct tree *a, const struct tree *b)
{
    assert_int_equal(a->nodes.len, b->nodes.len);
    for (size_t i = 0; i < a->nodes.len; i++)
        assert_memory_equal(&a->nodes.at[i].inclusive, &b->nodes.at[i].inclusive,
                            2 * sizeof a->nodes.at[i].inclusive);
}

static void test_tree_of_a_pool(void **state)
{
    const struct selection_options two = {.pool = "two"};
    const struct tree_options options = {.by = TREE_FUNCTION};
    struct selection s[2];
    struct tree trees[2];
    struct err e = {0};
    struct pair p;
    (void)state;
    pair_init(&p, 5, "two");
    struct trace *const traces[] = {&p.kept.trace, &p.loaded};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(selection_init(&s[i], traces[i], &two, &e), 0);
        if (tree_build(&trees[i], &s[i], &options, &e) != 0)
            fail_msg("%s", e.text);
    }
    compare_trees(&trees[0], &trees[1]);
    for (unsigned i = 0; i < 2; i++) {
        tree_release(&trees[i]);
        selection_release(&s[i]);
    }
    pair_release(&p);
}

/* ---- use over time, sizes and lifetimes */

/* The steps that the figures chose, of the kept events. */
static void compare_timelines(struct selection *only, struct selection *kept,
                              const struct timeline_options *o)
{
    struct timeline a, b;
    struct err e = {0};
    if (timeline_build(&a, only, o, &e) != 0)
        fail_msg("%s", e.text);
    const struct timeline_options same = {
        .begin = a.begin, .end = a.end, .buckets = a.count, .together = o->together};
    assert_true(a.begin <= o->begin && a.end >= o->end && a.count <= o->buckets);
    assert_int_equal(timeline_build(&b, kept, &same, &e), 0);
    assert_int_equal(a.count, b.count);
    assert_int_equal(a.series.len, b.series.len);
    for (size_t i = 0; i < a.series.len; i++)
        assert_memory_equal(a.series.at[i].buckets, b.series.at[i].buckets,
                            a.count * sizeof *a.series.at[i].buckets);
    timeline_release(&a);
    timeline_release(&b);
}

static void both_selections(struct pair *p, bool loaded, const char *pool, struct selection s[2])
{
    const struct selection_options options = {.pool = pool};
    struct err e = {0};
    struct trace *only = loaded ? &p->loaded : &p->counted.trace;
    assert_int_equal(selection_init(&s[0], only, &options, &e), 0);
    assert_int_equal(selection_init(&s[1], &p->kept.trace, &options, &e), 0);
}

static void test_timelines(void **state)
{
    static const struct timeline_options windows[] = {
        {.begin = 0, .end = 1500, .buckets = 200},
        {.begin = 0, .end = 1500, .buckets = 1},
        {.begin = 333, .end = 999, .buckets = 7},
        {.begin = 800, .end = 90000, .buckets = 64},
    };
    struct selection s[2];
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_init(&p, seed, "two");
        for (size_t i = 0; i < 2 * sizeof windows / sizeof *windows; i++) {
            both_selections(&p, i % 2, seed % 2 ? "two" : NULL, s);
            compare_timelines(&s[0], &s[1], &windows[i / 2]);
            selection_release(&s[0]);
            selection_release(&s[1]);
        }
        pair_release(&p);
    }
}

/* A curve of many steps, against the same steps in a timeline. */
static void test_a_long_curve(void **state)
{
    struct step_curve *c = step_curve_part.begin(), twice;
    const struct timeline_options all = {.begin = 0, .end = INT64_C(1) << 40, .buckets = 512};
    const struct selection_pool one = {.name = view_of("one")};
    struct selection s = {.pools = {.at = (struct selection_pool *)&one, .len = 1}};
    struct timeline t;
    struct err e = {0};
    struct buf bytes = {0};
    uint64_t seed = 7;
    (void)state;
    assert_int_equal(timeline_begin(&t, &s, &all, &e), 0);
    struct memory_observer to = timeline_observer(&t);
    struct memory_op op = {.block.size = 5};
    uint64_t live = 0;
    while (op.time < (INT64_C(1) << 40) - 1) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        op.kind = live && seed >> 33 & 1 ? MEMORY_FREE : MEMORY_ALLOC;
        live += op.kind == MEMORY_ALLOC ? 1 : UINT64_MAX;
        assert_int_equal(step_curve_part.take(c, &op, &e), 0);
        assert_int_equal(to.op(to.ctx, &op, &e), 0);
        op.time += (int64_t)(seed >> 40 & 3) * (op.time / 9000 + 1);
    }
    op.time = (INT64_C(1) << 40) - 1;
    op.kind = MEMORY_ALLOC;
    step_curve_part.take(c, &op, &e);
    to.op(to.ctx, &op, &e);
    timeline_finish(&t);
    assert_int_equal(step_curve_part.put(c, NULL, &bytes, &e), 0);
    assert_int_equal(step_curve_decode(&twice, buf_view(&bytes), &e), 0);
    assert_int_equal(twice.shift, 31);
    assert_int_equal(twice.count, 512);
    assert_memory_equal(twice.at, t.series.at[0].buckets, sizeof twice.at);
    step_curve_part.release(c);
    timeline_release(&t);
    buf_release(&bytes);
}

static void test_histograms(void **state)
{
    static const char *const pools[] = {"default", "one", "two"};
    struct selection s[2];
    struct histograms a, b;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        struct err e = {0};
        pair_init(&p, seed, "two");
        /* Without two steps in one nanosecond, whose order a trace of events does not keep. */
        continue_in_part(&p.kept, 1);
        continue_in_part(&p.counted, 1);
        trace_release(&p.loaded);
        save(&p.counted.trace, p.path, &p.loaded);
        for (unsigned i = 0; i < 6; i++) {
            both_selections(&p, i % 2, pools[i / 2], s);
            if (histograms_build(&a, &s[0], &e) != 0)
                fail_msg("%s", e.text);
            assert_int_equal(histograms_build(&b, &s[1], &e), 0);
            assert_int_equal(a.total.count,
                             s[0].trace->memory.pools.at[s[0].only]->totals.allocations);
            assert_memory_equal(&a, &b, sizeof a);
            selection_release(&s[0]);
            selection_release(&s[1]);
        }
        pair_release(&p);
    }
}

/* ---- call stacks over time */

/* What a call stack had in a step, from the list of blocks. */
static struct stack_step step_of(const struct random_history *h, uint32_t pool, uint32_t id,
                                 uint64_t number, unsigned shift)
{
    const int64_t begin = (int64_t)(number << shift), end = (int64_t)((number + 1) << shift);
    struct stack_step s = {.low = UINT64_MAX, .number = (uint32_t)number};
    for (int64_t t = begin; t < end && t <= h->now; t++) {
        s.bytes = s.live = 0;
        for (size_t i = 0; i < h->n; i++) {
            const struct rh_block *b = &h->blocks[i];
            if (b->pool != pool || h->stacks[b->stack].id != id || b->start > t || b->end <= t)
                continue;
            s.bytes += b->size;
            s.live++;
        }
        s.low = s.bytes < s.low ? s.bytes : s.low;
    }
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        s.allocations +=
            b->pool == pool && h->stacks[b->stack].id == id && b->start >= begin && b->start < end;
    }
    return s;
}

static void test_steps_of_call_stacks(void **state)
{
    struct selection s[2];
    struct stack_pools pools;
    struct err e = {0};
    struct pair p;
    (void)state;
    pair_init(&p, 21, "two");
    both_selections(&p, true, NULL, s);
    if (stack_pools_read(&pools, &s[0], &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(pools.list.len, RH_POOLS);
    const uint64_t steps = ((uint64_t)p.kept.now >> pools.shift) + 1;
    assert_true(steps > STACK_STEPS / 2 && steps <= STACK_STEPS);
    for (size_t i = 0; i < pools.list.len; i++) {
        const struct stack_steps *of = &pools.list.at[i];
        const uint32_t pool = s[0].pools.at[of->pool].number;
        for (size_t k = 0; k < of->stacks.len; k += 3) {
            const struct stack_history *h = &of->stacks.at[k];
            for (uint64_t n = 0; n < steps; n++) {
                const struct stack_step got = stack_history_at(h, n),
                                        want = step_of(&p.kept, pool, h->callstack, n, pools.shift);
                assert_memory_equal(&got, &want, sizeof got);
            }
        }
    }
    stack_pools_release(&pools);
    selection_release(&s[0]);
    selection_release(&s[1]);
    pair_release(&p);
}

static bool same_frame(const struct frame_view *a, const struct frame_view *b)
{
    return view_equal(a->function, b->function) && view_equal(a->file, b->file) &&
           view_equal(a->image, b->image) && a->line == b->line;
}

static const struct leak_row *leak_like(const struct leaks *l, const struct leak_row *r)
{
    for (size_t i = 0; i < l->rows.len; i++) {
        if (l->rows.at[i].pool == r->pool && same_frame(&l->rows.at[i].frame, &r->frame))
            return &l->rows.at[i];
    }
    fail_msg("no such site");
    return NULL;
}

static void test_leaks(void **state)
{
    struct selection s[2];
    struct leaks a, b;
    struct err e = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        struct pair p;
        pair_init(&p, seed, "two");
        both_selections(&p, seed % 2, seed % 3 ? NULL : "two", s);
        if (leaks_build(&a, &s[0], NULL, NULL, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(leaks_build(&b, &s[1], NULL, NULL, &e), 0);
        assert_int_equal(a.rows.len, b.rows.len);
        assert_true(a.rows.len > 2);
        assert_int_equal(a.begin, b.begin);
        assert_int_equal(a.end, b.end);
        for (size_t i = 0; i < a.rows.len; i++) {
            const struct leak_row *x = &a.rows.at[i], *y = leak_like(&b, x);
            assert_int_equal(x->count, y->count);
            assert_int_equal(x->bytes, y->bytes);
            assert_int_equal(x->first, y->first);
            assert_int_equal(x->last, y->last);
            assert_int_equal(x->allocations, y->allocations);
        }
        leaks_release(&a);
        leaks_release(&b);
        selection_release(&s[0]);
        selection_release(&s[1]);
        pair_release(&p);
    }
}

/* A site that leaks beside one that fills and empties: the same kinds as of events. */
static void test_a_leak_grows(void **state)
{
    struct leaks l;
    struct selection s;
    static const struct selection_options all = {0};
    (void)state;
    for (unsigned only = 0; only < 2; only++) {
        struct trace t;
        struct err e = {0};
        uint32_t number;
        assert_int_equal(trace_init(&t, NULL, &e), 0);
        assert_int_equal(only ? figure_parts_begin(&t, &e) : 0, 0);
        assert_int_equal(memory_pool(&t.memory, 0, &number, &e), 0);
        const uint32_t leak = stack_of(&t, 16), cache = stack_of(&t, 32);
        name_frame(&t, 16, "leak");
        name_frame(&t, 32, "cache");
        for (uint64_t i = 0; i < 4096; i++) {
            int64_t time = (int64_t)i * 1000;
            put_block(&t, 0x100000 + i * 64, 48, time, leak);
            if (i >= 7)
                put_block(&t, 0x900000 + (i - 7) * 64, 0, time + 1, cache);
            put_block(&t, 0x900000 + i * 64, 50, time + 2, cache);
        }
        t.facts.last_time = 4096 * 1000;
        assert_int_equal(selection_init(&s, &t, &all, &e), 0);
        if (leaks_build(&l, &s, NULL, NULL, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(l.rows.len, 2);
        assert_int_equal(l.rows.at[0].kind, LEAK_GROWING);
        assert_int_equal(l.rows.at[0].confidence, LEAK_HIGH);
        assert_int_equal(l.rows.at[0].bytes, 4096 * 48);
        assert_true(l.rows.at[0].rate > 47e6 && l.rows.at[0].rate < 49e6);
        assert_int_equal(l.rows.at[1].kind, LEAK_HELD);
        assert_int_equal(l.rows.at[1].count, 7);
        leaks_release(&l);
        selection_release(&s);
        trace_release(&t);
    }
}

static void test_growth(void **state)
{
    static const int64_t times[][2] = {{-1, 200}, {100, 700}, {300, INT64_C(1) << 40}, {5, 500}};
    struct selection s[2];
    struct growth a, b;
    struct err e = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        struct pair p;
        const int64_t *time = times[seed % 4];
        pair_init(&p, seed, "two");
        both_selections(&p, seed % 2, seed % 3 ? NULL : "two", s);
        if (growth_build(&a, &s[0], NULL, time[0], time[1], &e) != 0)
            fail_msg("%s", e.text);
        assert_true(a.from <= time[0] && a.to <= time[1] && a.from < a.to);
        assert_int_equal(growth_build(&b, &s[1], NULL, a.from, a.to, &e), 0);
        assert_int_equal(a.rows.len, b.rows.len);
        assert_true(a.rows.len > 2);
        assert_int_equal(a.bytes_before, b.bytes_before);
        assert_int_equal(a.count_after, b.count_after);
        for (size_t i = 0; i < a.rows.len; i++) {
            struct growth_row *x = &a.rows.at[i], *y = &b.rows.at[i];
            assert_int_equal(x->pool, y->pool);
            assert_int_equal(x->count_before, y->count_before);
            assert_int_equal(x->count_after, y->count_after);
            assert_int_equal(x->bytes_before, y->bytes_before);
            assert_int_equal(x->bytes_after, y->bytes_after);
            assert_int_equal(x->allocations, y->allocations);
            assert_int_equal(x->frees, y->frees);
        }
        growth_release(&a);
        growth_release(&b);
        selection_release(&s[0]);
        selection_release(&s[1]);
        pair_release(&p);
    }
}

/* Room for steps is bounded: with more call stacks they are longer. */
static void test_many_call_stacks(void **state)
{
    enum { STACKS = 100000, ROUNDS = 64 };
    void *counting = stack_steps_part.begin();
    static struct pool pool;
    struct buf bytes = {0};
    struct stack_steps got;
    struct err e = {0};
    size_t steps = 0;
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < STACKS; i++) {
            const struct memory_op op = {.kind = MEMORY_ALLOC,
                                         .time = (int64_t)(round * STACKS + i),
                                         .block = {.size = 10, .callstack = i}};
            assert_int_equal(stack_steps_part.take(counting, &op, &e), 0);
        }
    }
    assert_int_equal(stack_steps_part.put(counting, &pool, &bytes, &e), 0);
    assert_int_equal(stack_steps_decode(&got, buf_view(&bytes), STACKS, &e), 0);
    assert_int_equal(got.stacks.len, STACKS);
    for (size_t i = 0; i < got.stacks.len; i++) {
        steps += got.stacks.at[i].steps.len;
        assert_int_equal(stack_history_at(&got.stacks.at[i], STACK_STEPS).bytes, 10 * ROUNDS);
    }
    assert_true(steps <= STACK_STEPS_ROOM && steps >= STACK_STEPS_ROOM / 4);
    stack_steps_release(&got);
    stack_steps_part.release(counting);
    buf_release(&bytes);
}

/* ---- patterns */

/* Sites of one call stack each, of which figures have all that events have. */
static void take_random_steps(struct trace *t, uint64_t seed)
{
    struct err e = {0};
    uint32_t number, stacks[8];
    uint64_t sizes[64] = {0};
    assert_int_equal(memory_pool(&t->memory, 0, &number, &e), 0);
    for (uint64_t i = 0; i < 8; i++) {
        const char name[] = {'s', 'i', 't', 'e', (char)('a' + i), 0};
        stacks[i] = stack_of(t, 16 + 16 * i);
        name_frame(t, 16 + 16 * i, name);
    }
    for (int64_t i = 0; i < 6000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t at = seed >> 58, size = 1 + (seed >> 40) % 300;
        const uint32_t stack = stacks[(seed >> 33) % 8];
        put_block(t, 0x10000 + at * 4096, sizes[at] ? 0 : size, 10 + i, stack);
        sizes[at] = sizes[at] ? 0 : size;
    }
    t->facts.last_time = 7000;
}

static void test_patterns(void **state)
{
    static const struct selection_options all = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct trace t[2];
        struct selection s[2];
        struct patterns p[2];
        struct err e = {0};
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(trace_init(&t[i], NULL, &e), 0);
            assert_int_equal(i ? figure_parts_begin(&t[i], &e) : 0, 0);
            take_random_steps(&t[i], seed);
            assert_int_equal(selection_init(&s[i], &t[i], &all, &e), 0);
            if (patterns_build(&p[i], &s[i], NULL, &e) != 0)
                fail_msg("%s", e.text);
        }
        assert_int_equal(p[0].rows.len, 8);
        assert_int_equal(p[1].rows.len, 8);
        assert_false(p[0].by_callstack);
        assert_true(p[1].by_callstack);
        for (size_t k = 0; k < 8; k++) {
            p[0].rows.at[k].frame = p[1].rows.at[k].frame = (struct frame_view){0};
            assert_memory_equal(&p[0].rows.at[k], &p[1].rows.at[k], sizeof *p[0].rows.at);
        }
        for (unsigned i = 0; i < 2; i++) {
            patterns_release(&p[i]);
            selection_release(&s[i]);
            trace_release(&t[i]);
        }
    }
}

/* Sites of several call stacks: sums are those of events, growth is no more, waste no less. */
static void test_patterns_of_sites(void **state)
{
    struct selection s[2];
    struct patterns a, b;
    struct err e = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_init(&p, seed, "two");
        both_selections(&p, seed % 2, "two", s);
        if (patterns_build(&a, &s[0], NULL, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(patterns_build(&b, &s[1], NULL, &e), 0);
        assert_int_equal(a.rows.len, b.rows.len);
        for (size_t i = 0; i < a.rows.len; i++) {
            const struct pattern_row *x = &a.rows.at[i], *y = NULL;
            for (size_t k = 0; k < b.rows.len; k++) {
                if (same_frame(&b.rows.at[k].frame, &x->frame))
                    y = &b.rows.at[k];
            }
            assert_non_null(y);
            assert_int_equal(x->count, y->count);
            assert_int_equal(x->bytes, y->bytes);
            assert_int_equal(x->largest, y->largest);
            assert_int_equal(x->live_bytes, y->live_bytes);
            assert_int_equal(x->temporary, y->temporary);
            assert_int_equal(x->only_size, y->only_size);
            assert_int_equal(x->waste, y->waste);
            assert_int_equal(x->live_waste, y->live_waste);
            assert_true(x->peak_waste >= x->live_waste && x->peak_waste <= x->waste);
        }
        patterns_release(&a);
        patterns_release(&b);
        selection_release(&s[0]);
        selection_release(&s[1]);
        pair_release(&p);
    }
}

/* ---- size */

/* Call stacks beyond the bound are one, and what is counted of it is the rest. */
static void test_the_other_call_stacks(void **state)
{
    enum { STACKS = FIGURES_CALLSTACKS + 5000 };
    const struct summary_options by = {.by = GROUP_CALLSTACK};
    struct trace t, loaded;
    struct summary s;
    struct err e = {0};
    uint32_t number;
    uint64_t other = 0, count = 0;
    char path[] = "/tmp/figures-XXXXXX";
    (void)state;
    close(mkstemp(path));
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(figure_parts_begin(&t, &e), 0);
    assert_int_equal(memory_pool(&t.memory, 0, &number, &e), 0);
    for (uint64_t i = 0; i < STACKS; i++)
        put_block(&t, 0x100000 + i * 64, 1 + i % 3, (int64_t)i, stack_of(&t, 16 + i));
    t.facts.last_time = STACKS;
    save(&t, path, &loaded);
    if (summary_build(&s, &loaded, &by, &e) != 0)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < s.sites.len; i++) {
        count += s.sites.at[i].figures.count;
        other = s.sites.at[i].figures.count > 1 ? s.sites.at[i].figures.count : other;
    }
    assert_int_equal(count, STACKS);
    assert_int_equal(other, STACKS - (uint64_t)FIGURES_CALLSTACKS * 99 / 100);
    assert_int_equal(s.sites.len, (uint64_t)FIGURES_CALLSTACKS * 99 / 100 + 1);
    summary_release(&s);
    trace_release(&t);
    trace_release(&loaded);
    unlink(path);
}

/* Bytes of a recording of so many hours under the same load, by many call stacks. */
static off_t size_after(int64_t hours)
{
    enum { STACKS = 100000, STEPS_PER_HOUR = 150000 };
    const int64_t apart = INT64_C(3600000000000) / STEPS_PER_HOUR;
    struct trace t, loaded;
    struct err e = {0};
    struct stat st;
    uint32_t number;
    char path[] = "/tmp/figures-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(figure_parts_begin(&t, &e), 0);
    assert_int_equal(memory_pool(&t.memory, 0, &number, &e), 0);
    for (uint64_t i = 0; i < STACKS; i++)
        stack_of(&t, 16 + i);
    for (int64_t i = 0; i < hours * STEPS_PER_HOUR; i++) {
        const uint32_t stack = (uint32_t)((uint64_t)i * 7919 % STACKS) + 1;
        const uint64_t at = 0x100000 + ((uint64_t)stack << 12);
        if (i >= STACKS)
            put_block(&t, at, 0, i * apart, stack);
        put_block(&t, at, 16 + (uint64_t)i % 100, i * apart + 1, stack);
    }
    t.facts.last_time = hours * STEPS_PER_HOUR * apart;
    save(&t, path, &loaded);
    assert_int_equal(stat(path, &st), 0);
    trace_release(&t);
    trace_release(&loaded);
    unlink(path);
    return st.st_size;
}

static void test_size_follows_sites(void **state)
{
    (void)state;
    const off_t one = size_after(1), ten = size_after(10);
    print_message("%d KiB after 1 h, %d KiB after 10 h\n", (int)(one >> 10), (int)(ten >> 10));
    assert_true(ten < one * 2);
}

/* ---- what is refused */

static void expect_refusal(const struct err *e)
{
    assert_int_equal(e->code, ERR_CHECK);
    assert_non_null(strstr(e->text, "figures only, no events"));
}

static void test_questions_that_need_events(void **state)
{
    static const struct selection_options all = {0};
    static const struct tree_options by = {.by = TREE_FUNCTION};
    struct pair p;
    struct selection s;
    struct history history;
    struct tree tree;
    struct summary summary;
    (void)state;
    pair_init(&p, 9, "two");
    struct trace *const traces[] = {&p.counted.trace, &p.loaded};
    for (unsigned i = 0; i < 2; i++) {
        struct err e = {0};
        assert_int_equal(selection_init(&s, traces[i], &all, &e), 0);
        assert_int_equal(history_build(&history, &s, &e), -1);
        expect_refusal(&e);
        assert_int_equal(tree_build(&tree, &s, &by, &e), -1); /* of several pools */
        expect_refusal(&e);
        selection_release(&s);
        for (enum grouping g = GROUP_ZONE; g <= GROUP_FRAME; g++) {
            const struct summary_options options = {.by = g};
            assert_int_equal(summary_build(&summary, traces[i], &options, &e), -1);
            expect_refusal(&e);
        }
        const struct selection_options narrow = EVERY_BLOCK(NULL);
        const struct summary_options options = {.only = &narrow};
        assert_int_equal(summary_build(&summary, traces[i], &options, &e), -1);
        expect_refusal(&e);
    }
    pair_release(&p);
}

static void test_pools_of_one_name(void **state)
{
    const struct summary_options options = {.by = GROUP_SITE};
    struct pair p;
    struct summary s;
    struct err e = {0};
    (void)state;
    pair_init(&p, 3, "one");
    assert_int_equal(summary_build(&s, &p.loaded, &options, &e), -1);
    expect_refusal(&e);
    pair_release(&p);
}

/* Sites that are divided otherwise have other peaks, which are not there. */
static void test_other_rules(void **state)
{
    struct summary a, b;
    struct skiplist skip = {0};
    struct err e = {0};
    unsigned refused = 0;
    const struct summary_options options = {.by = GROUP_SITE, .skip = &skip};
    (void)state;
    assert_int_equal(skiplist_add(&skip, "parse|load|decode|step|Scene|push|grow", &e), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_init(&p, seed, "two");
        e = (struct err){0};
        if (summary_build(&a, &p.loaded, &options, &e) == 0) {
            assert_int_equal(summary_build(&b, &p.kept.trace, &options, &e), 0);
            compare(&a, &b);
            summary_release(&a);
            summary_release(&b);
        } else {
            expect_refusal(&e);
            refused++;
        }
        pair_release(&p);
    }
    assert_true(refused > 0);
    skiplist_release(&skip);
}

static void test_figures_that_were_dropped(void **state)
{
    const struct summary_options options = {.by = GROUP_SITE};
    struct summary s;
    struct trace t;
    struct err e = {0};
    struct pair p;
    struct appendix a;
    (void)state;
    pair_init(&p, 4, "two");
    int fd = open(p.path, O_RDWR);
    assert_int_equal(appendix_read(fd, &a, &e), 1);
    free(a.content);
    assert_int_equal(ftruncate(fd, (off_t)a.trace_bytes), 0);
    close(fd);
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(trace_load(&t, p.path, NULL, NULL, &e), 0);
    assert_int_equal(summary_build(&s, &t, &options, &e), -1);
    expect_refusal(&e);
    trace_release(&t);
    pair_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summaries),
        cmocka_unit_test(test_a_log_that_is_begun_anew),
        cmocka_unit_test(test_names_that_change),
        cmocka_unit_test(test_summary_on_the_way),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_tree_of_a_pool),
        cmocka_unit_test(test_timelines),
        cmocka_unit_test(test_a_long_curve),
        cmocka_unit_test(test_histograms),
        cmocka_unit_test(test_steps_of_call_stacks),
        cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_a_leak_grows),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_many_call_stacks),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_patterns_of_sites),
        cmocka_unit_test(test_the_other_call_stacks),
        cmocka_unit_test(test_size_follows_sites),
        cmocka_unit_test(test_questions_that_need_events),
        cmocka_unit_test(test_pools_of_one_name),
        cmocka_unit_test(test_other_rules),
        cmocka_unit_test(test_figures_that_were_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
