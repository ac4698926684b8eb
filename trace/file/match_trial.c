#include "trace/file/match_trial.h"

#include <stdlib.h>

#include "trace/file/container.h"

struct match_trial {
    ZSTD_CCtx *zstd;
    struct event_match *match;
    const struct stream_block *block; /* the current block; NULL: not a block of memory events */
    uint64_t ours, zstds;             /* compressed bytes so far */
    unsigned blocks;                  /* remaining */
    uint8_t out[BLOCK_COMPRESSED_MAX];
};

static size_t produce_sequences(void *state, ZSTD_Sequence *out, size_t room, const void *bytes,
                                size_t len, const void *dictionary, size_t dictionary_len,
                                int level, size_t window)
{
    (void)dictionary, (void)dictionary_len, (void)level;
    struct match_trial *t = state;
    if (!t->block || len != t->block->len || room < ZSTD_sequenceBound(len))
        return ZSTD_SEQUENCE_PRODUCER_ERROR;
    return event_match_block(t->match, bytes, len, t->block->first, t->block->end, window, out);
}

struct match_trial *match_trial_new(ZSTD_CCtx *zstd, struct event_match *match, unsigned blocks)
{
    struct match_trial *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->zstd = zstd;
    t->match = match;
    t->blocks = blocks;
    ZSTD_registerSequenceProducer(zstd, t, produce_sequences);
    return t;
}

void match_trial_free(struct match_trial *t)
{
    if (!t)
        return;
    ZSTD_freeCCtx(t->zstd);
    free(t);
}

enum trial_verdict match_trial_block(struct match_trial *t, const struct stream_block *block,
                                     bool events, size_t size)
{
    ZSTD_inBuffer from = {block->bytes, block->len, 0};
    ZSTD_outBuffer to = {t->out, sizeof t->out, 0};
    t->block = events ? block : NULL;
    bool failed = ZSTD_compressStream2(t->zstd, &to, &from, ZSTD_e_flush) != 0;
    if (failed)
        return TRIAL_ZSTDS;
    if (!events)
        return TRIAL_OPEN;
    t->ours += to.pos;
    t->zstds += size;
    if (--t->blocks > 0)
        return TRIAL_OPEN;
    return t->ours <= t->zstds ? TRIAL_OURS : TRIAL_ZSTDS;
}
