#include "base/blobs.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/order.h"

#define LEVEL 3

void blobs_init(struct blobs *b, struct spool *s)
{
    *b = (struct blobs){.spool = s};
}

void blobs_clear(struct blobs *b)
{
    b->filled = 0;
    b->flushed = 0;
    b->runs.len = 0;
}

void blobs_release(struct blobs *b)
{
    ZSTD_freeCCtx(b->deflate);
    ZSTD_freeDCtx(b->inflate);
    vec_release(&b->runs);
    free(b->buffer);
    free(b->room);
    *b = (struct blobs){0};
}

static uint8_t *blobs_room(struct blobs *b, size_t n)
{
    if (b->room_size < n) {
        free(b->room);
        b->room = malloc(n);
        b->room_size = b->room ? n : 0;
    }
    return b->room;
}

static int blobs_flush(struct blobs *b, const uint8_t *bytes, size_t n, struct err *e)
{
    struct blob_run run = {.first = b->flushed};
    if (n == 0)
        return 0;
    if (!vec_reserve(&b->runs, b->runs.len + 1))
        return err_no_memory(e, "stored data");
    if (spool_store(b->spool, bytes, n, &run.at, e) != 0)
        return -1;
    b->runs.at[b->runs.len++] = run;
    b->flushed += n;
    return 0;
}

static int blobs_put(struct blobs *b, const uint8_t *bytes, size_t n, uint64_t *place,
                     struct err *e)
{
    if (!b->buffer && !(b->buffer = malloc(BLOBS_BUFFER)))
        return err_no_memory(e, "stored data");
    if (b->filled + n > BLOBS_BUFFER) {
        if (blobs_flush(b, b->buffer, b->filled, e) != 0)
            return -1;
        b->filled = 0;
    }
    *place = b->flushed + b->filled;
    if (n > BLOBS_BUFFER)
        return blobs_flush(b, bytes, n, e);
    memcpy(b->buffer + b->filled, bytes, n);
    b->filled += n;
    return 0;
}

int blobs_add(struct blobs *b, const void *bytes, uint32_t n, struct blob *blob, struct err *e)
{
    *blob = (struct blob){.size = n, .stored = n};
    if (n == 0)
        return 0;
    if (!b->deflate && !(b->deflate = ZSTD_createCCtx()))
        return err_no_memory(e, "stored data");
    size_t bound = ZSTD_compressBound(n);
    uint8_t *room = blobs_room(b, bound);
    if (!room)
        return err_no_memory(e, "stored data");
    size_t len = ZSTD_compressCCtx(b->deflate, room, bound, bytes, n, LEVEL);
    if (ZSTD_isError(len))
        return err_no_memory(e, "stored data"); /* blobs_room fails only for lack of memory */
    if (len >= n)
        return blobs_put(b, bytes, n, &blob->place, e);
    blob->stored = (uint32_t)len;
    return blobs_put(b, room, len, &blob->place, e);
}

/* Loads the stored bytes of a blob, which never straddle two runs. */
static const uint8_t *blobs_find(struct blobs *b, const struct blob *blob, struct err *e)
{
    if (blob->place >= b->flushed)
        return b->buffer + (blob->place - b->flushed);
    size_t next = 1;
    BISECT(next, b->runs.len, i, b->runs.at[i].first <= blob->place);
    const struct blob_run *run = &b->runs.at[next - 1];
    uint8_t *room = blobs_room(b, blob->stored);
    if (!room) {
        err_no_memory(e, "stored data");
        return NULL;
    }
    uint64_t at = run->at + (blob->place - run->first);
    return spool_load(b->spool, room, blob->stored, at, e) == 0 ? room : NULL;
}

int blobs_get(struct blobs *b, const struct blob *blob, void *out, struct err *e)
{
    if (blob->size == 0)
        return 0;
    const uint8_t *stored = blobs_find(b, blob, e);
    if (!stored)
        return -1;
    if (blob->stored == blob->size) {
        memcpy(out, stored, blob->size);
        return 0;
    }
    if (!b->inflate && !(b->inflate = ZSTD_createDCtx()))
        return err_no_memory(e, "stored data");
    size_t len = ZSTD_decompressDCtx(b->inflate, out, blob->size, stored, blob->stored);
    if (len != blob->size)
        return err_set(e, ERR_OUTPUT, "the spool file in %s does not hold what was written to it",
                       b->spool->dir);
    return 0;
}
