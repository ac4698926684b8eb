/* The outer container: round trips, damage of every kind, memory bounds. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <lz4.h>
#include <zstd.h>

#include "base/bytes.h"
#include "trace/file/container.h"
#include "trace_test.h"

enum { RANDOM, REPETITIVE, MIXED, DATA_KINDS };

static void fill(uint8_t *out, size_t len, unsigned kind, uint64_t seed)
{
    uint64_t x = seed * 2654435761u + 88172645463325252u;
    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bool noise = kind == RANDOM || (kind == MIXED && i % 42 < 6);
        out[i] = noise ? (uint8_t)(x >> 24) : (uint8_t)(i % 42);
    }
}

/* Writes `len` bytes as a container to a file in memory; returns it. */
static int pack(const uint8_t *bytes, size_t len, const struct container_options *options)
{
    struct container_writer *w;
    struct err e = {0};
    int fd = memory_file("", 0);
    if (container_writer_open(&w, fd, options, &e) != 0)
        fail_msg("%s", e.text);
    struct block_sink sink = container_writer_sink(w);
    for (size_t done = 0; done < len; done += BLOCK_SIZE) {
        size_t part = len - done < BLOCK_SIZE ? len - done : BLOCK_SIZE;
        assert_int_equal(sink.put(sink.ctx, bytes + done, part, &e), 0);
    }
    assert_int_equal(container_writer_finish(w, &e), 0);
    assert_int_equal(container_writer_bytes(w), lseek(fd, 0, SEEK_END));
    container_writer_free(w);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void round_trip(const uint8_t *bytes, size_t len, const struct container_options *options)
{
    struct err e = {0};
    struct buf got = {0};
    int fd = pack(bytes, len, options);
    if (unpack(fd, &got, &e) != 0)
        fail_msg("method %d level %d streams %u old %d, %zu bytes: %s", options->method,
                 options->level, options->streams, options->old_magic, len, e.text);
    assert_int_equal(got.len, len);
    if (len > 0)
        assert_memory_equal(got.data, bytes, len);
    buf_release(&got);
    close(fd);
}

static const struct container_options all_options[] = {
    {METHOD_LZ4, 0, 1, false},
    {METHOD_LZ4, 0, 3, false},
    {METHOD_LZ4, 0, 9, true},
    {METHOD_LZ4_HC, 0, 1, true},
    {METHOD_LZ4_HC, 0, 4, false},
    {METHOD_LZ4_EXTREME, 0, 2, false},
    {METHOD_LZ4_EXTREME, 0, 1, true},
    {METHOD_ZSTD, 1, 4, false},
    {METHOD_ZSTD, 1, 1, true},
    {METHOD_ZSTD, 3, 255, false},
    {METHOD_ZSTD, -5, 7, false},
    {METHOD_ZSTD, 19, 1, false},
    {METHOD_ZSTD, CONTAINER_LEVEL_OWN, 1, false},
    {METHOD_ZSTD, CONTAINER_LEVEL_OWN, 3, false},
    {METHOD_ZSTD, CONTAINER_LEVEL_OWN_FAST, 2, false},
};

#define OPTIONS (sizeof all_options / sizeof all_options[0])

static void test_round_trips(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 65535, 65536, 65537, 131072, 300000};
    uint8_t *bytes = malloc(300000);
    assert_non_null(bytes);
    for (unsigned kind = 0; kind < DATA_KINDS; kind++) {
        fill(bytes, 300000, kind, kind + 1);
        for (size_t o = 0; o < OPTIONS; o++) {
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                round_trip(bytes, sizes[i], &all_options[o]);
        }
    }
    free(bytes);
}

/* Enough blocks for the writer's buffer of 1 MiB to be written out several times. */
static void test_many_blocks(void **state)
{
    (void)state;
    size_t len = 97 * (size_t)BLOCK_SIZE + 12345;
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    fill(bytes, len, RANDOM, 5);
    for (size_t o = 0; o < OPTIONS; o++) {
        if (all_options[o].method != METHOD_LZ4_EXTREME && all_options[o].level != 19)
            round_trip(bytes, len, &all_options[o]);
    }
    free(bytes);
}

static void test_magics(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPTIONS; o++) {
        const struct container_options *option = &all_options[o];
        struct buf file = {0};
        struct container_reader *r;
        struct err e = {0};
        bool zstd = option->method == METHOD_ZSTD;
        int fd = pack((const uint8_t *)"x", 1, option);
        read_file(fd, &file);
        if (option->old_magic) {
            assert_memory_equal(file.data, zstd ? "tZst" : "tlZ\4", 4);
        } else {
            assert_memory_equal(file.data, "tr\xFDP", 4);
            assert_int_equal(file.data[4], zstd);
            assert_int_equal(file.data[5], option->streams);
        }
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(container_reader_open(&r, fd, NULL, &e), 0);
        const struct container_info *info = container_reader_info(r);
        assert_int_equal(info->codec, zstd ? CODEC_ZSTD : CODEC_LZ4);
        assert_int_equal(info->streams, option->old_magic ? 1 : option->streams);
        assert_int_equal(info->kind, !option->old_magic ? CONTAINER_STREAMS
                                     : zstd             ? CONTAINER_ZSTD
                                                        : CONTAINER_LZ4);
        container_reader_free(r);
        buf_release(&file);
        close(fd);
    }
}

static uint64_t packed_size(const uint8_t *bytes, size_t len, const struct container_options *o)
{
    int fd = pack(bytes, len, o);
    off_t size = lseek(fd, 0, SEEK_END);
    close(fd);
    return (uint64_t)size;
}

/* Users compare sizes of what we write and of what official tools write. */
static void test_the_default_is_the_official_one(void **state)
{
    (void)state;
    static const struct container_options official[] = {{METHOD_ZSTD, 3, 4, false},
                                                        {METHOD_LZ4, 0, 1, true}};
    const size_t len = 300000;
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    for (unsigned kind = 0; kind < DATA_KINDS; kind++) {
        fill(bytes, len, kind, kind + 1);
        for (size_t i = 0; i < sizeof official / sizeof official[0]; i++) {
            struct container_options o = container_options_default();
            struct container_reader *r;
            struct err e = {0};
            o.old_magic = official[i].old_magic;
            assert_int_equal(packed_size(bytes, len, &o), packed_size(bytes, len, &official[i]));
            int fd = pack(bytes, len, &o);
            assert_int_equal(container_reader_open(&r, fd, NULL, &e), 0);
            assert_int_equal(container_reader_info(r)->codec, o.old_magic ? CODEC_LZ4 : CODEC_ZSTD);
            assert_int_equal(container_reader_info(r)->streams, official[i].streams);
            container_reader_free(r);
            close(fd);
        }
    }
    free(bytes);
}

/* ---- damage */

static void expect_error(const void *bytes, size_t len, const char *text)
{
    struct err e = {0};
    struct buf got = {0};
    int fd = memory_file(bytes, len);
    if (unpack(fd, &got, &e) == 0)
        fail_msg("accepted; \"%s\" expected", text);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, text))
        fail_msg("\"%s\", not \"%s\"", e.text, text);
    buf_release(&got);
    close(fd);
}

static void test_headers(void **state)
{
    (void)state;
    expect_error("", 0, "only 0 bytes long");
    expect_error("tr\xFD", 3, "only 3 bytes long");
    expect_error("tr\xFDP", 4, "inside the container header");
    expect_error("tr\xFDP\1", 5, "inside the container header");
    expect_error("tr\xFDP\2\1", 6, "unknown compression 2");
    expect_error("tr\xFDP\xff\1", 6, "unknown compression 255");
    expect_error("tr\xFDP\1\0", 6, "no compression streams");
    expect_error("\x7f"
                 "ELF\2\1",
                 6, "it begins with 7f 45 4c 46");
    for (unsigned i = 0; i < 4; i++) {
        char magic[] = "tr\xFDP\1\1";
        magic[i] ^= 0x20;
        expect_error(magic, 6, "no Tracy trace");
    }
}

static void test_block_sizes(void **state)
{
    (void)state;
    expect_error("tlZ\4\0\0\0\0....", 12, "block 0 (file offset 4, 0 bytes): impossible");
    expect_error("tlZ\4\x21\x01\x01\0....", 12, "65825 bytes): impossible block size");
    expect_error("tlZ\4\xff\xff\xff\xff....", 12, "impossible block size");
    expect_error("tlZ\4\x05\0\0\0....", 12, "ends inside this block");
    expect_error("tlZ\4\x05\0", 6, "inside the size of block 0");
    expect_error("tlZ\4\1\0\0\0\0", 9, "it holds nothing");
    expect_error("tZst\4\0\0\0....", 12, "block 0 (file offset 4, 4 bytes): ");
    /* a frame header alone decompresses to nothing */
    expect_error("tZst\6\0\0\0\x28\xb5\x2f\xfd\0\x58", 14, "it holds nothing");
}

/* Blocks as the sink takes them, whatever their length. */
static void pack_blocks(struct buf *out, const struct container_options *options,
                        const uint8_t *bytes, const size_t *sizes, size_t n)
{
    struct container_writer *w;
    struct err e = {0};
    int fd = memory_file("", 0);
    assert_int_equal(container_writer_open(&w, fd, options, &e), 0);
    struct block_sink sink = container_writer_sink(w);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sink.put(sink.ctx, bytes, sizes[i], &e), 0);
    assert_int_equal(container_writer_finish(w, &e), 0);
    container_writer_free(w);
    read_file(fd, out);
    close(fd);
}

static void test_only_the_last_block_may_be_short(void **state)
{
    (void)state;
    static const size_t sizes[] = {BLOCK_SIZE, 65535, BLOCK_SIZE};
    uint8_t *bytes = malloc(BLOCK_SIZE);
    assert_non_null(bytes);
    fill(bytes, BLOCK_SIZE, MIXED, 3);
    for (size_t o = 0; o < OPTIONS; o++) {
        struct buf file = {0};
        pack_blocks(&file, &all_options[o], bytes, sizes, 3);
        expect_error(file.data, file.len, "block 1 ends the stream early: it holds 65535 bytes");
        buf_release(&file);
    }
    free(bytes);
}

static void test_blocks_longer_than_64_kib(void **state)
{
    (void)state;
    uint8_t *bytes = calloc(1, 70000);
    uint8_t *file = malloc(80000);
    assert_non_null(bytes);
    assert_non_null(file);
    memcpy(file, "tlZ\4", 4);
    int n = LZ4_compress_default((char *)bytes, (char *)file + 8, BLOCK_SIZE + 1, 70000);
    store_u32(file + 4, (uint32_t)n);
    expect_error(file, 8 + (size_t)n, "more than 65536 bytes");
    memcpy(file, "tZst", 4);
    size_t m = ZSTD_compress(file + 8, 70000, bytes, BLOCK_SIZE + 1, 1);
    assert_false(ZSTD_isError(m));
    store_u32(file + 4, (uint32_t)m);
    expect_error(file, 8 + m, "it holds more than 65536 bytes");
    free(bytes);
    free(file);
}

/* Both are what other writers may produce: nothing refers back. */
static void test_blocks_of_their_own(void **state)
{
    (void)state;
    struct buf file = {0}, got = {0};
    struct err e = {0};
    uint8_t *bytes = malloc(BLOCK_SIZE);
    assert_non_null(bytes);
    fill(bytes, BLOCK_SIZE, MIXED, 9);
    for (unsigned zstd = 0; zstd < 2; zstd++) {
        file.len = got.len = 0;
        buf_puts(&file, zstd ? "tr\xFDP\1\2" : "tlZ\4");
        for (unsigned i = 0; i < 5; i++) {
            uint8_t *p = buf_reserve(&file, 70000);
            assert_non_null(p);
            size_t n = zstd ? ZSTD_compress(p + 4, 69996, bytes, BLOCK_SIZE, 1)
                            : (size_t)LZ4_compress_default((char *)bytes, (char *)p + 4, BLOCK_SIZE,
                                                           69996);
            store_u32(p, (uint32_t)n);
            file.len += 4 + n;
        }
        int fd = memory_file(file.data, file.len);
        if (unpack(fd, &got, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(got.len, 5 * BLOCK_SIZE);
        for (unsigned i = 0; i < 5; i++)
            assert_memory_equal(got.data + (size_t)i * BLOCK_SIZE, bytes, BLOCK_SIZE);
        close(fd);
    }
    free(bytes);
    buf_release(&file);
    buf_release(&got);
}

/* A cut between two blocks leaves a shorter stream; any other one is an error. */
static void test_truncation(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(200000);
    assert_non_null(bytes);
    fill(bytes, 200000, REPETITIVE, 1);
    for (size_t o = 0; o < OPTIONS; o++) {
        struct buf file = {0};
        int fd = pack(bytes, 200000, &all_options[o]);
        read_file(fd, &file);
        close(fd);
        for (size_t cut = 0; cut < file.len; cut += cut < 30 ? 1 : 11) {
            struct buf got = {0};
            struct err e = {0};
            fd = memory_file(file.data, cut);
            if (unpack(fd, &got, &e) == 0)
                assert_int_equal(got.len % BLOCK_SIZE, 0);
            else
                assert_int_equal(e.code, ERR_INPUT);
            assert_true(got.len < 200000);
            if (got.len > 0)
                assert_memory_equal(got.data, bytes, got.len);
            buf_release(&got);
            close(fd);
        }
        buf_release(&file);
    }
    free(bytes);
}

/* Without a checksum a flipped bit may go unseen, but it never does harm. */
static void test_flipped_bits(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(70000);
    assert_non_null(bytes);
    fill(bytes, 70000, MIXED, 1);
    for (size_t o = 0; o < OPTIONS; o++) {
        struct buf file = {0};
        int fd = pack(bytes, 70000, &all_options[o]);
        read_file(fd, &file);
        close(fd);
        for (size_t i = 0; i < file.len; i += i < 64 ? 1 : 97) {
            struct buf got = {0};
            struct err e = {0};
            file.data[i] ^= (uint8_t)(1u << i % 8);
            fd = memory_file(file.data, file.len);
            if (unpack(fd, &got, &e) != 0)
                assert_int_equal(e.code, ERR_INPUT);
            assert_true(got.len <= 70000 + 2 * BLOCK_SIZE);
            buf_release(&got);
            close(fd);
            file.data[i] ^= (uint8_t)(1u << i % 8);
        }
        buf_release(&file);
    }
    free(bytes);
}

/* ---- memory */

/* A block of one zstd frame with that window and one literal byte. */
static void put_window_block(struct buf *file, unsigned window_log)
{
    const uint8_t block[] = {14,   0,    0,    0,    0x28,
                             0xb5, 0x2f, 0xfd, 0x00, (uint8_t)((window_log - 10) << 3), /* header */
                             0x02, 0x00, 0x00, 'x', /* RLE block, set to 65536 bytes below */
                             0x00, 0x00, 0x00, 0x00};
    buf_put(file, block, sizeof block);
    uint8_t *p = file->data + file->len - sizeof block;
    uint32_t rle = 1u << 1 | 65536u << 3;
    memcpy(p + 10, &rle, 3);
    p[13] = 'x';
    store_u32(p, 10);
    file->len -= 4;
}

static void test_windows(void **state)
{
    (void)state;
    struct buf file = {0}, got = {0};
    struct err e = {0};
    buf_puts(&file, "tZst");
    put_window_block(&file, 27);
    int fd = memory_file(file.data, file.len);
    if (unpack(fd, &got, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(got.len, BLOCK_SIZE);
    close(fd);
    file.len = 4;
    put_window_block(&file, 28);
    expect_error(file.data, file.len, "too much memory");
    buf_release(&file);
    buf_release(&got);
}

static void test_all_windows_together(void **state)
{
    (void)state;
    struct buf file = {0};
    struct err e = {0};
    struct container_reader *r;
    const struct container_limits limits = {.decoder_bytes = (uint64_t)40 << 20};
    uint8_t *block = malloc(SOURCE_ROOM);
    assert_non_null(block);
    buf_puts(&file, "tr\xFDP\1\xff");
    for (unsigned i = 0; i < 255; i++)
        put_window_block(&file, 23);
    int fd = memory_file(file.data, file.len);
    assert_int_equal(container_reader_open(&r, fd, &limits, &e), 0);
    struct byte_source source = container_reader_source(r);
    unsigned blocks = 0;
    while (source.read(source.ctx, block, SOURCE_ROOM, &e) > 0)
        blocks++;
    /* Each fills half a MiB of tables and its first block of the window. */
    assert_int_equal(blocks, (40 << 20) / ((512 << 10) + 65536));
    assert_non_null(strstr(e.text, "too much memory together"));
    container_reader_free(r);
    close(fd);
    free(block);
    buf_release(&file);
}

/* ---- the end of the file */

static void test_trailing_bytes_are_counted(void **state)
{
    (void)state;
    const struct container_options options = container_options_default();
    struct buf file = {0};
    struct err e = {0};
    struct container_reader *r;
    struct container_tail tail;
    uint8_t *block = malloc(SOURCE_ROOM);
    assert_non_null(block);
    int fd = pack((const uint8_t *)"hello", 5, &options);
    read_file(fd, &file);
    close(fd);
    buf_put(&file, "\0\0\0\0junk", 8);
    fd = memory_file(file.data, file.len);
    assert_int_equal(container_reader_open(&r, fd, NULL, &e), 0);
    struct byte_source source = container_reader_source(r);
    assert_int_equal(source.read(source.ctx, block, SOURCE_ROOM, &e), 5);
    const struct container_mark end = container_reader_mark(r);
    assert_int_equal(container_reader_tail(r, &end, &tail, &e), 0);
    assert_int_equal(tail.kind, TAIL_OTHER);
    assert_int_equal(tail.bytes, 8);
    assert_int_equal(tail.offset, file.len - 8);
    assert_int_equal(container_reader_info(r)->file_bytes, file.len);
    /* whoever reads on instead gets an error */
    container_reader_free(r);
    expect_error(file.data, file.len, "ends the stream early");
    close(fd);
    free(block);
    buf_release(&file);
}

/*
 * Old readers read four bytes past an only block or a full last one: such files must not end on a
 * page boundary. Without the care taken some of these sizes would.
 */
static void test_old_files_do_not_end_on_a_page(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(BLOCK_SIZE);
    assert_non_null(bytes);
    unsigned new_ends = 0;
    for (unsigned kind = RANDOM; kind <= MIXED; kind += MIXED - RANDOM) {
        fill(bytes, BLOCK_SIZE, kind, 8);
        size_t first = kind == RANDOM ? 3900 : 26000;
        for (size_t len = first; len < first + 400; len++) {
            const struct container_options old_one = {METHOD_LZ4, 0, 1, true};
            const struct container_options old_zstd = {METHOD_ZSTD, -50, 1, true};
            const struct container_options new_one = {METHOD_LZ4, 0, 1, false};
            for (unsigned i = 0; i < 3; i++) {
                int fd = pack(bytes, len, i == 0 ? &old_one : i == 1 ? &old_zstd : &new_one);
                bool on_page = lseek(fd, 0, SEEK_END) % 4096 == 0;
                close(fd);
                assert_false(i < 2 && on_page);
                new_ends += on_page;
            }
        }
    }
    assert_true(new_ends > 0);
    free(bytes);
}

/* The three ways round it, each on a file that is known to need it. */
static void test_avoiding_a_page_end_keeps_the_data(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(BLOCK_SIZE);
    assert_non_null(bytes);
    for (unsigned kind = RANDOM; kind <= MIXED; kind += MIXED - RANDOM) {
        fill(bytes, BLOCK_SIZE, kind, 8);
        for (size_t len = 3900; len < 4100; len++) {
            const struct container_options lz4 = {METHOD_LZ4, 0, 1, true};
            const struct container_options zstd = {METHOD_ZSTD, 1, 1, true};
            struct buf got = {0};
            struct err e = {0};
            for (unsigned i = 0; i < 2; i++) {
                got.len = 0;
                int fd = pack(bytes, len, i ? &zstd : &lz4);
                struct container_reader *r;
                uint8_t *block = malloc(SOURCE_ROOM);
                assert_non_null(block);
                assert_int_equal(container_reader_open(&r, fd, NULL, &e), 0);
                struct byte_source source = container_reader_source(r);
                assert_int_equal(source.read(source.ctx, block, SOURCE_ROOM, &e), len);
                assert_memory_equal(block, bytes, len);
                free(block);
                container_reader_free(r);
                close(fd);
            }
            buf_release(&got);
        }
    }
    free(bytes);
}

/* ---- errors of the system and the caller */

static void test_a_full_disk(void **state)
{
    (void)state;
    const struct container_options options = container_options_default();
    struct container_writer *w;
    struct err e = {0};
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(container_writer_open(&w, fd, &options, &e), 0);
    assert_int_equal(container_writer_finish(w, &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_string_equal(e.text, "cannot write at offset 0: No space left on device");
    container_writer_free(w);
    close(fd);
}

static void test_an_unreadable_file(void **state)
{
    (void)state;
    struct container_reader *r;
    struct err e = {0};
    int fd = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(container_reader_open(&r, fd, NULL, &e), -1);
    assert_null(r);
    assert_int_equal(e.code, ERR_INPUT);
    assert_non_null(strstr(e.text, "Is a directory"));
    close(fd);
}

static void test_options_out_of_range(void **state)
{
    (void)state;
    static const struct container_options bad[] = {{METHOD_ZSTD, 1, 256, false},
                                                   {METHOD_ZSTD, 23, 1, false},
                                                   {METHOD_ZSTD, -200000, 1, false}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct container_writer *w;
        struct err e = {0};
        assert_int_equal(container_writer_open(&w, -1, &bad[i], &e), -1);
        assert_int_equal(e.code, ERR_USAGE);
        assert_null(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_many_blocks),
        cmocka_unit_test(test_magics),
        cmocka_unit_test(test_the_default_is_the_official_one),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_block_sizes),
        cmocka_unit_test(test_only_the_last_block_may_be_short),
        cmocka_unit_test(test_blocks_longer_than_64_kib),
        cmocka_unit_test(test_blocks_of_their_own),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_all_windows_together),
        cmocka_unit_test(test_trailing_bytes_are_counted),
        cmocka_unit_test(test_old_files_do_not_end_on_a_page),
        cmocka_unit_test(test_avoiding_a_page_end_keeps_the_data),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_an_unreadable_file),
        cmocka_unit_test(test_options_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
