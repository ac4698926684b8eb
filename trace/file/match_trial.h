#pragma once

/*
 * Decides whether Tidemark's search for matches in memory events (event_match.h) benefits a trace.
 * Where addresses and times recur less than its candidates expect, zstd's own search makes traces
 * smaller, by up to a third. So zstd's search compresses the first blocks of memory events,
 * Tidemark's search compresses them beside it, and the sizes decide which one continues. A trace
 * with few memory events ends during the trial, and all its blocks are compressed as official tools
 * do.
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
 * `zstd` has the settings of the trace's encoder. The trial takes ownership of it unless it returns
 * NULL (memory is short). The caller keeps `match`. The verdict comes after `blocks` blocks.
 */
struct match_trial *match_trial_new(ZSTD_CCtx *zstd, struct event_match *match, unsigned blocks);
void match_trial_free(struct match_trial *t);

/*
 * Takes all blocks of a stream from its first block of memory events on. `size`: the bytes that
 * zstd's search made of the block. `events`: the block is mostly memory events.
 */
enum trial_verdict match_trial_block(struct match_trial *t, const struct stream_block *block,
                                     bool events, size_t size);
