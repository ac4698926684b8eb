/* The writer refuses what would make a broken file, and reports what the system refuses. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "trace_sample.h"
#include "trace_test.h"

/* Leaves out, doubles or swaps one record of a made-up trace. */
struct meddler {
    const struct record_sink *next;
    uint64_t at; /* which record */
    enum { LEAVE_OUT, DOUBLE, STOP } how;
    uint64_t n;
    enum record_type type; /* of that record */
};

static int meddle(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct meddler *m = ctx;
    if (m->n++ != m->at)
        return record_put(m->next, type, recs, n, e);
    m->type = type;
    if (m->how == LEAVE_OUT)
        return 0;
    if (m->how == STOP)
        return err_set(e, ERR_CHECK, "stopped");
    return record_put(m->next, type, recs, n, e) != 0 ? -1 : record_put(m->next, type, recs, n, e);
}

/* 0 when the writer took it all. */
static int write_meddled(const struct file_layout *layout, struct meddler *m, struct err *e)
{
    static struct sample sample;
    struct buf inner = {0};
    struct block_sink blocks = {.ctx = &inner, .put = put_block_to_buf};
    struct trace_writer *w;
    sample_init(&sample, layout, 4);
    assert_int_equal(trace_writer_open_inner(&w, layout, blocks, e), 0);
    struct record_sink to_writer = trace_writer_sink(w), to_meddler = {m, meddle};
    m->next = &to_writer;
    m->n = 0;
    int status = sample_trace(&sample, &to_meddler, e);
    if (status == 0 || e->code == ERR_CHECK)
        status = trace_writer_finish(w, NULL, e);
    trace_writer_free(w);
    buf_release(&inner);
    return status;
}

static void test_every_record_has_its_place(void **state)
{
    (void)state;
    const struct file_layout *layout = file_layout_find(FILE_VERSION_MAX);
    struct err e = {0};
    struct meddler none = {.at = UINT64_MAX};
    assert_int_equal(write_meddled(layout, &none, &e), 0);
    for (uint64_t at = 0; at < none.n; at += 1 + at / 40) {
        for (unsigned how = LEAVE_OUT; how <= STOP; how++) {
            struct meddler m = {.at = at, .how = how};
            e = (struct err){0};
            if (write_meddled(layout, &m, &e) == 0)
                fail_msg("record %llu, a %s, way %u: accepted", (unsigned long long)at,
                         record_name(m.type), how);
            assert_int_equal(e.code, ERR_OUTPUT);
            if (strncmp(e.text, "internal error: ", 16) != 0)
                fail_msg("%s", e.text);
        }
    }
}

static int put_one(struct trace_writer *w, enum record_type type, const void *rec, struct err *e)
{
    struct record_sink sink = trace_writer_sink(w);
    return record_put(&sink, type, rec, 1, e);
}

static void test_nothing_at_all(void **state)
{
    (void)state;
    struct trace_writer *w;
    struct err e = {0};
    struct rec_count none = {0};
    assert_int_equal(trace_writer_open(&w, -1, NULL, &e), 0);
    assert_int_equal(put_one(w, REC_PACKAGES, &none, &e), -1);
    assert_int_equal(trace_writer_finish(w, NULL, &e), -1);
    assert_string_equal(e.text, "internal error: the trace ends where header should come");
    trace_writer_free(w);
    trace_writer_free(NULL);
}

static void test_header_texts(void **state)
{
    (void)state;
    static char text[1024];
    memset(text, 'x', sizeof text);
    for (size_t len = 1023; len <= 1024; len++) {
        struct trace_writer *w;
        struct buf inner = {0};
        struct err e = {0};
        struct block_sink blocks = {.ctx = &inner, .put = put_block_to_buf};
        struct rec_header header = {.version = FILE_VERSION_MIN, .host_info = {text, len}};
        assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, &e), 0);
        assert_int_equal(put_one(w, REC_HEADER, &header, &e), len == 1024 ? -1 : 0);
        trace_writer_free(w);
        buf_release(&inner);
    }
}

static void test_unknown_version(void **state)
{
    (void)state;
    struct trace_writer *w;
    struct err e = {0};
    struct rec_header header = {.version = FILE_VERSION(0, 10, 1)};
    assert_int_equal(trace_writer_open(&w, 1, NULL, &e), 0);
    assert_int_equal(put_one(w, REC_HEADER, &header, &e), -1);
    assert_non_null(strstr(e.text, "unknown file version 0xa01"));
    trace_writer_free(w);
}

static int limited(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    const struct record_sink *next = ctx;
    struct rec_count count = {32768};
    return record_put(next, type, type == REC_SOURCE_LOCATIONS ? &count : recs, n, e);
}

/* Releases from 0.11 on refuse such files. */
static void test_too_many_source_locations(void **state)
{
    (void)state;
    static struct sample sample;
    struct buf inner = {0};
    struct err e = {0};
    struct trace_writer *w;
    struct block_sink blocks = {.ctx = &inner, .put = put_block_to_buf};
    const struct file_layout *layout = file_layout_find(FILE_VERSION(0, 12, 2));
    sample_init(&sample, layout, 4);
    assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
    struct record_sink to_writer = trace_writer_sink(w), to_limited = {&to_writer, limited};
    assert_int_equal(sample_trace(&sample, &to_limited, &e), -1);
    assert_string_equal(e.text,
                        "32768 source locations: a file of version 0.12.2 holds at most 32767");
    trace_writer_free(w);
    buf_release(&inner);
}

/* The container follows the layout: old magics before 0.11.0, with one stream. */
static void test_containers(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        for (unsigned method = METHOD_LZ4; method <= METHOD_ZSTD; method++) {
            static struct sample sample;
            struct trace_writer_options options = trace_writer_options_default();
            struct trace_writer *w;
            struct trace_info info;
            struct err e = {0};
            struct record_sink nowhere = {NULL, put_nowhere};
            int fd = memory_file("", 0);
            options.container.method = method;
            options.container.streams = 5;
            sample_init(&sample, &all[i], 2);
            assert_int_equal(trace_writer_open(&w, fd, &options, &e), 0);
            struct record_sink sink = trace_writer_sink(w);
            assert_int_equal(sample_trace(&sample, &sink, &e), 0);
            assert_int_equal(trace_writer_finish(w, NULL, &e), 0);
            trace_writer_free(w);
            assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
            assert_int_equal(trace_read(fd, "x", &nowhere, NULL, &info, &e), 0);
            assert_int_equal(info.version, all[i].version);
            bool old_one = all[i].version < FILE_VERSION(0, 11, 0);
            assert_int_equal(info.container.streams, old_one ? 1 : 5);
            assert_int_equal(info.container.kind, !old_one                ? CONTAINER_STREAMS
                                                  : method == METHOD_ZSTD ? CONTAINER_ZSTD
                                                                          : CONTAINER_LZ4);
            assert_int_equal(info.container.codec, method == METHOD_ZSTD ? CODEC_ZSTD : CODEC_LZ4);
            close(fd);
        }
    }
}

/* A disk that is full shows when the first megabyte is written, or at the end. */
static void test_a_full_disk(void **state)
{
    (void)state;
    struct trace_info info;
    struct err e = {0};
    struct trace_writer *w;
    int in = open_fixture("fixtures/traces/v0.14.0/memscen.tracy");
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    assert_int_equal(trace_writer_open(&w, full, NULL, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    assert_int_equal(trace_read(in, "x", &sink, NULL, &info, &e), 0);
    assert_int_equal(trace_writer_finish(w, NULL, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_non_null(strstr(e.text, "No space left on device"));
    trace_writer_free(w);
    close(in);
    close(full);
}

static int refuse_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)ctx, (void)block, (void)len;
    return err_set(e, ERR_OUTPUT, "no room");
}

/* An error in the middle stops the stream there, not at its end. */
static void test_an_error_sticks(void **state)
{
    (void)state;
    struct trace_info info;
    struct err e = {0};
    struct trace_writer *w;
    struct block_sink refuses = {.put = refuse_block};
    int in = open_fixture("fixtures/traces/v0.14.0/memscen.tracy");
    assert_int_equal(trace_writer_open_inner(&w, NULL, refuses, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    assert_int_equal(trace_read(in, "x", &sink, NULL, &info, &e), -1);
    assert_string_equal(e.text, "no room");
    trace_writer_free(w);
    close(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_record_has_its_place),
        cmocka_unit_test(test_nothing_at_all),
        cmocka_unit_test(test_header_texts),
        cmocka_unit_test(test_unknown_version),
        cmocka_unit_test(test_too_many_source_locations),
        cmocka_unit_test(test_containers),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_an_error_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
