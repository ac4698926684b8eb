#pragma once

/*
 * A bounds-checked reader over bytes in memory. A read past the end yields zeroes and sets the
 * sticky `short_read` flag, so a decoder may read a whole structure and check once. All bytes from
 * a client or a file are read through a cursor.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct cursor {
    const uint8_t *start;
    const uint8_t *pos;
    const uint8_t *end;
    bool short_read; /* a read exceeded the remaining bytes */
};

static inline struct cursor cursor_over(const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    return (struct cursor){.start = p, .pos = p, .end = p + len};
}

static inline size_t cursor_left(const struct cursor *c)
{
    return (size_t)(c->end - c->pos);
}

/* Bytes from the start of the range to the read position. */
static inline size_t cursor_offset(const struct cursor *c)
{
    return (size_t)(c->pos - c->start);
}

/* A view of the next `n` bytes, or NULL (flag set, nothing consumed) when fewer are left. */
static inline const uint8_t *cursor_take(struct cursor *c, size_t n)
{
    if (cursor_left(c) < n) {
        c->short_read = true;
        return NULL;
    }
    const uint8_t *p = c->pos;
    c->pos += n;
    return p;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
    const uint8_t *p = cursor_take(c, 1);
    return p ? *p : 0;
}

#define CURSOR_READ(NAME, TYPE, LOAD)                                                              \
    static inline TYPE NAME(struct cursor *c)                                                      \
    {                                                                                              \
        const uint8_t *p = cursor_take(c, sizeof(TYPE));                                           \
        return p ? LOAD(p) : 0;                                                                    \
    }
CURSOR_READ(cursor_u16, uint16_t, load_u16)
CURSOR_READ(cursor_u32, uint32_t, load_u32)
CURSOR_READ(cursor_u64, uint64_t, load_u64)
CURSOR_READ(cursor_i32, int32_t, load_i32)
CURSOR_READ(cursor_i64, int64_t, load_i64)
CURSOR_READ(cursor_f32, float, load_f32)
CURSOR_READ(cursor_f64, double, load_f64)
#undef CURSOR_READ
