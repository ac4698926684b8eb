#include "protocol/encoder.h"

#include <inttypes.h>
#include <lz4.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "protocol/wire_frame.h"

/*
 * Frames are built one after another in one buffer, as in the official client, so that the
 * compressor finds its history in place. It does not look further back than 64 KiB after the wrap.
 */
#define RING_SIZE (3 * FRAME_SIZE_MAX)

/* The most fixed bytes of an item. Only FrameImageData and code fill a frame. */
#define ITEM_FIXED_MAX 64

struct encoder {
    const struct wire_version *version;
    LZ4_stream_t *stream;
    bool independent;
    size_t start; /* start of the current frame in the ring … */
    size_t len;   /* … and its length */
    struct buf output;
    struct buf item; /* scratch of encoder_item */
    uint8_t ring[RING_SIZE];
};

struct encoder *encoder_new(const struct wire_version *version)
{
    struct encoder *enc = malloc(sizeof *enc);
    if (!enc)
        return NULL;
    memset(enc, 0, offsetof(struct encoder, ring));
    enc->version = version;
    enc->stream = LZ4_createStream();
    if (!enc->stream) {
        free(enc);
        return NULL;
    }
    return enc;
}

void encoder_free(struct encoder *enc)
{
    if (!enc)
        return;
    LZ4_freeStream(enc->stream);
    buf_release(&enc->output);
    buf_release(&enc->item);
    free(enc);
}

struct buf *encoder_output(struct encoder *enc)
{
    return &enc->output;
}

bool encoder_pending(const struct encoder *enc)
{
    return enc->len > 0 || enc->output.len > 0;
}

int encoder_commit(struct encoder *enc, struct err *e)
{
    if (enc->len == 0)
        return 0;
    uint8_t *out = buf_reserve(&enc->output, sizeof(uint32_t) + FRAME_COMPRESSED_MAX);
    if (!out)
        return err_no_memory(e, "a compressed frame");
    if (enc->independent)
        LZ4_resetStream_fast(enc->stream);
    int n = LZ4_compress_fast_continue(enc->stream, (const char *)enc->ring + enc->start,
                                       (char *)out + sizeof(uint32_t), (int)enc->len,
                                       (int)FRAME_COMPRESSED_MAX, 1);
    if (n <= 0)
        return err_set(e, ERR_INPUT, "LZ4 cannot compress a frame of %zu bytes", enc->len);
    store_u32(out, (uint32_t)n);
    enc->output.len += sizeof(uint32_t) + (size_t)n;
    enc->start += enc->len;
    enc->len = 0;
    if (enc->start > RING_SIZE - FRAME_SIZE_MAX)
        enc->start = 0;
    return 0;
}

void encoder_set_independent(struct encoder *enc)
{
    enc->independent = true;
}

int encoder_keep_together(struct encoder *enc, size_t len, struct err *e)
{
    return len > FRAME_SIZE_MAX - enc->len ? encoder_commit(enc, e) : 0;
}

int encoder_append(struct encoder *enc, const void *item, size_t len, struct err *e)
{
    if (len > FRAME_SIZE_MAX)
        return err_set(e, ERR_USAGE, "an item of %zu bytes does not fit into a frame of %u", len,
                       FRAME_SIZE_MAX);
    if (len > FRAME_SIZE_MAX - enc->len && encoder_commit(enc, e) < 0)
        return -1;
    memcpy(enc->ring + enc->start + enc->len, item, len);
    enc->len += len;
    return 0;
}

static const struct wire_field *find_field(const struct wire_item_info *info, const char *name)
{
    for (unsigned i = 0; i < info->field_count; i++)
        if (strcmp(info->fields[i].name, name) == 0)
            return &info->fields[i];
    return NULL;
}

/* Whether `bits`, as an unsigned or a signed number, fits `size` bytes. */
static bool bits_fit(uint64_t bits, unsigned size)
{
    if (size == 8)
        return true;
    unsigned width = size * 8;
    int64_t s = (int64_t)bits;
    return bits >> width == 0 || (s < 0 && s >= -((int64_t)1 << (width - 1)));
}

static void store_value(uint8_t *p, enum wire_type type, const struct encoder_field *f)
{
    switch (type) {
    case WIRE_F32:
        store_f32(p, (float)f->real);
        return;
    case WIRE_F64:
        store_f64(p, f->real);
        return;
    default: { /* little-endian, so the low bytes come first */
        uint8_t bytes[8];
        store_u64(bytes, f->bits);
        memcpy(p, bytes, wire_type_size(type));
    }
    }
}

static int put_tail_length(struct buf *out, const struct wire_version *v, int id, size_t len,
                           struct err *e)
{
    static const struct {
        size_t min, max;
    } limits[] = {
        [WIRE_TAIL_NONE] = {0, 0},        [WIRE_TAIL_8] = {0, UINT8_MAX},
        [WIRE_TAIL_16] = {0, UINT16_MAX}, [WIRE_TAIL_16_PLUS_256] = {256, UINT16_MAX + (size_t)256},
        [WIRE_TAIL_32] = {0, UINT32_MAX},
    };
    enum wire_tail tail = (enum wire_tail)v->items[id].tail;
    if (len < limits[tail].min || len > limits[tail].max)
        return err_set(e, ERR_USAGE, "protocol %" PRIu32 ", item %s: no room for %zu bytes of data",
                       v->protocol, v->info[id].name, len);
    switch (tail) {
    case WIRE_TAIL_NONE:
        break;
    case WIRE_TAIL_8:
        buf_u8(out, (uint8_t)len);
        break;
    case WIRE_TAIL_16:
        buf_u16(out, (uint16_t)len);
        break;
    case WIRE_TAIL_16_PLUS_256:
        buf_u16(out, (uint16_t)(len - 256));
        break;
    case WIRE_TAIL_32:
        buf_u32(out, (uint32_t)len);
        break;
    }
    return 0;
}

int encoder_write_item(const struct wire_version *version, struct buf *out, const char *item,
                       const struct encoder_field *fields, size_t field_count, struct view tail,
                       struct err *e)
{
    int id = wire_version_item(version, item);
    if (id < 0)
        return err_set(e, ERR_USAGE, "protocol %" PRIu32 " has no item %s", version->protocol,
                       item);
    uint8_t fixed[ITEM_FIXED_MAX] = {(uint8_t)id};
    for (size_t i = 0; i < field_count; i++) {
        const struct wire_field *f = find_field(&version->info[id], fields[i].name);
        if (!f)
            return err_set(e, ERR_USAGE, "protocol %" PRIu32 ", item %s has no field %s",
                           version->protocol, item, fields[i].name);
        if (!bits_fit(fields[i].bits, wire_type_size((enum wire_type)f->type)))
            return err_set(e, ERR_USAGE,
                           "protocol %" PRIu32 ", item %s: %" PRIu64 " does not fit field %s",
                           version->protocol, item, fields[i].bits, fields[i].name);
        store_value(fixed + 1 + f->at, (enum wire_type)f->type, &fields[i]);
    }
    size_t start = out->len;
    buf_put(out, fixed, version->items[id].size);
    if (put_tail_length(out, version, id, tail.len, e) < 0) {
        out->len = start;
        return -1;
    }
    buf_put(out, tail.p, tail.len);
    return out->failed ? err_no_memory(e, "an encoded item") : 0;
}

int encoder_item(struct encoder *enc, const char *item, const struct encoder_field *fields,
                 size_t field_count, struct view tail, struct err *e)
{
    buf_clear(&enc->item);
    if (encoder_write_item(enc->version, &enc->item, item, fields, field_count, tail, e) < 0)
        return -1;
    return encoder_append(enc, enc->item.data, enc->item.len, e);
}

int encoder_string(struct encoder *enc, bool second, struct view text, struct err *e)
{
    static const char *const names[2][2] = {{"SingleStringData", "SingleStringData8"},
                                            {"SecondStringData", "SecondStringData8"}};
    bool has_short = wire_version_item(enc->version, names[0][1]) >= 0;
    return encoder_item(enc, names[second][has_short && text.len <= UINT8_MAX], NULL, 0, text, e);
}

const char *encoder_time_form(const struct wire_version *version, const char *item, int64_t delta,
                              uint64_t *bits)
{
    int id = wire_version_item(version, item);
    *bits = (uint64_t)delta;
    if (id < 0 || version->items[id].time != WIRE_TIME_BIASED || delta < 0)
        return "";
    if (delta < 0x10000)
        return "16";
    *bits -= 0x10000;
    if (*bits <= UINT32_MAX)
        return "32";
    *bits -= 0x100000000;
    return "";
}
