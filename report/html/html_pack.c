#include "report/html/html_pack.h"

#include <stdlib.h>
#include <zlib.h>

void pack_unsigned(struct buf *raw, uint64_t n)
{
    while (n >= 0x80) {
        buf_u8(raw, (uint8_t)(n | 0x80));
        n >>= 7;
    }
    buf_u8(raw, (uint8_t)n);
}

void pack_signed(struct buf *raw, int64_t n)
{
    uint64_t bits = (uint64_t)n;
    pack_unsigned(raw, n < 0 ? ~(bits << 1) : bits << 1);
}

static void put_base64(struct buf *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *to = buf_reserve(out, (n + 2) / 3 * 4);
    if (!to)
        return;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t bits = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                        (left > 2 ? p[i + 2] : 0u);
        *to++ = (uint8_t)digits[bits >> 18];
        *to++ = (uint8_t)digits[bits >> 12 & 63];
        *to++ = left > 1 ? (uint8_t)digits[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? (uint8_t)digits[bits & 63] : '=';
    }
    out->len += (n + 2) / 3 * 4;
}

int pack_text(const struct buf *raw, struct buf *out, struct err *e)
{
    uLongf len = compressBound(raw->len);
    uint8_t *packed = raw->failed ? NULL : malloc(len);
    if (!packed || compress2(packed, &len, raw->len ? raw->data : (const uint8_t *)"", raw->len,
                             Z_BEST_COMPRESSION) != Z_OK) {
        free(packed);
        return err_no_memory(e, "the page");
    }
    put_base64(out, packed, len);
    free(packed);
    return out->failed ? err_no_memory(e, "the page") : 0;
}
