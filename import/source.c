#include "import/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd_errors.h>

/* ---- the file's own bytes */

static int refill(struct import_source *s, struct err *e)
{
    size_t got = 0;
    if (s->fd < 0) {
        got = s->file.len < SOURCE_BLOCK ? s->file.len : SOURCE_BLOCK;
        if (got)
            memcpy(s->in, s->file.p, got);
        s->file.p += got;
        s->file.len -= got;
    } else {
        ssize_t n;
        do
            n = read(s->fd, s->in, SOURCE_BLOCK);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            return err_errno(e, ERR_INPUT, "cannot be read");
        got = (size_t)n;
    }
    s->in_at = 0;
    s->in_len = got;
    s->at_end = got == 0;
    if (s->reading)
        s->reading(s->reading_ctx, got);
    return 0;
}

static enum source_kind kind_of(const uint8_t *p, size_t n)
{
    static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    if (n >= sizeof gzip && memcmp(p, gzip, sizeof gzip) == 0)
        return SOURCE_GZIP;
    return n >= sizeof zstd && memcmp(p, zstd, sizeof zstd) == 0 ? SOURCE_ZSTD : SOURCE_PLAIN;
}

static int source_begin(struct import_source *s, struct err *e)
{
    s->in = malloc(SOURCE_BLOCK);
    s->block = malloc(SOURCE_BLOCK);
    if (!s->in || !s->block)
        return err_no_memory(e, "reading the input");
    if (refill(s, e) != 0)
        return -1;
    s->kind = kind_of(s->in, s->in_len);
    if (s->kind == SOURCE_GZIP) {
        if (inflateInit2(&s->gzip, 15 + 16) != Z_OK)
            return err_no_memory(e, "reading the input");
        s->gzip_ready = true;
    }
    if (s->kind == SOURCE_ZSTD && !(s->zstd = ZSTD_createDStream()))
        return err_no_memory(e, "reading the input");
    return 0;
}

int import_source_open(struct import_source *s, const char *path, struct err *e)
{
    bool standard = strcmp(path, "-") == 0;
    *s = (struct import_source){.fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                               : open(path, O_RDONLY | O_CLOEXEC)};
    if (s->fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    if (source_begin(s, e) == 0)
        return 0;
    import_source_close(s);
    return -1;
}

int import_source_memory(struct import_source *s, struct view bytes, struct err *e)
{
    *s = (struct import_source){.fd = -1, .file = bytes};
    if (source_begin(s, e) == 0)
        return 0;
    import_source_close(s);
    return -1;
}

void import_source_close(struct import_source *s)
{
    if (s->gzip_ready)
        inflateEnd(&s->gzip);
    ZSTD_freeDStream(s->zstd);
    if (s->fd >= 0)
        close(s->fd);
    free(s->in);
    free(s->block);
    *s = (struct import_source){.fd = -1};
}

/* ---- decompression */

static int damaged(const struct import_source *s, const char *why, struct err *e)
{
    return err_set(e, ERR_INPUT, "cannot be decompressed after %" PRIu64 " bytes: %s",
                   s->given + s->block_len, why);
}

/* Files that went through tapes and block devices end in zeros. */
static void skip_padding(struct import_source *s)
{
    while (s->in_at < s->in_len && s->in[s->in_at] == 0)
        s->in_at++;
}

static int unpack_gzip(struct import_source *s, struct err *e)
{
    if (!s->inside) {
        skip_padding(s);
        if (s->in_at == s->in_len)
            return 0;
        if (inflateReset(&s->gzip) != Z_OK)
            return err_no_memory(e, "reading the input");
        s->inside = true;
    }
    s->gzip.next_in = s->in + s->in_at;
    s->gzip.avail_in = (uInt)(s->in_len - s->in_at);
    s->gzip.next_out = s->block + s->block_len;
    s->gzip.avail_out = (uInt)(SOURCE_BLOCK - s->block_len);
    int status = inflate(&s->gzip, Z_NO_FLUSH);
    s->in_at = s->in_len - s->gzip.avail_in;
    s->block_len = SOURCE_BLOCK - s->gzip.avail_out;
    if (status == Z_MEM_ERROR)
        return err_no_memory(e, "reading the input");
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return damaged(s, s->gzip.msg ? s->gzip.msg : "it needs a dictionary", e);
    s->inside = status != Z_STREAM_END;
    return 0;
}

static int unpack_zstd(struct import_source *s, struct err *e)
{
    ZSTD_inBuffer in = {s->in, s->in_len, s->in_at};
    ZSTD_outBuffer out = {s->block, SOURCE_BLOCK, s->block_len};
    size_t status = ZSTD_decompressStream(s->zstd, &out, &in);
    s->in_at = in.pos;
    s->block_len = out.pos;
    if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation)
        return err_no_memory(e, "reading the input");
    if (ZSTD_isError(status))
        return damaged(s, ZSTD_getErrorName(status), e);
    s->inside = status != 0;
    return 0;
}

static int unpack_plain(struct import_source *s)
{
    size_t room = SOURCE_BLOCK - s->block_len, have = s->in_len - s->in_at;
    size_t n = have < room ? have : room;
    memcpy(s->block + s->block_len, s->in + s->in_at, n);
    s->block_len += n;
    s->in_at += n;
    return 0;
}

static int unpack(struct import_source *s, struct err *e)
{
    switch (s->kind) {
    case SOURCE_GZIP:
        return unpack_gzip(s, e);
    case SOURCE_ZSTD:
        return unpack_zstd(s, e);
    default:
        return unpack_plain(s);
    }
}

int import_source_peek(struct import_source *s, struct view *bytes, struct err *e)
{
    while (s->block_len < SOURCE_BLOCK) {
        size_t before = s->block_len;
        if (s->in_at == s->in_len && !s->at_end && refill(s, e) != 0)
            return -1;
        /* A decoder returns output that it held back for lack of room without further input. */
        if (s->at_end && !s->inside)
            break;
        if (unpack(s, e) != 0)
            return -1;
        if (s->at_end && s->inside && s->block_len == before)
            return err_set(e, ERR_INPUT,
                           "cut off: the compressed data ends after %" PRIu64 " bytes of text",
                           s->given + s->block_len);
    }
    *bytes = (struct view){(const char *)s->block, s->block_len};
    return 0;
}

int import_source_next(struct import_source *s, struct view *bytes, struct err *e)
{
    if (import_source_peek(s, bytes, e) != 0)
        return -1;
    s->given += bytes->len;
    s->block_len = 0;
    return 0;
}
