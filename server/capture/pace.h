#pragma once

/*
 * Flow control for streams that expand far more than those of real clients. The time to save a
 * trace is proportional to its events, and a few MiB of LZ4 frames can hold tens of millions of
 * them. After it has decoded such bytes, the session does not read the socket for a while, so that
 * the events it holds stay few and the save stays short. No data that was read is dropped. The
 * pause is a multiple of the decoding time, so a client that sends little does not notice it.
 */

#include <stdbool.h>
#include <stdint.h>

/*
 * Decompressed bytes per received byte. Streams of real clients mostly expand 3 to 6 times; single
 * frames, and streams that repeat one long message, may expand up to 255 times.
 */
#define PACE_EXPANSION 32u
#define PACE_REST 19 /* multiple of the decoding time */

/* All zero for a new client. */
struct pace {
    bool expands;         /* the bytes of the last turn expanded beyond PACE_EXPANSION */
    long long rest_until; /* monotonic ns */
};

/*
 * From `began` to `now`, monotonic ns, `in` bytes were decoded, which expanded to `out` bytes.
 * Pauses add up.
 */
void pace_note(struct pace *p, uint64_t in, uint64_t out, long long began, long long now);

/* Whole milliseconds after `now`, rounded up, during which the socket must not be read. */
int pace_rest_ms(const struct pace *p, long long now);
