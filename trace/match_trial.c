#include "trace/match_trial.h"

#include <stdlib.h>

#include "trace/container.h"
#include "trace/stream.h"

/* Enough that both ways have met most addresses and call stacks again that they will meet. */
#define TRIAL_BLOCKS 16u

struct match_trial {
    ZSTD_CCtx *zstd;
    uint64_t own, zstds; /* bytes so far */
    unsigned blocks;
    uint8_t out[BLOCK_COMPRESSED_MAX];
};

struct match_trial *match_trial_new(ZSTD_CCtx *zstd)
{
    struct match_trial *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->zstd = zstd;
    return t;
}

void match_trial_free(struct match_trial *t)
{
    if (!t)
        return;
    ZSTD_freeCCtx(t->zstd);
    free(t);
}

bool match_trial_block(struct match_trial *t, const uint8_t *bytes, size_t len, size_t own)
{
    if (t->blocks == TRIAL_BLOCKS)
        return t->own <= t->zstds;
    ZSTD_inBuffer from = {bytes, len, 0};
    ZSTD_outBuffer to = {t->out, sizeof t->out, 0};
    /* What cannot be compared is no reason to change anything. */
    if (ZSTD_compressStream2(t->zstd, &to, &from, ZSTD_e_flush) != 0)
        to.pos = own;
    t->own += own;
    t->zstds += to.pos;
    if (++t->blocks < TRIAL_BLOCKS)
        return true;
    ZSTD_freeCCtx(t->zstd);
    t->zstd = NULL;
    return t->own <= t->zstds;
}
