#ifndef TIDEMARK_BASE_PACK_H
#define TIDEMARK_BASE_PACK_H

/*
 * Arrays of small structures packed to the bits that their fields need. A field of a run of 256
 * elements is stored as its smallest value and the differences to it (or, for fields that grow
 * steadily, as differences between neighbours), each in as many bits as the largest takes.
 */

#include <stddef.h>
#include <stdint.h>

enum pack_mode {
    PACK_OFFSET, /* differences to the smallest value of the run */
    PACK_STEP,   /* differences to the value before, zigzag: for times */
};

/* A little-endian unsigned integer of an element. */
struct pack_field {
    uint8_t offset; /* in the element */
    uint8_t bytes;  /* 1 to 8 */
    uint8_t mode;   /* enum pack_mode */
};

#define PACK_FIELDS_MAX 8

struct pack_layout {
    uint8_t element; /* bytes */
    uint8_t count;
    struct pack_field fields[PACK_FIELDS_MAX]; /* cover the element without overlap */
};

/* Room that `n` elements take at most. */
size_t pack_bound(const struct pack_layout *l, size_t n);

/* Packs `n` elements to `out` and returns the bytes written, at most pack_bound. */
size_t pack_elements(const struct pack_layout *l, const uint8_t *elements, size_t n, uint8_t *out);

/* The way back. `packed` is what pack_elements wrote for the same layout and number. */
void unpack_elements(const struct pack_layout *l, const uint8_t *packed, size_t n,
                     uint8_t *elements);

#endif
