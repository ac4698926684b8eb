#pragma once

/*
 * Reads the records of one chunk in order; stamps never decrease. Several runs are merged.
 *
 * A window of the chunk's bytes is in memory, padded with zeros, so that a record of the frequent
 * kinds is decoded without a check of each byte: whether it ended within the window is checked
 * afterwards.
 */

#include <stdbool.h>
#include <stdint.h>

#include "run/recording/recording_chunks.h"

#define RUN_WINDOW 32768u
/* More than the longest record of the frequent kinds: a byte, then at most 6 varints and a byte. */
#define RUN_PADDING 80u

struct run {
    struct chunk chunk;
    uint64_t stamp;   /* of the next record */
    uint64_t address; /* of the last record with an address */
    uint64_t thread;
    uint32_t at;        /* offset of the window in the chunk */
    uint32_t len;       /* bytes in the window */
    const uint8_t *pos; /* in the window, after the next record's stamp; NULL without one */
    const uint8_t *end; /* end of the next record if its kind has a length; else NULL */
    uint8_t kind;       /* kind byte of the next record */
    bool peeked;        /* the next record was decoded into the fields above */
    bool damaged;
    uint8_t *window; /* NULL: there is nothing to read */
};

/* 7 bits per byte, low ones first, at most 10 bytes. */
static inline uint64_t run_varint(const uint8_t **p)
{
    const uint8_t *at = *p;
    uint64_t n = *at++;
    if (__builtin_expect(n >= 0x80, 0)) {
        n &= 0x7f;
        for (unsigned shift = 7;; shift += 7) {
            uint64_t byte = *at++;
            n |= (byte & 0x7f) << shift;
            if (byte < 0x80 || shift == 63)
                break;
        }
    }
    *p = at;
    return n;
}

static inline int64_t run_signed(const uint8_t **p)
{
    uint64_t n = run_varint(p);
    return (int64_t)(n >> 1 ^ (0 - (n & 1)));
}

void run_init(struct run *r, const struct chunk *c);
/* Frees the window, whose bytes count as read. */
void run_release(struct run *r);

/* Reads more of the chunk if the next record may extend beyond the window. */
int run_fill(struct run *r, const struct chunks *file, struct err *e);

/* Whether the window holds a whole record, or nothing more is committed. */
static inline bool run_is_filled(const struct run *r)
{
    return r->window && ((size_t)(r->window + r->len - r->pos) >= REC_RECORD_MAX ||
                         r->at + r->len == r->chunk.committed);
}

/*
 * Decodes the kind and stamp of the next record. 1 when there is one, 0 when nothing more is
 * committed; an invalid chunk is marked damaged and ends there. r->pos must be at a record.
 */
static inline int run_peek(struct run *r, const struct chunks *file, struct err *e)
{
    if (__builtin_expect(!run_is_filled(r), 0) && run_fill(r, file, e) != 0)
        return -1;
    const uint8_t *p = r->pos;
    if (!p || p == r->window + r->len) {
        r->peeked = false;
        return 0;
    }
    r->kind = *p++;
    r->end = NULL;
    if (__builtin_expect((r->kind & REC_KIND_MASK) >= REC_SIZED_KINDS, 0)) {
        uint64_t n = run_varint(&p);
        const uint8_t *limit = r->window + r->len;
        if (p > limit || n > (size_t)(limit - p)) {
            r->damaged = true;
            r->peeked = false;
            return 0;
        }
        r->end = p + n;
    }
    uint64_t delta = run_varint(&p);
    if (__builtin_add_overflow(r->stamp, delta, &r->stamp) || p > r->window + r->len ||
        (r->end && p > r->end)) {
        r->damaged = true;
        r->peeked = false;
        return 0;
    }
    r->pos = p;
    r->peeked = true;
    return 1;
}
