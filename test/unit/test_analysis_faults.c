/* Memory faults with the blocks that make faults of them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/faults.h"
#include "test/unit/analysis_fixture.h"

struct scene {
    struct fixture f;
    uint32_t make, drop, reuse, arena;
};

static void scene_init(struct scene *s)
{
    fixture_init(&s->f);
    s->arena = fixture_pool(&s->f, 77, "arena");
    s->make = fixture_stack(&s->f, 0x1000, "make", "a.c", 1);
    s->drop = fixture_stack(&s->f, 0x2000, "drop", "a.c", 2);
    s->reuse = fixture_stack(&s->f, 0x3000, "reuse", "a.c", 3);
}

static void build(struct scene *s, struct selection *selection, struct faults *faults,
                  const struct selection_options *o)
{
    assert_int_equal(selection_init(selection, &s->f.trace, o, &s->f.e), 0);
    assert_int_equal(faults_build(faults, selection, NULL, &s->f.e), 0);
}

static void done(struct selection *selection, struct faults *faults)
{
    faults_release(faults);
    selection_release(selection);
}

/* The only fault of a scene, with its only case. */
static const struct fault_case *only_case(const struct faults *f, enum memory_fault_kind kind)
{
    assert_int_equal(f->rows.len, 1);
    assert_int_equal(f->rows.at[0].kind, kind);
    assert_int_equal(f->rows.at[0].count, 1);
    assert_int_equal(f->rows.at[0].case_count, 1);
    return &f->rows.at[0].cases[0];
}

static const struct selection_options all = {0};

static void test_freed_twice(void **state)
{
    (void)state;
    struct scene s;
    struct selection selection;
    struct faults f;
    scene_init(&s);
    fixture_alloc(&s.f, 0, 0x5000, 64, s.reuse); /* an older life of the address */
    fixture_free(&s.f, 0, 0x5000, s.reuse);
    fixture_alloc(&s.f, 0, 0x5000, 48, s.make);
    fixture_free(&s.f, 0, 0x5000, s.drop);
    fixture_alloc(&s.f, 0, 0x4ff0, 64, s.reuse); /* around it by now */
    fixture_free(&s.f, 0, 0x5000, s.drop);
    fixture_alloc(&s.f, 0, 0x5000, 32, s.reuse); /* later: nothing to do with it */
    fixture_free(&s.f, 0, 0x5000, s.reuse);
    build(&s, &selection, &f, &all);
    const struct fault_case *c = only_case(&f, FAULT_FREE_UNKNOWN);
    assert_int_equal(c->cause, FAULT_FREED_BEFORE);
    assert_int_equal(c->what.ptr, 0x5000);
    assert_int_equal(f.rows.at[0].callstack, s.drop);
    assert_true(view_equal(f.rows.at[0].site.function, view_of("drop")));
    assert_true(c->previous.is_known && c->previous.is_freed);
    assert_int_equal(c->previous.callstack, s.make);
    assert_int_equal(c->previous.free_callstack, s.drop);
    assert_int_equal(c->previous.size, 48);
    assert_int_equal(c->previous.time, 3);
    assert_int_equal(c->previous.freed, 4);
    assert_true(c->around.is_known);
    assert_int_equal(c->around.ptr, 0x4ff0);
    assert_int_equal(f.unknown_frees, 1);
    assert_false(f.partial);
    done(&selection, &f);
    fixture_release(&s.f);
}

static void test_other_causes(void **state)
{
    (void)state;
    struct scene s;
    struct selection selection;
    struct faults f;
    scene_init(&s);
    fixture_alloc(&s.f, 0, 0x5000, 64, s.make);
    fixture_alloc(&s.f, s.arena, 0x7000, 64, s.make);
    fixture_free(&s.f, 0, 0x5008, s.drop);
    fixture_free(&s.f, 0, 0x7000, s.drop); /* of the wrong pool */
    fixture_free(&s.f, 0, 0x7008, s.drop); /* an arena's inside says nothing */
    fixture_free(&s.f, 0, 0x5000, s.reuse);
    fixture_free(&s.f, 0, 0x5010, s.drop);
    fixture_free(&s.f, 0, 0x9000, s.drop);
    build(&s, &selection, &f, &all);
    static const enum fault_cause causes[] = {FAULT_INSIDE_LIVE, FAULT_IN_OTHER_POOL,
                                              FAULT_NEVER_SEEN, FAULT_INSIDE_FREED,
                                              FAULT_NEVER_SEEN};
    assert_int_equal(f.rows.len, 1);
    const struct fault_row *r = &f.rows.at[0];
    assert_int_equal(r->count, 5);
    assert_int_equal(r->case_count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(r->cases[i].cause, causes[i]);
    assert_int_equal(r->cases[0].around.callstack, s.make);
    assert_int_equal(r->cases[1].around.pool, s.arena);
    assert_false(r->cases[2].around.is_known);
    assert_int_equal(r->cases[3].previous.free_callstack, s.reuse);
    done(&selection, &f);
    fixture_release(&s.f);
}

static void test_allocated_twice(void **state)
{
    (void)state;
    struct scene s;
    struct selection selection;
    struct faults f;
    scene_init(&s);
    fixture_alloc(&s.f, 0, 0x5000, 64, s.make);
    fixture_alloc(&s.f, 0, 0x5000, 32, s.reuse);
    fixture_free(&s.f, 0, 0x5000, s.drop);
    build(&s, &selection, &f, &all);
    const struct fault_case *c = only_case(&f, FAULT_ALLOC_TWICE);
    assert_int_equal(c->cause, FAULT_HELD);
    assert_int_equal(f.rows.at[0].callstack, s.reuse);
    assert_int_equal(c->what.size, 32);
    assert_int_equal(c->what.other_callstack, s.make);
    assert_true(c->previous.is_known);
    assert_int_equal(c->previous.callstack, s.make);
    assert_int_equal(c->previous.size, 64);
    assert_int_equal(c->previous.time, 1);
    assert_int_equal(f.from_history, 0); /* noted by the capture: not counted again */
    done(&selection, &f);
    build(&s, &selection, &f, &(struct selection_options){.match = "reuse"});
    assert_int_equal(f.rows.len, 1);
    done(&selection, &f);
    build(&s, &selection, &f, &(struct selection_options){.match = "make"});
    assert_int_equal(f.rows.len, 0);
    done(&selection, &f);
    build(&s, &selection, &f, &(struct selection_options){.pool = "arena"});
    assert_int_equal(f.rows.len, 0);
    done(&selection, &f);
    fixture_release(&s.f);
}

/* As a saved trace has them: nobody noted anything. */
static void append(struct scene *s, uint64_t ptr, int64_t time, int64_t freed, uint32_t callstack,
                   uint32_t free_callstack)
{
    const struct rec_memory_event in = {.ptr = ptr,
                                        .size = 16,
                                        .time_alloc = time,
                                        .time_free = freed,
                                        .callstack_alloc = callstack,
                                        .callstack_free = free_callstack};
    assert_int_equal(memory_append(&s->f.trace.memory, 0, &in, &s->f.e), 0);
    s->f.trace.facts.last_time = 1000;
}

static void test_the_history_tells(void **state)
{
    (void)state;
    struct scene s;
    struct selection selection;
    struct faults f;
    scene_init(&s);
    append(&s, 0x5000, 10, 90, s.make, s.drop); /* ends after the next began */
    append(&s, 0x6000, 15, 20, s.make, 0);      /* an official server's end */
    append(&s, 0x6000, 20, 40, s.reuse, s.drop);
    append(&s, 0x5000, 50, 60, s.reuse, s.drop);
    append(&s, 0x8000, 70, 75, s.make, s.drop);
    append(&s, 0x8000, 75, -1, s.make, 0); /* freed with a call stack before: no fault */
    build(&s, &selection, &f, &all);
    assert_int_equal(f.from_history, 2);
    assert_int_equal(f.rows.len, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(f.rows.at[i].from_history);
        assert_int_equal(f.rows.at[i].callstack, s.reuse);
        assert_int_equal(f.rows.at[i].cases[0].previous.callstack, s.make);
    }
    assert_int_equal(f.rows.at[0].cases[0].what.ptr, 0x6000);
    assert_int_equal(f.rows.at[1].cases[0].what.ptr, 0x5000);
    assert_int_equal(f.rows.at[1].cases[0].what.time, 50);
    done(&selection, &f);

    /* A program whose frees have no call stacks as a rule: such an end proves nothing. */
    append(&s, 0x9000, 80, 85, s.make, 0);
    build(&s, &selection, &f, &all);
    assert_int_equal(f.from_history, 1);
    assert_int_equal(f.rows.at[0].cases[0].what.ptr, 0x5000);
    done(&selection, &f);
    fixture_release(&s.f);
}

static void test_many_of_one_kind(void **state)
{
    (void)state;
    struct scene s;
    struct selection selection;
    struct faults f;
    scene_init(&s);
    for (int i = 0; i < 10; i++) {
        append(&s, 0x5000 + 0x100 * (uint64_t)i, 10 * i, -1, s.make, 0);
        append(&s, 0x5000 + 0x100 * (uint64_t)i, 10 * i + 5, -1, s.reuse, 0);
    }
    build(&s, &selection, &f, &all);
    const struct fault_row *r = &f.rows.at[0];
    assert_int_equal(f.rows.len, 1);
    assert_int_equal(r->count, 10);
    assert_int_equal(r->case_count, SUMMARY_FAULT_SAMPLES);
    static const int64_t times[] = {5, 15, 25, 75, 85, 95};
    for (unsigned i = 0; i < r->case_count; i++)
        assert_int_equal(r->cases[i].what.time, times[i]);
    done(&selection, &f);
    fixture_release(&s.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freed_twice),      cmocka_unit_test(test_other_causes),
        cmocka_unit_test(test_allocated_twice),  cmocka_unit_test(test_the_history_tells),
        cmocka_unit_test(test_many_of_one_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
