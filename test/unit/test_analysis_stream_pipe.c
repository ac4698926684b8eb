/* Steps on their way from who brings them in order to who counts them, with a thread and without.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/stream_parts.h"
#include "analysis/figures/stream_pipe.h"

/* Sees to it that steps come in the order in which they were put. */
struct taker {
    uint64_t next;
    int64_t fails_at; /* -1: never */
    unsigned calls_after_failure;
    bool failed;
};

static int take(void *ctx, void *portion, struct err *e)
{
    struct taker *c = ctx;
    const struct stream_portion *p = portion;
    c->calls_after_failure += c->failed;
    for (size_t i = 0; i < p->allocation_count + p->free_count; i++) {
        if ((int64_t)c->next == c->fails_at) {
            c->failed = true;
            return err_set(e, ERR_CHECK, "step %lld", (long long)c->next);
        }
        bool is_free = i >= p->allocation_count;
        const struct due_item *item =
            is_free ? &p->frees[i - p->allocation_count] : &p->allocations[i];
        if (item->key != c->next || is_free != (c->next / 7 % 2 == 1))
            return err_set(e, ERR_INPUT, "not in order");
        c->next++;
    }
    return 0;
}

static void release(void *portion)
{
    struct stream_portion *p = portion;
    vec_release(&p->large);
}

static const struct stream_pipe_kind kind = {
    .size = sizeof(struct stream_portion), .take = take, .release = release};

static void put_step(struct stream_portion *room, uint64_t key)
{
    if (key / 7 % 2)
        room->frees[room->free_count++].key = key;
    else
        room->allocations[room->allocation_count++].key = key;
}

/* Portions of all sizes, `*put` steps in all: each has some allocations, and then some frees. */
static int put_all(struct stream_pipe *p, int64_t all, int64_t *put, struct err *e)
{
    *put = 0;
    for (unsigned n = 0; *put < all; n = (n * 5 + 3) % 17) {
        struct stream_portion *room = stream_pipe_room(p);
        room->allocation_count = room->free_count = 0;
        assert_true(vec_push(&room->large, n));
        room->large.len = 0;
        while (n-- && *put < all && (room->free_count == 0 || *put / 7 % 2))
            put_step(room, (uint64_t)(*put)++);
        if (stream_pipe_put(p, e) != 0)
            return -1;
    }
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    for (unsigned threaded = 0; threaded < 2; threaded++) {
        struct taker c = {.fails_at = -1};
        struct stream_pipe *p;
        struct err e = {0};
        int64_t put;
        assert_int_equal(stream_pipe_open(&p, &kind, &c, &e), 0);
        if (threaded)
            stream_pipe_start(p);
        for (unsigned round = 0; round < 3; round++) {
            c.next = 0;
            assert_int_equal(put_all(p, 500000, &put, &e), 0);
            assert_int_equal(stream_pipe_drain(p, &e), 0);
            assert_true(c.next == (uint64_t)put);
        }
        stream_pipe_close(p);
    }
}

/* An error of who counts reaches who puts, at once or later, and nothing is counted after it. */
static void test_failure(void **state)
{
    (void)state;
    static const int64_t places[] = {0, 5, 100000, 499999};
    for (unsigned i = 0; i < 8; i++) {
        struct taker c = {.fails_at = places[i / 2]};
        struct stream_pipe *p;
        struct err e = {0};
        int64_t put;
        assert_int_equal(stream_pipe_open(&p, &kind, &c, &e), 0);
        if (i % 2)
            stream_pipe_start(p);
        int status = put_all(p, 500000, &put, &e);
        if (status == 0)
            status = stream_pipe_drain(p, &e);
        assert_int_equal(status, -1);
        assert_int_equal(e.code, ERR_CHECK);
        assert_int_equal(c.calls_after_failure, 0);
        stream_pipe_close(p);
    }
}

static void test_end_without_drain(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct taker c = {.fails_at = -1};
        struct stream_pipe *p;
        int64_t put;
        assert_int_equal(stream_pipe_open(&p, &kind, &c, NULL), 0);
        stream_pipe_start(p);
        assert_int_equal(put_all(p, (int64_t)1000 * i, &put, NULL), 0);
        stream_pipe_close(p);
        assert_true(c.next <= (uint64_t)put);
    }
    stream_pipe_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_end_without_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
