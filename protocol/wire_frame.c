#include "protocol/wire_frame.h"

#include <inttypes.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/*
 * Blocks are decompressed one after another into one buffer, so that a block's dictionary usually
 * precedes it and is not copied. When the next block might not fit, the last 64 KiB move to the
 * front: one copy for about half a megabyte of output.
 */
#define OUTPUT_SIZE (FRAME_HISTORY + 2 * FRAME_SIZE_MAX)

enum stage {
    STAGE_LENGTH, /* collecting the 4 bytes of csize */
    STAGE_BODY,   /* collecting csize bytes */
    STAGE_BROKEN, /* after an error no more bytes are decoded */
};

struct frame_reader {
    enum stage stage;
    uint32_t have;  /* bytes of the current stage in `length` or `packed` */
    uint32_t csize; /* STAGE_BODY */
    uint8_t length[4];
    size_t end;   /* end of the decompressed bytes in `output` … */
    size_t start; /* … and start of the history */
    struct frame_stats stats;
    uint8_t packed[FRAME_COMPRESSED_MAX]; /* a block that arrived in pieces */
    uint8_t output[OUTPUT_SIZE];
};

struct frame_reader *frame_reader_new(void)
{
    struct frame_reader *r = malloc(sizeof *r);
    if (r)
        memset(r, 0, offsetof(struct frame_reader, packed));
    return r;
}

void frame_reader_free(struct frame_reader *r)
{
    free(r);
}

/* Marks the stream as broken and sets the error of the current block. */
static int broken(struct frame_reader *r, struct err *e)
{
    r->stage = STAGE_BROKEN;
    return err_prefix(e, "frame %" PRIu64 ", offset %" PRIu64 " of the stream", r->stats.frames + 1,
                      r->stats.bytes_in);
}

/* Makes room for a whole frame after r->end and keeps the history. */
static void make_room(struct frame_reader *r)
{
    if (r->end - r->start > FRAME_HISTORY)
        r->start = r->end - FRAME_HISTORY;
    if (OUTPUT_SIZE - r->end >= FRAME_SIZE_MAX)
        return;
    size_t n = r->end - r->start;
    memmove(r->output, r->output + r->start, n);
    r->start = 0;
    r->end = n;
}

static int decompress(struct frame_reader *r, const uint8_t *packed, struct wire_frame *frame,
                      struct err *e)
{
    make_room(r);
    uint8_t *out = r->output + r->end;
    int n = LZ4_decompress_safe_usingDict((const char *)packed, (char *)out, (int)r->csize,
                                          (int)FRAME_SIZE_MAX, (const char *)r->output + r->start,
                                          (int)(r->end - r->start));
    if (n <= 0) {
        err_set(e, ERR_INPUT,
                "the compressed block of %" PRIu32
                " bytes is damaged, or decompresses to more than %u bytes",
                r->csize, FRAME_SIZE_MAX);
        return broken(r, e);
    }
    r->end += (size_t)n;
    r->stats.bytes_out += (uint64_t)n;
    r->stats.frames++;
    r->stage = STAGE_LENGTH;
    r->have = 0;
    *frame = (struct wire_frame){.bytes = out, .len = (uint32_t)n};
    return 1;
}

/* Moves up to `want - r->have` input bytes to `store`. True once `want` bytes are there. */
static bool collect(struct frame_reader *r, uint8_t *store, uint32_t want, const uint8_t **in,
                    size_t *len)
{
    size_t n = want - r->have;
    if (n > *len)
        n = *len;
    if (n > 0)
        memcpy(store + r->have, *in, n);
    r->have += (uint32_t)n;
    r->stats.bytes_in += n;
    *in += n;
    *len -= n;
    return r->have == want;
}

int frame_reader_feed(struct frame_reader *r, const uint8_t **in, size_t *len,
                      struct wire_frame *frame, struct err *e)
{
    if (r->stage == STAGE_BROKEN)
        return err_set(e, ERR_INPUT, "frame %" PRIu64 ": the stream broke earlier",
                       r->stats.frames + 1);
    if (r->stage == STAGE_LENGTH) {
        if (!collect(r, r->length, sizeof r->length, in, len))
            return 0;
        r->csize = load_u32(r->length);
        if (r->csize == 0 || r->csize > FRAME_COMPRESSED_MAX) {
            err_set(e, ERR_INPUT, "the length of a compressed block is %" PRIu32 ", not 1 to %u",
                    r->csize, FRAME_COMPRESSED_MAX);
            return broken(r, e);
        }
        r->stage = STAGE_BODY;
        r->have = 0;
    }
    if (r->have == 0 && *len >= r->csize) {
        const uint8_t *packed = *in;
        *in += r->csize;
        *len -= r->csize;
        r->stats.bytes_in += r->csize;
        return decompress(r, packed, frame, e);
    }
    if (!collect(r, r->packed, r->csize, in, len))
        return 0;
    return decompress(r, r->packed, frame, e);
}

const struct frame_stats *frame_reader_stats(const struct frame_reader *r)
{
    return &r->stats;
}

size_t frame_reader_partial(const struct frame_reader *r)
{
    if (r->stage == STAGE_BODY)
        return sizeof r->length + r->have;
    return r->stage == STAGE_LENGTH ? r->have : 0;
}

void frame_reader_snapshot(struct snapshot *s, struct frame_reader *r)
{
    uint32_t stage = r->stage;
    size_t len = r->end - r->start;
    /* What the next block may refer to. */
    len = snapshot_count(s, len < FRAME_HISTORY ? len : FRAME_HISTORY, FRAME_HISTORY);
    if (s->loading) {
        r->start = 0;
        r->end = len;
    }
    snapshot_bytes(s, s->loading ? r->output : r->output + r->end - len, len);
    snapshot_u32(s, &stage);
    snapshot_u32(s, &r->have);
    snapshot_u32(s, &r->csize);
    snapshot_bytes(s, r->length, sizeof r->length);
    if (stage > STAGE_BODY || (stage == STAGE_LENGTH && r->have >= sizeof r->length) ||
        (stage == STAGE_BODY &&
         (r->csize == 0 || r->csize > FRAME_COMPRESSED_MAX || r->have >= r->csize))) {
        snapshot_refuse(s, "a frame");
        return;
    }
    r->stage = (enum stage)stage;
    if (stage == STAGE_BODY)
        snapshot_bytes(s, r->packed, r->have);
    snapshot_u64(s, &r->stats.frames);
    snapshot_u64(s, &r->stats.bytes_in);
    snapshot_u64(s, &r->stats.bytes_out);
}
