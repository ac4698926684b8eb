/* Summaries: merged pools, groupings, choosing rows, faults and facts, verdicts, verification. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "analysis/figures/no_data.h"
#include "analysis/figures/summary.h"
#include "analysis/questions/verify.h"
#include "test/unit/analysis_fixture.h"

static void build(struct summary *s, struct fixture *f, struct summary_options options)
{
    assert_int_equal(summary_build(s, &f->trace, &options, &f->e), 0);
}

static void expect_in_verdict(struct summary *s, const char *part)
{
    if (!strstr(buf_str(&s->verdict), part))
        fail_msg("'%s' is not in: %s", part, buf_str(&s->verdict));
}

static bool check_holds(const struct summary *s, const char *name)
{
    for (size_t i = 0; i < s->checks.len; i++) {
        if (strcmp(s->checks.at[i].name, name) == 0)
            return s->checks.at[i].holds;
    }
    fail_msg("no check %s", name);
    return false;
}

static bool name_is(struct view name, const char *want)
{
    return view_equal(name, view_of(want));
}

static void test_pools_of_equal_name_are_one(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    uint32_t gfx_one = fixture_pool(&f, 0x100, "gfx");
    uint32_t other = fixture_pool(&f, 0x200, "audio");
    uint32_t gfx_two = fixture_pool(&f, 0x300, "gfx");
    uint32_t stack = fixture_stack(&f, 0x10, "load(int)", "a.c", 1);
    fixture_alloc(&f, gfx_one, 0x1000, 100, stack);
    fixture_alloc(&f, gfx_two, 0x1000, 50, stack); /* the same address, another pool */
    fixture_free(&f, gfx_one, 0x1000, 0);
    fixture_alloc(&f, gfx_two, 0x9000, 60, stack);
    fixture_alloc(&f, other, 0x5000, 7, stack);
    struct summary s;
    build(&s, &f, (struct summary_options){.by = GROUP_POOL});
    /* The default pool had no events. */
    assert_int_equal(s.pools.len, 2);
    assert_true(name_is(s.pools.at[0].name, "audio"));
    assert_true(name_is(s.pools.at[1].name, "gfx"));
    const struct summary_pool *gfx = &s.pools.at[1];
    assert_int_equal(gfx->key_count, 2);
    assert_int_equal(s.pool_keys.at[gfx->first_key], 0x100);
    assert_int_equal(s.pool_keys.at[gfx->first_key + 1], 0x300);
    assert_int_equal(gfx->figures.allocations, 3);
    assert_int_equal(gfx->figures.peak_bytes, 150); /* neither 100 + 110 nor 110 */
    assert_int_equal(gfx->figures.peak_time, 2);
    assert_int_equal(gfx->low_address, 0x1000);
    assert_int_equal(gfx->high_address, 0x9000 + 60);
    assert_int_equal(s.sites.len, 2);
    assert_int_equal(s.sites.at[1].figures.peak_bytes, 150);
    assert_int_equal(s.groups.len, 2);
    assert_true(name_is(s.groups.at[1].name, "gfx"));
    assert_int_equal(s.groups.at[1].figures.at_peak_bytes, 150);
    summary_release(&s);

    build(&s, &f, (struct summary_options){.by = GROUP_SITE, .pool = "gfx"});
    assert_int_equal(s.pools.len, 1);
    assert_int_equal(s.allocations, 3);
    assert_int_equal(s.sites.len, 1);
    summary_release(&s);
    assert_int_equal(summary_build(&s, &f.trace, &(struct summary_options){.pool = "nope"}, &f.e),
                     -1);
    assert_int_equal(f.e.code, ERR_USAGE);
    assert_non_null(strstr(f.e.text, "audio"));
    fixture_release(&f);
}

#define MANY ((uint32_t)2 << 20)

/*
 * A log that does not fit in memory has no room in the temporary folder. The events already have
 * theirs, and a sweep needs no more.
 */
static void test_counting_without_room(void **state)
{
    (void)state;
    struct fixture f = {0};
    const struct trace_options little = {.resident_budget = (size_t)1 << 20};
    struct rlimit before;
    struct summary s;
    assert_int_equal(trace_init(&f.trace, &little, &f.e), 0);
    assert_int_equal(fixture_pool(&f, 0, NULL), 0);
    uint32_t stack = fixture_stack(&f, 0x10, "load(int)", "a.c", 1);
    for (uint32_t i = 0; i < MANY; i++)
        fixture_alloc(&f, 0, 0x1000 + (uint64_t)i * 64, 1 + i * UINT64_C(2654435761) % 65536,
                      stack);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, before.rlim_max}), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    int status = summary_build(&s, &f.trace, &(struct summary_options){.by = GROUP_SITE}, &f.e);
    signal(SIGXFSZ, handler);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    if (status != 0)
        fail_msg("%s", f.e.text);
    assert_int_equal(s.allocations, MANY);
    assert_int_equal(s.sites.len, 1);
    assert_int_equal(s.sites.at[0].figures.count, MANY);
    assert_true(s.pools.at[0].high_address - s.pools.at[0].low_address > MANY);
    summary_release(&s);
    fixture_release(&f);
}

/* Two functions, one with two lines; a block without a call stack. */
static void fill(struct fixture *f)
{
    fixture_init(f);
    uint32_t a1 = fixture_stack(f, 0x10, "alpha(int)", "/src/a.c", 11);
    uint32_t a2 = fixture_stack(f, 0x11, "alpha(int)", "/src/a.c", 12);
    uint32_t b = fixture_stack(f, 0x12, "beta(int)", "/src/b.c", 5);
    fixture_alloc(f, 0, 0x1000, 100, a1);
    fixture_alloc(f, 0, 0x2000, 30, a2);
    fixture_free(f, 0, 0x1000, 0);
    fixture_alloc(f, 0, 0x3000, 80, a2);
    fixture_alloc(f, 0, 0x4000, 500, b);
    fixture_free(f, 0, 0x4000, 0);
    fixture_alloc(f, 0, 0x5000, 1, 0);
}

static const struct summary_row *find_row(const struct row_list *rows, const char *name,
                                          uint32_t line)
{
    for (size_t i = 0; i < rows->len; i++) {
        struct buf text = {0};
        summary_row_name(&text, &rows->at[i]);
        bool found = strcmp(buf_str(&text), name) == 0 && rows->at[i].frame.line == line;
        buf_release(&text);
        if (found)
            return &rows->at[i];
    }
    fail_msg("no row %s", name);
    return NULL;
}

static void test_groupings(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    struct summary s;
    build(&s, &f, (struct summary_options){.by = GROUP_FUNCTION, .stacks = true});
    assert_int_equal(s.sites.len, 4);
    assert_int_equal(find_row(&s.sites, "alpha(int)", 11)->figures.bytes, 100);
    assert_int_equal(find_row(&s.sites, "alpha(int)", 12)->figures.count, 2);
    assert_int_equal(find_row(&s.sites, "beta(int)", 5)->figures.temporary, 1);
    const struct summary_row *none = find_row(&s.sites, "[no call stack]", 0);
    assert_true(none->no_callstack);
    assert_int_equal(none->callstack, 0);
    assert_int_equal(s.groups.len, 3);
    const struct summary_row *alpha = find_row(&s.groups, "alpha(int)", 0);
    assert_int_equal(alpha->figures.count, 3);
    assert_int_equal(alpha->figures.peak_bytes, 130); /* the group's own, at time 2 */
    assert_int_equal(alpha->figures.at_peak_bytes, 110);
    assert_int_equal(alpha->stack_count, 2);
    assert_int_equal(s.stacks.at[alpha->first_stack].figures.bytes, 110);
    assert_int_equal(s.stacks.at[alpha->first_stack].callstack, alpha->callstack);
    assert_int_equal(s.stacks.at[alpha->first_stack + 1].figures.bytes, 100);
    summary_release(&s);

    build(&s, &f, (struct summary_options){.by = GROUP_CALLSTACK});
    assert_int_equal(s.groups.len, 4);
    assert_int_equal(find_row(&s.groups, "alpha(int)", 12)->figures.bytes, 110);
    summary_release(&s);

    build(&s, &f, (struct summary_options){.by = GROUP_THREAD});
    assert_int_equal(s.groups.len, 1);
    assert_true(name_is(s.groups.at[0].name, "thread 0"));
    assert_int_equal(s.groups.at[0].figures.count, 5);
    assert_int_equal(s.coverage.allocations, 5);
    assert_int_equal(s.coverage.with_callstack, 4);
    assert_int_equal(s.coverage.frames, 3);
    assert_int_equal(s.coverage.named, 3);
    expect_in_verdict(&s,
                      "7 memory events in 1 pool: 5 allocations (711 B), 2 frees; 3 still live");
    expect_in_verdict(&s, "peak 610 B");
    summary_release(&s);
    fixture_release(&f);
}

static void test_names_of_groupings(void **state)
{
    (void)state;
    for (int i = GROUP_SITE; i <= GROUP_THREAD; i++) {
        enum grouping by;
        assert_true(grouping_parse(grouping_name((enum grouping)i), &by));
        assert_int_equal(by, i);
    }
    enum grouping by;
    assert_false(grouping_parse("zones", &by));
}

static void test_choosing_rows(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    struct summary s;
    build(&s, &f, (struct summary_options){.by = GROUP_SITE});
    summary_select(&s.sites, &(struct summary_selection){.sort = SORT_SIZE});
    uint64_t sizes[] = {500, 110, 100, 1};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(s.sites.at[i].figures.bytes, sizes[i]);
    summary_select(&s.sites, &(struct summary_selection){.sort = SORT_COUNT});
    assert_int_equal(s.sites.at[0].figures.count, 2);
    summary_select(&s.sites, &(struct summary_selection){.sort = SORT_LIVE});
    assert_int_equal(s.sites.at[0].figures.live_bytes, 110);
    summary_select(&s.sites, &(struct summary_selection){.sort = SORT_TEMPORARY});
    assert_int_equal(s.sites.at[0].figures.temporary, 1);
    summary_select(&s.sites, &(struct summary_selection){.sort = SORT_NAME});
    assert_true(s.sites.at[0].no_callstack);
    assert_int_equal(s.sites.at[1].frame.line, 11);
    assert_int_equal(s.sites.at[2].frame.line, 12);
    summary_select(&s.sites, &(struct summary_selection){.sort = SORT_PEAK, .min_size = 2});
    assert_int_equal(s.sites.len, 3);
    assert_int_equal(s.sites.filtered, 1);
    assert_int_equal(s.sites.at[0].figures.peak_bytes, 500);
    summary_select(&s.sites, &(struct summary_selection){.sort = SORT_AT_PEAK, .limit = 2});
    assert_int_equal(s.sites.len, 2);
    assert_int_equal(s.sites.cut, 1);
    summary_select(&s.sites, &(struct summary_selection){.min_count = 3});
    assert_int_equal(s.sites.len, 0);
    assert_int_equal(s.sites.filtered, 3);
    summary_release(&s);
    fixture_release(&f);
}

/* Seven frees of unknown addresses from one place, one allocation at a live address. */
static void make_faults(struct fixture *f)
{
    fill(f);
    uint32_t pool = fixture_pool(f, 0x100, "gfx");
    uint32_t bad = fixture_stack(f, 0x20, "bad(int)", "/src/bad.c", 7);
    uint32_t again = fixture_stack(f, 0x21, "again(int)", "/src/bad.c", 8);
    uint32_t first = fixture_stack(f, 0x22, "first(int)", "/src/bad.c", 9);
    for (uint64_t i = 0; i < 7; i++)
        fixture_free(f, pool, 0xbad000 + i, bad);
    for (uint64_t i = 0; i < 10; i++) {
        fixture_alloc(f, pool, 0x100000, 8, 0);
        fixture_free(f, pool, 0x100000, 0);
    }
    fixture_free(f, 0, 0, 0); /* of the null pointer: no fault */
    fixture_alloc(f, pool, 0x100000, 8, first);
    fixture_alloc(f, pool, 0x100000, 16, again);
}

static void expect_faults(struct summary *s)
{
    assert_int_equal(s->faults.len, 2);
    const struct summary_fault *unknown = &s->faults.at[0];
    assert_int_equal(unknown->kind, FAULT_FREE_UNKNOWN);
    assert_true(name_is(unknown->pool, "gfx"));
    assert_true(name_is(unknown->site.function, "bad(int)"));
    assert_int_equal(unknown->count, 7);
    assert_int_equal(unknown->sample_count, 6);
    static const uint64_t ptrs[] = {0xbad000, 0xbad001, 0xbad002, 0xbad004, 0xbad005, 0xbad006};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(unknown->samples[i].ptr, ptrs[i]);
        if (i)
            assert_true(unknown->samples[i].time > unknown->samples[i - 1].time);
    }
    const struct summary_fault *twice = &s->faults.at[1];
    assert_int_equal(twice->kind, FAULT_ALLOC_TWICE);
    assert_int_equal(twice->count, 1);
    assert_int_equal(twice->sample_count, 1);
    assert_int_equal(twice->samples[0].ptr, 0x100000);
    assert_int_equal(twice->samples[0].size, 16);
    struct frame_walk w = frame_walk_start(s->trace, twice->samples[0].other_callstack);
    struct frame_view v;
    assert_true(frame_walk_next(&w, &v));
    assert_true(name_is(v.function, "first(int)"));
    assert_int_equal(s->unknown_frees, 7);
    assert_int_equal(s->null_frees, 1);
    assert_int_equal(s->double_allocations, 1);
    assert_false(s->partial);
    assert_false(check_holds(s, "no-faults"));
    expect_in_verdict(s, "8 memory faults");
}

static void test_faults_survive_as_facts(void **state)
{
    (void)state;
    struct fixture f;
    struct summary s;
    make_faults(&f);
    build(&s, &f, (struct summary_options){.by = GROUP_SITE});
    expect_faults(&s);
    summary_release(&s);
    assert_int_equal(summary_write_facts(&f.trace, &f.e), 0);
    /* What a loaded trace has: the facts alone. */
    struct memory *m = &f.trace.memory;
    m->faults.len = 0;
    m->unknown_frees = m->null_frees = m->double_allocations = 0;
    build(&s, &f, (struct summary_options){.by = GROUP_SITE});
    expect_faults(&s);
    summary_release(&s);
    build(&s, &f, (struct summary_options){.by = GROUP_SITE, .pool = "default"});
    assert_int_equal(s.faults.len, 0);
    summary_release(&s);
    fixture_release(&f);
}

static void test_a_trace_without_faults_gets_no_facts(void **state)
{
    (void)state;
    struct fixture f;
    struct summary s;
    fill(&f);
    assert_int_equal(summary_write_facts(&f.trace, &f.e), 0);
    assert_int_equal(f.trace.app_info.len, 0);
    build(&s, &f, (struct summary_options){.by = GROUP_SITE});
    assert_true(check_holds(&s, "no-faults"));
    assert_true(check_holds(&s, "complete"));
    summary_release(&s);
    fixture_release(&f);
}

static void test_facts_of_others_are_no_faults(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "fault=",
        "fault=free-of-unknown",
        "fault=free-of-unknown|0x0|1|1|",
        "fault=free-of-unknown|0x0|1|1|1,2,0x3,4",
        "fault=free-of-unknown|0x0|1|1|1,2,0x3,4,5;",
        "fault=free-of-unknown|0x0|1|1|1,2,0x3,4,5 ",
        "fault=free-of-unknown|--|1|1|1,2,0x3,4,5",
        "fault=what|0x0|1|1|1,2,0x3,4,5",
        "unknown_frees=many",
    };
    struct fixture f;
    struct summary s;
    fill(&f);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char text[200] = "tidemark.";
        strncat(text, odd[i], 150);
        assert_true(vec_push(&f.trace.app_info, fixture_text(&f, text)));
    }
    /* This one is well-formed; its call stack does not exist. */
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "fault", "%s",
                                    "free-of-unknown|0x77|3|4000000|-5,2,0x3,4,9"),
                     0);
    build(&s, &f, (struct summary_options){.by = GROUP_SITE});
    assert_int_equal(s.faults.len, 1);
    assert_true(name_is(s.faults.at[0].pool, "0x77"));
    assert_int_equal(s.faults.at[0].samples[0].time, -5);
    assert_int_equal(s.faults.at[0].site.function.len, 0);
    assert_int_equal(s.unknown_frees, 0);
    summary_release(&s);
    fixture_release(&f);
}

static void test_mostly_unknown_frees_are_a_threshold(void **state)
{
    (void)state;
    struct fixture f;
    struct summary s;
    fill(&f);
    for (uint64_t i = 0; i < 3; i++)
        fixture_free(&f, 0, 0xbad000 + i, 0);
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "incomplete", "client vanished"), 0);
    build(&s, &f, (struct summary_options){.by = GROUP_SITE});
    assert_true(s.partial);
    assert_false(s.complete);
    expect_in_verdict(&s, "size threshold or late start: 3 of 5 frees");
    expect_in_verdict(&s, "incomplete");
    assert_null(strstr(buf_str(&s.verdict), "fault"));
    assert_false(check_holds(&s, "whole-lifetimes"));
    assert_false(check_holds(&s, "complete"));
    assert_true(check_holds(&s, "no-faults"));
    summary_release(&s);
    fixture_release(&f);
}

static void expect_no_data(struct fixture *f, const char *why)
{
    struct summary s;
    build(&s, f, (struct summary_options){.by = GROUP_THREAD});
    expect_in_verdict(&s, "no memory data: ");
    expect_in_verdict(&s, why);
    assert_int_equal(s.sites.len, 0);
    assert_int_equal(s.groups.len, 0);
    assert_false(check_holds(&s, "memory-data"));
    summary_release(&s);
}

/* Twice as many bytes as 64 bits count: the figures stop at the top, and the verdict says so. */
static void test_sums_beyond_64_bits(void **state)
{
    (void)state;
    struct fixture f;
    struct summary s;
    const struct summary_options options = {.by = GROUP_SITE};
    fixture_init(&f);
    for (uint64_t i = 1; i <= 1 << 17; i++)
        fixture_alloc(&f, 0, i << 4, (UINT64_C(1) << 48) - 1, 0);
    fixture_free(&f, 0, 16, 0);
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "capped_sizes", "2"), 0);
    assert_int_equal(summary_build(&s, &f.trace, &options, &f.e), 0);
    assert_true(s.total_bytes == UINT64_MAX);
    assert_true(s.live_bytes == UINT64_MAX);
    assert_true(s.pools.at[0].figures.peak_bytes == UINT64_MAX);
    assert_true(s.sites.at[0].figures.bytes == UINT64_MAX);
    assert_true(s.sites.at[0].figures.live_bytes == UINT64_MAX);
    assert_non_null(strstr(buf_str(&s.verdict), "sums of 16 EiB stand for more"));
    assert_non_null(strstr(buf_str(&s.verdict), "; 2 sizes of 256 TiB stand for more"));
    summary_release(&s);
    fixture_release(&f);
}

/* A part that another one goes on from is not complete, but nothing of it is missing. */
static void test_a_part_that_is_continued(void **state)
{
    (void)state;
    struct fixture f;
    struct summary s;
    const struct summary_options options = {.by = GROUP_SITE};
    fixture_init(&f);
    fixture_alloc(&f, 0, 16, 16, 0);
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "end", "continued in the next part"), 0);
    assert_int_equal(summary_build(&s, &f.trace, &options, &f.e), 0);
    assert_true(s.continued);
    assert_false(s.complete);
    assert_string_equal(buf_str(&s.verdict),
                        "1 memory event in 1 pool: 1 allocation (16 B), 0 frees; 1 still live "
                        "(16 B); peak 16 B; the trace goes on in the next part");
    summary_release(&s);
    fixture_release(&f);
}

static void expect_causes(struct fixture *f, unsigned causes)
{
    struct summary s;
    build(&s, f, (struct summary_options){.by = GROUP_SITE});
    assert_int_equal(s.causes, causes);
    for (unsigned i = 0; i < NO_DATA_CAUSES; i++)
        assert_int_equal(strstr(buf_str(&s.verdict), no_data_cause(i)) != NULL, causes >> i & 1);
    summary_release(&s);
}

static void frame_of_code(struct fixture *f, uint64_t address, const char *function)
{
    struct rec_inline_frame in = {.function = fixture_text(f, function),
                                  .file = fixture_text(f, "x")};
    assert_int_equal(
        callstacks_resolve(&f->trace.callstacks, address, fixture_text(f, "prog"), &in, 1, &f->e),
        0);
}

static void test_no_memory_data(void **state)
{
    (void)state;
    struct fixture f = {0};
    assert_int_equal(trace_init(&f.trace, NULL, &f.e), 0);
    expect_no_data(&f, "stripped from this trace (a capture always holds a memory pool");
    fixture_pool(&f, 0, NULL);
    const char *built = "no memory event; possible causes: the program was built without";
    expect_no_data(&f, built);
    expect_causes(&f, NO_DATA_NO_HOOKS | NO_DATA_NO_PRELOAD | NO_DATA_NO_CHANNEL);
    f.trace.facts.on_demand = true;
    f.trace.facts.file_version = FILE_VERSION_MAX;
    expect_causes(&f, NO_DATA_NO_HOOKS | NO_DATA_NO_PRELOAD | NO_DATA_NO_CHANNEL | NO_DATA_LATE |
                          NO_DATA_STRIPPED);
    /* Names of frames that begin no call stack are those of the program's code. */
    frame_of_code(&f, 0x11, "___tracy_emit_memory_alloc_callstack");
    expect_no_data(&f, built);
    fixture_stack(&f, 0x10, "tracy::Profiler::MemAllocCallstack(void const*, int)", "x", 1);
    expect_no_data(&f, "1 call stack beginning in the client's memory functions");
    expect_causes(&f, NO_DATA_STRIPPED);
    fixture_free(&f, 0, 0x1000, 0);
    expect_no_data(&f, "1 free came, but not one allocation");
    expect_causes(&f, NO_DATA_LATE | NO_DATA_THRESHOLD);
    fixture_release(&f);
}

/* ---- verify */

static const char *verify(struct fixture *f, struct verify_options options,
                          struct trace_counts counts, bool *holds)
{
    static char failed[512];
    struct summary s;
    struct verify_result r;
    options.within = options.within != 0 ? options.within : 10;
    build(&s, f, (struct summary_options){.by = GROUP_SITE});
    assert_int_equal(verify_run(&r, &s, &counts, &options, &f->e), 0);
    *holds = r.holds;
    failed[0] = 0;
    bool all = true;
    for (size_t i = 0; i < r.checks.len; i++) {
        all &= r.checks.at[i].holds;
        assert_true(r.checks.at[i].detail[0] != 0);
        if (!r.checks.at[i].holds)
            strncat(failed, r.checks.at[i].name, 60);
    }
    assert_int_equal(all, r.holds);
    verify_release(&r);
    summary_release(&s);
    return failed;
}

#define EXPECT_OK(F, COUNTS, ...)                                                                  \
    do {                                                                                           \
        bool holds;                                                                                \
        assert_string_equal(verify(F, (struct verify_options){__VA_ARGS__}, COUNTS, &holds), "");  \
        assert_true(holds);                                                                        \
    } while (0)

#define EXPECT_FAILED(F, NAME, COUNTS, ...)                                                        \
    do {                                                                                           \
        bool holds;                                                                                \
        assert_string_equal(verify(F, (struct verify_options){__VA_ARGS__}, COUNTS, &holds),       \
                            NAME);                                                                 \
        assert_false(holds);                                                                       \
    } while (0)

static void test_verify(void **state)
{
    (void)state;
    const struct trace_counts none = {0};
    const struct trace_counts some = {.samples = 3, .cpu_switches = 4};
    struct fixture f;
    fill(&f); /* 5 allocations, 4 with a call stack */
    EXPECT_OK(&f, none, .within = 10);
    EXPECT_OK(&f, none, .expect_allocations = true, .allocations = 50);
    EXPECT_FAILED(&f, "allocations", none, .expect_allocations = true, .allocations = 51);
    EXPECT_OK(&f, none, .expect_allocations = true, .allocations = 4, .within = 1.25);
    EXPECT_FAILED(&f, "allocations", none, .expect_allocations = true, .allocations = 3,
                  .within = 1.5);
    EXPECT_FAILED(&f, "allocations", none, .expect_allocations = true, .allocations = 0);
    EXPECT_OK(&f, none, .require_callstacks = true, .callstacks_percent = 80);
    EXPECT_FAILED(&f, "call-stacks", none, .require_callstacks = true, .callstacks_percent = 81);
    EXPECT_OK(&f, none, .require_symbols = true, .symbols_percent = 100);
    EXPECT_OK(&f, some, .require_samples = true, .require_context_switches = true);
    EXPECT_FAILED(&f, "samplescontext-switches", none, .require_samples = true,
                  .require_context_switches = true);
    EXPECT_FAILED(&f, "pool", none, .missing_name = "pool", .missing = "no pool is called 'x'");
    fixture_release(&f);
}

static void test_verify_without_stacks_or_names(void **state)
{
    (void)state;
    const struct trace_counts none = {0};
    struct fixture f;
    fixture_init(&f);
    EXPECT_FAILED(&f, "memory-data", none, .within = 10);
    EXPECT_FAILED(&f, "memory-datacall-stackssymbols", none, .require_callstacks = true,
                  .require_symbols = true, .symbols_percent = 1);
    fixture_alloc(&f, 0, 0x1000, 1, 0);
    EXPECT_FAILED(&f, "call-stackssymbols", none, .require_callstacks = true,
                  .require_symbols = true, .symbols_percent = 1);
    fixture_alloc(&f, 0, 0x2000, 1, fixture_stack(&f, 0x10, "[unknown]", "[unknown]", 0));
    EXPECT_FAILED(&f, "symbols", none, .require_callstacks = true, .require_symbols = true,
                  .symbols_percent = 1);
    fixture_alloc(&f, 0, 0x3000, 1, fixture_stack(&f, 0x11, "known", "x.c", 0));
    EXPECT_OK(&f, none, .require_symbols = true, .symbols_percent = 50);
    EXPECT_FAILED(&f, "symbols", none, .require_symbols = true, .symbols_percent = 51);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools_of_equal_name_are_one),
        cmocka_unit_test(test_counting_without_room),
        cmocka_unit_test(test_groupings),
        cmocka_unit_test(test_names_of_groupings),
        cmocka_unit_test(test_choosing_rows),
        cmocka_unit_test(test_faults_survive_as_facts),
        cmocka_unit_test(test_a_trace_without_faults_gets_no_facts),
        cmocka_unit_test(test_facts_of_others_are_no_faults),
        cmocka_unit_test(test_mostly_unknown_frees_are_a_threshold),
        cmocka_unit_test(test_sums_beyond_64_bits),
        cmocka_unit_test(test_a_part_that_is_continued),
        cmocka_unit_test(test_no_memory_data),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_verify_without_stacks_or_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
