#pragma once

/*
 * A match finder for zstd for memory events. Nearly all bytes of a trace are records of one size in
 * which the same bytes differ from record to record, so it need not search for matches at every
 * byte. It compares each record with the previous one, with the last one of the same address, and
 * with the last one of the same call stack. That takes half the time of zstd's own search on such
 * data, and finds about as much.
 *
 * The result is a valid parse of any block: every match was verified by comparing the bytes.
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
 * Finds the sequences of the current block. Its bytes [first, end) are whole memory events; the
 * rest becomes literals. `window` is the largest distance of a match. `out` must have room for
 * ZSTD_sequenceBound(len). Returns the number of sequences.
 */
size_t event_match_block(struct event_match *m, const uint8_t *block, size_t len, size_t first,
                         size_t end, size_t window, ZSTD_Sequence *out);

/* Advances to the next block, after the current one of `len` bytes was compressed in either way. */
void event_match_next(struct event_match *m, size_t len);
