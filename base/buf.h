#pragma once

/*
 * A growable byte buffer, also used as a string builder. A failed allocation sets the sticky
 * `failed` flag and drops the bytes being appended; the owner checks the flag once at the end.
 * Zero-initialise to get an empty buffer.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/view.h"

struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    bool failed;
};

void buf_release(struct buf *b);

/* Releases a buffer after its contents were used. Sets *failed if they are incomplete. */
static inline void buf_end(struct buf *b, bool *failed)
{
    *failed |= b->failed;
    buf_release(b);
}

static inline void buf_clear(struct buf *b)
{
    b->len = 0;
}

/* The contents as text. Never NULL; valid until the buffer changes. */
static inline struct view buf_view(const struct buf *b)
{
    return (struct view){b->data ? (const char *)b->data : "", b->len};
}

/* Reserves `n` more bytes. Returns where to write them, or NULL (flag set). Does not change len. */
uint8_t *buf_reserve(struct buf *b, size_t n);

void buf_put(struct buf *b, const void *bytes, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* The contents with a terminating NUL that len does not count; "" when an allocation failed. */
const char *buf_str(struct buf *b);

#define BUF_PUT(NAME, TYPE, STORE)                                                                 \
    static inline void NAME(struct buf *b, TYPE v)                                                 \
    {                                                                                              \
        bool fits = b->data && b->cap - b->len >= sizeof v;                                        \
        uint8_t *p = fits ? b->data + b->len : buf_reserve(b, sizeof v);                           \
        if (p) {                                                                                   \
            STORE(p, v);                                                                           \
            b->len += sizeof v;                                                                    \
        }                                                                                          \
    }
#define STORE_U8(P, V) (*(P) = (V))
BUF_PUT(buf_u8, uint8_t, STORE_U8)
BUF_PUT(buf_u16, uint16_t, store_u16)
BUF_PUT(buf_u32, uint32_t, store_u32)
BUF_PUT(buf_u64, uint64_t, store_u64)
BUF_PUT(buf_i64, int64_t, store_i64)
BUF_PUT(buf_f32, float, store_f32)
BUF_PUT(buf_f64, double, store_f64)
#undef BUF_PUT
#undef STORE_U8
