/* Summaries whose events are counted as a save writes them, held against those of a sweep. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/tempfile.h"
#include "server/capture/stored_summary.h"
#include "test/unit/analysis_fixture.h"
#include "test/unit/random_history.h"
#include "test/unit/summary_compare.h"

/* What `append` finds: whether all events were counted by then. */
struct watch {
    struct saved_summary summary;
    unsigned failures; /* times to fail, so that the caller saves again */
    bool counted;
};

static int append(void *ctx, int fd, struct err *e)
{
    struct watch *w = ctx;
    w->counted = w->summary.counting;
    if (w->failures) {
        w->failures--;
        return err_set(e, ERR_OUTPUT, "not this time");
    }
    return saved_summary_append(&w->summary, fd, e);
}

static bool save(struct trace *t, struct watch *w, bool bounded, bool no_counting)
{
    struct err e = {0};
    struct buf losses = {0};
    struct trace_write_stats stats;
    struct save_options options = {.layout = file_layout_find(FILE_VERSION(0, 13, 3)),
                                   .container = container_options_default(),
                                   .replace = true};
    char path[4096];
    snprintf(path, sizeof path, "%s/saved_summary.%d.tracy", tempfile_dir(NULL), (int)getpid());
    saved_summary_attach(&w->summary, t, &options);
    w->summary.bounded = bounded;
    w->summary.no_counting = no_counting;
    options.append = append;
    options.append_ctx = w;
    int status = -1;
    for (unsigned tries = 0; tries < 2 && status != 0; tries++)
        status = trace_save_file(t, path, &options, &stats, &losses, &e);
    assert_int_equal(status, 0);
    assert_true(w->summary.made);
    buf_release(&losses);
    (void)unlink(path);
    return w->counted;
}

/* Whether the events were counted. The trace is unchanged and the summary right, anyway. */
static bool compare_save(struct trace *t, unsigned failures, bool bounded, bool no_counting)
{
    struct err e = {0};
    struct summary swept;
    struct pool_totals before[RH_POOLS];
    struct watch w = {.failures = failures};
    const struct selection_options every = EVERY_BLOCK(NULL);
    const struct summary_options options = {.by = GROUP_SITE, .only = &every};
    assert_true(t->memory.pools.len <= RH_POOLS);
    for (size_t i = 0; i < t->memory.pools.len; i++)
        before[i] = t->memory.pools.at[i]->totals;
    bool counted = save(t, &w, bounded, no_counting);
    for (size_t i = 0; i < t->memory.pools.len; i++)
        assert_memory_equal(&before[i], &t->memory.pools.at[i]->totals, sizeof *before);
    assert_int_equal(summary_build(&swept, t, &options, &e), 0);
    compare(&w.summary.summary, &swept);
    summary_release(&swept);
    saved_summary_release(&w.summary);
    return counted;
}

static void test_random_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct random_history h;
        rh_make_pools(&h, seed, "one", "two");
        assert_true(compare_save(&h.trace, 0, false, false));
        assert_true(compare_save(&h.trace, 0, true, false));
        rh_release(&h);
    }
}

static void test_without_room_it_sweeps(void **state)
{
    (void)state;
    struct random_history h;
    rh_make_pools(&h, 9, "one", "two");
    assert_false(compare_save(&h.trace, 0, true, true));
    rh_release(&h);
}

static void test_a_second_try_counts_anew(void **state)
{
    (void)state;
    struct random_history h;
    rh_make_pools(&h, 10, "one", "two");
    assert_true(compare_save(&h.trace, 1, false, false));
    rh_release(&h);
}

static void test_pools_of_one_name_are_swept(void **state)
{
    (void)state;
    struct random_history h;
    rh_make(&h, 3);
    assert_false(compare_save(&h.trace, 0, false, false));
    rh_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_without_room_it_sweeps),
        cmocka_unit_test(test_a_second_try_counts_anew),
        cmocka_unit_test(test_pools_of_one_name_are_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
