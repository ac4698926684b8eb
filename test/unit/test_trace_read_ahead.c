/* Reading with a thread that decompresses: all is as without, also what goes wrong. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/trace_test.h"
#include "trace/file/read_ahead.h"
#include "trace/save/save.h"
#include "trace/store/store.h"

/* A checksum of all records, and a place to fail at. */
struct taker {
    uint64_t sum, records, fail_at;
};

static int take(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct taker *t = ctx;
    /* Structs have padding: what is decoded of lists of numbers is enough to tell blocks apart. */
    if (type == REC_MEMORY_EVENT) {
        const struct rec_memory_event *r = recs;
        for (size_t i = 0; i < n; i++)
            t->sum = (t->sum ^ r[i].ptr ^ (uint64_t)r[i].time_alloc) * UINT64_C(0x100000001b3);
    }
    t->sum = (t->sum ^ type) + n;
    t->records += n;
    return t->fail_at && t->records >= t->fail_at ? err_set(e, ERR_CHECK, "enough") : 0;
}

static int count_blocks(void *ctx, uint64_t file_bytes, struct err *e)
{
    uint64_t *blocks = ctx;
    (void)e;
    (void)file_bytes;
    ++*blocks;
    return 0;
}

struct outcome {
    struct taker taker;
    struct trace_info info;
    struct err err;
    uint64_t blocks;
    int status;
};

static void read_once(struct outcome *o, int fd, bool ahead, uint64_t fail_at)
{
    memset(o, 0, sizeof *o);
    o->taker.fail_at = fail_at;
    const struct record_sink sink = {&o->taker, take};
    const struct trace_read_options options = {
        .ahead = ahead, .progress = count_blocks, .progress_ctx = &o->blocks};
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    o->status = trace_read(fd, "trace", &sink, &options, &o->info, &o->err);
}

/* Returns whether the file could be read. */
static bool compare(int fd, uint64_t fail_at)
{
    struct outcome a, b;
    read_once(&a, fd, true, fail_at);
    read_once(&b, fd, false, fail_at);
    assert_int_equal(a.status, b.status);
    assert_int_equal(a.err.code, b.err.code);
    assert_string_equal(a.err.text, b.err.text);
    assert_true(a.taker.sum == b.taker.sum);
    assert_int_equal(a.taker.records, b.taker.records);
    assert_int_equal(a.blocks, b.blocks);
    assert_int_equal(a.info.container.blocks, b.info.container.blocks);
    assert_int_equal(a.info.container.inner_bytes, b.info.container.inner_bytes);
    if (a.status == 0)
        assert_int_equal(a.info.container.file_bytes, b.info.container.file_bytes);
    assert_int_equal(a.info.inner_bytes, b.info.inner_bytes);
    assert_int_equal(a.info.warning_count, b.info.warning_count);
    for (unsigned i = 0; i < a.info.warning_count; i++)
        assert_string_equal(a.info.warnings[i], b.info.warnings[i]);
    return a.status == 0;
}

static void test_fixtures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        int fd = open_fixture(trace_fixtures[i]);
        assert_true(compare(fd, 0));
        close(fd);
    }
}

/* Random memory events: a trace of many blocks, which do not compress. */
static void make_long(struct buf *out, size_t events)
{
    struct err e = {0};
    struct trace_write_stats stats;
    struct trace_writer *w;
    struct trace t;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    uint64_t seed = 5;
    uint32_t pool;
    assert_true(fd >= 0);
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(memory_pool(&t.memory, 0, &pool, &e), 0);
    for (size_t i = 0; i < events; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct rec_memory_event ev = {
            .ptr = seed, .size = seed >> 40, .time_alloc = (int64_t)i * 3, .time_free = -1};
        assert_int_equal(memory_append(&t.memory, pool, &ev, &e), 0);
    }
    assert_int_equal(trace_writer_open(&w, fd, NULL, &e), 0);
    const struct record_sink sink = trace_writer_sink(w);
    assert_int_equal(trace_save(&t, &sink, &e), 0);
    assert_int_equal(trace_writer_finish(w, &stats, &e), 0);
    trace_writer_free(w);
    trace_release(&t);
    read_file(fd, out);
    close(fd);
}

static bool compare_bytes(const struct buf *bytes, size_t len, uint64_t fail_at)
{
    int fd = memory_file(bytes->data, len);
    bool whole = compare(fd, fail_at);
    close(fd);
    return whole;
}

static void test_long_and_damaged(void **state)
{
    (void)state;
    struct buf bytes = {0};
    make_long(&bytes, 60000); /* 38 blocks: more than may wait */
    assert_true(compare_bytes(&bytes, bytes.len, 0));
    for (size_t i = 0; i < 40; i++)
        assert_false(compare_bytes(&bytes, bytes.len * i / 40, 0));
    /* A sink that fails while blocks wait, and while there is no room for more. */
    for (uint64_t fail_at = 1; fail_at < 60000; fail_at += 7001)
        assert_false(compare_bytes(&bytes, bytes.len, fail_at));
    for (size_t i = 100; i < bytes.len; i += bytes.len / 20) {
        bytes.data[i] ^= 0x55;
        compare_bytes(&bytes, bytes.len, 0);
        bytes.data[i] ^= 0x55;
    }
    buf_release(&bytes);
}

/* What stands behind the trace may be as damaged as it likes. */
static void test_trailing(void **state)
{
    (void)state;
    struct buf bytes = {0};
    int fd = open_fixture("fixtures/traces/v0.14.0/memscen_mt.tracy");
    read_file(fd, &bytes);
    close(fd);
    for (size_t n = 1; n < 100000; n = n * 5 + 1) {
        struct buf more = {0};
        buf_put(&more, bytes.data, bytes.len);
        for (size_t i = 0; i < n; i++)
            buf_put(&more, &(uint8_t){(uint8_t)(i * 7)}, 1);
        assert_true(!more.failed && compare_bytes(&more, more.len, 0));
        buf_release(&more);
    }
    buf_release(&bytes);
}

/* A pipe is read without a thread, which could not be stopped while it waits. */
static void test_pipe_that_stays_open(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "tr\xFDP\1\1\4\0\0\0abcd", 14), 14);
    struct taker taker = {0};
    struct trace_info info;
    struct err e = {0};
    const struct record_sink sink = {&taker, take};
    const struct trace_read_options options = {.ahead = true};
    assert_int_equal(trace_read(ends[0], "pipe", &sink, &options, &info, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_long_and_damaged),
        cmocka_unit_test(test_trailing),
        cmocka_unit_test(test_pipe_that_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
