/* When the socket is not read, because what came expanded too much. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/capture/pace.h"

#define MS 1000000LL
#define TURN (20 * MS)

static void test_plain_streams_do_not_rest(void **state)
{
    (void)state;
    struct pace p = {0};
    for (long long now = 0; now < 100 * TURN; now += TURN) {
        pace_note(&p, 1000, 1000 * (PACE_EXPANSION - 1), now, now + TURN);
        assert_false(p.expands);
        assert_int_equal(pace_rest_ms(&p, now + TURN), 0);
    }
}

static void test_a_turn_that_expands(void **state)
{
    (void)state;
    struct pace p = {0};
    pace_note(&p, 1000, 250000, 100 * MS, 102 * MS);
    assert_true(p.expands);
    assert_int_equal(pace_rest_ms(&p, 102 * MS), 2 * PACE_REST);
    assert_int_equal(pace_rest_ms(&p, 103 * MS), 2 * PACE_REST - 1);
    assert_int_equal(pace_rest_ms(&p, 103 * MS + 1), 2 * PACE_REST - 1);
    assert_int_equal(pace_rest_ms(&p, (102 + 2 * PACE_REST) * MS), 0);
    /* A turn in which nothing came changes nothing. */
    pace_note(&p, 0, 0, 200 * MS, 300 * MS);
    assert_true(p.expands);
    assert_int_equal(pace_rest_ms(&p, 300 * MS), 0);
    pace_note(&p, 1000, 4000, 300 * MS, 301 * MS);
    assert_false(p.expands);
}

/* Bytes that were received are decoded without a pause: the pauses of all their turns come behind.
 */
static void test_pauses_add_up(void **state)
{
    (void)state;
    struct pace p = {0};
    pace_note(&p, 1000, 250000, 0, TURN);
    pace_note(&p, 0, 250000, TURN, 2 * TURN);
    assert_int_equal(pace_rest_ms(&p, 2 * TURN), (2 * PACE_REST - 1) * 20);
}

/* A stream that expands all the time is decoded for one part in PACE_REST + 1 of the time. */
static void test_share(void **state)
{
    (void)state;
    struct pace p = {0};
    long long decoding = 0, now = 0;
    while (now < 1000 * TURN) {
        pace_note(&p, 1000, 250000, now, now + TURN);
        decoding += TURN;
        now += TURN + pace_rest_ms(&p, now + TURN) * MS;
    }
    assert_int_equal(now / decoding, PACE_REST + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_streams_do_not_rest),
        cmocka_unit_test(test_a_turn_that_expands),
        cmocka_unit_test(test_pauses_add_up),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
