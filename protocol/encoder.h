#ifndef TIDEMARK_PROTOCOL_ENCODER_H
#define TIDEMARK_PROTOCOL_ENCODER_H

/*
 * The client's side of the stream: items by name → LZ4 stream frames, for any protocol number and
 * from the same tables that the decoder reads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"
#include "protocol/wire_version.h"

struct encoder; /* opaque */

/* NULL when memory is short. */
struct encoder *encoder_new(const struct wire_version *version);
void encoder_free(struct encoder *enc);

/*
 * From now on each frame can be decoded without those before it, so that frames of several encoders
 * can take turns in one stream, or be kept and sent in another order. To be called before the first
 * item. It costs some compression.
 */
void encoder_set_independent(struct encoder *enc);

/*
 * Items of `len` bytes in all, each at most a frame, follow: they will be in one frame. It is for
 * items that belong together.
 */
int encoder_keep_together(struct encoder *enc, size_t len, struct err *e);

/* A field's value by its name in queue-items.tsv; floats as doubles, the rest as 64-bit bits. */
struct encoder_field {
    const char *name;
    uint64_t bits;
    double real;
};
#define ENC_INT(NAME, VALUE) ((struct encoder_field){.name = (NAME), .bits = (uint64_t)(VALUE)})
#define ENC_REAL(NAME, VALUE) ((struct encoder_field){.name = (NAME), .real = (VALUE)})

/*
 * Writes one item, fixed part and tail, to the end of `out`, uncompressed. Fields not named are 0.
 * -1 with ERR_USAGE when the protocol has no such item or field, the value does not fit the field,
 * or the tail's length does not fit its prefix.
 */
int encoder_write_item(const struct wire_version *version, struct buf *out, const char *item,
                       const struct encoder_field *fields, size_t field_count, struct view tail,
                       struct err *e);

/* As above, into the stream. */
int encoder_item(struct encoder *enc, const char *item, const struct encoder_field *fields,
                 size_t field_count, struct view tail, struct err *e);

/*
 * A text as the client sends it ahead of an item: `second` chooses the slot, the length chooses the
 * 8-bit form where the protocol has it.
 */
int encoder_string(struct encoder *enc, bool second, struct view text, struct err *e);

/*
 * Which form of a zone or sample time the client would choose for this delta: "", "32" or "16" to
 * put behind the item's name, and the value of its time field in *bits.
 */
const char *encoder_time_form(const struct wire_version *version, const char *item, int64_t delta,
                              uint64_t *bits);

/* Appends one item that the caller has laid out (id and all), starting a new frame if needed. */
int encoder_append(struct encoder *enc, const void *item, size_t len, struct err *e);

/* Ends the frame in hand, if any, and compresses it. */
int encoder_commit(struct encoder *enc, struct err *e);

/* Whether there is a frame in hand, or one that was not taken yet. */
bool encoder_pending(const struct encoder *enc);

/* Compressed frames so far; the caller writes them out and buf_clear()s. */
struct buf *encoder_output(struct encoder *enc);

#endif
