#pragma once

/*
 * Serialises state to a file and back. One function per structure describes both directions, so
 * they cannot drift apart. Numbers are little-endian and of fixed width; the bytes are compressed
 * (zstd). The input is untrusted: memory grows only as elements arrive, whatever the count says,
 * and indices are checked against the tables that they refer to (snapshot_index). After the first
 * inconsistency nothing more is read, and every value reads as 0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

struct snapshot {
    bool loading;
    bool failed;
    struct err *e; /* the first cause of a failure */
    int fd;
    uint64_t at;    /* file offset after the bytes written or read */
    uint64_t check; /* XXH3 of the bytes written, set at the end */
    struct ZSTD_CCtx_s *deflate;
    struct ZSTD_DCtx_s *inflate;
    void *hash;      /* XXH3 state */
    uint8_t *plain;  /* plain bytes buffered for writing or read ahead */
    size_t plain_at; /* reading: the next byte */
    size_t plain_len;
    uint8_t *packed; /* the compressed buffer */
    size_t packed_at;
    size_t packed_len;
    uint64_t packed_left; /* reading: bytes of the file not read yet */
    /* Only for moves within a process: */
    struct renumbering *renumbering; /* writing: trace/ingest/renumber.h; NULL: ids unchanged */
    bool in_place; /* leave out data that stays in memory; include data that files omit */
};

/*
 * Starts writing at offset `at` of a file; `fd` -1 discards the bytes. -1 with `e` when memory is
 * short.
 */
int snapshot_write(struct snapshot *s, int fd, uint64_t at, struct err *e);

/* Starts reading `len` bytes at offset `at` of a file. */
int snapshot_read(struct snapshot *s, int fd, uint64_t at, uint64_t len, struct err *e);

/*
 * Writing: flushes the buffers. Reading: checks that all bytes were used. Returns -1 if this or an
 * earlier call failed.
 */
int snapshot_end(struct snapshot *s);
void snapshot_release(struct snapshot *s);

/* Fails with ERR_INPUT for inconsistent state, unless an earlier call failed. */
void snapshot_refuse(struct snapshot *s, const char *what);
void snapshot_no_memory(struct snapshot *s);

void snapshot_bytes_slow(struct snapshot *s, void *bytes, size_t n);
#define SNAPSHOT_BUFFER ((size_t)64 << 10)

static inline void snapshot_bytes(struct snapshot *s, void *bytes, size_t n)
{
    uint8_t *at = s->plain + (s->loading ? s->plain_at : s->plain_len);
    size_t room = s->loading ? s->plain_len - s->plain_at : SNAPSHOT_BUFFER - s->plain_len;
    if (s->failed || n > room) {
        snapshot_bytes_slow(s, bytes, n);
    } else if (s->loading) {
        memcpy(bytes, at, n);
        s->plain_at += n;
    } else {
        memcpy(at, bytes, n);
        s->plain_len += n;
    }
}

/* NOLINTBEGIN(bugprone-macro-parentheses): TYPE is a type, I a new variable */
#define SNAPSHOT_NUMBER(NAME, TYPE, LOAD, STORE)                                                   \
    static inline void NAME(struct snapshot *s, TYPE *v)                                           \
    {                                                                                              \
        uint8_t bytes[sizeof *v];                                                                  \
        if (!s->loading)                                                                           \
            STORE(bytes, *v);                                                                      \
        snapshot_bytes(s, bytes, sizeof bytes);                                                    \
        if (s->loading)                                                                            \
            *v = LOAD(bytes);                                                                      \
    }
SNAPSHOT_NUMBER(snapshot_u16, uint16_t, load_u16, store_u16)
SNAPSHOT_NUMBER(snapshot_u32, uint32_t, load_u32, store_u32)
SNAPSHOT_NUMBER(snapshot_u64, uint64_t, load_u64, store_u64)
SNAPSHOT_NUMBER(snapshot_i64, int64_t, load_i64, store_i64)
SNAPSHOT_NUMBER(snapshot_f32, float, load_f32, store_f32)
SNAPSHOT_NUMBER(snapshot_f64, double, load_f64, store_f64)
#undef SNAPSHOT_NUMBER

static inline void snapshot_u8(struct snapshot *s, uint8_t *v)
{
    snapshot_bytes(s, v, 1);
}

static inline void snapshot_i16(struct snapshot *s, int16_t *v)
{
    uint16_t u = (uint16_t)*v;
    snapshot_u16(s, &u);
    *v = (int16_t)u;
}

static inline void snapshot_i32(struct snapshot *s, int32_t *v)
{
    uint32_t u = (uint32_t)*v;
    snapshot_u32(s, &u);
    *v = (int32_t)u;
}

void snapshot_bool(struct snapshot *s, bool *v);
void snapshot_size(struct snapshot *s, size_t *v);

/* Fails unless the index `v` is below the size `n` of the table it refers to. */
void snapshot_index(struct snapshot *s, uint64_t v, uint64_t n, const char *what);

/* A count; one above `most` is rejected. */
size_t snapshot_count(struct snapshot *s, size_t count, size_t most);

/*
 * Iterates over the elements of a vector with index `I`. Reading appends the elements one by one,
 * zeroed. The body uses (V)->at[I] in both directions.
 */
#define SNAPSHOT_EACH(S, V, I, MOST)                                                               \
    for (size_t I = 0,                                                                             \
                I##_n = ((S)->loading ? (V)->len = 0 : 0, snapshot_count((S), (V)->len, (MOST)));  \
         I < I##_n && snapshot_goes_on((S)) && (!(S)->loading || SNAPSHOT_PUSH((S), (V), I)) &&    \
         (V)->at;                                                                                  \
         I++)
/* NOLINTEND(bugprone-macro-parentheses) */
#define SNAPSHOT_PUSH(S, V, I)                                                                     \
    (vec_reserve((V), (I) + 1)                                                                     \
         ? (memset(&(V)->at[I], 0, sizeof *(V)->at), (V)->len = (I) + 1, true)                     \
         : (snapshot_no_memory(S), false))

static inline bool snapshot_goes_on(const struct snapshot *s)
{
    return !s->failed;
}

/* A map whose values are `first` to `last`. Reading leaves only the entries of the file in it. */
void snapshot_map(struct snapshot *s, struct map *m, uint64_t first, uint64_t last,
                  const char *what);

/* The same for values that index a table of `n` elements. */
static inline void snapshot_map_into(struct snapshot *s, struct map *m, size_t n, const char *what)
{
    if (n == 0 && s->loading)
        snapshot_map(s, m, 1, 0, what); /* accepts no entries */
    else
        snapshot_map(s, m, 0, n - 1, what);
}

/*
 * snapshot_buf handles a buffer of at most `most` bytes. snapshot_put_text writes the same format
 * from bytes that are not in a buffer.
 */
void snapshot_put_text(struct snapshot *s, const void *bytes, size_t n);
void snapshot_buf(struct snapshot *s, struct buf *b, size_t most);
