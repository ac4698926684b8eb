/* Frame reassembly: any cut of the bytes gives the same frames; broken streams give clear errors.
 */

#include "protocol_support.h"

#include <lz4.h>

#include "base/bytes.h"

/* Bytes that compress somewhat and refer far back. */
static void fill(uint8_t *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        p[i] = seed >> 28 < 12 && i >= 4000 ? p[i - 4000] : (uint8_t)(seed >> 20 & 15);
    }
}

/* A stream of frames of the given sizes, and what they hold. */
static void make_stream(const size_t *sizes, size_t n, struct buf *stream, struct buf *content)
{
    const struct wire_version *v = wire_version_find(82);
    struct encoder *enc = encoder_new(v);
    struct err e = {0};
    assert_non_null(enc);
    for (size_t i = 0; i < n; i++) {
        uint8_t *p = malloc(sizes[i]);
        assert_non_null(p);
        fill(p, sizes[i], (uint32_t)i);
        buf_put(content, p, sizes[i]);
        assert_int_equal(encoder_append(enc, p, sizes[i], &e), 0);
        assert_int_equal(encoder_commit(enc, &e), 0);
        free(p);
    }
    buf_put(stream, encoder_output(enc)->data, encoder_output(enc)->len);
    encoder_free(enc);
    assert_false(stream->failed || content->failed);
}

/* Feeds the stream in pieces and compares every byte that comes out. Returns the frames. */
static unsigned feed(const struct buf *stream, const struct buf *content, size_t first, size_t rest)
{
    struct frame_reader *r = frame_reader_new();
    struct wire_frame frame;
    struct err e = {0};
    size_t done = 0;
    unsigned frames = 0;
    assert_non_null(r);
    for (size_t at = 0; at < stream->len;) {
        size_t n = at == 0 ? first : rest;
        if (n > stream->len - at)
            n = stream->len - at;
        uint8_t *copy = malloc(n ? n : 1); /* so that a read past the piece shows */
        assert_non_null(copy);
        memcpy(copy, stream->data + at, n);
        const uint8_t *p = copy;
        size_t left = n;
        int rc;
        while ((rc = frame_reader_feed(r, &p, &left, &frame, &e)) == 1) {
            assert_true(frame.len >= 1 && done + frame.len <= content->len);
            assert_memory_equal(frame.bytes, content->data + done, frame.len);
            done += frame.len;
            frames++;
        }
        if (rc < 0)
            fail_msg("%s", e.text);
        assert_int_equal(left, 0);
        free(copy);
        at += n;
        assert_int_equal(frame_reader_stats(r)->bytes_in, at);
    }
    assert_int_equal(done, content->len);
    assert_int_equal(frame_reader_partial(r), 0);
    assert_int_equal(frame_reader_stats(r)->frames, frames);
    assert_int_equal(frame_reader_stats(r)->bytes_out, content->len);
    frame_reader_free(r);
    return frames;
}

static void test_large_frames(void **state)
{
    (void)state;
    static const size_t sizes[] = {262144, 1,      262144, 262144, 70000, 65536, 65535,
                                   3,      262144, 5,      200000, 1,     1,     262144};
    struct buf stream = {0}, content = {0};
    make_stream(sizes, sizeof sizes / sizeof *sizes, &stream, &content);
    size_t pieces[] = {SIZE_MAX, 1, 3, 4096, 65536, 263193};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        assert_int_equal(feed(&stream, &content, pieces[i], pieces[i]),
                         sizeof sizes / sizeof *sizes);
    buf_release(&stream);
    buf_release(&content);
}

/* Many small frames, so that the window wanders through the output buffer often. */
static void test_small_frames(void **state)
{
    (void)state;
    static size_t sizes[3000];
    uint32_t seed = 7;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        seed = seed * 1664525 + 1013904223;
        sizes[i] = 1 + (seed >> 16) % 900;
    }
    struct buf stream = {0}, content = {0};
    make_stream(sizes, sizeof sizes / sizeof *sizes, &stream, &content);
    assert_true(content.len > 1000000);
    feed(&stream, &content, SIZE_MAX, SIZE_MAX);
    feed(&stream, &content, 1, 1);
    feed(&stream, &content, 777, 777);
    buf_release(&stream);
    buf_release(&content);
}

static void test_every_split(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 40, 600, 2, 300};
    struct buf stream = {0}, content = {0};
    make_stream(sizes, sizeof sizes / sizeof *sizes, &stream, &content);
    for (size_t split = 1; split <= stream.len; split++)
        feed(&stream, &content, split, SIZE_MAX);
    buf_release(&stream);
    buf_release(&content);
}

/* Every prefix: exactly the frames that are whole, the rest is "incomplete", never an error. */
static void test_every_prefix(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 40, 600, 2};
    struct buf stream = {0}, content = {0};
    make_stream(sizes, sizeof sizes / sizeof *sizes, &stream, &content);
    for (size_t cut = 0; cut <= stream.len; cut++) {
        struct frame_reader *r = frame_reader_new();
        struct wire_frame frame;
        struct err e = {0};
        const uint8_t *p = stream.data;
        size_t left = cut, whole = 0;
        while (whole + 4 <= cut && whole + 4 + load_u32(stream.data + whole) <= cut)
            whole += 4 + load_u32(stream.data + whole);
        while (frame_reader_feed(r, &p, &left, &frame, &e) == 1)
            continue;
        assert_int_equal(e.code, ERR_NONE);
        assert_int_equal(frame_reader_partial(r), cut - whole);
        frame_reader_free(r);
    }
    buf_release(&stream);
    buf_release(&content);
}

static void expect_broken(const void *bytes, size_t len, const char *cause)
{
    struct frame_reader *r = frame_reader_new();
    struct wire_frame frame;
    struct err e = {0};
    const uint8_t *p = bytes;
    assert_int_equal(frame_reader_feed(r, &p, &len, &frame, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    assert_non_null(strstr(e.text, "frame 1, offset "));
    if (!strstr(e.text, cause))
        fail_msg("\"%s\" does not say \"%s\"", e.text, cause);
    /* and it stays broken */
    const uint8_t good[] = {1, 0, 0, 0, 0x10, 'x'};
    p = good;
    len = sizeof good;
    assert_int_equal(frame_reader_feed(r, &p, &len, &frame, &e), -1);
    frame_reader_free(r);
}

static void test_broken_lengths(void **state)
{
    (void)state;
    expect_broken("\0\0\0\0", 4, "the length of a compressed block is 0, not 1 to 263188");
    expect_broken("\x15\x04\x04\0", 4, "the length of a compressed block is 263189");
    expect_broken("\xff\xff\xff\xff", 4, "the length of a compressed block is 4294967295");
}

static void test_garbage_blocks(void **state)
{
    (void)state;
    expect_broken("\x03\0\0\0\x10xy", 7, "damaged");          /* literal, then half a match */
    expect_broken("\x05\0\0\0\x14x\xff\xff\0", 9, "damaged"); /* refers before the beginning */
    expect_broken("\x01\0\0\0\0", 5, "damaged");              /* decompresses to nothing */
    /* one byte more than a frame may have */
    static char big[FRAME_SIZE_MAX + 1];
    static uint8_t packed[4 + FRAME_COMPRESSED_MAX];
    int n = LZ4_compress_default(big, (char *)packed + 4, sizeof big, FRAME_COMPRESSED_MAX);
    assert_true(n > 0);
    store_u32(packed, (uint32_t)n);
    expect_broken(packed, 4 + (size_t)n, "decompresses to more than 262144 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_frames),   cmocka_unit_test(test_small_frames),
        cmocka_unit_test(test_every_split),    cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_broken_lengths), cmocka_unit_test(test_garbage_blocks),
    };
    return cmocka_run_group_tests_name("protocol frames", tests, NULL, NULL);
}
