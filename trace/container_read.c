#include "trace/container.h"

#include <errno.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/bytes.h"
#include "trace/appendix.h"

#define READ_PIECE ((size_t)1 << 20)

/* The state of one compression stream, made when its first block comes. */
struct decoder {
    ZSTD_DCtx *zstd;
    uint8_t *previous; /* LZ4: the stream's block before, which is the dictionary of the next */
    size_t previous_len;
    size_t bytes; /* memory that it takes */
};

struct container_reader {
    int fd;
    bool at_end; /* read(2) has returned 0 */
    uint8_t *buf;
    size_t pos, len; /* unread bytes are buf[pos … len) */
    struct container_info info;
    uint64_t decoder_limit;
    uint64_t decoder_bytes;
    size_t short_block; /* bytes of the block that was not full; 0: none yet */
    struct decoder decoders[255];
};

/* Makes `n` ≤ READ_PIECE bytes contiguous. 1, or 0 when the file ends before, or -1. */
static int file_need(struct container_reader *r, size_t n, struct err *e)
{
    if (r->len - r->pos >= n)
        return 1;
    memmove(r->buf, r->buf + r->pos, r->len - r->pos);
    r->len -= r->pos;
    r->pos = 0;
    while (r->len < n && !r->at_end) {
        ssize_t got = read(r->fd, r->buf + r->len, READ_PIECE - r->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(e, ERR_INPUT, "cannot read at offset %llu",
                             (unsigned long long)r->info.file_bytes);
        r->at_end = got == 0;
        r->len += (size_t)got;
        r->info.file_bytes += (uint64_t)got;
    }
    return r->len >= n;
}

static uint64_t file_offset(const struct container_reader *r)
{
    return r->info.file_bytes - (r->len - r->pos);
}

static int read_magic(struct container_reader *r, struct err *e)
{
    int got = file_need(r, 4, e);
    if (got < 0)
        return -1;
    if (got == 0)
        return err_set(e, ERR_INPUT, "no Tracy trace: only %zu bytes long", r->len);
    const uint8_t *magic = r->buf;
    r->pos = 4;
    r->info.streams = 1;
    if (memcmp(magic, "tlZ\4", 4) == 0) {
        r->info.kind = CONTAINER_LZ4;
        r->info.codec = CODEC_LZ4;
        return 0;
    }
    if (memcmp(magic, "tZst", 4) == 0) {
        r->info.kind = CONTAINER_ZSTD;
        r->info.codec = CODEC_ZSTD;
        return 0;
    }
    if (memcmp(magic, "tr\xFDP", 4) != 0)
        return err_set(e, ERR_INPUT, "no Tracy trace: it begins with %02x %02x %02x %02x", magic[0],
                       magic[1], magic[2], magic[3]);
    got = file_need(r, 2, e);
    if (got < 0)
        return -1;
    if (got == 0)
        return err_set(e, ERR_INPUT, "the file ends inside the container header, at offset %llu",
                       (unsigned long long)r->info.file_bytes);
    unsigned codec = r->buf[r->pos];
    unsigned streams = r->buf[r->pos + 1];
    r->pos += 2;
    if (codec > 1)
        return err_set(e, ERR_INPUT, "container header: unknown compression %u at offset 4", codec);
    if (streams == 0)
        return err_set(e, ERR_INPUT, "container header: no compression streams at offset 5");
    r->info.kind = CONTAINER_STREAMS;
    r->info.codec = codec ? CODEC_ZSTD : CODEC_LZ4;
    r->info.streams = streams;
    return 0;
}

int container_reader_open(struct container_reader **out, int fd,
                          const struct container_limits *limits, struct err *e)
{
    struct container_reader *r = calloc(1, sizeof *r);
    *out = r;
    if (r)
        r->buf = malloc(READ_PIECE);
    if (!r || !r->buf) {
        container_reader_free(r);
        *out = NULL;
        return err_no_memory(e, "the buffers of a trace file");
    }
    r->fd = fd;
    r->decoder_limit =
        limits && limits->decoder_bytes ? limits->decoder_bytes : CONTAINER_DECODER_BYTES;
    int status = read_magic(r, e);
    if (status != 0) {
        container_reader_free(r);
        *out = NULL;
    }
    return status;
}

void container_reader_free(struct container_reader *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < 255; i++) {
        ZSTD_freeDCtx(r->decoders[i].zstd);
        free(r->decoders[i].previous);
    }
    free(r->buf);
    free(r);
}

/* Errors of a block: "block 12 (file offset 3456, 789 bytes): …". */
static int block_error(const struct container_reader *r, uint32_t size, struct err *e,
                       const char *what)
{
    return err_set(e, ERR_INPUT, "block %llu (file offset %llu, %u bytes): %s",
                   (unsigned long long)r->info.blocks, (unsigned long long)file_offset(r), size,
                   what);
}

static int count_decoder(struct container_reader *r, struct decoder *d, size_t bytes, uint32_t size,
                         struct err *e)
{
    r->decoder_bytes += bytes - d->bytes;
    d->bytes = bytes;
    if (r->decoder_bytes > r->decoder_limit)
        return block_error(r, size, e,
                           "the compression windows of all streams take too much "
                           "memory together");
    return 0;
}

/* All three return the block's uncompressed size, BLOCK_SIZE + 1 when it is longer, or -1. */
static ssize_t decode_lz4(struct container_reader *r, struct decoder *d, const uint8_t *in,
                          uint32_t size, uint8_t *out, struct err *e)
{
    if (!d->previous) {
        d->previous = malloc(BLOCK_SIZE);
        if (!d->previous)
            return err_no_memory(e, "an LZ4 decoder");
        if (count_decoder(r, d, BLOCK_SIZE, size, e) != 0)
            return -1;
    }
    int got = LZ4_decompress_safe_usingDict((const char *)in, (char *)out, (int)size, BLOCK_SIZE,
                                            (const char *)d->previous, (int)d->previous_len);
    if (got < 0)
        return block_error(r, size, e, "damaged LZ4 data, or a block of more than 65536 bytes");
    memcpy(d->previous, out, (size_t)got);
    d->previous_len = (size_t)got;
    return got;
}

static ssize_t decode_zstd(struct container_reader *r, struct decoder *d, const uint8_t *in,
                           uint32_t size, uint8_t *out, struct err *e)
{
    if (!d->zstd) {
        d->zstd = ZSTD_createDCtx();
        if (!d->zstd)
            return err_no_memory(e, "a zstd decoder");
        /* What the official reader's libzstd takes by default, and so what writers may use. */
        ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, 27);
    }
    ZSTD_inBuffer from = {in, size, 0};
    ZSTD_outBuffer to = {out, SOURCE_ROOM, 0};
    while (from.pos < from.size && to.pos < to.size) {
        size_t in_before = from.pos, out_before = to.pos;
        size_t got = ZSTD_decompressStream(d->zstd, &to, &from);
        if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
            return err_no_memory(e, "a zstd decoder");
        if (ZSTD_isError(got))
            return block_error(r, size, e, ZSTD_getErrorName(got));
        if (from.pos == in_before && to.pos == out_before)
            return block_error(r, size, e, "damaged zstd data");
    }
    if (count_decoder(r, d, ZSTD_sizeof_DCtx(d->zstd), size, e) != 0)
        return -1;
    return (ssize_t)to.pos;
}

/* The next block's compressed bytes at *in. 1, or 0 at the end of the file, or -1. */
static int next_block(struct container_reader *r, const uint8_t **in, uint32_t *size, struct err *e)
{
    int got = file_need(r, 4, e);
    if (got < 0)
        return -1;
    size_t left = r->len - r->pos;
    if (got == 0 && left == 0)
        return 0;
    if (r->short_block)
        return err_set(e, ERR_INPUT,
                       "block %llu ends the stream early: it holds %zu bytes and more blocks "
                       "follow at offset %llu, but all except the last must hold 65536",
                       (unsigned long long)r->info.blocks - 1, r->short_block,
                       (unsigned long long)file_offset(r));
    if (got == 0)
        return err_set(e, ERR_INPUT,
                       "the file ends inside the size of block %llu, %zu of 4 bytes after offset "
                       "%llu",
                       (unsigned long long)r->info.blocks, left,
                       (unsigned long long)file_offset(r));
    *size = load_u32(r->buf + r->pos);
    if (*size == 0 || *size > BLOCK_COMPRESSED_MAX)
        return block_error(r, *size, e, "impossible block size");
    got = file_need(r, 4 + (size_t)*size, e);
    if (got < 0)
        return -1;
    if (got == 0)
        return block_error(r, *size, e, "the file ends inside this block");
    *in = r->buf + r->pos + 4;
    return 1;
}

static ssize_t container_read(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    (void)room; /* at least SOURCE_ROOM by contract */
    struct container_reader *r = ctx;
    const uint8_t *in = NULL;
    uint32_t size = 0;
    int more = next_block(r, &in, &size, e);
    if (more <= 0)
        return more;
    struct decoder *d = &r->decoders[r->info.blocks % r->info.streams];
    ssize_t got = r->info.codec == CODEC_LZ4 ? decode_lz4(r, d, in, size, out, e)
                                             : decode_zstd(r, d, in, size, out, e);
    if (got < 0)
        return -1;
    if (got == 0)
        return block_error(r, size, e, "it holds nothing");
    if (got > (ssize_t)BLOCK_SIZE)
        return block_error(r, size, e, "it holds more than 65536 bytes");
    if (got < (ssize_t)BLOCK_SIZE)
        r->short_block = (size_t)got;
    r->pos += 4 + (size_t)size;
    r->info.blocks++;
    r->info.inner_bytes += (uint64_t)got;
    return got;
}

int container_reader_skip(struct container_reader *r, struct err *e)
{
    const uint8_t *in;
    uint32_t size;
    int more;
    r->short_block = 0; /* how long those that follow are is not known */
    while ((more = next_block(r, &in, &size, e)) > 0) {
        r->pos += 4 + (size_t)size;
        r->info.blocks++;
    }
    return more;
}

struct byte_source container_reader_source(struct container_reader *r)
{
    return (struct byte_source){.ctx = r, .read = container_read};
}

const struct container_info *container_reader_info(const struct container_reader *r)
{
    return &r->info;
}

uint64_t container_reader_offset(const struct container_reader *r)
{
    return file_offset(r);
}

/* Keeps the newest APPENDIX_END bytes of those that pass. */
static void keep_last(uint8_t last[APPENDIX_END], const uint8_t *bytes, size_t n)
{
    size_t taken = n < APPENDIX_END ? n : APPENDIX_END;
    memmove(last, last + taken, APPENDIX_END - taken);
    memcpy(last + APPENDIX_END - taken, bytes + n - taken, taken);
}

int container_reader_trailing(struct container_reader *r, uint64_t *bytes, struct err *e)
{
    uint8_t last[APPENDIX_END] = {0};
    uint64_t before = file_offset(r);
    for (;;) {
        keep_last(last, r->buf + r->pos, r->len - r->pos);
        r->pos = r->len;
        if (r->at_end)
            break;
        if (file_need(r, 1, e) < 0)
            return -1;
    }
    *bytes = r->info.file_bytes - before;
    if (*bytes && *bytes == appendix_size(last))
        *bytes = 0;
    return 0;
}
