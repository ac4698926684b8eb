#ifndef TIDEMARK_TRACE_FILE_MATCH_TRIAL_H
#define TIDEMARK_TRACE_FILE_MATCH_TRIAL_H

/*
 * Whether our own search for matches in memory events (event_match.h) does any good to a trace.
 * Where addresses and times repeat less than its candidates expect, zstd's own search makes traces
 * smaller, by up to a third. So zstd's search compresses the first blocks of memory events, ours
 * compresses them beside it, and the sizes decide which of them goes on. A trace with few memory
 * events has no other blocks, and gets what official tools make of them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "trace/file/event_match.h"
#include "trace/file/stream.h"

struct match_trial;

enum trial_verdict { TRIAL_OPEN, TRIAL_OURS, TRIAL_ZSTDS };

/*
 * `zstd` compresses as the trace is compressed, and becomes the trial's, unless NULL is returned:
 * memory is short. `match` stays the caller's. The verdict comes after `blocks` blocks.
 */
struct match_trial *match_trial_new(ZSTD_CCtx *zstd, struct event_match *match, unsigned blocks);
void match_trial_free(struct match_trial *t);

/*
 * All blocks of a stream from its first one of memory events on, of which zstd's search has made
 * `size` bytes. `events`: the block is mostly memory events.
 */
enum trial_verdict match_trial_block(struct match_trial *t, const struct stream_block *block,
                                     bool events, size_t size);

#endif
