/* Bytes of plain and compressed files. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "import/import.h"

#define TEXT_LEN ((size_t)300000)

static void make_text(struct buf *text)
{
    uint32_t x = 1;
    for (size_t i = 0; i < TEXT_LEN; i++) {
        x = x * 1664525 + 1013904223;
        buf_u8(text, (uint8_t)('a' + (x >> 28)));
    }
}

static void gzip(struct buf *to, const void *bytes, size_t n)
{
    z_stream z = {0};
    size_t room = n + n / 8 + 256;
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (void *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = buf_reserve(to, room);
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    to->len += room - z.avail_out;
    deflateEnd(&z);
}

static void zstd(struct buf *to, const void *bytes, size_t n)
{
    size_t room = ZSTD_compressBound(n);
    size_t len = ZSTD_compress(buf_reserve(to, room), room, bytes, n, 3);
    assert_false(ZSTD_isError(len));
    to->len += len;
}

static struct view view_of_buf(const struct buf *b)
{
    return (struct view){(const char *)b->data, b->len};
}

/* All of the text, or the error that reading it ends with. */
static int read_all(struct view file, struct buf *text, struct err *e)
{
    struct import_source s;
    struct view bytes;
    int status = import_source_memory(&s, file, e);
    while (status == 0 && (status = import_source_next(&s, &bytes, e)) == 0 && bytes.len)
        buf_put(text, bytes.p, bytes.len);
    import_source_close(&s);
    return status;
}

static void expect_text(const struct buf *file, const struct buf *want)
{
    struct buf text = {0};
    struct err e = {0};
    assert_int_equal(read_all(view_of_buf(file), &text, &e), 0);
    assert_int_equal(text.len, want->len);
    assert_memory_equal(text.data, want->data, want->len);
    buf_release(&text);
}

static void test_plain_and_compressed(void **state)
{
    (void)state;
    struct buf text = {0}, file = {0};
    make_text(&text);
    expect_text(&text, &text);
    gzip(&file, text.data, text.len);
    assert_true(file.len < text.len);
    expect_text(&file, &text);
    buf_clear(&file);
    zstd(&file, text.data, text.len);
    assert_true(file.len < text.len);
    expect_text(&file, &text);
    buf_release(&text);
    buf_release(&file);
}

static void test_several_members_are_one_text(void **state)
{
    (void)state;
    struct buf text = {0}, file = {0};
    make_text(&text);
    gzip(&file, text.data, 1000);
    gzip(&file, text.data + 1000, 0);
    gzip(&file, text.data + 1000, text.len - 1000);
    for (int i = 0; i < 512; i++)
        buf_u8(&file, 0);
    expect_text(&file, &text);
    buf_clear(&file);
    zstd(&file, text.data, 70000);
    zstd(&file, text.data + 70000, text.len - 70000);
    expect_text(&file, &text);
    buf_release(&text);
    buf_release(&file);
}

/* Wherever it is cut, it must not pass for a whole file. */
static void expect_cut_off(const struct buf *file)
{
    for (size_t len = 4; len < file->len; len += 1 + len / 50) {
        struct buf text = {0};
        struct err e = {0};
        assert_int_equal(read_all((struct view){(const char *)file->data, len}, &text, &e), -1);
        assert_int_equal(e.code, ERR_INPUT);
        assert_non_null(strstr(e.text, "cut off"));
        buf_release(&text);
    }
}

static void test_cut_off_files(void **state)
{
    (void)state;
    struct buf text = {0}, file = {0};
    make_text(&text);
    gzip(&file, text.data, 5000);
    expect_cut_off(&file);
    buf_clear(&file);
    zstd(&file, text.data, 5000);
    expect_cut_off(&file);
    buf_release(&text);
    buf_release(&file);
}

static void test_damage_is_told(void **state)
{
    (void)state;
    struct buf text = {0}, file = {0}, out = {0};
    struct err e = {0};
    make_text(&text);
    gzip(&file, text.data, text.len);
    file.data[file.len - 6] ^= 1; /* its checksum */
    assert_int_equal(read_all(view_of_buf(&file), &out, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    assert_non_null(strstr(e.text, "cannot be decompressed"));
    buf_release(&text);
    buf_release(&file);
    buf_release(&out);
}

static void test_formats_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(import_detect(view_of("\xef\xbb\xbf\r\n [")), IMPORT_CHROME);
    assert_int_equal(import_detect(view_of("{\"traceEvents\"")), IMPORT_CHROME);
    assert_int_equal(import_detect(view_of("v 10500 3\n")), IMPORT_HEAPTRACK);
    assert_int_equal(import_detect(view_of("v 10000\n")), IMPORT_HEAPTRACK);
    assert_int_equal(import_detect(view_of("v x")), IMPORT_UNKNOWN);
    assert_int_equal(import_detect(view_of("v 105")), IMPORT_UNKNOWN);
    assert_int_equal(import_detect(view_of("")), IMPORT_UNKNOWN);
    for (enum import_note n = 0; n < NOTE_COUNT; n++)
        assert_non_null(import_note_text(n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_and_compressed),
        cmocka_unit_test(test_several_members_are_one_text),
        cmocka_unit_test(test_cut_off_files),
        cmocka_unit_test(test_damage_is_told),
        cmocka_unit_test(test_formats_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
