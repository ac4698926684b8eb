#ifndef TIDEMARK_SYMBOLS_HELPER_HELPER_ANSWERS_H
#define TIDEMARK_SYMBOLS_HELPER_HELPER_ANSWERS_H

/*
 * The body of a FRAMES message (symbols/place/helper_wire.h):
 *
 *     u32 count, u8 fresh, then the answers:
 *         u8 source, u64 address, u8 n, then n functions:
 *             text function, text linkage name, text file, u32 line, u32 column, u64 start,
 *             u8 inlined
 *     text: u32 number; where it is the next new one, u32 length and bytes follow
 *
 * Functions of one image have most of their texts in common, so each is told once and known by its
 * number from then on, in later messages, too, until one is `fresh`: numbers begin anew with it.
 * Number 0 is the empty text.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "symbols/place/place.h"

/* Texts and their bytes after which the next message is fresh. */
#define ANSWERS_TEXTS 16384u
#define ANSWERS_TEXT_BYTES ((size_t)8 << 20)

struct told_text {
    uint64_t hash;   /* seeded, so that no file can have two texts of one hash */
    uint32_t number; /* 0: none */
};

struct answers_out {
    struct buf body;
    bool linkage; /* linkage names are wanted; else they are left out */
    uint32_t count;
    uint32_t texts; /* told, and their bytes */
    size_t text_bytes;
    uint64_t seed;
    struct told_text *told;      /* hash table; NULL when memory is short */
    VEC(uint32_t) told_of_image; /* by the number that who reads the image has for a text */
};

/* Begins a message; who begins the first has zeroes here, but for `linkage`. */
void answers_begin(struct answers_out *out);
/* What is wrong with memory is told by out->body.failed. */
void answers_put(struct answers_out *out, const struct place_answer *answer);
/* To be called when an image is closed, before answers of the next one are put. */
void answers_image_closed(struct answers_out *out);
void answers_release(struct answers_out *out);

struct answer_text {
    size_t at; /* in the bytes */
    uint32_t len;
};

struct answers_in {
    struct cursor rest;
    struct buf bytes; /* of all texts that have numbers */
    VEC(struct answer_text) texts;
    uint64_t numbering; /* goes up with every fresh message; 0: none came yet */
};

/* Begins to read a message; *n answers follow. ERR_CHECK, here and below, or ERR_MEMORY. */
int answers_open(struct answers_in *in, struct view body, uint32_t *n, struct err *e);
/* `frames` has room for PLACE_FRAMES_MAX; texts are valid until the next message is opened. */
int answers_get(struct answers_in *in, struct place_answer *answer, struct place_frame *frames,
                struct err *e);
void answers_close(struct answers_in *in);

#endif
