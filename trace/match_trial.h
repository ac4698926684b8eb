#ifndef TIDEMARK_TRACE_MATCH_TRIAL_H
#define TIDEMARK_TRACE_MATCH_TRIAL_H

/*
 * Whether our own search for matches in memory events (event_match.h) does any good to a trace.
 * Where addresses and times repeat less than its candidates expect, zstd's own search makes traces
 * smaller, by up to a third. So the first blocks of memory events are compressed both ways, and
 * the sizes compared.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

struct match_trial;

/*
 * `zstd` compresses as what is left to zstd's search is compressed; it becomes the trial's, unless
 * NULL is returned: memory is short.
 */
struct match_trial *match_trial_new(ZSTD_CCtx *zstd);
void match_trial_free(struct match_trial *t);

/*
 * A block of at most BLOCK_SIZE bytes that our search has made `own` bytes of. True while it is
 * not known which is better, or when it is ours: false says to leave the rest to zstd's search.
 */
bool match_trial_block(struct match_trial *t, const uint8_t *bytes, size_t len, size_t own);

#endif
