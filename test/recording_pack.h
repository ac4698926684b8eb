#ifndef TIDEMARK_TEST_RECORDING_PACK_H
#define TIDEMARK_TEST_RECORDING_PACK_H

/*
 * A recording in few bytes, for the fuzzer, whose inputs should not be mostly zeros:
 *
 *     flags (1: read it while it is written; 2: the clock is the TSC; 4: a part of a trace)
 *     then chunks: kind, units, state, thread, first node or base stamp (2 bytes each,
 * little-endian, but for the first four), pending (2; 0: idle), committed + 1 (2; 0: as many as
 * there are), length (2), as many bytes
 */

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "client/recording_format.h"

#define PACK_LIVE 1u
#define PACK_TSC 2u
#define PACK_PART 4u

/* Room for what an unpacked recording may take. */
#define PACK_UNITS 64u

static inline void pack_header(uint8_t *bytes, unsigned flags)
{
    struct rec_header *h = (struct rec_header *)bytes;
    memcpy(h->magic, REC_MAGIC, 8);
    h->version = REC_VERSION;
    h->unit = REC_UNIT;
    h->clock = flags & PACK_TSC ? REC_CLOCK_TSC : REC_CLOCK_COUNTER;
    h->pid = 1;
    h->first.ns = 1000;
    h->state = REC_STATE_RECORDING;
    h->units_taken = 1;
    h->options.sample_bytes = flags >> 4;
    memcpy(h->exe, "/bin/x", 7);
}

/* The next chunk into `bytes`. False when there is none, or no room. */
static inline bool pack_next(struct cursor *c, uint8_t *bytes)
{
    struct rec_header *header = (struct rec_header *)bytes;
    unsigned kind = cursor_u8(c), units = cursor_u8(c) % REC_CHUNK_UNITS + 1;
    unsigned state = cursor_u8(c), thread = cursor_u8(c);
    unsigned base = cursor_u16(c), pending = cursor_u16(c), committed = cursor_u16(c);
    size_t n = cursor_u16(c);
    uint32_t room = units * REC_UNIT - (uint32_t)sizeof(struct rec_chunk);
    if (c->short_read || header->units_taken + units > PACK_UNITS)
        return false;
    if (n > cursor_left(c))
        n = cursor_left(c);
    struct rec_chunk *h = (struct rec_chunk *)(bytes + (size_t)header->units_taken * REC_UNIT);
    header->units_taken += units;
    h->magic = REC_CHUNK_MAGIC;
    h->kind = (uint16_t)kind;
    h->units = (uint16_t)units;
    h->tid = (int32_t)thread;
    h->state = state;
    h->first_node = base;
    h->base_stamp = base;
    h->base_ns = base;
    h->pending = pending ? pending : REC_IDLE;
    memcpy(h + 1, cursor_take(c, n), n < room ? n : room);
    h->committed = committed ? committed - 1 : (uint32_t)n;
    if (header->counter < base)
        header->counter = base;
    return true;
}

/* The packed form of chunks as they lie in a recording. */
static inline void pack_recording(struct buf *out, uint8_t flags, const uint8_t *bytes)
{
    const struct rec_header *header = (const struct rec_header *)bytes;
    buf_u8(out, flags);
    for (uint32_t unit = 1; unit < header->units_taken;) {
        const struct rec_chunk *h = (const struct rec_chunk *)(bytes + (size_t)unit * REC_UNIT);
        size_t n = h->committed;
        const uint8_t *body = (const uint8_t *)(h + 1);
        if (h->kind == REC_CHUNK_NODES)
            for (n = 0; ((const struct rec_node *)body)[n / 16].pc; n += 16)
                continue;
        buf_u8(out, (uint8_t)h->kind);
        buf_u8(out, (uint8_t)(h->units - 1));
        buf_u8(out, (uint8_t)h->state);
        buf_u8(out, (uint8_t)h->tid);
        buf_u16(out, (uint16_t)(h->kind == REC_CHUNK_NODES ? h->first_node : h->base_stamp));
        buf_u16(out, h->pending == REC_IDLE ? 0 : (uint16_t)h->pending);
        buf_u16(out, 0);
        buf_u16(out, (uint16_t)n);
        buf_put(out, body, n);
        unit += h->units;
    }
}

#endif
