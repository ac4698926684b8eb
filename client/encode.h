#pragma once

/*
 * Encodes numbers of records (recording_format.h) into memory that has room for them: at most 10
 * bytes each.
 */

#include <stdint.h>
#include <string.h>

static inline uint8_t *encode_number(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static inline uint64_t encode_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

/* A number in a varint of three bytes, whatever its value: for lengths known later. */
static inline void encode_length(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value | 0x80);
    at[1] = (uint8_t)(value >> 7 | 0x80);
    at[2] = (uint8_t)(value >> 14 & 0x7f);
}

/* A length and `length` bytes; the caller has checked the room. */
static inline uint8_t *encode_text(uint8_t *at, const void *text, size_t length)
{
    at = encode_number(at, length);
    memcpy(at, text, length);
    return at + length;
}
