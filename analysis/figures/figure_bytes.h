#pragma once

/* Figures as bytes: LEB128 numbers, negative ones as the two's complement of 64 bits. */

#include <stddef.h>
#include <stdint.h>

#include "analysis/figures/pool_account.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/cursor.h"

/* The fields of both, in the order of the bytes. */
#define POOL_FIELDS ((size_t)9)
#define COUNTER_FIELDS ((size_t)12)
_Static_assert(sizeof(struct pool_figures) == POOL_FIELDS * 8, "all fields have eight bytes");
_Static_assert(sizeof(struct counter) == COUNTER_FIELDS * 8, "all fields have eight bytes");

static inline void figures_put(struct buf *out, uint64_t n)
{
    uint8_t *p = buf_reserve(out, 10);
    size_t len = 0;
    if (!p)
        return;
    for (; n >= 0x80; n >>= 7)
        p[len++] = (uint8_t)(n | 0x80);
    p[len++] = (uint8_t)n;
    out->len += len;
}

static inline void figures_put_all(struct buf *out, const void *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        figures_put(out, load_u64((const uint8_t *)fields + i * 8));
}

/* A number that is truncated, or longer than 64 bits, counts as missing. */
static inline uint64_t figures_take(struct cursor *c)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (shift == 63 && byte > 1)
            break;
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return n;
    }
    c->short_read = true;
    return 0;
}

/* A number that is near 0 on either side, modulo 2^64. */
static inline void figures_put_signed(struct buf *out, uint64_t n)
{
    figures_put(out, n << 1 ^ (0 - (n >> 63)));
}

static inline uint64_t figures_take_signed(struct cursor *c)
{
    uint64_t n = figures_take(c);
    return n >> 1 ^ (0 - (n & 1));
}

static inline void figures_take_all(struct cursor *c, void *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_u64((uint8_t *)fields + i * 8, figures_take(c));
}
