#ifndef TIDEMARK_TEST_FUZZ_PIECES_H
#define TIDEMARK_TEST_FUZZ_PIECES_H

/* An inner stream that comes in small pieces, so that records straddle them. */

#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"

#define PIECE_BYTES 999u

struct pieces {
    const uint8_t *bytes;
    size_t len, pos;
};

/* For struct byte_source; `ctx` is a struct pieces. */
static inline ssize_t read_piece(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct pieces *p = ctx;
    (void)e;
    size_t n = p->len - p->pos;
    n = n < room ? n : room;
    n = n < PIECE_BYTES ? n : PIECE_BYTES;
    if (n > 0)
        memcpy(out, p->bytes + p->pos, n);
    p->pos += n;
    return (ssize_t)n;
}

#endif
