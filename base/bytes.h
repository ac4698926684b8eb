#pragma once

/*
 * Little-endian scalars at unaligned addresses. Only these functions turn bytes into numbers. The
 * caller checks the bounds, usually with a cursor.
 */

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Tidemark runs on little-endian machines only: every Tracy client and file is little-endian"
#endif

#define BYTES_LOAD(NAME, TYPE)                                                                     \
    static inline TYPE NAME(const void *p)                                                         \
    {                                                                                              \
        TYPE v;                                                                                    \
        memcpy(&v, p, sizeof v);                                                                   \
        return v;                                                                                  \
    }
BYTES_LOAD(load_u16, uint16_t)
BYTES_LOAD(load_u32, uint32_t)
BYTES_LOAD(load_u64, uint64_t)
BYTES_LOAD(load_i32, int32_t)
BYTES_LOAD(load_i64, int64_t)
BYTES_LOAD(load_f32, float)
BYTES_LOAD(load_f64, double)
#undef BYTES_LOAD

static inline uint32_t load_u24(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)load_u16(b) | (uint32_t)b[2] << 16;
}

static inline uint64_t load_u48(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)load_u32(b) | (uint64_t)load_u16(b + 4) << 32;
}

/* Sign-extends the low 48 bits. */
static inline int64_t load_i48(const void *p)
{
    return (int64_t)(load_u48(p) << 16) >> 16;
}

#define BYTES_STORE(NAME, TYPE)                                                                    \
    static inline void NAME(void *p, TYPE v)                                                       \
    {                                                                                              \
        memcpy(p, &v, sizeof v);                                                                   \
    }
BYTES_STORE(store_u16, uint16_t)
BYTES_STORE(store_u32, uint32_t)
BYTES_STORE(store_u64, uint64_t)
BYTES_STORE(store_i32, int32_t)
BYTES_STORE(store_i64, int64_t)
BYTES_STORE(store_f32, float)
BYTES_STORE(store_f64, double)
#undef BYTES_STORE

static inline void store_u24(void *p, uint32_t v)
{
    uint8_t *b = p;
    store_u16(b, (uint16_t)v);
    b[2] = (uint8_t)(v >> 16);
}

static inline void store_u48(void *p, uint64_t v)
{
    uint8_t *b = p;
    store_u32(b, (uint32_t)v);
    store_u16(b + 4, (uint16_t)(v >> 32));
}
