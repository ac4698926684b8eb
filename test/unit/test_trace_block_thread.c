/* Blocks that a thread hands over: all of them, in order, and what goes wrong. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "trace/block_thread.h"

/* What arrived, and when to fail or to wait. */
struct receiver {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool shut; /* blocks wait in the sink */
    size_t blocks, fail_at;
    uint64_t sum;
    size_t first, end;
    bool wrong;
};

static uint8_t filler(size_t block)
{
    return (uint8_t)(block * 31 + 7);
}

static int receive(void *ctx, const uint8_t *bytes, size_t len, struct err *e)
{
    struct receiver *r = ctx;
    pthread_mutex_lock(&r->lock);
    while (r->shut)
        pthread_cond_wait(&r->opened, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (++r->blocks == r->fail_at)
        return err_set(e, ERR_OUTPUT, "full at block %zu", r->blocks);
    for (size_t i = 0; i < len; i++)
        r->wrong |= bytes[i] != filler(r->blocks);
    r->sum += len;
    /* Every third block has events, and only those were told of. */
    r->wrong |= r->blocks % 3 == 0 ? r->first != r->blocks || r->end != len : r->end != 0;
    r->first = r->end = 0;
    return 0;
}

static void note_events(void *ctx, size_t first, size_t end)
{
    struct receiver *r = ctx;
    r->first = first;
    r->end = end;
}

static void open_thread(struct block_thread **t, struct receiver *r)
{
    struct err e = {0};
    *r = (struct receiver){.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};
    const struct block_sink to = {.ctx = r, .put = receive, .events = note_events};
    assert_int_equal(block_thread_open(t, to, &e), 0);
}

static int put(struct block_thread *t, size_t number, size_t len, struct err *e)
{
    static uint8_t bytes[BLOCK_SIZE];
    const struct block_sink sink = block_thread_sink(t);
    memset(bytes, filler(number), len);
    if (number % 3 == 0)
        sink.events(sink.ctx, number, len);
    return sink.put(sink.ctx, bytes, len, e);
}

static void test_all_in_order(void **state)
{
    (void)state;
    struct block_thread *t;
    struct receiver r;
    struct err e = {0};
    open_thread(&t, &r);
    const size_t n = 20 * BLOCK_THREAD_DEPTH;
    for (size_t i = 1; i <= n; i++)
        assert_int_equal(put(t, i, i < n ? BLOCK_SIZE : 5, &e), 0);
    assert_int_equal(block_thread_finish(t, &e), 0);
    assert_int_equal(r.blocks, n);
    assert_int_equal(r.sum, (n - 1) * BLOCK_SIZE + 5);
    assert_false(r.wrong);
    block_thread_free(t);
    /* None at all. */
    open_thread(&t, &r);
    assert_int_equal(block_thread_finish(t, &e), 0);
    assert_int_equal(r.blocks, 0);
    block_thread_free(t);
}

/* The sink's error comes back, even when it comes with the last block; no more blocks go to it. */
static void test_errors(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at <= 3 * BLOCK_THREAD_DEPTH; fail_at++) {
        struct block_thread *t;
        struct receiver r;
        struct err e = {0};
        int status = 0;
        open_thread(&t, &r);
        r.fail_at = fail_at;
        for (size_t i = 1; i <= 3 * BLOCK_THREAD_DEPTH && status == 0; i++)
            status = put(t, i, BLOCK_SIZE, &e);
        struct err last = {0};
        assert_int_equal(block_thread_finish(t, &last), -1);
        assert_int_equal(last.code, ERR_OUTPUT);
        char text[64];
        snprintf(text, sizeof text, "full at block %zu", fail_at);
        assert_string_equal(last.text, text);
        if (status != 0)
            assert_string_equal(e.text, text);
        assert_int_equal(r.blocks, fail_at);
        block_thread_free(t);
    }
}

static void *open_later(void *ctx)
{
    struct receiver *r = ctx;
    pthread_mutex_lock(&r->lock);
    r->shut = false;
    pthread_cond_broadcast(&r->opened);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* As many as may wait are taken while the sink takes none; who gives up then loses them. */
static void test_full_and_given_up(void **state)
{
    (void)state;
    struct block_thread *t;
    struct receiver r;
    struct err e = {0};
    pthread_t opener;
    open_thread(&t, &r);
    pthread_mutex_lock(&r.lock);
    r.shut = true;
    pthread_mutex_unlock(&r.lock);
    for (size_t i = 1; i <= BLOCK_THREAD_DEPTH; i++)
        assert_int_equal(put(t, i, BLOCK_SIZE, &e), 0);
    assert_int_equal(pthread_create(&opener, NULL, open_later, &r), 0);
    block_thread_free(t);
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_true(r.blocks <= BLOCK_THREAD_DEPTH);
    assert_false(r.wrong);
    block_thread_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_in_order),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_full_and_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
