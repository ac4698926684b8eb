/* Zones from events to the records of a saved trace: nesting, extras, counts, open ends, faults. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "zone_oracle.h"

struct fixture {
    struct trace t;
    struct ingest in;
    struct oracle o;
    struct err e;
    uint64_t random;
};

static void fixture_init(struct fixture *f, size_t budget)
{
    struct trace_options options = {.resident_budget = budget};
    memset(f, 0, sizeof *f);
    f->random = 1;
    assert_int_equal(trace_init(&f->t, &options, &f->e), 0);
    assert_int_equal(ingest_init(&f->in, &f->t, &f->e), 0);
}

static void fixture_release(struct fixture *f)
{
    oracle_release(&f->o);
    ingest_release(&f->in);
    trace_release(&f->t);
}

static void put(struct fixture *f, const struct event *ev)
{
    if (f->in.sink.event(f->in.sink.ctx, ev, &f->e) != 0)
        fail_msg("%s", f->e.text);
}

static void put_begin(struct fixture *f, uint64_t thread, int64_t time, uint64_t location)
{
    struct event ev = {.kind = EVENT_ZONE_BEGIN, .thread = thread, .time = time};
    ev.zone.srcloc = location;
    put(f, &ev);
}

static void put_end(struct fixture *f, uint64_t thread, int64_t time)
{
    struct event ev = {.kind = EVENT_ZONE_END, .thread = thread, .time = time};
    put(f, &ev);
}

static void put_note(struct fixture *f, enum event_kind kind, uint64_t thread, const char *text)
{
    struct event ev = {.kind = kind, .thread = thread};
    ev.text = view_of(text);
    put(f, &ev);
}

static void put_number(struct fixture *f, enum event_kind kind, uint64_t thread, uint64_t number)
{
    struct event ev = {.kind = kind, .thread = thread};
    ev.number = number;
    put(f, &ev);
}

static void finish_and_check(struct fixture *f)
{
    assert_int_equal(ingest_finish(&f->in, &f->e), 0);
    oracle_check(&f->o, &f->t);
}

static void assert_fact(struct fixture *f, const char *key, const char *value)
{
    struct view v = trace_fact(&f->t, key, 0);
    if (!value) {
        assert_null(v.p);
        return;
    }
    assert_non_null(v.p);
    assert_true(view_equal(v, view_of(value)));
}

/* ---- random sequences against the oracle */

static uint32_t roll(struct fixture *f, uint32_t n)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->random >> 33) % n;
}

static void random_begin(struct fixture *f, uint64_t thread, int64_t time)
{
    struct event ev = {.kind = EVENT_ZONE_BEGIN, .thread = thread, .time = time};
    ev.zone.srcloc = 0x100 * (1 + roll(f, 40));
    ev.callstack = roll(f, 10) == 0 ? 1 + roll(f, 5) : 0;
    oracle_begin(&f->o, thread, time, ev.zone.srcloc)->callstack = ev.callstack;
    put(f, &ev);
}

static void random_note(struct fixture *f, uint64_t thread)
{
    struct oracle_zone *zone = oracle_top(&f->o, thread);
    char text[16];
    snprintf(text, sizeof text, "text %u", roll(f, 100));
    switch (roll(f, 4)) {
    case 0:
        if (strlen(zone->text) + 16 < sizeof zone->text) {
            put_note(f, EVENT_ZONE_TEXT, thread, text);
            oracle_text(zone, text);
        }
        return;
    case 1:
        put_note(f, EVENT_ZONE_NAME, thread, text);
        snprintf(zone->name, sizeof zone->name, "%s", text);
        return;
    case 2:
        zone->color = roll(f, 256) << 16 | 0x3412; /* blue, green, red in the file */
        put_number(f, EVENT_ZONE_COLOR, thread, 0x123400 | zone->color >> 16);
        return;
    default:
        if (strlen(zone->text) + 16 < sizeof zone->text) {
            put_number(f, EVENT_ZONE_VALUE, thread, 42);
            oracle_text(zone, "42");
        }
    }
}

static void random_zones(struct fixture *f, unsigned events)
{
    int64_t time = 1000;
    for (uint32_t i = 1; i <= 5; i++) { /* call stacks 1 to 5 */
        uint64_t frame = i;
        uint32_t id;
        bool fresh;
        assert_int_equal(f->in.sink.callstack(f->in.sink.ctx, &frame, 1, &id, &fresh, &f->e), 0);
        assert_int_equal(id, i);
    }
    for (unsigned i = 0; i < events; i++) {
        uint64_t thread = roll(f, 4) == 0 ? UINT64_C(1) << 32 : 100 + roll(f, 3);
        bool open = oracle_top(&f->o, thread) != NULL;
        uint32_t what = roll(f, 100);
        time += roll(f, 1000);
        if (what < 45 || !open) {
            random_begin(f, thread, time);
        } else if (what < 89) {
            put_end(f, thread, time);
            oracle_end(&f->o, thread, time);
        } else {
            random_note(f, thread);
        }
    }
}

static void random_sequences_are_kept(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    for (unsigned round = 0; round < 5; round++) {
        random_zones(&f, 2000);
        finish_and_check(&f); /* with zones still open, and again after more of them */
    }
    fixture_release(&f);
}

/* A zone stays open while the chunks that hold it are packed and go to disk. */
static void ends_reach_chunks_on_disk(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 1 << 20);
    put_begin(&f, 7, 5, 0x100);
    oracle_begin(&f.o, 7, 5, 0x100);
    put_note(&f, EVENT_ZONE_TEXT, 7, "outer");
    oracle_text(oracle_top(&f.o, 7), "outer");
    random_zones(&f, 1500000);
    assert_true(f.t.spool.fd >= 0);
    put_note(&f, EVENT_ZONE_TEXT, 7, "still open");
    oracle_text(oracle_top(&f.o, 7), "still open");
    put_end(&f, 7, INT64_C(1) << 40);
    oracle_end(&f.o, 7, INT64_C(1) << 40);
    finish_and_check(&f);
    assert_int_equal(f.t.facts.last_time, INT64_C(1) << 40);
    fixture_release(&f);
}

/* ---- single rules */

static void a_zone_may_end_before_it_began(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    put_begin(&f, 1, 1000, 0x100);
    oracle_begin(&f.o, 1, 1000, 0x100);
    put_begin(&f, 1, 900, 0x200); /* and begin before its parent */
    oracle_begin(&f.o, 1, 900, 0x200);
    put_end(&f, 1, 899);
    oracle_end(&f.o, 1, 899);
    put_end(&f, 1, -5);
    oracle_end(&f.o, 1, -5);
    finish_and_check(&f);
    assert_int_equal(f.t.facts.last_time, 1000);
    fixture_release(&f);
}

static void ends_without_a_zone_are_counted(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    put_end(&f, 1, 50);
    put_begin(&f, 1, 100, 0x100);
    oracle_begin(&f.o, 1, 100, 0x100);
    put_end(&f, 1, 200);
    oracle_end(&f.o, 1, 200);
    put_end(&f, 1, 300);
    put_end(&f, 2, 300); /* lists its thread all the same */
    finish_and_check(&f);
    assert_int_equal(f.o.threads_seen, 2);
    assert_int_equal(f.t.facts.last_time, 200);
    assert_fact(&f, "zone_ends_without_zone", "3");
    assert_fact(&f, "zone_ends_out_of_order", NULL);
    assert_fact(&f, "zone_notes_without_zone", NULL);
    fixture_release(&f);
}

static void notes_need_their_zone(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    put_note(&f, EVENT_ZONE_TEXT, 9, "never seen thread");
    put_begin(&f, 1, 100, 0x100);
    oracle_begin(&f.o, 1, 100, 0x100);
    put_number(&f, EVENT_ZONE_VALIDATION, 1, 77);
    put_note(&f, EVENT_ZONE_NAME, 1, "another zone's");
    put_note(&f, EVENT_ZONE_NAME, 1, "its own"); /* the id counts for one event only */
    snprintf(oracle_top(&f.o, 1)->name, 16, "its own");
    put_end(&f, 1, 200);
    oracle_end(&f.o, 1, 200);
    put_number(&f, EVENT_ZONE_COLOR, 1, 0xffffff);
    put_number(&f, EVENT_ZONE_VALUE, 1, 1);
    finish_and_check(&f);
    assert_int_equal(f.o.threads_seen, 1);
    assert_fact(&f, "zone_notes_without_zone", "4");
    assert_fact(&f, "zone_ends_out_of_order", NULL);
    fixture_release(&f);
}

static void validation_ids_travel_with_their_zone(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    for (uint64_t id = 5; id <= 6; id++) {
        put_number(&f, EVENT_ZONE_VALIDATION, 1, id);
        put_begin(&f, 1, (int64_t)id, id * 0x100);
        oracle_begin(&f.o, 1, (int64_t)id, id * 0x100);
    }
    put_number(&f, EVENT_ZONE_VALIDATION, 1, 6);
    put_note(&f, EVENT_ZONE_TEXT, 1, "inner");
    oracle_text(oracle_top(&f.o, 1), "inner");
    put_number(&f, EVENT_ZONE_VALIDATION, 1, 5); /* the outer one before the inner one */
    put_end(&f, 1, 20);
    oracle_end(&f.o, 1, 20);
    put_number(&f, EVENT_ZONE_VALIDATION, 1, 6);
    put_end(&f, 1, 30);
    oracle_end(&f.o, 1, 30);
    finish_and_check(&f);
    assert_fact(&f, "zone_ends_out_of_order", "2");
    fixture_release(&f);
}

static void values_are_said_as_the_release_does(void **state)
{
    (void)state;
    for (int hex = 0; hex < 2; hex++) {
        struct fixture f;
        fixture_init(&f, 0);
        f.in.zone_values_in_hex = hex;
        put_begin(&f, 1, 1, 0x100);
        oracle_begin(&f.o, 1, 1, 0x100);
        put_number(&f, EVENT_ZONE_VALUE, 1, UINT64_MAX);
        oracle_text(oracle_top(&f.o, 1),
                    hex ? "18446744073709551615 [0xffffffffffffffff]" : "18446744073709551615");
        put_number(&f, EVENT_ZONE_VALUE, 1, 0);
        oracle_text(oracle_top(&f.o, 1), hex ? "0 [0x0]" : "0");
        finish_and_check(&f);
        fixture_release(&f);
    }
}

static void texts_end_at_their_first_zero_byte(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    put_begin(&f, 1, 1, 0x100);
    oracle_begin(&f.o, 1, 1, 0x100);
    struct event ev = {.kind = EVENT_ZONE_TEXT, .thread = 1};
    ev.text = (struct view){"one\0two", 7};
    put(&f, &ev);
    put_note(&f, EVENT_ZONE_TEXT, 1, "three");
    oracle_text(oracle_top(&f.o, 1), "one");
    oracle_text(oracle_top(&f.o, 1), "three");
    finish_and_check(&f);
    fixture_release(&f);
}

/* ---- limits and parts */

static void zones_too_deep_become_siblings(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    f.t.zones.depth_limit = 3;
    for (int i = 0; i < 6; i++) {
        put_begin(&f, 1, i, 0x100);
        oracle_begin(&f.o, 1, i, 0x100);
        if (i >= 2)
            f.o.threads[0].open.len--; /* the oracle has no limit: what is too deep stays outside */
    }
    for (size_t i = 6; i-- > 0;) {
        put_end(&f, 1, 100 - (int64_t)i);
        f.o.threads[0].zones.at[i].end = 100 - (int64_t)i;
    }
    f.o.ended[1] = 6;
    finish_and_check(&f);
    assert_fact(&f, "overflow.zone_depth", "3");
    fixture_release(&f);
}

static int part_full(void *ctx, struct err *e)
{
    struct fixture *f = ctx;
    if (ingest_finish(&f->in, e) != 0)
        return -1;
    oracle_check(&f->o, &f->t);
    return 0;
}

/* Open zones begin anew in the next part, with what was said of them. */
static void open_zones_are_carried_over(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    f.in.part_full = part_full;
    f.in.part_full_ctx = &f;
    f.in.time_limit = 1000;
    put_begin(&f, 1, 100, 0x100);
    oracle_begin(&f.o, 1, 100, 0x100);
    put_note(&f, EVENT_ZONE_TEXT, 1, "before");
    oracle_text(oracle_top(&f.o, 1), "before");
    put_begin(&f, 1, 200, 0x200);
    oracle_begin(&f.o, 1, 200, 0x200);
    put_end(&f, 1, 300);
    oracle_end(&f.o, 1, 300);
    put_end(&f, 1, 400);
    oracle_end(&f.o, 1, 400);
    put_begin(&f, 1, 500, 0x300);
    oracle_begin(&f.o, 1, 500, 0x300);
    put_note(&f, EVENT_ZONE_TEXT, 1, "before");
    oracle_text(oracle_top(&f.o, 1), "before");
    put_end(&f, 1, 5000); /* another part */
    assert_int_equal(f.in.parts, 1);
    oracle_release(&f.o);
    f.o = (struct oracle){0};
    oracle_begin(&f.o, 1, 0, 0x300);
    oracle_text(oracle_top(&f.o, 1), "before");
    oracle_end(&f.o, 1, 0);
    put_begin(&f, 1, 5100, 0x200);
    oracle_begin(&f.o, 1, 100, 0x200);
    finish_and_check(&f);
    fixture_release(&f);
}

/* What settling will take follows the open zones and their texts, also into another part. */
/* As `recover` needs it: beyond a budget they are in memory that the kernel can write out. */
static void lists_of_open_zones_go_to_a_file(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    trace_page_tables(&f.t, 0);
    for (int i = 0; i < 40000; i++)
        put_begin(&f, 1, i, 0x100);
    assert_true(f.t.pageable.regions.len > 0);
    for (int i = 0; i < 40000; i++)
        put_end(&f, 1, 40000 + i);
    put_end(&f, 1, 80000);
    assert_int_equal(f.t.zones.faults.ends, 1);
    assert_int_equal(f.t.zones.open.zones, 0);
    fixture_release(&f);
}

static void needs_follow_open_zones(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    const struct zones *z = &f.t.zones;
    assert_int_equal(zones_settle_needs(z), 0);
    put_begin(&f, 1, 10, 0x100);
    uint64_t bare = zones_settle_needs(z);
    assert_true(bare > 0);
    put_note(&f, EVENT_ZONE_TEXT, 1, "one");
    uint64_t text = zones_settle_needs(z) - bare;
    assert_true(text > strlen("one"));
    put_note(&f, EVENT_ZONE_TEXT, 1, "more");
    assert_int_equal(zones_settle_needs(z), bare + text + strlen("\nmore"));
    put_begin(&f, 2, 20, 0x100);
    assert_int_equal(zones_settle_needs(z), 2 * bare + text + strlen("\nmore"));
    assert_int_equal(zones_carry(&f.t.zones, &f.e), 0);
    assert_int_equal(zones_settle_needs(z), 2 * bare + text + strlen("\nmore"));
    put_end(&f, 1, 30);
    assert_int_equal(zones_settle_needs(z), bare);
    put_end(&f, 2, 30);
    assert_int_equal(zones_settle_needs(z), 0);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sequences_are_kept),
        cmocka_unit_test(ends_reach_chunks_on_disk),
        cmocka_unit_test(a_zone_may_end_before_it_began),
        cmocka_unit_test(ends_without_a_zone_are_counted),
        cmocka_unit_test(notes_need_their_zone),
        cmocka_unit_test(validation_ids_travel_with_their_zone),
        cmocka_unit_test(values_are_said_as_the_release_does),
        cmocka_unit_test(texts_end_at_their_first_zero_byte),
        cmocka_unit_test(zones_too_deep_become_siblings),
        cmocka_unit_test(open_zones_are_carried_over),
        cmocka_unit_test(needs_follow_open_zones),
        cmocka_unit_test(lists_of_open_zones_go_to_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
