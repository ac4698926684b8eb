#include "analysis/figures/stream_log.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/prefault.h"

/*
 * A portion: one byte each for the number of steps - 1, the bits of `what`, and the bits of a size;
 * then the steps. A step is `what` with the size above it, in the fewest bytes that hold both. If
 * more than 8 are needed, `what` takes 4 bytes and the size 6.
 */
#define HEAD 3u
#define WIDE_WHAT 4u
#define WIDE_SIZE 6u
#define WIDE (WIDE_WHAT + WIDE_SIZE)

#define CHUNK ((size_t)256 << 10)
#define FIRST_CHUNK ((size_t)8 << 10) /* there may be many short logs */
#define SLACK 8u /* whole words are stored and loaded, the last one beyond the end */
#define RUN_ROOM (HEAD + LOG_RUN * WIDE + SLACK)

static size_t size_of_chunk(size_t number)
{
    return number ? CHUNK : FIRST_CHUNK;
}

void stream_log_init(struct stream_log *l, struct spool *spool)
{
    *l = (struct stream_log){.spool = spool};
}

void stream_log_release(struct stream_log *l)
{
    for (size_t i = 0; i < l->chunks.len; i++)
        free(l->chunks.at[i].bytes);
    vec_release(&l->chunks);
    *l = (struct stream_log){0};
}

/* ---- appending */

/* Makes room for one more chunk: chunks beyond the budget go to the file, the oldest first. */
static int settle(struct stream_log *l, struct err *e)
{
    size_t budget = l->spool->raw_budget + l->spool->packed_budget;
    for (; l->resident < l->chunks.len; l->resident++) {
        struct log_chunk *c = &l->chunks.at[l->resident];
        if ((l->chunks.len + 1 - l->resident) * CHUNK <= budget)
            return 0;
        if (spool_store(l->spool, c->bytes, c->len, &c->place, e) != 0)
            return -1;
        free(c->bytes);
        c->bytes = NULL;
    }
    return 0;
}

static __attribute__((noinline)) int add_chunk(struct stream_log *l, struct err *e)
{
    if (settle(l, e) != 0)
        return -1;
    size_t size = size_of_chunk(l->chunks.len);
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return err_no_memory(e, "a log of steps");
    if (size == CHUNK)
        prefault(bytes, size);
    if (!vec_push(&l->chunks, (struct log_chunk){.bytes = bytes})) {
        free(bytes);
        return err_no_memory(e, "a log of steps");
    }
    return 0;
}

static unsigned bits_of(uint64_t any)
{
    return any ? 64 - (unsigned)__builtin_clzll(any) : 0;
}

static uint8_t *put_narrow(uint8_t *p, const struct log_steps *s, unsigned low, unsigned step)
{
    for (uint32_t i = 0; i < s->n; i++, p += step)
        store_u64(p, s->what[i] | s->size[i] << low);
    return p;
}

static uint8_t *put_wide(uint8_t *p, const struct log_steps *s)
{
    for (uint32_t i = 0; i < s->n; i++, p += WIDE) {
        store_u32(p, s->what[i]);
        store_u64(p + WIDE_WHAT, s->size[i]);
    }
    return p;
}

int stream_log_put(struct stream_log *l, struct log_steps *s, struct err *e)
{
    if (s->n == 0)
        return 0;
    size_t last = l->chunks.len - 1;
    if (l->chunks.len == 0 || size_of_chunk(last) - l->chunks.at[last].len < RUN_ROOM) {
        if (add_chunk(l, e) != 0)
            return -1;
    }
    struct log_chunk *c = &l->chunks.at[l->chunks.len - 1];
    uint8_t *p = c->bytes + c->len;
    unsigned low = bits_of(s->any_what);
    unsigned high = bits_of(s->any_size);
    p[0] = (uint8_t)(s->n - 1);
    p[1] = (uint8_t)low;
    p[2] = (uint8_t)high;
    p += HEAD;
    p = low + high > 64 ? put_wide(p, s) : put_narrow(p, s, low, (low + high + 7) / 8);
    c->len = (size_t)(p - c->bytes);
    l->len += s->n;
    s->n = s->any_what = 0;
    s->any_size = 0;
    return 0;
}

/* ---- reading */

struct log_place stream_log_end(const struct stream_log *l)
{
    size_t n = l->chunks.len;
    return (struct log_place){n ? n - 1 : 0, n ? l->chunks.at[n - 1].len : 0};
}

void log_reader_init(struct log_reader *r, const struct stream_log *l, struct log_place from,
                     struct log_place to)
{
    *r = (struct log_reader){.log = l, .next = from, .end = to};
}

void log_reader_release(struct log_reader *r)
{
    free(r->buffer);
    *r = (struct log_reader){0};
}

/* The bytes of the current chunk; NULL with `e`. */
static const uint8_t *chunk_bytes(struct log_reader *r, struct err *e)
{
    const struct log_chunk *c = &r->log->chunks.at[r->next.chunk];
    if (c->bytes)
        return c->bytes;
    if (!r->buffer && !(r->buffer = calloc(1, CHUNK))) {
        err_no_memory(e, "a log of steps");
        return NULL;
    }
    if (r->in_buffer != r->next.chunk + 1) {
        r->in_buffer = 0;
        if (spool_load(r->log->spool, r->buffer, c->len, c->place, e) != 0)
            return NULL;
        memset(r->buffer + c->len, 0, SLACK);
        r->in_buffer = r->next.chunk + 1;
    }
    return r->buffer;
}

static const uint8_t *get_narrow(const uint8_t *p, struct log_steps *s, unsigned low, unsigned high)
{
    uint64_t mask = low + high == 64 ? UINT64_MAX : (UINT64_C(1) << (low + high)) - 1;
    uint32_t low_mask = (uint32_t)((UINT64_C(1) << low) - 1);
    unsigned step = (low + high + 7) / 8;
    for (uint32_t i = 0; i < s->n; i++, p += step) {
        uint64_t both = load_u64(p) & mask;
        s->what[i] = (uint32_t)both & low_mask;
        s->size[i] = both >> low;
    }
    return p;
}

static const uint8_t *get_wide(const uint8_t *p, struct log_steps *s)
{
    for (uint32_t i = 0; i < s->n; i++, p += WIDE) {
        s->what[i] = load_u32(p);
        s->size[i] = load_u64(p + WIDE_WHAT) & ((UINT64_C(1) << 48) - 1);
    }
    return p;
}

static bool at_end(struct log_reader *r)
{
    while (r->next.chunk < r->end.chunk && r->next.at == r->log->chunks.at[r->next.chunk].len)
        r->next = (struct log_place){r->next.chunk + 1, 0};
    return r->next.chunk == r->end.chunk && r->next.at == r->end.at;
}

int log_reader_next(struct log_reader *r, struct log_steps *s, struct err *e)
{
    s->n = 0;
    if (at_end(r))
        return 0;
    const uint8_t *bytes = chunk_bytes(r, e);
    if (!bytes)
        return -1;
    const uint8_t *p = bytes + r->next.at;
    unsigned low = p[1];
    unsigned high = p[2];
    s->n = p[0] + 1u;
    p += HEAD;
    p = low + high > 64 ? get_wide(p, s) : get_narrow(p, s, low, high);
    r->next.at = (size_t)(p - bytes);
    return 0;
}
