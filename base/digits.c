#include "base/digits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DECIMALS 6
#define DECIMALS_SCALE 1000000u

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
                            "31323334353637383940414243444546474849505152535455565758596061"
                            "62636465666768697071727374757677787980818283848586878889909192"
                            "93949596979899";

/* The number of decimal digits, estimated from the highest bit: 1233 / 4096 is about log10(2). */
static unsigned length(uint64_t n)
{
    static const uint64_t powers[] = {0,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000,
                                      10000000000000000,
                                      100000000000000000,
                                      1000000000000000000,
                                      UINT64_C(10000000000000000000)};
    unsigned guess = (64 - (unsigned)__builtin_clzll(n | 1)) * 1233 >> 12;
    return guess + (n >= powers[guess]);
}

char *digits_u64(char *to, uint64_t n)
{
    char *end = to + length(n), *p = end;
    for (; n >= 100; n /= 100) {
        p -= 2;
        memcpy(p, pairs + 2 * (n % 100), 2);
    }
    if (n >= 10)
        memcpy(p - 2, pairs + 2 * n, 2);
    else
        p[-1] = (char)('0' + n);
    return end;
}

char *digits_i64(char *to, int64_t n)
{
    if (n < 0)
        *to++ = '-';
    return digits_u64(to, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

char *digits_hex(char *to, uint64_t n)
{
    char *end = to + (67 - (unsigned)__builtin_clzll(n | 1)) / 4;
    for (char *p = end; p > to; n >>= 4)
        *--p = "0123456789abcdef"[n & 15];
    return end;
}

/*
 * x in millionths as mantissa / 2^shift, rounded to nearest, ties to even, in integers only. False
 * when the result does not fit.
 */
static int in_millionths(double x, uint64_t *out)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 2047);
    uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int shift = 1075 - exponent;
    if (exponent == 0 || shift <= 0 || shift >= 127 || fabs(x) >= 9e12)
        return 0;
    unsigned __int128 scaled = (unsigned __int128)mantissa * DECIMALS_SCALE;
    unsigned __int128 one = 1;
    unsigned __int128 rest = scaled & ((one << shift) - 1), half = one << (shift - 1);
    uint64_t n = (uint64_t)(scaled >> shift);
    *out = n + (rest > half || (rest == half && (n & 1)));
    return 1;
}

char *digits_f64(char *to, double x)
{
    uint64_t n;
    if (fabs(x) < 9e15 && x == (double)(int64_t)x && (x != 0 || !signbit(x))) {
        to = digits_i64(to, (int64_t)x);
        memcpy(to, ".000000", DECIMALS + 1);
        return to + DECIMALS + 1;
    }
    if (!in_millionths(x, &n))
        return to + snprintf(to, DIGITS_ROOM, "%f", x);
    if (signbit(x))
        *to++ = '-';
    to = digits_u64(to, n / DECIMALS_SCALE);
    *to++ = '.';
    for (uint64_t rest = n % DECIMALS_SCALE, i = DECIMALS; i >= 2; i -= 2, rest /= 100)
        memcpy(to + i - 2, pairs + 2 * (rest % 100), 2);
    return to + DECIMALS;
}

/* ---- to buffers */

#define WHOLE_ROOM 20 /* for numbers without a fraction */

void digits_put_u64(struct buf *b, uint64_t n)
{
    char *p = (char *)buf_reserve(b, WHOLE_ROOM);
    if (p)
        b->len += (size_t)(digits_u64(p, n) - p);
}

void digits_put_i64(struct buf *b, int64_t n)
{
    char *p = (char *)buf_reserve(b, WHOLE_ROOM);
    if (p)
        b->len += (size_t)(digits_i64(p, n) - p);
}

void digits_put_address(struct buf *b, uint64_t n)
{
    buf_put(b, "0x", 2);
    char *p = (char *)buf_reserve(b, WHOLE_ROOM);
    if (p)
        b->len += (size_t)(digits_hex(p, n) - p);
}
