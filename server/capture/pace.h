#ifndef TIDEMARK_SERVER_CAPTURE_PACE_H
#define TIDEMARK_SERVER_CAPTURE_PACE_H

/*
 * Flow control for streams that expand far more than those of real clients. Saving takes time in
 * proportion to the events held, and a few MiB of LZ4 frames can hold tens of millions of them. So
 * the session does not read the socket for a while after it has decoded such bytes: what it holds,
 * and so the time that saving takes, stays small. Nothing that was read is dropped. The pause is a
 * multiple of the time that decoding took, so a client that sends little does not notice it.
 */

#include <stdbool.h>
#include <stdint.h>

/*
 * Decompressed bytes for each byte received. Streams of clients mostly expand 3 to 6 times; single
 * frames, and streams that repeat one long message, may expand up to 255 times.
 */
#define PACE_EXPANSION 32u
#define PACE_REST 5 /* times as long as decoding took */

/* All zero: a client that has sent nothing yet. */
struct pace {
    bool expands;         /* the last turn's bytes did so */
    long long rest_until; /* monotonic ns */
};

/*
 * From `began` to `now`, monotonic ns, `in` bytes were decoded, which expanded to `out` bytes.
 * Pauses add up.
 */
void pace_note(struct pace *p, uint64_t in, uint64_t out, long long began, long long now);

/* Whole milliseconds, rounded up, for which the socket is not read from `now` on. */
int pace_rest_ms(const struct pace *p, long long now);

#endif
