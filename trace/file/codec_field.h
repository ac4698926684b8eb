#pragma once

/*
 * The fields of records, for codec.c. Each function takes the direction as a constant and moves one
 * field, so it compiles to a load, a store or an addition.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "trace/file/record.h"
#include "trace/file/stream.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Room for the fixed parts of a record of varying size: more than 255 inline frames of 18 bytes. */
#define VARYING_ROOM 8192u

/* READ: the bytes are known to be there. TRY checks for them. SIZE only counts. */
enum dir { READ, TRY, WRITE, SIZE };

struct xfer {
    uint8_t *p;             /* next byte to read or write */
    const uint8_t *end;     /* TRY: end of the available bytes */
    size_t size;            /* SIZE: bytes so far */
    uint64_t lacking;       /* TRY: bytes missing after `end` when reading stopped */
    bool out_of_range;      /* see struct codec */
    struct out_stream *out; /* WRITE of records of varying size */
};

ALWAYS_INLINE bool is_read(enum dir d)
{
    return d == READ || d == TRY;
}

/* TRY: whether `n` more bytes are available; after the first failure always false. */
ALWAYS_INLINE bool x_has(struct xfer *x, uint64_t n)
{
    uint64_t left = (uint64_t)(x->end - x->p);
    if (x->lacking == 0 && n <= left)
        return true;
    if (x->lacking == 0)
        x->lacking = n - left;
    return false;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): TYPE is a type */
#define X_FIELD(NAME, TYPE, BYTES, LOAD, STORE)                                                    \
    ALWAYS_INLINE void NAME(struct xfer *x, enum dir d, TYPE *v)                                   \
    {                                                                                              \
        if (d == SIZE) {                                                                           \
            x->size += (BYTES);                                                                    \
            return;                                                                                \
        }                                                                                          \
        if (d == TRY && !x_has(x, (BYTES))) {                                                      \
            *v = 0;                                                                                \
            return;                                                                                \
        }                                                                                          \
        if (is_read(d))                                                                            \
            *v = (TYPE)LOAD(x->p);                                                                 \
        else                                                                                       \
            STORE(x->p, *v);                                                                       \
        x->p += (BYTES);                                                                           \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

ALWAYS_INLINE uint8_t load_u8(const uint8_t *p)
{
    return *p;
}

ALWAYS_INLINE void store_u8(uint8_t *p, uint8_t v)
{
    *p = v;
}

ALWAYS_INLINE void store_i8(uint8_t *p, int8_t v)
{
    *p = (uint8_t)v;
}

ALWAYS_INLINE void store_i16(uint8_t *p, int16_t v)
{
    store_u16(p, (uint16_t)v);
}

X_FIELD(x_u8, uint8_t, 1, load_u8, store_u8)
X_FIELD(x_i8, int8_t, 1, load_u8, store_i8)
X_FIELD(x_u16, uint16_t, 2, load_u16, store_u16)
X_FIELD(x_i16, int16_t, 2, load_u16, store_i16)
X_FIELD(x_u24_raw, uint32_t, 3, load_u24, store_u24)
X_FIELD(x_u32, uint32_t, 4, load_u32, store_u32)
X_FIELD(x_i32, int32_t, 4, load_i32, store_i32)
X_FIELD(x_i48_raw, int64_t, 6, load_i48, store_u48)
X_FIELD(x_u64, uint64_t, 8, load_u64, store_u64)
X_FIELD(x_i64, int64_t, 8, load_i64, store_i64)
X_FIELD(x_f32, float, 4, load_f32, store_f32)
X_FIELD(x_f64, double, 8, load_f64, store_f64)

/* 24 unsigned bits: call stacks, string indices, colours. */
ALWAYS_INLINE void x_u24(struct xfer *x, enum dir d, uint32_t *v)
{
    if (d == WRITE)
        x->out_of_range |= *v >> 24 != 0;
    x_u24_raw(x, d, v);
}

ALWAYS_INLINE void check_time(struct xfer *x, uint64_t t)
{
    x->out_of_range |= (t + (UINT64_C(1) << 47)) >> 48 != 0;
}

/* An absolute time. */
ALWAYS_INLINE void x_time(struct xfer *x, enum dir d, int64_t *t)
{
    x_i64(x, d, t);
    if (d != SIZE)
        check_time(x, (uint64_t)*t);
}

ALWAYS_INLINE void x_time48(struct xfer *x, enum dir d, int64_t *t)
{
    if (d == WRITE)
        check_time(x, (uint64_t)*t);
    x_i48_raw(x, d, t);
}

/* A time as its difference from `ref`, which is updated. Wraps; hostile sums are rejected later. */
ALWAYS_INLINE void x_difference(struct xfer *x, enum dir d, uint64_t *ref, int64_t *t)
{
    uint64_t delta = d == WRITE ? (uint64_t)*t - *ref : 0;
    x_u64(x, d, &delta);
    if (d == SIZE)
        return;
    *ref += delta;
    if (is_read(d))
        *t = (int64_t)*ref;
    check_time(x, *ref);
}

/* `len` bytes that the record refers to in place; written after the fields before them. */
ALWAYS_INLINE void x_bytes(struct xfer *x, enum dir d, uint64_t len, struct view *v)
{
    if (d == TRY) {
        bool there = x_has(x, len);
        *v = (struct view){there ? (const char *)x->p : NULL, there ? (size_t)len : 0};
        x->p += v->len;
    } else if (d == WRITE) {
        out_stream_commit(x->out, x->p);
        out_stream_put(x->out, v->p, v->len);
        x->p = out_stream_reserve(x->out, VARYING_ROOM);
    }
}

ALWAYS_INLINE void x_text64(struct xfer *x, enum dir d, struct view *v)
{
    uint64_t len = v->len;
    x_u64(x, d, &len);
    x_bytes(x, d, len, v);
}

ALWAYS_INLINE void x_text32(struct xfer *x, enum dir d, struct view *v)
{
    uint32_t len = (uint32_t)v->len;
    if (d == WRITE)
        x->out_of_range |= v->len > UINT32_MAX;
    x_u32(x, d, &len);
    x_bytes(x, d, len, v);
}

ALWAYS_INLINE void x_string_ref(struct xfer *x, enum dir d, struct rec_string_ref *r)
{
    x_u64(x, d, &r->value);
    x_u8(x, d, &r->flags);
}
