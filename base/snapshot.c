#include "base/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define LEVEL 1
#define PACKED_BUFFER ((size_t)128 << 10) /* most output of one zstd step */
#define WINDOW_LOG_MAX 21 /* a larger window, up to 8 MiB, would cost a reader too much memory */

/* ---- beginning and end */

static int begin(struct snapshot *s, int fd, uint64_t at, struct err *e)
{
    *s = (struct snapshot){.fd = fd, .at = at, .e = e};
    s->plain = malloc(SNAPSHOT_BUFFER);
    s->packed = malloc(PACKED_BUFFER);
    s->hash = XXH3_createState();
    if (s->plain && s->packed && s->hash)
        return 0;
    snapshot_release(s);
    return err_no_memory(e, "a checkpoint");
}

int snapshot_write(struct snapshot *s, int fd, uint64_t at, struct err *e)
{
    if (begin(s, fd, at, e) != 0)
        return -1;
    s->deflate = ZSTD_createCCtx();
    if (!s->deflate ||
        ZSTD_isError(ZSTD_CCtx_setParameter(s->deflate, ZSTD_c_compressionLevel, LEVEL)) ||
        XXH3_64bits_reset(s->hash) == XXH_ERROR) {
        snapshot_release(s);
        return err_no_memory(e, "a checkpoint");
    }
    return 0;
}

int snapshot_read(struct snapshot *s, int fd, uint64_t at, uint64_t len, struct err *e)
{
    if (begin(s, fd, at, e) != 0)
        return -1;
    s->loading = true;
    s->packed_left = len;
    s->inflate = ZSTD_createDCtx();
    if (!s->inflate ||
        ZSTD_isError(ZSTD_DCtx_setParameter(s->inflate, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
        snapshot_release(s);
        return err_no_memory(e, "a checkpoint");
    }
    return 0;
}

void snapshot_release(struct snapshot *s)
{
    ZSTD_freeCCtx(s->deflate);
    ZSTD_freeDCtx(s->inflate);
    XXH3_freeState(s->hash);
    free(s->plain);
    free(s->packed);
    *s = (struct snapshot){.fd = -1, .failed = true};
}

void snapshot_refuse(struct snapshot *s, const char *what)
{
    if (!s->failed)
        err_set(s->e, ERR_INPUT, "the checkpoint does not hold together: %s", what);
    s->failed = true;
}

void snapshot_no_memory(struct snapshot *s)
{
    if (!s->failed)
        err_no_memory(s->e, "a checkpoint");
    s->failed = true;
}

/* ---- writing */

static void write_packed(struct snapshot *s, size_t n)
{
    const uint8_t *p = s->packed;
    XXH3_64bits_update(s->hash, p, n);
    while (n > 0) {
        ssize_t done = pwrite(s->fd, p, n, (off_t)s->at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            err_errno(s->e, ERR_OUTPUT, "cannot write a checkpoint");
            s->failed = true;
            return;
        }
        p += done;
        n -= (size_t)done;
        s->at += (uint64_t)done;
    }
}

static void deflate(struct snapshot *s, ZSTD_EndDirective how)
{
    ZSTD_inBuffer in = {s->plain, s->plain_len, 0};
    size_t left = 0;
    do {
        ZSTD_outBuffer out = {s->packed, PACKED_BUFFER, 0};
        if (s->fd < 0)
            break;
        left = ZSTD_compressStream2(s->deflate, &out, &in, how);
        if (ZSTD_isError(left)) {
            snapshot_no_memory(s);
            return;
        }
        write_packed(s, out.pos);
    } while (!s->failed && (in.pos < in.size || (how == ZSTD_e_end && left)));
    s->plain_len = 0;
}

/* ---- reading */

static bool read_packed(struct snapshot *s)
{
    size_t n = s->packed_left < PACKED_BUFFER ? (size_t)s->packed_left : PACKED_BUFFER;
    ssize_t got = 0;
    do {
        got = n ? pread(s->fd, s->packed, n, (off_t)s->at) : 0;
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        err_errno(s->e, ERR_INPUT, "cannot read a checkpoint");
        s->failed = true;
    }
    if (got <= 0)
        return false;
    s->packed_at = 0;
    s->packed_len = (size_t)got;
    s->packed_left -= (uint64_t)got;
    s->at += (uint64_t)got;
    return true;
}

/* Decompresses more bytes; false at the end. */
static bool inflate(struct snapshot *s)
{
    ZSTD_outBuffer out = {s->plain, SNAPSHOT_BUFFER, 0};
    while (out.pos == 0) {
        ZSTD_inBuffer in = {s->packed, s->packed_len, s->packed_at};
        size_t status = ZSTD_decompressStream(s->inflate, &out, &in);
        bool stuck = in.pos == s->packed_at && out.pos == 0;
        s->packed_at = in.pos;
        if (ZSTD_isError(status)) {
            snapshot_refuse(s, "it cannot be decompressed");
            return false;
        }
        if (stuck && !read_packed(s))
            return false;
    }
    s->plain_at = 0;
    s->plain_len = out.pos;
    return true;
}

/* ---- both ways */

void snapshot_bytes_slow(struct snapshot *s, void *bytes, size_t n)
{
    uint8_t *p = bytes;
    while (n > 0 && !s->failed) {
        size_t room = s->loading ? s->plain_len - s->plain_at : SNAPSHOT_BUFFER - s->plain_len;
        size_t part = n < room ? n : room;
        if (part == 0) {
            if (!s->loading)
                deflate(s, ZSTD_e_continue);
            else if (!inflate(s))
                snapshot_refuse(s, "it ends too early");
            continue;
        }
        if (s->loading) {
            memcpy(p, s->plain + s->plain_at, part);
            s->plain_at += part;
        } else {
            memcpy(s->plain + s->plain_len, p, part);
            s->plain_len += part;
        }
        p += part;
        n -= part;
    }
    if (s->loading && n > 0)
        memset(p, 0, n);
}

int snapshot_end(struct snapshot *s)
{
    if (s->loading) {
        if (!s->failed && (s->plain_at < s->plain_len || inflate(s)))
            snapshot_refuse(s, "more is behind its end");
        return s->failed ? -1 : 0;
    }
    if (!s->failed)
        deflate(s, ZSTD_e_end);
    s->check = XXH3_64bits_digest(s->hash);
    return s->failed ? -1 : 0;
}

void snapshot_bool(struct snapshot *s, bool *v)
{
    uint8_t byte = *v;
    snapshot_u8(s, &byte);
    *v = byte != 0;
}

void snapshot_size(struct snapshot *s, size_t *v)
{
    uint64_t n = *v;
    snapshot_u64(s, &n);
    *v = (size_t)n;
}

void snapshot_index(struct snapshot *s, uint64_t v, uint64_t n, const char *what)
{
    if (s->loading && v >= n)
        snapshot_refuse(s, what);
}

size_t snapshot_count(struct snapshot *s, size_t count, size_t most)
{
    snapshot_size(s, &count);
    if (s->loading && count > most)
        snapshot_refuse(s, "a list is longer than it can be");
    return s->failed ? 0 : count;
}

void snapshot_map(struct snapshot *s, struct map *m, uint64_t first, uint64_t last,
                  const char *what)
{
    size_t iter = 0, n = snapshot_count(s, m->count, SIZE_MAX);
    if (s->loading)
        map_release(m);
    for (size_t i = 0; i < n && !s->failed; i++) {
        const struct map_slot *slot = s->loading ? NULL : map_next(m, &iter);
        struct map_slot one = slot ? *slot : (struct map_slot){0};
        snapshot_u64(s, &one.key);
        snapshot_u64(s, &one.value);
        if (!s->loading || s->failed)
            continue;
        if (one.value < first || one.value > last) {
            snapshot_refuse(s, what);
            return;
        }
        uint64_t *value = map_add(m, one.key, NULL);
        if (value)
            *value = one.value;
        else
            snapshot_no_memory(s);
    }
}

void snapshot_put_text(struct snapshot *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    (void)snapshot_count(s, n, SIZE_MAX);
    while (n > 0 && !s->failed) {
        uint8_t part[4096];
        size_t some = n < sizeof part ? n : sizeof part;
        memcpy(part, p, some);
        snapshot_bytes(s, part, some);
        p += some;
        n -= some;
    }
}

void snapshot_buf(struct snapshot *s, struct buf *b, size_t most)
{
    if (!s->loading) {
        snapshot_put_text(s, b->data, b->len);
        return;
    }
    size_t n = snapshot_count(s, 0, most);
    buf_clear(b);
    while (b->len < n && !s->failed) {
        uint8_t part[4096];
        size_t some = n - b->len < sizeof part ? n - b->len : sizeof part;
        snapshot_bytes(s, part, some);
        buf_put(b, part, some);
        if (b->failed)
            snapshot_no_memory(s);
    }
}
