/* What the page shows, against a plain list of random allocations. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/html/html_data.h"
#include "analysis/html/html_series.h"
#include "analysis/html/html_texts.h"
#include "test/unit/random_history.h"

#define POOLS 2 /* the default one and the twins */
#define STACKS (RH_STACKS + 1)

static const uint32_t pools[RH_POOLS] = {0, 1, 1};
static const uint32_t threads[RH_THREADS] = {0, 1, 2, 3};

struct expected {
    int64_t v[POOLS][RH_THREADS][STACKS][PAGE_VALUES];
    bool temporary[RH_BLOCKS];
};

static uint64_t use_at(const struct random_history *h, uint32_t pool, int64_t time)
{
    uint64_t use = 0;
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        if (pools[b->pool] == pool && b->start <= time && b->end > time)
            use += b->size;
    }
    return use;
}

/* The first time of a pool's highest use from just before `begin` on. */
static int64_t peak_of(const struct random_history *h, uint32_t pool, int64_t begin, int64_t end,
                       uint64_t *highest)
{
    int64_t at = begin - 1;
    *highest = use_at(h, pool, at);
    for (int64_t time = begin; time < end; time++) {
        uint64_t use = use_at(h, pool, time);
        if (use > *highest) {
            *highest = use;
            at = time;
        }
    }
    return at;
}

static void expect_step(const struct random_history *h, struct expected *x, int64_t begin,
                        int64_t end)
{
    int64_t peak[POOLS];
    uint64_t highest;
    memset(x->v, 0, sizeof x->v);
    for (uint32_t pool = 0; pool < POOLS; pool++)
        peak[pool] = peak_of(h, pool, begin, end, &highest);
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        int64_t *v = x->v[pools[b->pool]][b->thread][h->stacks[b->stack].id];
        int64_t at = peak[pools[b->pool]];
        if (b->start >= begin && b->start < end) {
            v[PAGE_ALLOCS]++;
            v[PAGE_ALLOC_BYTES] += (int64_t)b->size;
        }
        if (b->end >= begin && b->end < end) {
            v[PAGE_FREES]++;
            v[PAGE_FREE_BYTES] += (int64_t)b->size;
            v[PAGE_TEMPORARY] += x->temporary[i];
            v[PAGE_TEMPORARY_BYTES] += x->temporary[i] ? (int64_t)b->size : 0;
        }
        bool before = b->start < begin && b->end >= begin;
        bool then = b->start <= at && b->end > at;
        v[PAGE_PEAK] += then - before;
        v[PAGE_PEAK_BYTES] += then ? (int64_t)b->size : 0;
        v[PAGE_PEAK_BYTES] -= before ? (int64_t)b->size : 0;
    }
}

/* Takes each cell out of what is expected: nothing may be left. */
static void check_steps(const struct random_history *h, struct expected *x,
                        const struct page_series *s)
{
    size_t i = 0;
    int64_t length = (int64_t)s->slot_ns << s->cells.shift;
    for (uint32_t step = 0; step < page_cells_steps(&s->cells); step++) {
        int64_t begin = s->options.from + length * step;
        expect_step(h, x, begin, begin + length);
        uint32_t last = 0;
        for (bool first = true; i < s->cells.list.len && s->cells.list.at[i].step == step; i++) {
            const struct page_cell *cell = &s->cells.list.at[i];
            assert_true(first || cell->key > last);
            first = false;
            last = cell->key;
            const struct page_key *key = &s->keys.at[cell->key];
            int64_t *v = x->v[key->pool][key->thread][key->stack];
            assert_memory_equal(v, cell->v, PAGE_VALUES * sizeof *v);
            memset(v, 0, PAGE_VALUES * sizeof *v);
        }
        static const struct expected nothing;
        assert_memory_equal(x->v, nothing.v, sizeof x->v);
    }
    assert_int_equal(i, s->cells.list.len);
}

static void check_points(const struct random_history *h, const struct page_series *s)
{
    for (uint32_t pool = 0; pool < POOLS; pool++) {
        const struct page_point *points = page_series_points(s, pool);
        for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
            int64_t begin = s->options.from + (int64_t)(s->slot_ns * i);
            int64_t end = begin + (int64_t)s->slot_ns;
            uint64_t highest;
            peak_of(h, pool, begin, end, &highest);
            assert_int_equal(points[i].max, highest);
            assert_int_equal(points[i].end, use_at(h, pool, end - 1));
        }
    }
}

static struct page_map no_map;

static struct page_series_options series_options(struct selection *s, const uint32_t *stacks,
                                                 int64_t to)
{
    return (struct page_series_options){.selection = s,
                                        .pools = pools,
                                        .pool_count = POOLS,
                                        .threads = threads,
                                        .thread_limit = RH_THREADS,
                                        .thread_count = RH_THREADS + 1,
                                        .thread_other = RH_THREADS,
                                        .stacks = stacks,
                                        .stack_limit = STACKS,
                                        .stack_other = STACKS,
                                        .map = &no_map,
                                        .from = 5,
                                        .to = to};
}

static void check_history(struct random_history *h, struct expected *x, size_t cells_max)
{
    struct err e = {0};
    struct page_series s;
    uint32_t stacks[STACKS];
    for (uint32_t i = 0; i < STACKS; i++)
        stacks[i] = i;
    struct selection all;
    const struct selection_options none = {0};
    assert_int_equal(selection_init(&all, &h->trace, &none, &e), 0);
    struct page_series_options o = series_options(&all, stacks, h->now);
    o.cells_max = cells_max;
    assert_int_equal(page_series_build(&s, &o, NULL, &e), 0);
    assert_int_equal(s.folded, 0);
    if (cells_max)
        assert_true(s.cells.shift > 0 && s.cells.list.len <= cells_max);
    else
        assert_int_equal(s.cells.shift, 0);
    check_points(h, &s);
    for (;;) {
        check_steps(h, x, &s);
        if (page_cells_steps(&s.cells) == 1)
            break;
        assert_int_equal(page_cells_halve(&s.cells, &e), 0);
    }
    page_series_release(&s);
    page_map_release(&no_map);
    selection_release(&all);
}

/* All events in the first of the steps, the peak in the earlier ones of them. */
static void test_early_peak(void **state)
{
    (void)state;
    static struct random_history h;
    rh_make(&h, 9);
    const uint32_t stacks[STACKS] = {0};
    struct selection all;
    const struct selection_options none = {0};
    struct err e = {0};
    struct page_series s;
    assert_int_equal(selection_init(&all, &h.trace, &none, &e), 0);
    const struct page_series_options o = series_options(&all, stacks, h.now * 300);
    assert_int_equal(page_series_build(&s, &o, NULL, &e), 0);
    while (page_cells_steps(&s.cells) > 1)
        assert_int_equal(page_cells_halve(&s.cells, &e), 0);
    for (uint32_t pool = 0; pool < POOLS; pool++) {
        uint64_t highest;
        uint64_t found = 0;
        for (size_t i = 0; i < s.cells.list.len; i++) {
            if (s.keys.at[s.cells.list.at[i].key].pool == pool)
                found += (uint64_t)s.cells.list.at[i].v[PAGE_PEAK_BYTES];
        }
        peak_of(&h, pool, 5, h.now + 1, &highest);
        assert_int_equal(found, highest);
    }
    page_series_release(&s);
    page_map_release(&no_map);
    selection_release(&all);
    rh_release(&h);
}

/* Steps as short as can be, made longer afterwards and on the way. */
static void test_series(void **state)
{
    (void)state;
    static struct random_history h;
    static struct expected x;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        rh_make(&h, seed);
        for (size_t i = 0; i < h.n; i++)
            x.temporary[i] = rh_temporary(&h, &h.blocks[i]);
        check_history(&h, &x, 0);
        check_history(&h, &x, 700);
        check_history(&h, &x, 333);
        rh_release(&h);
    }
}

static void touch(struct page_map *m, uint32_t pool, uint64_t ptr, uint64_t size)
{
    struct err e = {0};
    assert_int_equal(page_map_touch(m, pool, ptr, size, &e), 0);
}

static void test_map(void **state)
{
    (void)state;
    struct err e = {0};
    struct page_map m;
    page_map_init(&m);
    touch(&m, 0, 0x10000, 1);
    touch(&m, 0, 0x10fff, 2); /* the end of one piece and the begin of the next */
    touch(&m, 1, 0x10000, 0x3001);
    touch(&m, 0, UINT64_MAX - 9, 100); /* ends with the address space */
    assert_int_equal(page_map_settle(&m, &e), 0);
    assert_int_equal(m.shift, PAGE_MAP_SHIFT_MIN);
    assert_int_equal(m.pieces.len, 7);
    struct page_span s = page_map_find(&m, 0, 0x10fff, 2);
    assert_int_equal(s.first, 0);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.head, 1);
    assert_int_equal(s.tail, 1);
    s = page_map_find(&m, 1, 0x10000, 0x3001);
    assert_int_equal(s.first, 3);
    assert_int_equal(s.count, 4);
    assert_int_equal(s.head, 0x1000);
    assert_int_equal(s.tail, 1);
    s = page_map_find(&m, 0, UINT64_MAX - 9, 100);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.head, 10);
    assert_int_equal(page_map_find(&m, 1, 0x50000, 1).count, 0);
    assert_int_equal(page_map_find(&m, 0, 0x10000, 0).count, 0);
    page_map_release(&m);
}

static void count_block(struct page_map *m, uint64_t ptr, uint64_t size, unsigned thread,
                        unsigned site)
{
    struct page_span at = page_map_find(m, 0, ptr, size);
    const unsigned owner[PAGE_MAP_KINDS] = {thread, site};
    assert_int_not_equal(at.count, 0);
    page_map_count(m, &at, owner);
}

/* The most bytes win, whole pieces in the middle of a block included. */
static void test_map_owners(void **state)
{
    (void)state;
    struct err e = {0};
    struct page_map m;
    uint8_t most[8];
    page_map_init(&m);
    touch(&m, 0, 0x10000, 0x5000);
    touch(&m, 0, 0x20000, 1);
    assert_int_equal(page_map_settle(&m, &e), 0);
    assert_int_equal(m.pieces.len, 6);
    count_block(&m, 0x10800, 0x4000, 3, PAGE_MAP_OWNERS); /* 0x800 at both ends */
    count_block(&m, 0x10000, 0x801, 1, 0);
    for (int i = 0; i < 3; i++)
        count_block(&m, 0x12000, 0x800, 2, 1); /* in all more than the piece has */
    count_block(&m, 0x14000, 0x800, 0, 2);     /* as much as another: the lower number */
    page_map_owners(&m, PAGE_MAP_THREADS, most);
    static const uint8_t by_thread[] = {1, 3, 2, 3, 0, PAGE_MAP_NOBODY};
    assert_memory_equal(most, by_thread, sizeof by_thread);
    page_map_owners(&m, PAGE_MAP_SITES, most);
    static const uint8_t by_site[] = {0, PAGE_MAP_OWNERS, 1, PAGE_MAP_OWNERS, 2, PAGE_MAP_NOBODY};
    assert_memory_equal(most, by_site, sizeof by_site);
    page_map_release(&m);
}

/* However the addresses lie, there are not too many pieces, and all blocks are found. */
static void test_map_grows_coarse(void **state)
{
    (void)state;
    struct err e = {0};
    struct page_map m;
    page_map_init(&m);
    for (uint64_t i = 0; i < 100000; i++)
        touch(&m, (uint32_t)(i % 3), i * 0x123457, 1 + i % 5000);
    touch(&m, 0, 0, UINT64_C(1) << 48);
    assert_int_equal(page_map_settle(&m, &e), 0);
    assert_true(m.pieces.len <= PAGE_MAP_PIECES);
    assert_true(m.pieces.len > PAGE_MAP_PIECES / 8);
    for (uint64_t i = 0; i < 100000; i++) {
        struct page_span s = page_map_find(&m, (uint32_t)(i % 3), i * 0x123457, 1 + i % 5000);
        assert_true(s.count >= 1 && s.first + s.count <= m.pieces.len);
        uint64_t whole = s.count > 2 ? (uint64_t)(s.count - 2) << m.shift : 0;
        assert_int_equal(s.head + whole + s.tail, 1 + i % 5000);
    }
    page_map_release(&m);
}

/* ---- machine code */

#define SYMBOL 0x401000u

/* Instructions of four bytes, as text "op NUMBER". */
static int walk(void *ctx, uint64_t address, struct view code,
                int (*line)(void *to, uint64_t address, size_t size, const char *text, bool known,
                            struct err *e),
                void *to, struct err *e)
{
    (void)ctx;
    for (size_t i = 0; i + 4 <= code.len; i += 4) {
        char text[32];
        snprintf(text, sizeof text, "op %zu", i / 4);
        if (line(to, address + i, 4, text, true, e) != 0)
            return -1;
    }
    return 0;
}

/* One allocation, at a call that returns to `address`; 100 instructions of its function. */
static void make_code(struct trace *t, uint64_t address)
{
    struct err e = {0};
    uint32_t pool;
    uint32_t id;
    bool fresh;
    bool fault;
    assert_int_equal(trace_init(t, NULL, &e), 0);
    struct rec_inline_frame in = {.function = strings_intern(&t->strings, view_of("work"), &e),
                                  .symbol = SYMBOL};
    assert_int_equal(memory_pool(&t->memory, 0, &pool, &e), 0);
    assert_int_equal(callstacks_resolve(&t->callstacks, address, 0, &in, 1, &e), 0);
    assert_int_equal(callstacks_intern(&t->callstacks, &address, 1, &id, &fresh, &e), 0);
    struct memory_place at = {5, 0, id};
    assert_int_equal(alloc_in(&t->memory, pool, 0x1000, 64, at, &fault, &e), 0);
}

static void check_code(uint64_t address, uint64_t call, size_t lines)
{
    static char bytes[400];
    struct err e = {0};
    struct trace t;
    struct page_texts texts;
    struct page_data d;
    struct summary s;
    const struct skiplist skip = {0};
    const struct summary_options options = {.by = GROUP_THREAD, .skip = &skip, .stacks = true};
    const struct disassembler disassembler = {NULL, walk, 1};
    make_code(&t, address);
    page_texts_init(&texts, &t);
    const struct rec_symbol_code codes[] = {{SYMBOL, {bytes, sizeof bytes}},
                                            {0x900000, {bytes, sizeof bytes}}};
    assert_int_equal(page_texts_put(&texts, REC_SYMBOL_CODE, codes, 2, &e), 0);
    assert_int_equal(t.symbol_codes.list.len, 1);
    assert_int_equal(summary_build(&s, &t, &options, &e), 0);
    assert_int_equal(page_data_build(&d, &t, &s, &skip, PAGE_SIZE, &e), 0);
    assert_int_equal(page_texts_build(&texts, &d, &skip, &disassembler, &e), 0);
    assert_int_equal(texts.lines.len, lines);
    for (size_t i = 0; i < lines; i++)
        assert_int_equal(texts.lines.at[i].here, texts.lines.at[i].number == call);
    page_texts_release(&texts);
    page_data_release(&d);
    summary_release(&s);
    trace_release(&t);
}

static void test_code(void **state)
{
    (void)state;
    check_code(SYMBOL + 200, SYMBOL + 196, 12 + 1 + 3);
    check_code(SYMBOL + 8, SYMBOL + 4, 1 + 1 + 3);
    check_code(SYMBOL + 400, SYMBOL + 396, 12 + 1); /* the last instruction */
    check_code(SYMBOL + 198, SYMBOL + 196, 12 + 1 + 3);
    check_code(SYMBOL + 404, 0, 0); /* beyond the function */
}

/* ---- times out of order */

#define UNORDERED 300u

/* The blocks of a sweep, by number in the pool; `size` 0: it is not selected. */
struct swept {
    struct page_block blocks[UNORDERED];
    size_t n;
};

static int note_swept(void *ctx, const struct memory_op *op, struct err *e)
{
    struct swept *s = ctx;
    struct page_block *b = &s->blocks[op->block.index];
    (void)e;
    if (op->kind == MEMORY_FREE) {
        b->freed = op->time;
        return 0;
    }
    *b = (struct page_block){
        .ptr = op->block.ptr, .size = op->block.size, .time = op->time, .freed = INT64_MAX};
    s->n++;
    return 0;
}

/* One pool, each block at another address; every fifth time is earlier than the one before. */
static void make_unordered(struct trace *t)
{
    struct err e = {0};
    uint32_t pool;
    assert_int_equal(trace_init(t, NULL, &e), 0);
    assert_int_equal(memory_pool(&t->memory, 0, &pool, &e), 0);
    for (uint32_t i = 0; i < UNORDERED; i++) {
        int64_t time = i % 5 == 3 ? 3 * (int64_t)i - 200 : 3 * (int64_t)i;
        time = time < 0 ? 0 : time;
        const struct rec_memory_event ev = {.ptr = 0x10000u * (i + 1),
                                            .size = 100 + i,
                                            .time_alloc = time,
                                            .time_free = i % 7 == 0 ? -1 : time + i % 90};
        assert_int_equal(memory_append(&t->memory, pool, &ev, &e), 0);
    }
    t->facts.last_time = 3 * UNORDERED + 90;
}

static void check_unordered(struct trace *t, const struct selection_options *only)
{
    struct err e = {0};
    struct page_data d;
    struct summary s;
    struct swept swept = {0};
    const struct memory_observer to = {.ctx = &swept, .op = note_swept};
    const struct skiplist skip = {0};
    const struct summary_options options = {
        .by = GROUP_THREAD, .skip = &skip, .only = only, .stacks = true};
    assert_int_equal(summary_build(&s, t, &options, &e), 0);
    assert_int_equal(selection_sweep(&s.selection, &to, &e), 0);
    assert_int_equal(page_data_build(&d, t, &s, &skip, PAGE_SIZE, &e), 0);
    assert_int_equal(d.blocks.list.len, swept.n);
    for (size_t i = 0; i < swept.n; i++) {
        const struct page_block *b = &d.blocks.list.at[i];
        const struct page_block *same = &swept.blocks[b->ptr / 0x10000 - 1];
        assert_int_equal(b->size, same->size);
        assert_int_equal(b->time, same->time);
        assert_int_equal(b->freed, same->freed);
        assert_true(b->time >= d.from && (b->freed == INT64_MAX || b->freed <= d.to));
        assert_int_equal(page_map_find(&d.map, b->pool, b->ptr, b->size).count, 1);
    }
    assert_int_equal(d.map.pieces.len, swept.n);
    page_data_release(&d);
    summary_release(&s);
}

/* The page lists the blocks that its sweep counts, and has all of them on its map. */
static void test_times_out_of_order(void **state)
{
    (void)state;
    static const struct selection_options options[] = {
        {0},
        {.has_range = true, .begin = 300, .end = 600},
        {.has_range = true, .begin = INT64_MIN, .end = 450},
        {.has_at = true, .at = 400},
    };
    struct trace t;
    make_unordered(&t);
    assert_true(t.memory.pools.at[0]->disorder > 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check_unordered(&t, &options[i]);
    trace_release(&t);
}

/* Rows that are combined have what they would have if they had been one from the beginning. */
static void test_lives_of_combined_rows(void **state)
{
    (void)state;
    struct random_history *h = calloc(1, sizeof *h);
    struct page_lives lives, one;
    struct err e = {0};
    assert_non_null(h);
    page_lives_init(&lives, 1024, 300);
    page_lives_init(&one, 1024, 300);
    for (unsigned i = 0; i < 3000; i++) {
        uint32_t row = (uint32_t)rh_rnd(h, 12);
        uint32_t born = (uint32_t)rh_rnd(h, 1024);
        uint32_t freed = born + (uint32_t)rh_rnd(h, 1024 - born);
        uint64_t size = rh_rnd(h, 1000);
        assert_int_equal(page_lives_add(&lives, row, born, freed, size, &e), 0);
        assert_int_equal(page_lives_add(&one, row < 6 ? row : row % 2, born, freed, size, &e), 0);
    }
    assert_int_equal(page_lives_combine(&lives, 6, 2, &e), 0);
    assert_int_equal(page_lives_finish(&lives, &e), 0);
    assert_int_equal(page_lives_finish(&one, &e), 0);
    assert_in_range(lives.list.len, 100, 300);
    assert_int_equal(lives.parts, one.parts);
    assert_int_equal(lives.list.len, one.list.len);
    for (size_t i = 0; i < one.list.len; i++) {
        const struct page_life *a = &lives.list.at[i];
        const struct page_life *b = &one.list.at[i];
        assert_true(a->row == b->row && a->born == b->born && a->freed == b->freed);
        assert_true(a->count == b->count && a->bytes == b->bytes);
    }
    page_lives_release(&lives);
    page_lives_release(&one);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_early_peak),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_grows_coarse),
        cmocka_unit_test(test_map_owners),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_times_out_of_order),
        cmocka_unit_test(test_lives_of_combined_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
