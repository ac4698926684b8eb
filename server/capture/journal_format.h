#pragma once

/* Shared by the writers and the reader of a journal only. */

#include <stdio.h>

#include <xxhash.h>

#include "base/bytes.h"
#include "server/capture/journal.h"

#define JOURNAL_VERSION 2u
#define SEGMENT_HEADER 48u
#define RECORD_HEADER 16u
#define SEGMENT_NAME 16u /* room for a segment's name */

/* server/capture/checkpoint.h has the rest of its format */
static const char checkpoint_magic[8] = {'T', 'I', 'D', 'E', 'C', 'K', 'P', '1'};
#define CHECKPOINT_HEADER 64u

struct segment_header {
    uint32_t number;
    uint64_t id;
    uint64_t before; /* bytes received in earlier segments */
};

/* The check of a record at `offset` of a segment. Its seed includes the offset. */
static inline uint64_t record_check(const struct segment_header *segment, uint64_t offset,
                                    uint32_t type, const void *bytes, uint32_t len)
{
    uint8_t place[24];
    store_u64(place, segment->id);
    store_u64(place + 8, (uint64_t)segment->number << 32 ^ offset);
    store_u32(place + 16, type);
    store_u32(place + 20, len);
    return XXH3_64bits_withSeed(bytes, len, XXH3_64bits(place, sizeof place));
}

static inline void segment_header_encode(const struct segment_header *h,
                                         uint8_t out[SEGMENT_HEADER])
{
    memset(out, 0, SEGMENT_HEADER);
    memcpy(out, journal_magic, sizeof journal_magic);
    store_u32(out + 8, JOURNAL_VERSION);
    store_u32(out + 12, h->number);
    store_u64(out + 16, h->id);
    store_u64(out + 24, h->before);
    store_u64(out + 40, XXH3_64bits(out, 40));
}

/* Whether SEGMENT_HEADER bytes are a valid header, of any version. */
static inline bool segment_header_is_whole(const uint8_t bytes[SEGMENT_HEADER])
{
    return memcmp(bytes, journal_magic, sizeof journal_magic) == 0 &&
           load_u64(bytes + 40) == XXH3_64bits(bytes, 40);
}

/* Whether CHECKPOINT_HEADER bytes are a valid header, of any version. */
static inline bool checkpoint_header_is_whole(const uint8_t bytes[CHECKPOINT_HEADER])
{
    return memcmp(bytes, checkpoint_magic, sizeof checkpoint_magic) == 0 &&
           load_u64(bytes + 56) == XXH3_64bits(bytes, 56);
}

static inline void segment_name(uint32_t number, char out[SEGMENT_NAME])
{
    snprintf(out, SEGMENT_NAME, "%08u", number);
}
