#include "report/export/parquet_rle.h"

#include "base/bytes.h"
#include "report/export/thrift_read.h"

#define GROUP ((size_t)8) /* values; bit-packing works on whole groups */

static void put_varint(struct buf *out, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        buf_u8(out, (uint8_t)(n | 0x80));
    buf_u8(out, (uint8_t)n);
}

static void put_run(struct buf *out, uint32_t value, size_t n, unsigned width)
{
    put_varint(out, (uint64_t)n << 1);
    for (unsigned i = 0; i < width; i += 8)
        buf_u8(out, (uint8_t)(value >> i));
}

/* Packs the lowest bit first; the last group is padded with 0. */
static void put_packed(struct buf *out, const uint32_t *values, size_t n, unsigned width)
{
    size_t groups = (n + GROUP - 1) / GROUP;
    uint64_t bits = 0;
    unsigned held = 0;
    put_varint(out, (uint64_t)groups << 1 | 1);
    for (size_t i = 0; i < groups * GROUP; i++) {
        bits |= (uint64_t)(i < n ? values[i] : 0) << held;
        held += width;
        if (held >= 32) {
            buf_u32(out, (uint32_t)bits);
            bits >>= 32;
            held -= 32;
        }
    }
    for (; held; held -= 8, bits >>= 8) /* whole groups are whole bytes */
        buf_u8(out, (uint8_t)bits);
}

void parquet_rle(struct buf *out, const uint32_t *values, size_t n, unsigned width)
{
    size_t begin = 0; /* start of the unwritten values */
    size_t at = 0;
    while (at < n) {
        size_t end = at + 1;
        while (end < n && values[end] == values[at])
            end++;
        /*
         * Packed values before a run must form whole groups, so they take missing values from the
         * run.
         */
        size_t lack = (GROUP - (at - begin) % GROUP) % GROUP;
        if (end - at >= lack + 2 * GROUP) {
            if (begin < at + lack)
                put_packed(out, values + begin, at + lack - begin, width);
            put_run(out, values[at], end - at - lack, width);
            begin = end;
        }
        at = end;
    }
    if (begin < n)
        put_packed(out, values + begin, n - begin, width);
}

/* ---- reading */

static bool read_run(struct cursor *c, uint32_t *values, size_t n, unsigned width)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < width; i += 8)
        value |= (uint32_t)cursor_u8(c) << i;
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    return !c->short_read;
}

/* The last group is padded, so fewer values than it has may be wanted. */
static bool read_packed(struct cursor *c, uint32_t *values, size_t n, unsigned width)
{
    const uint8_t *p = cursor_take(c, (n + GROUP - 1) / GROUP * width);
    uint64_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; p && i < n; i++) {
        for (; held < width; held += 8)
            bits |= (uint64_t)*p++ << held;
        values[i] = (uint32_t)(bits & ((UINT64_C(1) << width) - 1));
        bits >>= width;
        held -= width;
    }
    return p != NULL;
}

bool parquet_rle_read(struct cursor *c, uint32_t *values, size_t n, unsigned width)
{
    for (size_t at = 0; at < n;) {
        uint64_t head = thrift_read_varint(c);
        uint64_t count = head >> 1;
        size_t left = n - at;
        bool packed = head & 1;
        if (packed ? count > (left + GROUP - 1) / GROUP : count > left)
            return false;
        size_t some = packed && count * GROUP < left ? (size_t)count * GROUP
                      : packed                       ? left
                                                     : (size_t)count;
        if (some == 0 || !(packed ? read_packed : read_run)(c, values + at, some, width))
            return false;
        at += some;
    }
    return true;
}
