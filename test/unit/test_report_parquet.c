/* The encodings of Parquet files, read back byte by byte; whole files are read in test/e2e. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "report/export/parquet_rle.h"
#include "report/export/thrift_read.h"

/* ---- runs and packed bits */

struct reader {
    const uint8_t *p, *end;
};

static uint64_t take_varint(struct reader *r)
{
    uint64_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(r->p < r->end);
        uint8_t byte = *r->p++;
        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return n;
    }
}

static size_t read_run(struct reader *r, uint64_t n, unsigned width, uint32_t *out, size_t room)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < (width + 7) / 8; i++) {
        assert_true(r->p < r->end);
        value |= (uint32_t)*r->p++ << 8 * i;
    }
    assert_true(n > 0 && n <= room);
    for (uint64_t i = 0; i < n; i++)
        out[i] = value;
    return (size_t)n;
}

static size_t read_packed(struct reader *r, uint64_t groups, unsigned width, uint32_t *out,
                          size_t room)
{
    size_t n = (size_t)groups * 8 < room ? (size_t)groups * 8 : room;
    assert_true(groups > 0 && (uint64_t)(r->end - r->p) >= groups * width);
    assert_true(groups * 8 - n < 8); /* only the last group may be filled up */
    for (size_t i = 0; i < (size_t)groups * 8; i++) {
        uint32_t value = 0;
        for (unsigned b = 0; b < width; b++) {
            size_t bit = i * width + b;
            value |= (uint32_t)(r->p[bit / 8] >> bit % 8 & 1) << b;
        }
        if (i < n)
            out[i] = value;
        else
            assert_int_equal(value, 0);
    }
    r->p += groups * width;
    return n;
}

static void check_values(const uint32_t *values, size_t n, unsigned width, size_t most)
{
    struct buf b = {0};
    uint32_t *got = malloc((n + 1) * sizeof *got);
    assert_non_null(got);
    parquet_rle(&b, values, n, width);
    assert_false(b.failed);
    struct reader r = {b.data, b.data + b.len};
    for (size_t at = 0; at < n;) {
        uint64_t head = take_varint(&r);
        at += head & 1 ? read_packed(&r, head >> 1, width, got + at, n - at)
                       : read_run(&r, head >> 1, width, got + at, n - at);
    }
    assert_ptr_equal(r.p, r.end);
    if (n > 0)
        assert_memory_equal(got, values, n * sizeof *got);
    assert_true(b.len <= most);
    struct cursor c = cursor_over(b.data, b.len);
    memset(got, 0xff, n * sizeof *got);
    assert_true(parquet_rle_read(&c, got, n, width));
    assert_int_equal(cursor_left(&c), 0);
    if (n > 0)
        assert_memory_equal(got, values, n * sizeof *got);
    /* One less is not all of it, and cut off it is none. */
    for (size_t len = 0; len < b.len && n < 100; len++) {
        c = cursor_over(b.data, len);
        assert_false(parquet_rle_read(&c, got, n, width));
    }
    free(got);
    buf_release(&b);
}

static void test_examples(void **state)
{
    (void)state;
    /* The example of Encodings.md: 0 to 7 in three bits. */
    static const uint32_t count[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint8_t packed[] = {1 << 1 | 1, 0x88, 0xc6, 0xfa};
    static const uint8_t run[] = {0xc8, 0x01, 5}; /* 100 times 5 */
    uint32_t fives[100];
    struct buf b = {0};
    parquet_rle(&b, count, 8, 3);
    assert_int_equal(b.len, sizeof packed);
    assert_memory_equal(b.data, packed, sizeof packed);
    buf_clear(&b);
    for (size_t i = 0; i < 100; i++)
        fives[i] = 5;
    parquet_rle(&b, fives, 100, 3);
    assert_int_equal(b.len, sizeof run);
    assert_memory_equal(b.data, run, sizeof run);
    buf_clear(&b);
    parquet_rle(&b, NULL, 0, 1);
    assert_int_equal(b.len, 0);
    buf_release(&b);
}

static uint64_t seed = 1;

static uint32_t rnd(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 33) % below);
}

static void test_random_values(void **state)
{
    (void)state;
    static uint32_t values[5000];
    for (unsigned round = 0; round < 400; round++) {
        unsigned width = 1 + rnd(round % 2 ? 32 : 4);
        size_t n = rnd(round % 5 ? 200 : 5000);
        uint32_t longest = 1 + rnd(60);
        for (size_t i = 0; i < n;) {
            uint32_t value = (uint32_t)((uint64_t)rnd(1u << 30) * 4 + rnd(4));
            value = width < 32 ? value & ((1u << width) - 1) : value;
            for (uint32_t times = 1 + rnd(longest); times > 0 && i < n; times--)
                values[i++] = value;
        }
        check_values(values, n, width, 16 + (n + 8) * width / 8 + n / 8);
    }
}

/* Long runs are what the format is for. */
static void test_long_runs_are_short(void **state)
{
    (void)state;
    static uint32_t values[100000];
    for (size_t i = 0; i < 100000; i++)
        values[i] = i / 1000 & 1;
    check_values(values, 100000, 1, 100 * 8);
}

/* ---- Thrift */

static void expect_bytes(struct buf *b, const uint8_t *want, size_t n)
{
    assert_false(b->failed);
    assert_int_equal(b->len, n);
    assert_memory_equal(b->data, want, n);
    buf_clear(b);
}

static void test_thrift(void **state)
{
    (void)state;
    struct buf b = {0};
    struct thrift t = thrift_begin(&b);
    thrift_i32(&t, 1, -1);           /* zigzag 1 */
    thrift_i64(&t, 3, INT64_C(150)); /* a step of 2; zigzag 300 */
    thrift_bool(&t, 4, true);        /* the value is in the type */
    thrift_bool(&t, 5, false);
    thrift_i8(&t, 6, 64);
    thrift_i32(&t, 22, 1); /* a step of more than 15: the number itself */
    thrift_end(&t);
    static const uint8_t numbers[] = {0x15, 1, 0x26, 0xac, 2, 0x11, 0x12, 0x13, 64, 5, 44, 2, 0};
    expect_bytes(&b, numbers, sizeof numbers);

    t = thrift_begin(&b);
    thrift_binary(&t, 2, view_of("ab"));
    thrift_struct(&t, 3);
    thrift_i32(&t, 1, 1); /* numbers begin anew inside */
    thrift_end(&t);
    thrift_i32(&t, 4, 1); /* and go on outside */
    thrift_end(&t);
    static const uint8_t nested[] = {0x28, 2, 'a', 'b', 0x1c, 0x15, 2, 0, 0x15, 2, 0};
    expect_bytes(&b, nested, sizeof nested);

    t = thrift_begin(&b);
    thrift_list(&t, 1, THRIFT_I32, 2);
    thrift_element_i32(&t, 1);
    thrift_element_i32(&t, -2);
    thrift_list(&t, 2, THRIFT_STRUCT, 15); /* 15 and more stand behind */
    for (int i = 0; i < 15; i++) {
        thrift_element_struct(&t);
        thrift_end(&t);
    }
    thrift_end(&t);
    static const uint8_t lists[] = {0x19, 0x25, 2, 3, 0x19, 0xfc, 15, 0, 0, 0, 0, 0,
                                    0,    0,    0, 0, 0,    0,    0,  0, 0, 0, 0};
    expect_bytes(&b, lists, sizeof lists);
    buf_release(&b);
}

/* A struct of all that can be skipped, around two numbers; cut off anywhere it is damaged. */
static void test_thrift_read(void **state)
{
    (void)state;
    struct buf b = {0};
    struct thrift t = thrift_begin(&b);
    thrift_i32(&t, 1, -7);
    thrift_list(&t, 2, THRIFT_STRUCT, 2);
    for (int i = 0; i < 2; i++) {
        thrift_element_struct(&t);
        thrift_list(&t, 1, THRIFT_BINARY, 2);
        thrift_element_binary(&t, view_of("a"));
        thrift_element_binary(&t, view_of(""));
        thrift_struct(&t, 2);
        thrift_bool(&t, 1, true);
        thrift_i8(&t, 2, 5);
        thrift_end(&t);
        thrift_end(&t);
    }
    thrift_list(&t, 3, THRIFT_I32, 0);
    thrift_i64(&t, 40, INT64_MIN);
    thrift_end(&t);
    assert_false(b.failed);
    for (size_t len = 0; len <= b.len; len++) {
        struct cursor c = cursor_over(b.data, len);
        struct thrift_field f = {0};
        int64_t first = 0, last = 0;
        while (thrift_read_field(&c, &f)) {
            if (f.number == 1)
                first = thrift_read_integer(&c, &f);
            else if (f.number == 40)
                last = thrift_read_integer(&c, &f);
            else
                thrift_skip(&c, &f);
        }
        assert_int_equal(c.short_read, len < b.len);
        if (len == b.len) {
            assert_int_equal(first, -7);
            assert_true(last == INT64_MIN);
            assert_int_equal(cursor_left(&c), 0);
        }
    }
    buf_release(&b);
    /* Structs in structs without end, a field twice, a list longer than the bytes, a type of none.
     */
    static const uint8_t deep[] = {0x1c, 0x1c, 0x1c, 0x1c, 0x1c, 0x1c,
                                   0x1c, 0x1c, 0x1c, 0x1c, 0x1c};
    static const uint8_t twice[] = {0x15, 2, 0x05, 2, 2, 0};
    static const uint8_t longer[] = {0x19, 0xf5, 0xff, 0xff, 3, 0, 0};
    static const uint8_t none[] = {0x1d, 0, 0};
    static const struct view bad[] = {{(const char *)deep, sizeof deep},
                                      {(const char *)twice, sizeof twice},
                                      {(const char *)longer, sizeof longer},
                                      {(const char *)none, sizeof none}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cursor c = cursor_over(bad[i].p, bad[i].len);
        struct thrift_field f = {0};
        while (thrift_read_field(&c, &f))
            thrift_skip(&c, &f);
        assert_true(c.short_read);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_random_values),
        cmocka_unit_test(test_long_runs_are_short),
        cmocka_unit_test(test_thrift),
        cmocka_unit_test(test_thrift_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
