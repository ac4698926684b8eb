#include "client/record_write.h"

#include <string.h>

#include "client/clock.h"
#include "client/encode.h"
#include "client/threads.h"

#define SIZED_HEAD 4u /* bytes before the body of a record with a length */

void record_lost(enum rec_loss why, bool is_free, size_t bytes)
{
    struct rec_header *header = state.header;
    /* A thread that was in a hook when the recording was ended on request has no loss. */
    if (!header || atomic_load_explicit(&live.page.on, memory_order_acquire) == LIVE_OFF)
        return;
    if (is_free) {
        atomic_fetch_add_explicit(&header->lost[why].frees, 1, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&header->lost[why].allocations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&header->lost[why].bytes, bytes, memory_order_relaxed);
}

void record_dropped(struct thread *t, uint32_t pool, uint64_t size)
{
    uint32_t at = pool < REC_POOLS_COUNTED ? pool : REC_POOLS_COUNTED - 1;
    struct rec_header *header = state.header;
    atomic_fetch_add_explicit(&header->dropped[at].allocations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&header->dropped[at].bytes, size, memory_order_relaxed);
    t->dropped++;
    t->dropped_bytes += size;
}

/* Marks a record as in progress, then reads its stamp. */
static inline uint64_t begin(struct writer *w)
{
    atomic_store_explicit(&w->chunk->pending, w->stamp, memory_order_relaxed);
    client_barrier();
    uint64_t stamp = clock_stamp();
    return client_likely(stamp > w->stamp) ? stamp : w->stamp;
}

/* Data of a record that a signal handler abandoned by jumping away is never committed. */
static inline void commit(struct writer *w, uint8_t *end, uint64_t stamp)
{
    w->stamp = stamp;
    w->at = end;
    atomic_store_explicit(&w->chunk->committed, (uint32_t)(end - (uint8_t *)(w->chunk + 1)),
                          memory_order_release);
    atomic_store_explicit(&w->chunk->pending, REC_IDLE, memory_order_release);
}

static void end_sized(struct writer *w, enum rec_kind kind, const uint8_t *body, uint8_t *end)
{
    uint64_t stamp = begin(w);
    uint8_t *at = encode_number(w->at + SIZED_HEAD, stamp - w->stamp);
    size_t rest = (size_t)(end - body);
    memmove(at, body, rest);
    at += rest;
    w->at[0] = (uint8_t)kind;
    encode_length(w->at + 1, (uint32_t)(at - (w->at + SIZED_HEAD)));
    commit(w, at, stamp);
}

/* REC_CLOCK_COUNTER has no time: a record gives it whenever the coarse clock has moved. */
static void note_clock(struct thread *t, unsigned level)
{
    int64_t coarse = clock_coarse_ns();
    if (coarse == t->coarse || level != 0)
        return;
    if (!threads_room(t, 0, THREADS_BLOCK))
        return;
    t->coarse = coarse;
    uint8_t *body = t->writers[0].at + SIZED_HEAD + 10;
    end_sized(&t->writers[0], REC_CLOCK, body, encode_number(body, clock_ns()));
}

static inline bool ready(struct thread *t, unsigned level, size_t need)
{
    if (client_unlikely(state.clock != REC_CLOCK_TSC))
        note_clock(t, level);
    return threads_room(t, level, need);
}

/* The beginning of all records of blocks. */
static inline uint8_t *put_head(struct writer *w, uint8_t kind, uint64_t stamp,
                                const struct block *block)
{
    uint8_t *at = w->at + 1;
    uint64_t change = block->address - w->address;
    uint8_t tag = kind;
    at = encode_number(at, stamp - w->stamp);
    if (block->how) {
        tag |= REC_FLAG_HOW;
        *at++ = (uint8_t)block->how;
    }
    if (client_unlikely(block->pool)) {
        tag |= REC_FLAG_POOL;
        at = encode_number(at, block->pool);
    }
    int64_t step = (int64_t)change;
    if ((change & 15) == 0) {
        tag |= REC_FLAG_BY16;
        step >>= 4;
    }
    *w->at = tag;
    return encode_number(at, encode_zigzag(step));
}

void record_alloc(struct thread *t, unsigned level, const struct block *block)
{
    struct writer *w = &t->writers[level];
    if (client_unlikely(!ready(t, level, THREADS_BLOCK))) {
        record_lost(REC_LOSS_SPACE, false, block->size);
        return;
    }
    uint64_t stamp = begin(w);
    uint8_t *at = put_head(w, REC_ALLOC, stamp, block);
    at = encode_number(at, block->size);
    at = encode_number(at, block->stack);
    w->address = block->address;
    commit(w, at, stamp);
}

static inline void record_gone(struct thread *t, unsigned level, uint8_t kind,
                               const struct block *block)
{
    struct writer *w = &t->writers[level];
    if (client_unlikely(!ready(t, level, THREADS_BLOCK))) {
        record_lost(REC_LOSS_SPACE, true, 0);
        return;
    }
    uint64_t stamp = begin(w);
    uint8_t *at = put_head(w, kind, stamp, block);
    if (kind == REC_FREE_STACK)
        at = encode_number(at, block->stack);
    w->address = block->address;
    commit(w, at, stamp);
}

void record_free(struct thread *t, unsigned level, const struct block *block)
{
    record_gone(t, level, block->stack ? REC_FREE_STACK : REC_FREE, block);
}

void record_put_back(struct thread *t, unsigned level, const struct block *block)
{
    record_gone(t, level, REC_PUT_BACK, block);
}

void record_pool(struct thread *t, uint32_t pool, const char *name)
{
    uint8_t *at = record_begin(t);
    if (at)
        record_end(t, REC_POOL, encode_text(encode_number(at, pool), name, strnlen(name, 1024)));
}

void record_loss(struct thread *t)
{
    struct writer *w = &t->writers[0];
    if (!t->dropped || !threads_room(t, 0, THREADS_BLOCK + SIZED_HEAD))
        return;
    uint8_t *body = w->at + SIZED_HEAD + 10;
    uint8_t *at = encode_number(body, REC_LOSS_FULL);
    at = encode_number(encode_number(at, t->dropped), t->dropped_bytes);
    end_sized(w, REC_LOSS, body, at);
    t->dropped = t->dropped_bytes = 0;
}

/* The body begins with the stamp: reserves the longest. */
uint8_t *record_begin(struct thread *t)
{
    if (!ready(t, 0, REC_RECORD_MAX))
        return NULL;
    return t->writers[0].at + SIZED_HEAD + 10;
}

void record_end(struct thread *t, enum rec_kind kind, uint8_t *end)
{
    struct writer *w = &t->writers[0];
    end_sized(w, kind, w->at + SIZED_HEAD + 10, end);
}

void record_owner(struct thread *t, unsigned level)
{
    struct writer *w = &t->writers[level];
    uint8_t *body = w->at + SIZED_HEAD + 10;
    uint8_t *at = encode_number(body, t->number);
    at = encode_number(at, (uint64_t)t->tid);
    end_sized(w, REC_OWNER, body, at);
}

void record_thread_name(struct thread *t, const char *name)
{
    struct writer *w = &t->writers[0];
    if (!threads_room(t, 0, THREADS_BLOCK + SIZED_HEAD))
        return;
    uint8_t *body = w->at + SIZED_HEAD + 10;
    end_sized(w, REC_THREAD_NAME, body, encode_text(body, name, strnlen(name, 16)));
}

void record_thread_exit(struct thread *t)
{
    struct writer *w = &t->writers[0];
    if (!ready(t, 0, THREADS_BLOCK))
        return;
    uint8_t *body = w->at + SIZED_HEAD + 10;
    end_sized(w, REC_THREAD_EXIT, body, body);
}

void record_child(struct thread *t, enum rec_kind kind, pid_t pid, bool followed, const char *path)
{
    uint8_t *at = record_begin(t);
    if (!at)
        return;
    if (kind != REC_EXEC) {
        at = encode_number(at, (uint64_t)(pid > 0 ? pid : 0));
        *at++ = followed;
    }
    if (kind != REC_FORK)
        at = encode_text(at, path, strnlen(path, 4096));
    record_end(t, kind, at);
}
