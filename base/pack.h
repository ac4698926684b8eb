#pragma once

/*
 * Arrays of small structures packed to the bits that their fields need. A run of 256 elements
 * stores each field as its smallest value and the differences to it. Fields that grow steadily are
 * stored as differences between neighbours. Each difference takes as many bits as the run's
 * largest.
 */

#include <stddef.h>
#include <stdint.h>

enum pack_mode {
    PACK_OFFSET, /* differences from the smallest value of the run */
    PACK_STEP,   /* differences from the previous value, zigzag: for times */
};

/* A little-endian unsigned integer of an element. */
struct pack_field {
    uint8_t offset; /* byte offset in the element */
    uint8_t bytes;  /* 1 to 8 */
    uint8_t mode;   /* enum pack_mode */
};

#define PACK_FIELDS_MAX 8

struct pack_layout {
    uint8_t element; /* bytes per element */
    uint8_t count;
    struct pack_field fields[PACK_FIELDS_MAX]; /* cover the element without overlap */
};

/* The most bytes that `n` packed elements need. */
size_t pack_bound(const struct pack_layout *l, size_t n);

/* Packs `n` elements to `out` and returns the bytes written, at most pack_bound. */
size_t pack_elements(const struct pack_layout *l, const uint8_t *elements, size_t n, uint8_t *out);

/* Unpacks what pack_elements wrote for the same layout and number. */
void unpack_elements(const struct pack_layout *l, const uint8_t *packed, size_t n,
                     uint8_t *elements);
