/* Messages between daemon and sessions: whole ones arrive, broken ones end the channel. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/capture/channel.h"
#include "server/capture/monitor.h"
#include "server/capture/usage_record.h"

struct pair {
    struct channel a, b;
};

static int pair_open(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    struct err e = {0};
    assert_non_null(p);
    assert_int_equal(channel_pair(&p->a, &p->b, &e), 0);
    *state = p;
    return 0;
}

static int pair_close(void **state)
{
    struct pair *p = *state;
    channel_release(&p->a);
    channel_release(&p->b);
    channel_release(&p->b);
    free(p);
    return 0;
}

static void assert_message(struct channel *c, uint32_t type, uint64_t reference, const char *text)
{
    struct channel_message m;
    assert_true(channel_next(c, &m));
    assert_int_equal(m.type, type);
    assert_int_equal(m.reference, reference);
    assert_int_equal(m.len, strlen(text));
    assert_memory_equal(m.text, text, m.len);
}

static void messages_arrive(void **state)
{
    struct pair *p = *state;
    struct channel_message m;
    assert_int_equal(channel_send(&p->a, 1, 7, "one", 3), 0);
    assert_int_equal(channel_send(&p->a, 2, UINT64_MAX, "", 0), 0);
    assert_int_equal(channel_send(&p->a, 3, 0, "three", 5), 0);
    assert_int_equal(channel_pump(&p->b), 0);
    assert_message(&p->b, 1, 7, "one");
    assert_message(&p->b, 2, UINT64_MAX, "");
    assert_message(&p->b, 3, 0, "three");
    assert_false(channel_next(&p->b, &m));
}

/* One byte after the other. */
static void pieces_are_put_together(void **state)
{
    struct pair *p = *state;
    struct channel_message m;
    const uint8_t bytes[] = {3, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'};
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_false(channel_next(&p->b, &m));
        assert_int_equal(send(p->a.fd, bytes + i, 1, 0), 1);
        assert_int_equal(channel_pump(&p->b), 0);
    }
    assert_message(&p->b, 9, 5, "abc");
}

/* More than a socket holds: sent as the other side takes it. */
static void the_longest_arrives(void **state)
{
    struct pair *p = *state;
    struct channel_message m;
    char *text = malloc(CHANNEL_TEXT_MAX + 1);
    assert_non_null(text);
    memset(text, 'x', CHANNEL_TEXT_MAX + 1);
    assert_int_equal(channel_send(&p->a, 1, 1, text, CHANNEL_TEXT_MAX + 1), -1);
    assert_int_equal(channel_send(&p->a, 1, 1, text, CHANNEL_TEXT_MAX), 0);
    assert_true(channel_wants_out(&p->a));
    bool came = false;
    for (int i = 0; i < 100000 && !came; i++) {
        assert_int_equal(channel_pump(&p->b), 0);
        came = channel_next(&p->b, &m);
        assert_int_equal(channel_pump(&p->a), 0);
    }
    assert_true(came);
    assert_int_equal(m.len, CHANNEL_TEXT_MAX);
    assert_memory_equal(m.text, text, m.len);
    assert_false(channel_wants_out(&p->a));
    free(text);
}

static void too_much_is_refused(void **state)
{
    struct pair *p = *state;
    size_t len = CHANNEL_TEXT_MAX / 2;
    char *text = calloc(1, len);
    unsigned taken = 0;
    assert_non_null(text);
    while (taken < 100 && channel_send(&p->a, 1, taken, text, len) == 0)
        taken++;
    assert_in_range(taken, CHANNEL_WAITING_MAX / len, CHANNEL_WAITING_MAX / len + 2);
    free(text);
}

static void lengths_that_lie_end_it(void **state)
{
    struct pair *p = *state;
    struct channel_message m;
    uint8_t bytes[16] = {0xff, 0xff, 0xff, 0xff};
    assert_int_equal(channel_send(&p->a, 1, 1, "good", 4), 0);
    assert_int_equal(send(p->a.fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(channel_pump(&p->b), 0);
    assert_message(&p->b, 1, 1, "good");
    assert_int_equal(channel_pump(&p->b), -1);
    assert_int_equal(p->b.fd, -1);
    assert_false(channel_next(&p->b, &m));
    assert_int_equal(channel_pump(&p->b), -1);
    assert_int_equal(channel_send(&p->b, 1, 1, "", 0), -1);
}

static void the_end_leaves_what_came(void **state)
{
    struct pair *p = *state;
    assert_int_equal(channel_send(&p->a, 4, 2, "last", 4), 0);
    channel_release(&p->a);
    p->a.fd = -1;
    (void)channel_pump(&p->b);
    assert_message(&p->b, 4, 2, "last");
    assert_int_equal(channel_pump(&p->b), -1);
}

/* Also where we have something to say that nobody takes any more. */
static void the_end_leaves_what_came_before_nobody_listened(void **state)
{
    struct pair *p = *state;
    assert_int_equal(channel_send(&p->a, 4, 2, "last", 4), 0);
    channel_release(&p->a);
    p->a.fd = -1;
    assert_int_equal(channel_send(&p->b, 1, 1, "question", 8), -1);
    (void)channel_pump(&p->b);
    assert_message(&p->b, 4, 2, "last");
}

/* ---- what a session says of its end */

static void an_end_arrives(void **state)
{
    struct pair *p = *state;
    struct monitor m;
    struct monitor_end end = {0};
    struct channel_message said;
    monitor_init(&m, dup(p->a.fd));
    monitor_tell_end(&m, &(struct monitor_end){.end = SESSION_SIZE_LIMIT, .saved = true});
    monitor_release(&m);
    assert_int_equal(channel_pump(&p->b), 0);
    assert_true(channel_next(&p->b, &said));
    assert_int_equal(said.type, MONITOR_END);
    assert_true(monitor_end_parse(&said, &end));
    assert_int_equal(end.end, SESSION_SIZE_LIMIT);
    assert_true(end.saved);
    assert_false(end.refused);
}

static void ends_that_are_none(void **state)
{
    static const char *const texts[] = {
        "", "{}", "[]", "{\"end\":true}", "{\"end\":-2}", "{\"end\":999}", "{\"end\":1e300}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct monitor_end end = {.end = MONITOR_NEVER_BEGAN};
        const struct channel_message m = {.text = texts[i], .len = strlen(texts[i])};
        assert_false(monitor_end_parse(&m, &end));
        assert_int_equal(end.end, MONITOR_NEVER_BEGAN);
    }
}

static void questions_have_names(void **state)
{
    enum monitor_question q;
    (void)state;
    for (int i = 0; i < MONITOR_QUESTIONS; i++) {
        const char *name = monitor_question_name((enum monitor_question)i);
        assert_true(monitor_question_parse(name, strlen(name), &q));
        assert_int_equal(q, i);
        assert_false(monitor_question_parse(name, strlen(name) - 1, &q));
    }
    assert_false(monitor_question_parse("", 0, &q));
}

/* ---- the record of usage */

static void the_record_is_bounded_and_keeps_its_peak(void **state)
{
    struct usage_record *r = calloc(1, sizeof *r);
    struct pool pool = {0};
    struct pool *pools[] = {&pool};
    struct memory memory = {.peak_bytes = 2000000}; /* between two looks */
    (void)state;
    assert_non_null(r);
    memory.pools.at = pools;
    memory.pools.len = 1;
    const unsigned ticks = 100000, high = 77777;
    for (unsigned i = 0; i < ticks; i++) {
        pool.totals.live_bytes = i == high ? 1000000 : i % 100;
        pool.totals.live = i % 7;
        usage_record_add(r, &memory, i * 0.1);
        assert_in_range(r->count, 1, USAGE_POINTS);
    }
    assert_int_equal(r->peak, 2000000);
    uint8_t percent[USAGE_SHAPE];
    unsigned highest = 0;
    assert_int_equal(usage_record_shape(r, percent), USAGE_SHAPE);
    for (unsigned i = 0; i < USAGE_SHAPE; i++)
        highest = percent[i] > highest ? percent[i] : highest;
    assert_int_equal(highest, 50);
    assert_int_equal(r->pools, 1);
    assert_true(r->count >= USAGE_POINTS / 4);
    unsigned peaks = 0;
    for (unsigned i = 0; i < r->count; i++) {
        peaks += r->points[i].bytes == 1000000 && r->points[i].pools[0] == 1000000;
        assert_true(i == 0 || r->points[i].seconds > r->points[i - 1].seconds);
    }
    assert_int_equal(peaks, 1);
    assert_true(r->points[r->count - 1].seconds > 0.95 * ticks * 0.1);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_arrive, pair_open, pair_close),
        cmocka_unit_test_setup_teardown(pieces_are_put_together, pair_open, pair_close),
        cmocka_unit_test_setup_teardown(the_longest_arrives, pair_open, pair_close),
        cmocka_unit_test_setup_teardown(too_much_is_refused, pair_open, pair_close),
        cmocka_unit_test_setup_teardown(lengths_that_lie_end_it, pair_open, pair_close),
        cmocka_unit_test_setup_teardown(the_end_leaves_what_came, pair_open, pair_close),
        cmocka_unit_test_setup_teardown(the_end_leaves_what_came_before_nobody_listened, pair_open,
                                        pair_close),
        cmocka_unit_test_setup_teardown(an_end_arrives, pair_open, pair_close),
        cmocka_unit_test(ends_that_are_none),
        cmocka_unit_test(questions_have_names),
        cmocka_unit_test(the_record_is_bounded_and_keeps_its_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
