/* Blocks that a thread hands over: all of them, in order, and what goes wrong. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace/file/block_thread.h"

#define LANES 6 /* more than there are threads */
#define WAITING ((size_t)BLOCK_THREAD_DEPTH)

/* What arrived, and when to fail or to wait. A block becomes itself, without its last byte. */
struct receiver {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool shut; /* blocks wait in the sink */
    unsigned lanes;
    size_t blocks, fail_at, spoil_at;
    uint64_t sum;
    size_t encoded[LANES]; /* in each lane */
    bool busy[LANES];
    bool wrong;
};

static uint8_t filler(size_t block)
{
    return (uint8_t)(block * 31 + 7);
}

/* Blocks are numbered from 1 on. */
static int encode(void *ctx, unsigned lane, const struct stream_block *b, uint8_t *out,
                  size_t *size, struct err *e)
{
    struct receiver *r = ctx;
    pthread_mutex_lock(&r->lock);
    while (r->shut)
        pthread_cond_wait(&r->opened, &r->lock);
    size_t block = r->encoded[lane]++ * r->lanes + lane + 1;
    r->wrong |= lane >= r->lanes || r->busy[lane];
    r->busy[lane] = true;
    /* Every third block has events, and only those were told of. */
    r->wrong |= block % 3 == 0 ? b->first != block || b->end != b->len : b->end != 0;
    pthread_mutex_unlock(&r->lock);
    if (block % 5 == 0)
        usleep(300); /* another lane comes first */
    memcpy(out, b->bytes, b->len);
    *size = b->len - 1;
    pthread_mutex_lock(&r->lock);
    r->busy[lane] = false;
    pthread_mutex_unlock(&r->lock);
    return block == r->spoil_at ? err_set(e, ERR_OUTPUT, "spoilt at block %zu", block) : 0;
}

static int append(void *ctx, const uint8_t *bytes, size_t len, struct err *e)
{
    struct receiver *r = ctx;
    if (++r->blocks == r->fail_at)
        return err_set(e, ERR_OUTPUT, "full at block %zu", r->blocks);
    bool wrong = false;
    for (size_t i = 0; i < len; i++)
        wrong |= bytes[i] != filler(r->blocks);
    r->sum += len + 1;
    pthread_mutex_lock(&r->lock);
    r->wrong |= wrong;
    pthread_mutex_unlock(&r->lock);
    return 0;
}

static void open_thread(struct block_thread **t, struct receiver *r, unsigned lanes)
{
    struct err e = {0};
    *r = (struct receiver){
        .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .lanes = lanes};
    const struct block_work work = {
        .ctx = r, .lanes = lanes, .room = BLOCK_SIZE, .encode = encode, .append = append};
    assert_int_equal(block_thread_open(t, work, &e), 0);
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

static void check_order(unsigned lanes)
{
    struct block_thread *t;
    struct receiver r;
    struct err e = {0};
    open_thread(&t, &r, lanes);
    const size_t n = 20 * WAITING;
    for (size_t i = 1; i <= n; i++)
        assert_int_equal(put(t, i, i < n ? BLOCK_SIZE : 5, &e), 0);
    assert_int_equal(block_thread_finish(t, &e), 0);
    assert_int_equal(r.blocks, n);
    assert_int_equal(r.sum, (n - 1) * BLOCK_SIZE + 5);
    assert_false(r.wrong);
    block_thread_free(t);
    /* None at all. */
    open_thread(&t, &r, lanes);
    assert_int_equal(block_thread_finish(t, &e), 0);
    assert_int_equal(r.blocks, 0);
    block_thread_free(t);
}

static void test_all_in_order(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= LANES; lanes++)
        check_order(lanes);
}

/*
 * An error of writing comes back, even when it comes with the last block; no more blocks are
 * written.
 */
static void check_errors(unsigned lanes)
{
    for (size_t fail_at = 1; fail_at <= 3 * WAITING; fail_at++) {
        struct block_thread *t;
        struct receiver r;
        struct err e = {0};
        int status = 0;
        open_thread(&t, &r, lanes);
        r.fail_at = fail_at;
        for (size_t i = 1; i <= 3 * WAITING && status == 0; i++)
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

/* So does one of compressing. What was before it may be written, and nothing behind. */
static void check_spoilt(unsigned lanes)
{
    for (size_t spoil_at = 1; spoil_at <= 3 * WAITING; spoil_at++) {
        struct block_thread *t;
        struct receiver r;
        struct err e = {0}, last = {0};
        int status = 0;
        open_thread(&t, &r, lanes);
        r.spoil_at = spoil_at;
        for (size_t i = 1; i <= 3 * WAITING && status == 0; i++)
            status = put(t, i, BLOCK_SIZE, &e);
        assert_int_equal(block_thread_finish(t, &last), -1);
        char text[64];
        snprintf(text, sizeof text, "spoilt at block %zu", spoil_at);
        assert_string_equal(last.text, text);
        assert_true(r.blocks < spoil_at);
        assert_false(r.wrong);
        block_thread_free(t);
    }
}

static void test_errors(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= LANES; lanes++) {
        check_errors(lanes);
        check_spoilt(lanes);
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

/* As many as may wait are taken while none is compressed; who gives up then loses them. */
static void check_full(unsigned lanes)
{
    struct block_thread *t;
    struct receiver r;
    struct err e = {0};
    pthread_t opener;
    open_thread(&t, &r, lanes);
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

static void test_full_and_given_up(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= LANES; lanes++)
        check_full(lanes);
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
