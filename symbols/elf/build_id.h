#pragma once

/* The GNU build id of an ELF file: a note that identifies one build of an image. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BUILD_ID_MAX 64u

struct build_id {
    uint8_t bytes[BUILD_ID_MAX];
    uint8_t len; /* 0: none */
};

/*
 * Reads the build id of the file open at `fd` from its program headers (32- and 64-bit,
 * little-endian). The file is untrusted. False if it is no ELF file or has no build id; errno is
 * then ENOMEM if memory was short.
 */
bool build_id_read(int fd, struct build_id *out);

/*
 * Finds a build id in the notes of a segment or section; `align` is the alignment it states. False,
 * with nothing written, if there is none.
 */
bool build_id_in_notes(const uint8_t *notes, size_t len, uint64_t align, struct build_id *out);

static inline bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* Writes lower-case hexadecimal with a terminating NUL; "-" if there is none. */
void build_id_text(const struct build_id *id, char out[2 * BUILD_ID_MAX + 1]);
