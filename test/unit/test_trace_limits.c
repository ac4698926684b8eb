/* The format's own ends, with injected ids, clocks and smaller limits: nothing wraps, nothing stops
 * silently, and the trace says what happened. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "trace/ingest/ingest.h"

struct fixture {
    struct trace t;
    struct ingest in;
    struct err e;
    unsigned parts_saved;
    uint64_t live_when_saved;
    int64_t last_when_saved;
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(trace_init(&f->t, NULL, &f->e), 0);
    assert_int_equal(ingest_init(&f->in, &f->t, &f->e), 0);
}

static void fixture_release(struct fixture *f)
{
    ingest_release(&f->in);
    trace_release(&f->t);
}

static void put(struct fixture *f, const struct event *ev)
{
    assert_int_equal(f->in.sink.event(f->in.sink.ctx, ev, &f->e), 0);
}

static void put_alloc(struct fixture *f, uint64_t thread, int64_t time, uint64_t ptr)
{
    struct event ev = {.kind = EVENT_MEM_ALLOC, .thread = thread, .time = time};
    ev.mem.ptr = ptr;
    ev.mem.size = 16;
    put(f, &ev);
}

static void assert_fact(struct fixture *f, const char *key, const char *value)
{
    struct view v = trace_fact(&f->t, key, 0);
    assert_non_null(v.p);
    assert_int_equal(v.len, strlen(value));
    assert_memory_equal(v.p, value, v.len);
}

static void call_stacks_beyond_the_limit_become_other(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.t.callstacks.limit = 100;
    uint32_t ids[120];
    bool fresh;
    for (uint64_t i = 0; i < 120; i++) {
        uint64_t frames[2] = {0x1000 + i, 0x5000};
        assert_int_equal(f.in.sink.callstack(f.in.sink.ctx, frames, 2, &ids[i], &fresh, &f.e), 0);
        assert_int_equal(fresh, i < 99);
    }
    for (int i = 0; i < 99; i++)
        assert_int_equal(ids[i], i + 1);
    for (int i = 99; i < 120; i++)
        assert_int_equal(ids[i], 100);
    uint64_t known[2] = {0x1000 + 7, 0x5000}; /* what was there before is still found */
    uint32_t id;
    assert_int_equal(f.in.sink.callstack(f.in.sink.ctx, known, 2, &id, &fresh, &f.e), 0);
    assert_int_equal(id, 8);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_fact(&f, "overflow.callstacks", "21");
    const struct callstack *other = callstacks_get(&f.t.callstacks, 100);
    const struct frame *frame =
        &f.t.callstacks.frames.at[f.t.callstacks.nodes.at[other->node].frame];
    assert_int_equal(frame->n, 1);
    struct view name = strings_get(&f.t.strings, f.t.callstacks.inlines.at[frame->first].function);
    assert_true(view_equal(name, view_of("(other)")));
    fixture_release(&f);
}

static void strings_beyond_the_limit_become_other(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.t.strings.limit = 40;
    for (uint64_t i = 0; i < 60; i++) {
        char text[16];
        snprintf(text, sizeof text, "name %d", (int)i);
        struct event ev = {.kind = EVENT_STRING};
        ev.name.key = 0x1000 + i;
        ev.name.text = view_of(text);
        put(&f, &ev);
    }
    assert_true(view_equal(strings_get(&f.t.strings, strings_at_pointer(&f.t.strings, 0x1000)),
                           view_of("name 0")));
    assert_true(view_equal(strings_get(&f.t.strings, strings_at_pointer(&f.t.strings, 0x1000 + 59)),
                           view_of("(other)")));
    assert_int_equal(f.t.strings.overflow, 21);
    f.t.strings.limit = STRINGS_MAX; /* so that the facts can be written */
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_fact(&f, "overflow.strings", "21");
    fixture_release(&f);
}

static void threads_beyond_the_limit_share_the_last_place(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.t.threads.limit = 10;
    for (uint64_t i = 0; i < 30; i++)
        put_alloc(&f, 100 + i, (int64_t)i, 0x1000 + i * 16);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_int_equal(f.t.threads.list.len, 10);
    assert_int_equal(f.t.threads.list.at[8].id, 107);
    assert_true(view_equal(strings_get(&f.t.strings, f.t.threads.list.at[9].name),
                           view_of("(other threads)")));
    assert_fact(&f, "overflow.threads", "22");
    assert_int_equal(f.t.memory.pools.at[0]->totals.allocations, 30);
    fixture_release(&f);
}

/* The real limit: 65,536 distinct ids, and then some. */
static void sixty_five_thousand_threads(void **state)
{
    (void)state;
    struct fixture f;
    uint16_t number;
    fixture_init(&f);
    for (uint64_t i = 1; i < THREADS_MAX + 1000; i++)
        assert_int_equal(trace_thread_number(&f.t, i * 7, &number, &f.e), 0);
    assert_int_equal(number, 65535);
    assert_int_equal(f.t.threads.list.len, THREADS_MAX);
    assert_int_equal(trace_thread_number(&f.t, 7, &number, &f.e), 0);
    assert_int_equal(number, 1);
    fixture_release(&f);
}

static void source_locations_beyond_the_limit_are_counted(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    for (uint64_t i = 0; i < LOCATIONS_MAX + 100; i++) {
        struct event ev = {.kind = EVENT_SOURCE_LOCATION};
        ev.srcloc_reply.pointer = 0x1000 + i * 32;
        put(&f, &ev);
    }
    assert_int_equal(f.t.locations.len, LOCATIONS_MAX);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_fact(&f, "overflow.source_locations", "100");
    fixture_release(&f);
}

static int part_full(void *ctx, struct err *e)
{
    (void)e;
    struct fixture *f = ctx;
    f->parts_saved++;
    f->live_when_saved = f->t.memory.pools.at[0]->totals.live;
    f->last_when_saved = f->t.facts.last_time;
    return 0;
}

static void the_clock_goes_on_in_another_part(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    const int64_t hour = INT64_C(3600) * 1000000000;
    f.in.part_full = part_full;
    f.in.part_full_ctx = &f;
    put_alloc(&f, 7, 1 * hour, 0x1000);
    put_alloc(&f, 7, 37 * hour, 0x2000);
    assert_int_equal(f.parts_saved, 0);
    put_alloc(&f, 7, 38 * hour, 0x3000); /* 95 % of 39.09 h are 37.1 h */
    assert_int_equal(f.parts_saved, 1);
    assert_int_equal(f.live_when_saved, 2);
    assert_true(f.last_when_saved == 37 * hour);
    struct event gone = {.kind = EVENT_MEM_FREE, .thread = 7, .time = 40 * hour};
    gone.mem.ptr = 0x1000; /* from the first part: known here, so no fault */
    put(&f, &gone);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    const struct pool_totals *t = &f.t.memory.pools.at[0]->totals;
    assert_int_equal(t->allocations, 3);
    assert_int_equal(t->frees, 1);
    assert_int_equal(t->live, 2);
    assert_int_equal(f.t.memory.faults.len, 0);
    assert_true(f.t.facts.last_time == 2 * hour);
    assert_non_null(trace_fact(&f.t, "part", 0).p);
    fixture_release(&f);
}

static void times_clamp_when_nobody_saves_parts(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    put_alloc(&f, 7, INT64_MAX, 0x1000);
    put_alloc(&f, 7, INT64_MIN, 0x2000);
    put_alloc(&f, 7, 5, 0x3000);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_true(f.t.facts.last_time == INGEST_TIME_LIMIT);
    assert_fact(&f, "overflow.times", "2");
    fixture_release(&f);
}

static void parts_are_not_without_end(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.in.part_full = part_full;
    f.in.part_full_ctx = &f;
    f.in.time_limit = 10;
    for (int64_t i = 0; i < 1000; i++)
        put_alloc(&f, 7, i * 20, 0x1000 + (uint64_t)i * 16);
    assert_int_equal(f.parts_saved, INGEST_PARTS_MAX);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_int_equal(f.t.memory.pools.at[0]->totals.live, 1000);
    fixture_release(&f);
}

/* Asked for, there is no end of parts; what lags behind at a seam stands at its beginning. */
static void parts_that_are_asked_for(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.in.part_full = part_full;
    f.in.part_full_ctx = &f;
    for (unsigned i = 0; i < 2 * INGEST_PARTS_MAX; i++) {
        put_alloc(&f, 7, 1000 * (i + 1), 0x1000 + i * 16u);
        assert_int_equal(ingest_begin_part(&f.in, &f.e), 0);
        assert_int_equal(f.parts_saved, i + 1);
        assert_int_equal(f.live_when_saved, i + 1);
    }
    struct event late = {.kind = EVENT_MEM_FREE, .thread = 8, .time = 500};
    late.mem.ptr = 0x1000;
    put(&f, &late);
    put_alloc(&f, 7, 2000 * INGEST_PARTS_MAX + 30, 0x1000);
    assert_true(f.t.facts.last_time == 30);
    assert_int_equal(f.in.time_overflow, 0);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_int_equal(f.t.memory.faults.len, 0);
    const struct pool *p = f.t.memory.pools.at[0];
    assert_int_equal(p->totals.live, 2 * INGEST_PARTS_MAX);
    assert_int_equal(p->totals.frees, 1);
    const struct memory_free *freed = (const void *)p->frees.chunks.at[0]->raw;
    for (unsigned i = 0; i < p->totals.allocations; i++)
        assert_true((freed[i].after_thread & 0xffffffffffff) <= 1); /* 1: at once */
    /* The clock's own parts are as many as ever. */
    f.in.time_limit = 10;
    for (int64_t i = 0; i < 1000; i++)
        put_alloc(&f, 7, 3000 * INGEST_PARTS_MAX + i * 20, 0x900000 + (uint64_t)i * 16);
    assert_int_equal(f.parts_saved, 3 * INGEST_PARTS_MAX);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_stacks_beyond_the_limit_become_other),
        cmocka_unit_test(strings_beyond_the_limit_become_other),
        cmocka_unit_test(threads_beyond_the_limit_share_the_last_place),
        cmocka_unit_test(sixty_five_thousand_threads),
        cmocka_unit_test(source_locations_beyond_the_limit_are_counted),
        cmocka_unit_test(the_clock_goes_on_in_another_part),
        cmocka_unit_test(times_clamp_when_nobody_saves_parts),
        cmocka_unit_test(parts_are_not_without_end),
        cmocka_unit_test(parts_that_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
