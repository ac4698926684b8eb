#pragma once

/*
 * The client's side of the stream: encodes items by name into LZ4 stream frames, for any protocol
 * number and from the tables that the decoder uses.
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
 * Makes each frame decodable without earlier ones, so that frames of several encoders can be
 * interleaved in one stream, or stored and reordered. Call it before the first item. It costs some
 * compression.
 */
void encoder_set_independent(struct encoder *enc);

/* Ensures that the next items, `len` bytes in all and each at most a frame, go into one frame. */
int encoder_keep_together(struct encoder *enc, size_t len, struct err *e);

/* A field's value by its name in queue-items.tsv; floats as doubles, other types as 64 bits. */
struct encoder_field {
    const char *name;
    uint64_t bits;
    double real;
};
#define ENC_INT(NAME, VALUE) ((struct encoder_field){.name = (NAME), .bits = (uint64_t)(VALUE)})
#define ENC_REAL(NAME, VALUE) ((struct encoder_field){.name = (NAME), .real = (VALUE)})

/*
 * Appends one item, fixed part and tail, to `out`, uncompressed. Unnamed fields are 0. Returns -1
 * with ERR_USAGE when the protocol has no such item or field, a value does not fit its field, or
 * the tail's length does not fit its prefix.
 */
int encoder_write_item(const struct wire_version *version, struct buf *out, const char *item,
                       const struct encoder_field *fields, size_t field_count, struct view tail,
                       struct err *e);

/* The same, but appends to the stream. */
int encoder_item(struct encoder *enc, const char *item, const struct encoder_field *fields,
                 size_t field_count, struct view tail, struct err *e);

/*
 * Writes a text ahead of its item, as the client does. `second` chooses the slot; the length
 * chooses the 8-bit form if the protocol has it.
 */
int encoder_string(struct encoder *enc, bool second, struct view text, struct err *e);

/*
 * The form of a zone or sample time that the client would choose for this delta: "", "32" or "16",
 * a suffix of the item's name. *bits gets the value of the time field.
 */
const char *encoder_time_form(const struct wire_version *version, const char *item, int64_t delta,
                              uint64_t *bits);

/* Appends one item encoded by the caller (with its id), starting a new frame if needed. */
int encoder_append(struct encoder *enc, const void *item, size_t len, struct err *e);

/* Ends the current frame, if any, and compresses it. */
int encoder_commit(struct encoder *enc, struct err *e);

/* Whether a frame is incomplete or was not taken yet. */
bool encoder_pending(const struct encoder *enc);

/* Compressed frames so far; the caller writes them and calls buf_clear(). */
struct buf *encoder_output(struct encoder *enc);
