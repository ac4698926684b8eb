/* Profiles of call stacks: sums, mappings from the module table and without it, the client's
 * frames. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/code/module_facts.h"
#include "analysis/questions/stack_profile.h"
#include "test/unit/analysis_fixture.h"

struct made {
    struct fixture f;
    struct summary s;
    struct profile p;
};

static void build(struct made *m, bool all_frames)
{
    static const struct summary_options options = {.by = GROUP_CALLSTACK};
    assert_int_equal(summary_build(&m->s, &m->f.trace, &options, &m->f.e), 0);
    assert_int_equal(profile_build(&m->p, &m->s, all_frames, &m->f.e), 0);
}

static void release(struct made *m)
{
    profile_release(&m->p);
    summary_release(&m->s);
    fixture_release(&m->f);
}

static const char *name_of(const struct made *m, uint32_t location, uint32_t line)
{
    const struct profile_location *l = &m->p.locations.at[location];
    assert_true(line < l->n);
    uint32_t function = m->p.lines.at[l->first + line].function;
    return profile_text(&m->p, m->p.functions.at[function].name).p;
}

/* The location of the only frame of a sample's call stack. */
static const struct profile_location *only_location(const struct made *m, size_t sample)
{
    struct profile_walk w = profile_walk_start(&m->p, &m->p.samples.at[sample]);
    uint32_t location;
    uint32_t none;
    assert_true(profile_walk_next(&w, &location));
    assert_false(profile_walk_next(&w, &none));
    return &m->p.locations.at[location];
}

static void test_samples(void **state)
{
    (void)state;
    struct made m;
    fixture_init(&m.f);
    uint32_t vram = fixture_pool(&m.f, 0x10, "vram");
    uint32_t a = fixture_stack(&m.f, 0x1000, "a()", "a.c", 7);
    fixture_alloc(&m.f, 0, 1, 10, a);
    fixture_alloc(&m.f, 0, 2, 20, a);
    fixture_free(&m.f, 0, 1, 0);
    fixture_alloc(&m.f, vram, 1, 5, a);
    fixture_alloc(&m.f, 0, 3, 3, 0);
    build(&m, false);
    assert_int_equal(m.p.samples.len, 3);
    static const uint64_t total[] = {3, 30, 5};
    static const uint64_t live[] = {3, 20, 5};
    static const uint64_t peak[] = {0, 30, 5};
    for (size_t i = 0; i < 3; i++) {
        const struct counter *c = &m.p.samples.at[i].figures;
        assert_int_equal(profile_value(c, PROFILE_TOTAL, true), total[i]);
        assert_int_equal(profile_value(c, PROFILE_LIVE, true), live[i]);
        assert_int_equal(profile_value(c, PROFILE_PEAK, true), peak[i]);
        assert_int_equal(profile_value(c, PROFILE_TOTAL, false), i == 1 ? 2 : 1);
    }
    assert_int_equal(only_location(&m, 1)->address, 0x1000);
    assert_ptr_equal(only_location(&m, 1), only_location(&m, 2));
    assert_int_equal(only_location(&m, 0)->address, 0);
    assert_string_equal(name_of(&m, m.p.samples.at[0].tail - 1, 0), "[no call stack]");
    release(&m);
}

static void test_mappings_of_images(void **state)
{
    (void)state;
    struct made m;
    fixture_init(&m.f);
    fixture_alloc(&m.f, 0, 1, 1, fixture_stack(&m.f, 0x5010, "a", "a.c", 1));
    fixture_alloc(&m.f, 0, 2, 1, fixture_stack(&m.f, 0x7020, "b", "", 0));
    build(&m, false);
    assert_int_equal(m.p.mappings.len, 1); /* "prog", from page 5 to page 7 */
    const struct profile_mapping *map = &m.p.mappings.at[0];
    assert_int_equal(map->start, 0x5000);
    assert_int_equal(map->end, 0x7fff);
    assert_string_equal(profile_text(&m.p, map->file).p, "prog");
    assert_true(map->named && map->lines && !map->inlines);
    release(&m);
}

static void add_fact(struct made *m, const char *text)
{
    assert_true(vec_push(&m->f.trace.app_info, fixture_text(&m->f, text)));
}

static void test_module_table(void **state)
{
    (void)state;
    struct made m;
    fixture_init(&m.f);
    m.f.trace.facts.program = fixture_text(&m.f, "prog");
    add_fact(&m, "tidemark.module=8000-9000 0 abcd /lib/x y.so"); /* a space in its name */
    add_fact(&m, "tidemark.module=4000-6000 1000 - /bin/prog");
    add_fact(&m, "tidemark.module=5000-7000 0 - /late"); /* where another is already */
    add_fact(&m, "tidemark.module=9000-8000 0 - /backwards");
    add_fact(&m, "tidemark.module=zz-9000 0 - /odd");
    add_fact(&m, "tidemark.module=1-2");
    fixture_alloc(&m.f, 0, 1, 1, fixture_stack(&m.f, 0x5010, "a", "a.c", 1));
    fixture_alloc(&m.f, 0, 2, 1, fixture_stack(&m.f, 0x8fff, "b", "b.c", 1));
    fixture_alloc(&m.f, 0, 3, 1, fixture_stack(&m.f, 0x9000, "c", "c.c", 1)); /* one past */
    build(&m, false);
    assert_int_equal(m.p.mappings.len, 3);
    const struct profile_mapping *prog = &m.p.mappings.at[only_location(&m, 0)->mapping - 1];
    const struct profile_mapping *lib = &m.p.mappings.at[only_location(&m, 1)->mapping - 1];
    const struct profile_mapping *image = &m.p.mappings.at[only_location(&m, 2)->mapping - 1];
    assert_ptr_equal(prog, m.p.mappings.at);
    assert_string_equal(profile_text(&m.p, prog->file).p, "/bin/prog");
    assert_int_equal(prog->offset, 0x1000);
    assert_int_equal(prog->build_id, 0);
    assert_string_equal(profile_text(&m.p, lib->file).p, "/lib/x y.so");
    assert_string_equal(profile_text(&m.p, lib->build_id).p, "abcd");
    assert_string_equal(profile_text(&m.p, image->file).p, "prog");
    assert_int_equal(image->start, 0x9000);
    release(&m);
}

/* A frame of `n` functions, innermost first. */
static void resolve(struct fixture *f, uint64_t address, const char *const *names, uint32_t n)
{
    struct rec_inline_frame in[4] = {0};
    for (uint32_t i = 0; i < n; i++)
        in[i].function = fixture_text(f, names[i]);
    assert_int_equal(
        callstacks_resolve(&f->trace.callstacks, address, fixture_text(f, "prog"), in, n, &f->e),
        0);
}

static void add_stack(struct made *m, const uint64_t *frames, uint32_t n)
{
    uint32_t id;
    bool fresh;
    assert_int_equal(callstacks_intern(&m->f.trace.callstacks, frames, n, &id, &fresh, &m->f.e), 0);
    fixture_alloc(&m->f, 0, id, 1, id);
}

/* All functions of a sample, innermost first, with spaces between. */
static void expect_stack(const struct made *m, size_t sample, const char *want)
{
    struct profile_walk w = profile_walk_start(&m->p, &m->p.samples.at[sample]);
    struct buf got = {0};
    uint32_t location;
    while (profile_walk_next(&w, &location)) {
        for (uint32_t i = 0; i < m->p.locations.at[location].n; i++)
            buf_printf(&got, "%s%s", got.len ? " " : "", name_of(m, location, i));
    }
    assert_string_equal(buf_str(&got), want);
    buf_release(&got);
}

static void make_client_stacks(struct made *m)
{
    static const char *const callstack[] = {"tracy::Callstack(int)", "tracy::Profiler::MemAlloc"};
    static const char *const inlined[] = {"tracy::Profiler::MemAlloc", "my_alloc"};
    static const char *const program[] = {"parse", "main"};
    fixture_init(&m->f);
    resolve(&m->f, 1, callstack, 2);
    resolve(&m->f, 2, inlined, 2);
    resolve(&m->f, 3, program, 2);
    add_stack(m, (const uint64_t[]){1, 3}, 2);
    add_stack(m, (const uint64_t[]){2, 3}, 2);
    add_stack(m, (const uint64_t[]){1, 2, 3}, 3);
    add_stack(m, (const uint64_t[]){1}, 1);    /* nothing else is left */
    add_stack(m, (const uint64_t[]){3, 1}, 2); /* a thread of the client's own */
}

static void test_the_client_is_left_out(void **state)
{
    (void)state;
    struct made m;
    make_client_stacks(&m);
    build(&m, false);
    expect_stack(&m, 0, "parse main");
    expect_stack(&m, 1, "my_alloc parse main");
    expect_stack(&m, 2, "my_alloc parse main");
    expect_stack(&m, 3, "tracy::Callstack(int) tracy::Profiler::MemAlloc");
    expect_stack(&m, 4, "parse main tracy::Callstack(int) tracy::Profiler::MemAlloc");
    release(&m);
}

static void test_all_frames(void **state)
{
    (void)state;
    struct made m;
    make_client_stacks(&m);
    build(&m, true);
    expect_stack(&m, 0, "tracy::Callstack(int) tracy::Profiler::MemAlloc parse main");
    expect_stack(&m, 1, "tracy::Profiler::MemAlloc my_alloc parse main");
    expect_stack(&m, 4, "parse main tracy::Callstack(int) tracy::Profiler::MemAlloc");
    release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),      cmocka_unit_test(test_mappings_of_images),
        cmocka_unit_test(test_module_table), cmocka_unit_test(test_the_client_is_left_out),
        cmocka_unit_test(test_all_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
