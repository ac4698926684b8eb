/* Locks, from events to records. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "test/unit/ingest_test.h"

static void announce(struct fixture *f, uint32_t id, uint8_t type, int64_t time)
{
    struct event ev = {.kind = EVENT_LOCK_ANNOUNCE, .time = time};
    ev.lock.id = id;
    ev.lock.type = type;
    ev.lock.srcloc = 0x5000;
    put(f, &ev);
}

static void use(struct fixture *f, enum event_kind kind, uint32_t id, uint64_t thread, int64_t time)
{
    struct event ev = {.kind = kind, .thread = thread, .time = time};
    ev.lock.id = id;
    ev.lock.has_thread = thread != 0;
    put(f, &ev);
}

static void use_shared(struct fixture *f, enum event_kind kind, uint32_t id, uint64_t thread,
                       int64_t time)
{
    struct event ev = {.kind = kind, .thread = thread, .time = time};
    ev.lock.id = id;
    ev.lock.has_thread = ev.lock.shared = true;
    put(f, &ev);
}

static void mark_at(struct fixture *f, uint32_t id, uint64_t thread, uint64_t srcloc)
{
    struct event ev = {.kind = EVENT_LOCK_MARK, .thread = thread};
    ev.lock.id = id;
    ev.lock.has_thread = true;
    ev.lock.srcloc = srcloc;
    put(f, &ev);
}

static void locks_list_their_threads_and_events(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    announce(&f, 9, 1, 10);
    announce(&f, 3, 0, 11);
    announce(&f, 9, 0, 12); /* an echo */
    use(&f, EVENT_LOCK_WAIT, 9, 100, 20);
    use(&f, EVENT_LOCK_WAIT, 3, 200, 21);
    use(&f, EVENT_LOCK_OBTAIN, 9, 100, 22);
    mark_at(&f, 9, 100, 0x6000);
    use_shared(&f, EVENT_LOCK_WAIT, 9, 200, 23);
    use(&f, EVENT_LOCK_RELEASE, 9, 0, 24); /* by who obtained it */
    use_shared(&f, EVENT_LOCK_OBTAIN, 9, 200, 25);
    use_shared(&f, EVENT_LOCK_RELEASE, 9, 200, 26);
    mark_at(&f, 9, 200, 0x5000); /* of the obtain, which is not the last event */
    struct event name = {.kind = EVENT_LOCK_NAME};
    name.lock.id = 3;
    name.lock.text = view_of("a lock");
    put(&f, &name);
    struct event end = {.kind = EVENT_LOCK_TERMINATE, .time = 30};
    end.lock.id = 3;
    put(&f, &end);
    assert_string_equal(saved(&f, "l"), "lock 3 at 1 type 0 11 to 30 named threads 1\n"
                                        "lock event 21 thread 0 0 at 0\n"
                                        "lock 9 at 1 type 1 10 to 0 threads 2\n"
                                        "lock event 20 thread 0 0 at 0\n"
                                        "lock event 22 thread 0 1 at 2\n"
                                        "lock event 23 thread 1 3 at 0\n"
                                        "lock event 24 thread 0 2 at 0\n"
                                        "lock event 25 thread 1 4 at 1\n"
                                        "lock event 26 thread 1 5 at 0\n");
    assert_true(f.t.facts.last_time == 26);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_null(trace_fact(&f.t, "lock_faults", 0).p);
    fixture_release(&f);
}

static void what_fits_no_lock_is_counted(void **state)
{
    (void)state;
    struct fixture f;
    char room[32];
    fixture_init(&f, 0);
    announce(&f, 1, 0, 10);
    use(&f, EVENT_LOCK_WAIT, 2, 100, 20); /* unknown */
    mark_at(&f, 2, 100, 0x6000);
    mark_at(&f, 1, 100, 0x6000);           /* never waited */
    use(&f, EVENT_LOCK_RELEASE, 1, 0, 21); /* nobody has it: thread 0, as the official server */
    mark_at(&f, 1, 0, 0x6000);             /* released only */
    for (uint64_t thread = 1; thread <= 70; thread++)
        use(&f, EVENT_LOCK_WAIT, 1, thread, 30);
    assert_int_equal(f.t.locks.list.at[0].threads.len, LOCK_THREADS_MAX);
    assert_non_null(strstr(saved(&f, "l"), "threads 64\nlock event 21 thread 0 2 at 0\n"));
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_string_equal(fact(&f, "lock_faults", room), "4");
    assert_string_equal(fact(&f, "overflow.lock_threads", room), "7");
    fixture_release(&f);
}

static void who_holds_a_lock_holds_it_in_the_next_part(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    f.in.part_full = part_is_full;
    f.in.time_limit = 1000;
    announce(&f, 1, 0, 10);
    announce(&f, 2, 0, 11);
    announce(&f, 3, 1, 12);
    use(&f, EVENT_LOCK_WAIT, 1, 100, 20);
    use(&f, EVENT_LOCK_OBTAIN, 1, 100, 21);
    use(&f, EVENT_LOCK_WAIT, 1, 200, 22);
    use_shared(&f, EVENT_LOCK_WAIT, 3, 200, 23);
    use_shared(&f, EVENT_LOCK_OBTAIN, 3, 200, 24);
    use(&f, EVENT_LOCK_WAIT, 3, 300, 25);
    use(&f, EVENT_LOCK_OBTAIN, 3, 300, 26);
    use(&f, EVENT_LOCK_RELEASE, 3, 0, 27);
    struct event end = {.kind = EVENT_LOCK_TERMINATE, .time = 30};
    end.lock.id = 2;
    put(&f, &end);
    use(&f, EVENT_LOCK_RELEASE, 1, 0, 2000);
    use(&f, EVENT_LOCK_OBTAIN, 1, 200, 2005);
    assert_int_equal(f.in.parts, 1);
    assert_string_equal(saved(&f, "l"), "lock 1 at 1 type 0 0 to 0 threads 2\n"
                                        "lock event 0 thread 0 0 at 0\n"
                                        "lock event 0 thread 0 1 at 0\n"
                                        "lock event 0 thread 1 0 at 0\n"
                                        "lock event 0 thread 0 2 at 0\n"
                                        "lock event 5 thread 1 1 at 0\n"
                                        "lock 3 at 1 type 1 0 to 0 threads 1\n"
                                        "lock event 0 thread 0 3 at 0\n"
                                        "lock event 0 thread 0 4 at 0\n");
    fixture_release(&f);
}

static void many_events_go_to_disk_and_come_back(void **state)
{
    (void)state;
    enum { LOCKS = 30, EVENTS = 300000 };
    static unsigned expected[LOCKS][4]; /* by location 0 to 3 */
    struct fixture f;
    fixture_init(&f, 1u << 20);
    memset(expected, 0, sizeof expected);
    for (uint32_t i = 0; i < LOCKS; i++)
        announce(&f, i, 0, 0);
    for (unsigned at = 1; at < 4; at++)
        mark_at(&f, 0, 77, 0x5000 + at - 1); /* nobody's, but it numbers the locations */
    uint64_t seed = 11;
    for (int i = 0; i < EVENTS; i++) {
        uint32_t id = (uint32_t)(next_random(&seed) % LOCKS);
        unsigned at = (unsigned)(next_random(&seed) % 4);
        use(&f, EVENT_LOCK_WAIT, id, 1 + id, 100000 + i - (id == 7) * (i % 50));
        if (at)
            mark_at(&f, id, 1 + id, 0x5000 + at - 1);
        expected[id][at]++;
    }
    /* A mark of an event that has been on disk for long. */
    use(&f, EVENT_LOCK_WAIT, 0, 99, 500000);
    for (int i = 0; i < EVENTS; i++)
        use(&f, EVENT_LOCK_WAIT, 1, 2, 500000 + i);
    expected[1][0] += EVENTS;
    mark_at(&f, 0, 99, 0x5002);
    expected[0][3]++;
    assert_null(column_raw(&f.t.locks.events, 0, sizeof(struct lock_event)));
    unsigned id = 0;
    long long last = 0;
    for (const char *line = saved(&f, "l"); *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "lock event ", 11) == 0) {
            long long time = strtoll(line + 11, NULL, 10);
            assert_true(time >= last);
            last = time;
            expected[id][line[strcspn(line, "\n") - 1] - '0']--;
        } else {
            id = (unsigned)strtoul(line + 5, NULL, 10);
            last = 0;
        }
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        for (unsigned at = 0; at < 4; at++)
            assert_int_equal(expected[i][at], 0);
    }
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_list_their_threads_and_events),
        cmocka_unit_test(what_fits_no_lock_is_counted),
        cmocka_unit_test(who_holds_a_lock_holds_it_in_the_next_part),
        cmocka_unit_test(many_events_go_to_disk_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
