#include "base/pack.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

#define RUN 256u
/* Per field and run: the smallest or first value (8 bytes), and the number of bits (1 byte). */
#define RUN_HEAD 9u
/* The bit writer and reader access whole words: they touch this many bytes after the last bit. */
#define SLACK 16u

size_t pack_bound(const struct pack_layout *l, size_t n)
{
    size_t runs = (n + RUN - 1) / RUN;
    return runs * l->count * (RUN_HEAD + RUN * 8) + SLACK;
}

static inline uint64_t field_mask(const struct pack_field *f)
{
    return f->bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * f->bytes) - 1;
}

static void gather(const struct pack_layout *l, const struct pack_field *f, const uint8_t *from,
                   size_t n, uint64_t *values)
{
    uint64_t mask = field_mask(f);
    /* Reads of eight bytes are allowed only where eight bytes remain. */
    size_t all = n * l->element, reach = f->offset + 8u;
    size_t wide = all < reach ? 0 : (all - reach) / l->element + 1;
    for (size_t i = 0; i < wide; i++)
        values[i] = load_u64(from + i * l->element + f->offset) & mask;
    for (size_t i = wide; i < n; i++) {
        values[i] = 0;
        memcpy(&values[i], from + i * l->element + f->offset, f->bytes);
    }
}

static void scatter(const struct pack_layout *l, const struct pack_field *f, uint8_t *to, size_t n,
                    const uint64_t *values)
{
    switch (f->bytes) {
    case 8:
        for (size_t i = 0; i < n; i++)
            store_u64(to + i * l->element + f->offset, values[i]);
        return;
    case 4:
        for (size_t i = 0; i < n; i++)
            store_u32(to + i * l->element + f->offset, (uint32_t)values[i]);
        return;
    case 6:
        for (size_t i = 0; i < n; i++)
            store_u48(to + i * l->element + f->offset, values[i]);
        return;
    case 2:
        for (size_t i = 0; i < n; i++)
            store_u16(to + i * l->element + f->offset, (uint16_t)values[i]);
        return;
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * l->element + f->offset, &values[i], f->bytes);
    }
}

static inline uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static inline uint64_t unzigzag(uint64_t z)
{
    return z >> 1 ^ (0 - (z & 1));
}

/* How a run's field is stored: each value minus `base`, in `bits` bits. */
struct reduced {
    uint64_t head; /* the value that decoding starts from */
    uint64_t base;
    unsigned bits;
};

static inline unsigned bits_of(uint64_t value)
{
    return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/*
 * Finds the range of even and odd elements separately: a single chain of comparisons would stall.
 */
static struct reduced reduce_offsets(const uint64_t *values, size_t n)
{
    uint64_t least = values[0], most = values[0];
    uint64_t odd_least = values[n - 1], odd_most = values[n - 1];
    for (size_t i = 0; i + 1 < n; i += 2) {
        uint64_t even = values[i], odd = values[i + 1];
        least = even < least ? even : least;
        most = even > most ? even : most;
        odd_least = odd < odd_least ? odd : odd_least;
        odd_most = odd > odd_most ? odd : odd_most;
    }
    least = odd_least < least ? odd_least : least;
    most = odd_most > most ? odd_most : most;
    return (struct reduced){least, least, bits_of(most - least)};
}

/* Replaces values by the differences between neighbours, and the first by 0. */
static struct reduced reduce_steps(uint64_t *values, size_t n)
{
    uint64_t first = values[0], before = first, all = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t value = values[i];
        values[i] = zigzag(value - before);
        all |= values[i];
        before = value;
    }
    return (struct reduced){first, 0, bits_of(all)};
}

static void restore_steps(uint64_t first, uint64_t mask, uint64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = first = (first + unzigzag(values[i])) & mask;
}

/*
 * The end of a bit stream: `used` bits of the byte at `at` are in `word`. Every store writes 8
 * bytes, which avoids an unpredictable branch on whether a word is full.
 */
struct bit_end {
    uint8_t *at;
    uint64_t word;
    unsigned used; /* below 8 */
};

/* Appends up to 56 bits; higher bits of `value` must be 0. */
static inline void put_bits(struct bit_end *end, uint64_t value, unsigned bits)
{
    uint64_t word = end->word | value << end->used;
    unsigned used = end->used + bits;
    store_u64(end->at, word);
    end->at += used / 8;
    end->word = word >> (used & ~7u);
    end->used = used & 7;
}

/* Writes n reduced values; zeroes the rest of the last byte. */
static uint8_t *write_bits(uint8_t *out, const uint64_t *values, size_t n, struct reduced r)
{
    struct bit_end end = {.at = out};
    size_t i = 0;
    if (r.bits == 0)
        return out;
    if (r.bits <= 28) {
        for (; i + 1 < n; i += 2)
            put_bits(&end, (values[i] - r.base) | (values[i + 1] - r.base) << r.bits, 2 * r.bits);
    }
    for (; i < n && r.bits <= 56; i++)
        put_bits(&end, values[i] - r.base, r.bits);
    for (; i < n; i++) {
        put_bits(&end, (uint32_t)(values[i] - r.base), 32);
        put_bits(&end, (values[i] - r.base) >> 32, r.bits - 32);
    }
    *end.at = (uint8_t)end.word;
    return end.at + (end.used + 7) / 8;
}

/* Reads n values, adding `base` to each. */
static const uint8_t *read_bits(const uint8_t *in, uint64_t *values, size_t n, uint64_t base,
                                unsigned bits)
{
    uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    size_t at = 0; /* in bits */
    if (bits == 0) {
        for (size_t i = 0; i < n; i++)
            values[i] = base;
    } else if (bits <= 56) {
        for (size_t i = 0; i < n; i++, at += bits)
            values[i] = base + (load_u64(in + at / 8) >> at % 8 & mask);
    } else {
        for (size_t i = 0; i < n; i++, at += bits) {
            unsigned __int128 wide = load_u64(in + at / 8);
            wide |= (unsigned __int128)in[at / 8 + 8] << 64;
            values[i] = base + ((uint64_t)(wide >> at % 8) & mask);
        }
    }
    return in + (at + 7) / 8;
}

size_t pack_elements(const struct pack_layout *l, const uint8_t *elements, size_t n, uint8_t *out)
{
    uint8_t *p = out;
    uint64_t values[RUN];
    for (size_t done = 0; done < n; done += RUN) {
        size_t run = n - done < RUN ? n - done : RUN;
        for (unsigned i = 0; i < l->count; i++) {
            const struct pack_field *f = &l->fields[i];
            gather(l, f, elements + done * l->element, run, values);
            struct reduced r =
                f->mode == PACK_STEP ? reduce_steps(values, run) : reduce_offsets(values, run);
            store_u64(p, r.head);
            p[8] = (uint8_t)r.bits;
            p = write_bits(p + RUN_HEAD, values, run, r);
        }
    }
    memset(p, 0, SLACK);
    return (size_t)(p - out) + SLACK;
}

void unpack_elements(const struct pack_layout *l, const uint8_t *packed, size_t n,
                     uint8_t *elements)
{
    uint64_t values[RUN];
    for (size_t done = 0; done < n; done += RUN) {
        size_t run = n - done < RUN ? n - done : RUN;
        for (unsigned i = 0; i < l->count; i++) {
            const struct pack_field *f = &l->fields[i];
            uint64_t head = load_u64(packed);
            bool steps = f->mode == PACK_STEP;
            packed = read_bits(packed + RUN_HEAD, values, run, steps ? 0 : head, packed[8]);
            if (steps)
                restore_steps(head, field_mask(f), values, run);
            scatter(l, f, elements + done * l->element, run, values);
        }
    }
}
