#pragma once

/*
 * The body of a FRAMES message (symbols/place/helper_wire.h):
 *
 *     u32 count, u8 fresh, then the answers:
 *         u8 source, u64 address, u8 n, then n functions:
 *             text function, text linkage name, text file, u32 line, u32 column, u64 start,
 *             u8 inlined
 *     text: u32 number; if it is the next unused one, u32 length and bytes follow
 *
 * Functions of one image share most texts. So each text is sent once and then referred to by its
 * number, also in later messages. A `fresh` message restarts the numbering. Number 0 is the empty
 * text.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "symbols/place/place.h"

/* After this many texts or bytes, the next message is fresh. */
#define ANSWERS_TEXTS 16384u
#define ANSWERS_TEXT_BYTES ((size_t)8 << 20)

struct told_text {
    uint64_t hash;   /* seeded, so that no file can force collisions */
    uint32_t number; /* 0: none */
};

struct answers_out {
    struct buf body;
    bool linkage; /* include linkage names */
    uint32_t count;
    uint32_t texts; /* sent, and their bytes */
    size_t text_bytes;
    uint64_t seed;
    struct told_text *told;      /* hash table; NULL if memory is short */
    VEC(uint32_t) told_of_image; /* number sent, by the image's number of a text */
};

/* Begins a message. Before the first one, the caller zeroes the struct except `linkage`. */
void answers_begin(struct answers_out *out);
/* If memory is short, out->body.failed is set. */
void answers_put(struct answers_out *out, const struct place_answer *answer);
/* Call when an image is closed, before putting answers of the next one. */
void answers_image_closed(struct answers_out *out);
void answers_release(struct answers_out *out);

struct answer_text {
    size_t at; /* in `bytes` */
    uint32_t len;
};

struct answers_in {
    struct cursor rest;
    struct buf bytes; /* all numbered texts */
    VEC(struct answer_text) texts;
    uint64_t numbering; /* incremented by every fresh message; 0: none yet */
};

/*
 * Begins to read a message with *n answers. Fails, as does answers_get, with ERR_CHECK or
 * ERR_MEMORY.
 */
int answers_open(struct answers_in *in, struct view body, uint32_t *n, struct err *e);
/* `frames` has room for PLACE_FRAMES_MAX. Texts are valid until the next message is opened. */
int answers_get(struct answers_in *in, struct place_answer *answer, struct symbol_frame *frames,
                struct err *e);
void answers_close(struct answers_in *in);
