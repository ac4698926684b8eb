#ifndef TIDEMARK_TRACE_FILE_EVENT_MATCH_H
#define TIDEMARK_TRACE_FILE_EVENT_MATCH_H

/*
 * A match finder for zstd that knows memory events. Nearly all bytes of a trace are records of one
 * size in which the same bytes differ from record to record, so there is no need to look for
 * matches at every byte: each record is compared with the one before it, with the last one of the
 * same address, and with the last one of the same call stack. That takes half the time of zstd's
 * own search on such data, and finds about as much.
 *
 * What comes out is any valid parse of the block, whatever is in it: a match is only told where the
 * bytes were compared and are equal.
 */

#include <stddef.h>
#include <stdint.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

struct event_match;

/* NULL when memory is short. */
struct event_match *event_match_new(void);
void event_match_free(struct event_match *m);

/*
 * The sequences of the block at hand, whose bytes [first, end) are whole memory events; the rest
 * becomes literals. `window` is how far back a match may lie. `out` must have room for
 * ZSTD_sequenceBound(len). Returns their number.
 */
size_t event_match_block(struct event_match *m, const uint8_t *block, size_t len, size_t first,
                         size_t end, size_t window, ZSTD_Sequence *out);

/* Goes on to the next block: the one at hand, of `len` bytes, is compressed, in whatever way. */
void event_match_next(struct event_match *m, size_t len);

#endif
