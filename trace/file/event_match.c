#include "trace/file/event_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/file/record.h"

#define RECORD MEMORY_EVENT_SIZE

/* Field offsets: 8 bytes of address, 8 of size, call stacks of allocation and free. */
#define SIZE_AT 8u
#define STACKS_AT 16u
#define STACKS_END 22u

/* A shorter match costs more than the same bytes as literals. */
#define RUN_MIN 4

/* Up to this distance, a match's distance takes few bits. */
#define NEAR 2048u

#define BY_ADDRESS_BITS 12
#define BY_STACK_BITS 13

/* The 16 bytes of a record that a table indexes, and the record's position in the stream. */
struct seen {
    uint8_t bytes[16];
    uint32_t at; /* the low 32 bits; 0: none */
};

struct event_match {
    uint64_t at; /* bytes of the stream so far */
    struct seen by_address[1u << BY_ADDRESS_BITS];
    struct seen by_stack[1u << BY_STACK_BITS];
};

/* The matching range of a record: one bit per byte, and the distance. */
struct stretch {
    uint64_t bytes;
    uint32_t distance;
};

struct parse {
    ZSTD_Sequence *next;
    const uint8_t *literals; /* first byte not yet covered by a sequence */
};

struct event_match *event_match_new(void)
{
    return calloc(1, sizeof(struct event_match));
}

void event_match_free(struct event_match *m)
{
    free(m);
}

void event_match_next(struct event_match *m, size_t len)
{
    m->at += len;
}

/* One bit for each of 8 bytes, set if they are equal. */
static inline uint64_t equal8(const uint8_t *a, const uint8_t *b)
{
    const uint64_t low7 = 0x7f7f7f7f7f7f7f7f;
    uint64_t x = load_u64(a) ^ load_u64(b);
    uint64_t same = ~(((x & low7) + low7) | x | low7); /* 0x80 in each equal byte */
    return (same >> 7) * 0x0102040810204080 >> 56;
}

static inline uint64_t equal16(const uint8_t *a, const uint8_t *b)
{
    return equal8(a, b) | equal8(a + 8, b + 8) << 8;
}

static inline uint64_t equal_record(const uint8_t *a, const uint8_t *b)
{
    /* The last 8 bytes overlap the ones before, so that nothing after the record is read. */
    return equal16(a, b) | equal16(a + 16, b + 16) << 16 | equal8(a + 32, b + 32) << 32 |
           equal8(a + RECORD - 8, b + RECORD - 8) << (RECORD - 8);
}

/* Clears runs of fewer than RUN_MIN bits. */
static inline uint64_t long_runs(uint64_t mask)
{
    uint64_t two = mask & mask >> 1;
    uint64_t four = two & two >> 2; /* start of a run of four */
    two = four | four << 1;
    return two | two << 2;
}

/* The run of bits in `mask` that begins at bit 0. */
static inline uint64_t first_run(uint64_t mask)
{
    return mask & ~(mask + 1);
}

/*
 * The distance to the table's entry; 0 when it is empty or out of reach. At least a record: 1, 4
 * and 8 are the initial distances of a stream (see container_write.c).
 */
static inline uint32_t seen_distance(const struct seen *s, uint32_t at, size_t window)
{
    uint32_t distance = at - s->at;
    return s->at && distance >= RECORD && distance <= window ? distance : 0;
}

static inline void seen_put(struct seen *s, const uint8_t *bytes, uint32_t at)
{
    memcpy(s->bytes, bytes, sizeof s->bytes);
    s->at = at;
}

/*
 * Matches the last record of the same address. Encoding the distance costs about as many bytes as
 * those that differ between two addresses of one kind, so this is used only for larger differences
 * and for near records.
 */
static inline struct stretch match_address(struct event_match *m, const uint8_t *p, uint32_t at,
                                           size_t window, uint64_t before)
{
    struct stretch found = {0};
    size_t hash = (size_t)(load_u64(p) * 0x9e3779b97f4a7c15u >> (64 - BY_ADDRESS_BITS));
    struct seen *s = &m->by_address[hash];
    uint32_t distance = seen_distance(s, at, window);
    uint64_t missing = ~before & 0xff;
    if (distance && (missing > 0xf || (missing > 3 && distance < NEAR))) {
        uint64_t run = first_run(equal16(p, s->bytes));
        if (run >= 0xff)
            found = (struct stretch){run, distance};
    }
    seen_put(s, p, at);
    return found;
}

/* Matches the last record of the same call stacks, with the equal bytes right before them. */
static inline struct stretch match_stack(struct event_match *m, const uint8_t *p, uint32_t at,
                                         size_t window, uint64_t before)
{
    struct stretch found = {0};
    const uint64_t stacks = (UINT64_C(1) << STACKS_END) - (UINT64_C(1) << STACKS_AT);
    /* Call stacks have consecutive numbers, which serve as hashes. */
    struct seen *s = &m->by_stack[load_u24(p + STACKS_AT) & ((1u << BY_STACK_BITS) - 1)];
    if ((before & stacks) != stacks) {
        uint32_t distance = seen_distance(s, at, window);
        uint64_t same = equal16(p + SIZE_AT, s->bytes) << SIZE_AT;
        if (distance && (same & stacks) == stacks) {
            uint64_t other = ~same & (stacks - 1) & ((UINT64_C(1) << STACKS_AT) - 1);
            unsigned from = other ? 64 - (unsigned)__builtin_clzll(other) : SIZE_AT;
            uint64_t below = (UINT64_C(1) << from) - 1;
            found = (struct stretch){((UINT64_C(1) << STACKS_END) - 1) & ~below, distance};
        }
        seen_put(s, p + SIZE_AT, at);
    }
    return found;
}

static inline void tell(struct parse *o, const uint8_t *from, unsigned len, uint32_t distance)
{
    *o->next++ = (ZSTD_Sequence){
        .offset = distance, .litLength = (unsigned)(from - o->literals), .matchLength = len};
    o->literals = from + len;
}

/* Emits the disjoint matching ranges of a record in the order of its bytes. */
static inline void tell_record(struct parse *o, const uint8_t *p, const struct stretch *before,
                               const struct stretch *address, const struct stretch *stack)
{
    uint64_t rest = before->bytes | address->bytes | stack->bytes;
    while (rest) {
        unsigned from = (unsigned)__builtin_ctzll(rest);
        const struct stretch *s = address->bytes >> from & 1 ? address
                                  : stack->bytes >> from & 1 ? stack
                                                             : before;
        unsigned len = (unsigned)__builtin_ctzll(~(s->bytes >> from));
        tell(o, p + from, len, s->distance);
        rest &= ~UINT64_C(0) << (from + len);
    }
}

size_t event_match_block(struct event_match *m, const uint8_t *block, size_t len, size_t first,
                         size_t end, size_t window, ZSTD_Sequence *out)
{
    struct parse o = {.next = out, .literals = block};
    for (size_t i = first + RECORD; i + RECORD <= end; i += RECORD) {
        const uint8_t *p = block + i;
        uint32_t at = (uint32_t)(m->at + i);
        uint64_t same = equal_record(p, p - RECORD);
        struct stretch before = {long_runs(same), RECORD};
        struct stretch address = match_address(m, p, at, window, before.bytes);
        struct stretch stack = match_stack(m, p, at, window, before.bytes);
        stack.bytes &= ~address.bytes;
        before.bytes = long_runs(same & ~address.bytes & ~stack.bytes);
        tell_record(&o, p, &before, &address, &stack);
    }
    *o.next++ = (ZSTD_Sequence){.litLength = (unsigned)(block + len - o.literals)};
    return (size_t)(o.next - out);
}
