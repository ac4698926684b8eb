/* Figures that are stored beside a trace, held against those of the sweep over the whole one. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/sites.h"
#include "analysis/figures/stored_figures.h"
#include "analysis/figures/summary.h"
#include "test/unit/analysis_fixture.h"
#include "test/unit/random_history.h"
#include "test/unit/summary_compare.h"
#include "test/unit/trace_test.h"
#include "trace/load/load.h"
#include "trace/save/save.h"

/* ---- storing and finding again */

typedef int saving(struct trace *t, const struct record_sink *sink, struct err *e);

static void load_saved(struct trace *out, struct trace *t, saving *save)
{
    struct err e = {0};
    struct trace_writer *w;
    struct trace_write_stats stats;
    const struct trace_load_options options = {0};
    const struct trace_writer_options to = {.container = container_options_default()};
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(trace_writer_open(&w, fd, &to, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    if (save(t, &sink, &e) != 0 || trace_writer_finish(w, &stats, &e) != 0)
        fail_msg("%s", e.text);
    trace_writer_free(w);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(trace_init(out, NULL, &e), 0);
    if (trace_load_fd(out, fd, "trace", &options, NULL, NULL, &e) != 0)
        fail_msg("%s", e.text);
    close(fd);
}

/* The figures of a trace as bytes; none when they cannot be stored. */
static bool store(struct trace *t, struct buf *bytes)
{
    struct summary s;
    struct stored_figures figures;
    bool storable;
    struct err e = {0};
    const struct summary_options options = {
        .by = GROUP_SITE, .store = &figures, .storable = &storable};
    assert_int_equal(summary_build(&s, t, &options, &e), 0);
    summary_release(&s);
    if (storable) {
        stored_figures_encode(&figures, bytes);
        stored_figures_release(&figures);
    }
    return storable;
}

static bool fit(const struct stored_figures *f, const struct trace *t, const struct skiplist *skip)
{
    struct sites sites;
    struct err e = {0};
    assert_int_equal(sites_build(&sites, t, skip, SITE_BY_LINE, &e), 0);
    const struct site_map map = {sites.of_callstack, sites.callstack_count};
    bool fits = stored_figures_fit(f, t, &map);
    sites_release(&sites);
    return fits;
}

static void compare_pool(struct trace *names, struct trace *whole, const struct stored_figures *f,
                         const char *pool)
{
    struct summary stored, swept;
    struct err e = {0};
    const struct selection_options every = EVERY_BLOCK(NULL);
    struct summary_options options = {.by = GROUP_SITE, .pool = pool, .only = pool ? NULL : &every};
    assert_int_equal(summary_build(&swept, whole, &options, &e), 0);
    options.only = NULL;
    assert_true(summary_is_stored(&options));
    options.stored = f;
    if (summary_build(&stored, names, &options, &e) != 0)
        fail_msg("%s", e.text);
    compare(&stored, &swept);
    summary_release(&stored);
    summary_release(&swept);
}

/* Whether figures of `t` can be stored; they are those of the trace that is saved beside them. */
static bool compare_stored(struct trace *t, const char *pool)
{
    struct trace whole, names;
    struct stored_figures figures;
    struct buf bytes = {0};
    struct err e = {0};
    bool storable = store(t, &bytes);
    if (storable) {
        load_saved(&whole, t, trace_save);
        load_saved(&names, t, trace_save_names);
        assert_int_equal(names.memory.pools.len, 0);
        assert_int_equal(stored_figures_decode(&figures, buf_view(&bytes), &e), 0);
        assert_int_equal(stored_figures_make_pools(&figures, &names, &e), 0);
        assert_true(fit(&figures, &names, NULL));
        compare_pool(&names, &whole, &figures, NULL);
        if (pool)
            compare_pool(&names, &whole, &figures, pool);
        stored_figures_release(&figures);
        trace_release(&names);
        trace_release(&whole);
    }
    buf_release(&bytes);
    return storable;
}

static void test_random_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct random_history h;
        rh_make_pools(&h, seed, "one", "two");
        assert_true(compare_stored(&h.trace, "two"));
        rh_release(&h);
    }
}

static void test_pools_of_one_name_are_not_stored(void **state)
{
    (void)state;
    struct random_history h;
    rh_make(&h, 3);
    assert_false(compare_stored(&h.trace, NULL));
    rh_release(&h);
}

static void test_an_empty_pool_can_be_asked_for(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    fixture_pool(&f, 0x100, "unused");
    fixture_alloc(&f, 0, 16, 100, fixture_stack(&f, 0x1000, "work", "a.c", 1));
    assert_true(compare_stored(&f.trace, "unused"));
    fixture_release(&f);
}

static void test_events_out_of_order(void **state)
{
    (void)state;
    static const int64_t times[] = {1000, 500, 2000};
    struct fixture f;
    fixture_init(&f);
    for (unsigned i = 0; i < 3; i++) {
        const struct rec_memory_event ev = {
            .ptr = i, .size = 10, .time_alloc = times[i], .time_free = -1};
        assert_int_equal(memory_append(&f.trace.memory, 0, &ev, &f.e), 0);
    }
    assert_int_equal(f.trace.memory.pools.at[0]->disorder, 1);
    assert_true(compare_stored(&f.trace, NULL));
    fixture_release(&f);
}

static void test_fixtures(void **state)
{
    (void)state;
    unsigned stored = 0;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        struct trace t;
        struct err e = {0};
        assert_int_equal(trace_init(&t, NULL, &e), 0);
        assert_int_equal(trace_load(&t, trace_fixtures[i], NULL, NULL, &e), 0);
        stored += compare_stored(&t, NULL);
        trace_release(&t);
    }
    assert_int_equal(stored, TRACE_FIXTURES);
}

/* ---- other sites than those that were counted */

#define STACKS 5u

struct divided {
    struct fixture f;
    uint32_t stacks[STACKS];
    struct stored_figures figures;
};

/* Call stacks 1 and 2 are of one site, the others each of one. */
static void divided_init(struct divided *d)
{
    static const char *const functions[STACKS] = {"", "one", "one", "two", "three"};
    struct buf bytes = {0};
    fixture_init(&d->f);
    for (unsigned i = 0; i < STACKS; i++) {
        d->stacks[i] = i ? fixture_stack(&d->f, 0x1000 * i, functions[i], "a.c", 1) : 0;
        fixture_alloc(&d->f, 0, 0x100000 + i * 64, 50 + i, d->stacks[i]);
    }
    assert_true(store(&d->f.trace, &bytes));
    assert_int_equal(stored_figures_decode(&d->figures, buf_view(&bytes), &d->f.e), 0);
    buf_release(&bytes);
}

static bool divides_so(const struct divided *d, const uint32_t sites[STACKS])
{
    uint32_t of[STACKS] = {0};
    for (unsigned i = 0; i < STACKS; i++)
        of[d->stacks[i]] = sites[i];
    return stored_figures_fit(&d->figures, &d->f.trace, &(struct site_map){of, STACKS});
}

static void test_other_sites_do_not_fit(void **state)
{
    (void)state;
    static const uint32_t same[] = {0, 1, 1, 2, 3}, renamed[] = {9, 4, 4, 0, 2},
                          one_more[] = {0, 1, 4, 2, 3}, one_less[] = {0, 1, 1, 2, 2},
                          moved[] = {0, 1, 2, 2, 3}, none[] = {0, 0, 0, 0, 0};
    struct divided d;
    struct skiplist skip = {0};
    divided_init(&d);
    assert_int_equal(d.figures.pools.at[0].sites.len, 4);
    assert_true(divides_so(&d, same));
    assert_true(divides_so(&d, renamed));
    assert_false(divides_so(&d, one_more));
    assert_false(divides_so(&d, one_less));
    assert_false(divides_so(&d, moved));
    assert_false(divides_so(&d, none));
    assert_true(fit(&d.figures, &d.f.trace, NULL));
    /* Call stacks that the trace does not have. */
    d.figures.pools.at[0].callstacks.at[STACKS - 1].callstack = STACKS;
    assert_false(divides_so(&d, same));
    skiplist_release(&skip);
    stored_figures_release(&d.figures);
    fixture_release(&d.f);
}

/* ---- bytes */

static void test_bytes_that_are_cut_or_flipped(void **state)
{
    (void)state;
    struct random_history h;
    struct stored_figures figures;
    struct buf bytes = {0};
    unsigned refused = 0;
    rh_make_pools(&h, 5, "one", "two");
    assert_true(store(&h.trace, &bytes));
    for (size_t len = 0; len < bytes.len; len++) {
        struct err e = {0};
        const struct view cut = {(const char *)bytes.data, len};
        assert_int_equal(stored_figures_decode(&figures, cut, &e), -1);
        assert_int_equal(e.code, ERR_INPUT);
    }
    for (size_t i = 0; i < bytes.len * 8; i++) {
        struct err e = {0};
        struct buf again = {0};
        bytes.data[i / 8] ^= (uint8_t)(1u << i % 8);
        if (stored_figures_decode(&figures, buf_view(&bytes), &e) == 0) {
            stored_figures_encode(&figures, &again);
            stored_figures_release(&figures);
            assert_true(again.len <= bytes.len);
        } else {
            assert_int_equal(e.code, ERR_INPUT);
            refused++;
        }
        buf_release(&again);
        bytes.data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    assert_true(refused > bytes.len);
    buf_u8(&bytes, 0);
    struct err e = {0};
    assert_int_equal(stored_figures_decode(&figures, buf_view(&bytes), &e), -1);
    assert_non_null(strstr(e.text, "bytes behind them"));
    buf_release(&bytes);
    rh_release(&h);
}

static void expect_refused(struct divided *d, const char *why)
{
    struct stored_figures again;
    struct buf bytes = {0};
    struct err e = {0};
    stored_figures_encode(&d->figures, &bytes);
    assert_int_equal(stored_figures_decode(&again, buf_view(&bytes), &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, why))
        fail_msg("%s", e.text);
    buf_release(&bytes);
}

static void test_figures_that_do_not_add_up(void **state)
{
    (void)state;
    struct divided d;
    divided_init(&d);
    struct stored_pool *p = &d.figures.pools.at[0];
    p->callstacks.at[1].count++;
    expect_refused(&d, "they do not add up");
    p->callstacks.at[1].count--;
    p->sites.at[1].count++;
    expect_refused(&d, "they do not add up");
    p->sites.at[1].count--;
    p->figures.live++;
    expect_refused(&d, "they do not add up");
    p->figures.live--;
    p->callstacks.at[1].site = 4;
    expect_refused(&d, "a call stack without a site");
    p->callstacks.at[1].site = 1;
    p->callstacks.at[2].callstack = p->callstacks.at[1].callstack;
    expect_refused(&d, "call stacks out of order");
    stored_figures_release(&d.figures);
    fixture_release(&d.f);
}

/* Two pools of one name, or one key, which nobody stores. */
static void test_pools_that_are_one(void **state)
{
    (void)state;
    struct divided d;
    struct summary s;
    struct trace names;
    divided_init(&d);
    struct stored_pool twin = d.figures.pools.at[0];
    assert_true(vec_push(&d.figures.pools, twin));
    load_saved(&names, &d.f.trace, trace_save_names);
    assert_int_equal(stored_figures_make_pools(&d.figures, &names, &d.f.e), -1);
    assert_non_null(strstr(d.f.e.text, "a pool twice"));
    trace_release(&names);
    d.figures.pools.at[1].key = 0x100;
    fixture_text(&d.f, "default");
    assert_int_equal(strings_bind(&d.f.trace.strings, 0x100, fixture_text(&d.f, "default"), &d.f.e),
                     0);
    load_saved(&names, &d.f.trace, trace_save_names);
    d.f.e = (struct err){0};
    assert_int_equal(stored_figures_make_pools(&d.figures, &names, &d.f.e), 0);
    const struct summary_options options = {.by = GROUP_SITE, .stored = &d.figures};
    assert_int_equal(summary_build(&s, &names, &options, &d.f.e), -1);
    assert_non_null(strstr(d.f.e.text, "two pools of one name"));
    trace_release(&names);
    d.figures.pools.len = 1;
    stored_figures_release(&d.figures);
    fixture_release(&d.f);
}

static void test_questions_that_need_more(void **state)
{
    (void)state;
    const struct selection_options size = {.has_size = true, .size_max = 5};
    assert_true(summary_is_stored(&(struct summary_options){.by = GROUP_SITE, .pool = "x"}));
    assert_false(summary_is_stored(&(struct summary_options){.by = GROUP_SITE, .stacks = true}));
    assert_false(summary_is_stored(&(struct summary_options){.by = GROUP_FUNCTION}));
    assert_false(summary_is_stored(&(struct summary_options){.by = GROUP_SITE, .only = &size}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_pools_of_one_name_are_not_stored),
        cmocka_unit_test(test_an_empty_pool_can_be_asked_for),
        cmocka_unit_test(test_events_out_of_order),
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_other_sites_do_not_fit),
        cmocka_unit_test(test_bytes_that_are_cut_or_flipped),
        cmocka_unit_test(test_figures_that_do_not_add_up),
        cmocka_unit_test(test_pools_that_are_one),
        cmocka_unit_test(test_questions_that_need_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
