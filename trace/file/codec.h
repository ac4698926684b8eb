#pragma once

/*
 * Encodes and decodes records. codec.c describes the layout of every record once, in a function
 * that takes the direction as a constant; reading, writing and measuring are instances of it.
 * `struct file_layout` says which fields a file version has.
 *
 * When read, fields missing from a layout get their defaults: on-demand = (frame offset ≠ 0), group
 * hint 0, wakeup cpu = cpu, message source 0 and severity 2, query id 0, delay 0.
 *
 * Source: server/TracyEvent.hpp (packed structs), `Worker::Write` and the `Write…`/`Read…` helpers
 * of server/TracyWorker.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"
#include "trace/file/stream.h"

struct codec_scratch;

/* The running state of one pass over a file, reading or writing. */
struct codec {
    const struct file_layout *layout;
    uint64_t time;      /* times are stored as differences from the previous one in their chain */
    uint64_t gpu_time;  /* the second chain, of GPU zones */
    uint64_t lock_time; /* announcement time of the current lock, where its chain starts */
    bool continuous;    /* the current frame set stores no ends */
    /*
     * Set when a value does not fit, and never cleared here. Reading: a time does not fit 48 signed
     * bits. Writing: that, or a number is too large for its field.
     */
    bool out_of_range;
    struct codec_scratch *scratch; /* state too large to copy */
};

int codec_init(struct codec *c, const struct file_layout *layout, struct err *e);
void codec_release(struct codec *c);

/*
 * Bytes of a fixed-size record in this layout and context; 0 for types of varying size: HEADER,
 * STRING, CALLSTACK, CALLSTACK_FRAME, FRAME_IMAGE_DICT, FRAME_IMAGE, SYMBOL_CODE and SOURCE_FILE.
 */
size_t codec_size(const struct codec *c, enum record_type type);

/*
 * What decodes `n` records of a fixed-size type; `bytes` holds n × codec_size. NULL when the type's
 * size varies.
 */
typedef void codec_read_fn(struct codec *c, const uint8_t *bytes, void *recs, size_t n);
codec_read_fn *codec_reader(enum record_type type);

/*
 * Decodes one record of varying size from the `len` bytes at `bytes`. Returns its size, or 0 when
 * it is longer than `len`: then *need is a larger `len` to retry with, possibly still too small.
 * Until the next call, views in the record point into `bytes`, and frame arrays into the codec.
 */
size_t codec_read_varying(struct codec *c, enum record_type type, const uint8_t *bytes, size_t len,
                          void *rec, uint64_t *need);

/* Encodes `n` records of any type. */
void codec_write(struct codec *c, enum record_type type, const void *recs, size_t n,
                 struct out_stream *out);

/* Magic and version, before the HEADER record. */
#define INNER_MAGIC_SIZE 8
void codec_write_magic(uint32_t version, uint8_t out[INNER_MAGIC_SIZE]);
/* Returns 0 and the version, or -1 when the bytes are not the magic. */
int codec_read_magic(const uint8_t in[INNER_MAGIC_SIZE], uint32_t *version);
