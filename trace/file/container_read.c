#include "trace/file/container.h"

#include <errno.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/bytes.h"
#include "trace/file/appendix.h"

#define READ_PIECE ((size_t)1 << 20)

/* Memory of a zstd decoder beside its window: tables and a block in progress. */
#define DECODER_BASE ((uint64_t)512 << 10)

/* The state of one compression stream, created with its first block. */
struct decoder {
    ZSTD_DCtx *zstd;
    uint8_t *previous; /* LZ4: the stream's previous block, the dictionary of the next */
    size_t previous_len;
    size_t bytes;     /* memory used */
    uint64_t decoded; /* decompressed bytes */
};

struct container_reader {
    int fd;
    bool at_end; /* read(2) has returned 0 */
    uint8_t *buf;
    size_t pos, len;    /* unread bytes are buf[pos … len) */
    XXH3_state_t *hash; /* of the magic and the decompressed blocks */
    struct container_info info;
    uint64_t decoder_limit;
    uint64_t decoder_bytes;
    size_t short_block; /* bytes of the first block that was not full; 0: none yet */
    struct decoder decoders[255];
};

/* Makes `n` ≤ READ_PIECE bytes contiguous. Returns 1; 0 if the file ends first; -1 on an error. */
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

/* Consumes the next `n` bytes, which are contiguous. */
static void take(struct container_reader *r, size_t n)
{
    XXH3_64bits_update(r->hash, r->buf + r->pos, n);
    r->pos += n;
}

static bool find_magic(const uint8_t magic[4], struct container_info *info)
{
    static const struct {
        char magic[5];
        enum container_kind kind;
        enum container_codec codec;
    } known[] = {{"tlZ\4", CONTAINER_LZ4, CODEC_LZ4},
                 {"tZst", CONTAINER_ZSTD, CODEC_ZSTD},
                 {"tr\xFDP", CONTAINER_STREAMS, CODEC_LZ4}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (memcmp(magic, known[i].magic, 4) == 0) {
            info->kind = known[i].kind;
            info->codec = known[i].codec;
            return true;
        }
    }
    return false;
}

bool container_begins(int fd)
{
    struct container_info unused;
    uint8_t magic[4];
    return pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic && find_magic(magic, &unused);
}

static int read_magic(struct container_reader *r, struct err *e)
{
    int got = file_need(r, 4, e);
    if (got < 0)
        return -1;
    if (got == 0)
        return err_set(e, ERR_INPUT, "no Tracy trace: only %zu bytes long", r->len);
    const uint8_t *magic = r->buf;
    if (!find_magic(magic, &r->info))
        return err_set(e, ERR_INPUT, "no Tracy trace: it begins with %02x %02x %02x %02x", magic[0],
                       magic[1], magic[2], magic[3]);
    take(r, 4);
    r->info.streams = 1;
    if (r->info.kind != CONTAINER_STREAMS)
        return 0;
    got = file_need(r, 2, e);
    if (got < 0)
        return -1;
    if (got == 0)
        return err_set(e, ERR_INPUT, "the file ends inside the container header, at offset %llu",
                       (unsigned long long)r->info.file_bytes);
    unsigned codec = r->buf[r->pos];
    unsigned streams = r->buf[r->pos + 1];
    take(r, 2);
    if (codec > 1)
        return err_set(e, ERR_INPUT, "container header: unknown compression %u at offset 4", codec);
    if (streams == 0)
        return err_set(e, ERR_INPUT, "container header: no compression streams at offset 5");
    r->info.codec = codec ? CODEC_ZSTD : CODEC_LZ4;
    r->info.streams = streams;
    return 0;
}

int container_reader_open(struct container_reader **out, int fd,
                          const struct container_limits *limits, struct err *e)
{
    struct container_reader *r = calloc(1, sizeof *r);
    *out = r;
    if (r) {
        r->buf = malloc(READ_PIECE);
        r->hash = XXH3_createState();
    }
    if (!r || !r->buf || !r->hash) {
        container_reader_free(r);
        *out = NULL;
        return err_no_memory(e, "the buffers of a trace file");
    }
    XXH3_64bits_reset(r->hash);
    r->fd = fd;
    r->decoder_limit = limits ? limits->decoder_bytes : 0;
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
    XXH3_freeState(r->hash);
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

/* The caller's limit, or one that grows with the file: a small file needs no large windows. */
static uint64_t decoder_limit(const struct container_reader *r)
{
    uint64_t by_file = r->info.file_bytes * CONTAINER_DECODER_SHARE;
    if (r->decoder_limit)
        return r->decoder_limit;
    if (by_file < CONTAINER_DECODER_LEAST)
        return CONTAINER_DECODER_LEAST;
    return by_file < CONTAINER_DECODER_MOST ? by_file : CONTAINER_DECODER_MOST;
}

static int count_decoder(struct container_reader *r, struct decoder *d, size_t bytes, uint32_t size,
                         struct err *e)
{
    r->decoder_bytes += bytes - d->bytes;
    d->bytes = bytes;
    if (r->decoder_bytes > decoder_limit(r))
        return block_error(r, size, e,
                           "the compression windows of all streams take too much "
                           "memory together");
    return 0;
}

/* All three return the block's uncompressed size, BLOCK_SIZE + 1 when it is larger, or -1. */
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
        /* The default limit of the official reader's libzstd, so writers may use that much. */
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
    /* Only the written part of an allocated window takes memory. */
    d->decoded += to.pos;
    uint64_t touched = d->decoded + DECODER_BASE, whole = ZSTD_sizeof_DCtx(d->zstd);
    if (count_decoder(r, d, (size_t)(touched < whole ? touched : whole), size, e) != 0)
        return -1;
    return (ssize_t)to.pos;
}

/* Reads the next block's compressed bytes to *in. Returns 1, 0 at the end of the file, or -1. */
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
    take(r, 4 + (size_t)size);
    r->info.blocks++;
    r->info.inner_bytes += (uint64_t)got;
    return got;
}

int container_reader_skip(struct container_reader *r, struct err *e)
{
    const uint8_t *in;
    uint32_t size;
    int more;
    r->short_block = 0; /* the sizes of the following blocks are unknown */
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

struct container_mark container_reader_mark(const struct container_reader *r)
{
    return (struct container_mark){file_offset(r), XXH3_64bits_digest(r->hash)};
}

/* ---- after the trace */

/* Seeks back to `end`. */
static int go_back(struct container_reader *r, const struct container_mark *end, struct err *e)
{
    uint64_t ahead = r->info.file_bytes - end->offset;
    if (file_offset(r) == end->offset)
        return 0;
    if (lseek(r->fd, -(off_t)ahead, SEEK_CUR) < 0)
        return err_errno(e, ERR_INPUT, "cannot read again from offset %llu",
                         (unsigned long long)end->offset);
    r->info.file_bytes = end->offset;
    r->pos = r->len = 0;
    r->at_end = false;
    return 0;
}

/* Reads the pieces of an appendix, if any. Returns whether its end piece ends the file. */
static int take_pieces(struct container_reader *r, const struct container_mark *end,
                       struct container_tail *tail, struct err *e)
{
    struct appendix_sums now = {.trace_bytes = end->offset, .trace_hash = end->hash}, told;
    uint32_t n;
    int more;
    XXH3_64bits_reset(r->hash);
    while ((more = file_need(r, APPENDIX_HEAD, e)) > 0 && appendix_piece(r->buf + r->pos, &n) &&
           (more = file_need(r, APPENDIX_HEAD + (size_t)n, e)) > 0) {
        const uint8_t *piece = r->buf + r->pos + APPENDIX_HEAD;
        if (n == APPENDIX_END_PIECE && appendix_sums(piece, &told)) {
            now.hash = XXH3_64bits_digest(r->hash);
            bool holds = memcmp(&now, &told, sizeof now) == 0;
            tail->kind = holds ? TAIL_APPENDIX : TAIL_CHANGED;
            r->pos += APPENDIX_HEAD + n;
            return file_need(r, 1, e);
        }
        if (!appendix_goes_on(now.len))
            break;
        XXH3_64bits_update(r->hash, piece, n);
        now.len += n;
        r->pos += APPENDIX_HEAD + (size_t)n;
    }
    return more < 0 ? -1 : 1;
}

/* Identifies data that is no piece of an appendix. */
static int look_at_rest(struct container_reader *r, struct container_tail *tail, struct err *e)
{
    struct container_info unused;
    int got = file_need(r, 4, e);
    if (got < 0)
        return -1;
    tail->kind = got && find_magic(r->buf + r->pos, &unused) ? TAIL_TRACE : TAIL_OTHER;
    tail->other = file_offset(r);
    do {
        r->pos = r->len;
    } while ((got = file_need(r, 1, e)) > 0);
    return got;
}

int container_reader_tail(struct container_reader *r, const struct container_mark *end,
                          struct container_tail *tail, struct err *e)
{
    *tail = (struct container_tail){.offset = end->offset};
    if (go_back(r, end, e) != 0)
        return -1;
    int more = file_need(r, 1, e);
    if (more > 0)
        more = take_pieces(r, end, tail, e);
    if (more > 0)
        more = look_at_rest(r, tail, e);
    tail->bytes = r->info.file_bytes - end->offset;
    return more;
}
