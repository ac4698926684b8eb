#include "trace/file/container.h"

#include <errno.h>
#include <inttypes.h>
#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/monotonic.h"
#include "trace/file/event_match.h"
#include "trace/file/match_trial.h"

#define WRITE_PIECE ((size_t)1 << 20)

/* Old readers map the file, so avoid_page_end depends on the page size. */
#define PAGE 4096u

/* Source: capture/src/capture.cpp and update/src/update.cpp @ v0.11.1 … v0.14.0. */
#define LEVEL_OFFICIAL 3

/* Over all streams: by then, recurring addresses and call stacks have recurred. */
#define TRIAL_BLOCKS 16u

/* The state of one compression stream, created with its first block. */
struct encoder {
    LZ4_stream_t *lz4;
    LZ4_streamHC_t *lz4_hc;
    ZSTD_CCtx *zstd;
    struct event_match *match;        /* CONTAINER_LEVEL_OWN and _OWN_FAST only */
    struct match_trial *trial;        /* the trial of `match`; NULL: finished */
    bool trying;                      /* the trial has begun */
    enum trial_verdict verdict;       /* TRIAL_OURS: `match` provides the sequences */
    bool over;                        /* `match` provides no more sequences */
    const struct stream_block *block; /* the block being compressed */
    /* LZ4 refers back to the stream's previous block, which must therefore stay in place. */
    uint8_t *blocks[2];
    unsigned turn;
    size_t last_len;           /* of its newest block */
    const uint8_t *last_input; /* its bytes (LZ4 only) */
    uint64_t time;             /* ns spent on compressing */
};

struct container_writer {
    int fd;
    struct container_options options;
    uint8_t *buf; /* WRITE_PIECE bytes; always still contains the newest block */
    size_t len;
    size_t last;       /* start of the newest block in buf */
    size_t first, end; /* range of memory events in the next block */
    uint64_t written;  /* bytes written from buf to the file */
    uint64_t blocks;
    uint64_t time; /* ns spent on writing */
    struct encoder encoders[255];
};

struct container_options container_options_default(void)
{
    return (struct container_options){
        .method = METHOD_DEFAULT, .level = CONTAINER_LEVEL_OWN, .streams = 0};
}

static bool is_own(int level)
{
    return level == CONTAINER_LEVEL_OWN || level == CONTAINER_LEVEL_OWN_FAST;
}

static int check_options(const struct container_options *o, struct err *e)
{
    if (o->streams > 255)
        return err_set(e, ERR_USAGE, "%u compression streams: 1 to 255 are possible", o->streams);
    if ((o->method == METHOD_ZSTD || o->method == METHOD_DEFAULT) && !is_own(o->level) &&
        (o->level < ZSTD_minCLevel() || o->level > ZSTD_maxCLevel()))
        return err_set(e, ERR_USAGE, "zstd level %d: %d to %d are possible", o->level,
                       ZSTD_minCLevel(), ZSTD_maxCLevel());
    return 0;
}

static void put_magic(struct container_writer *w)
{
    bool zstd = w->options.method == METHOD_ZSTD;
    if (w->options.old_magic) {
        memcpy(w->buf, zstd ? "tZst" : "tlZ\4", 4);
        w->len = 4;
        return;
    }
    memcpy(w->buf, "tr\xFDP", 4);
    w->buf[4] = zstd;
    w->buf[5] = (uint8_t)w->options.streams;
    w->len = 6;
}

int container_writer_open(struct container_writer **out, int fd,
                          const struct container_options *options, struct err *e)
{
    *out = NULL;
    if (check_options(options, e) != 0)
        return -1;
    struct container_writer *w = calloc(1, sizeof *w);
    if (w)
        w->buf = malloc(WRITE_PIECE);
    if (!w || !w->buf) {
        container_writer_free(w);
        return err_no_memory(e, "the output of a trace");
    }
    w->fd = fd;
    w->options = *options;
    if (w->options.method == METHOD_DEFAULT)
        w->options.method = w->options.old_magic ? METHOD_LZ4 : METHOD_ZSTD;
    if (w->options.old_magic)
        w->options.streams = 1;
    if (w->options.streams == 0)
        w->options.streams = CONTAINER_STREAMS_OFFICIAL;
    put_magic(w);
    *out = w;
    return 0;
}

void container_writer_free(struct container_writer *w)
{
    if (!w)
        return;
    for (unsigned i = 0; i < 255; i++) {
        struct encoder *c = &w->encoders[i];
        if (c->lz4)
            LZ4_freeStream(c->lz4);
        if (c->lz4_hc)
            LZ4_freeStreamHC(c->lz4_hc);
        ZSTD_freeCCtx(c->zstd);
        event_match_free(c->match);
        match_trial_free(c->trial);
        free(c->blocks[0]);
        free(c->blocks[1]);
    }
    free(w->buf);
    free(w);
}

/* Writes out the buffer. */
static int flush(struct container_writer *w, struct err *e)
{
    for (size_t done = 0; done < w->len;) {
        ssize_t n = write(w->fd, w->buf + done, w->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, ERR_OUTPUT, "cannot write at offset %" PRIu64, w->written + done);
        done += (size_t)n;
    }
    w->written += w->len;
    w->len = 0;
    return 0;
}

/* Whether Tidemark's search compresses the block: it consists mostly of memory events. */
static bool is_of_events(const struct stream_block *b)
{
    return b->end - b->first >= b->len / 4 * 3;
}

/*
 * zstd calls this for a block's sequences. If the trial chose Tidemark's search, it provides them,
 * up to the first block that it cannot serve. zstd's search compresses that block and all later
 * ones.
 *
 * Tidemark's search does not resume after such a block. zstd encodes a distance equal to one of the
 * last three as an index into them, but its own search does not update the third one in the encoder
 * (ZSTD_compressBlock_doubleFast, libzstd 1.5.4); the decoder's third distance differs. If that
 * distance came from Tidemark's search and recurred after such a block, the decoder would copy the
 * wrong bytes.
 */
static size_t produce_sequences(void *state, ZSTD_Sequence *out, size_t room, const void *bytes,
                                size_t len, const void *dictionary, size_t dictionary_len,
                                int level, size_t window)
{
    (void)dictionary, (void)dictionary_len, (void)level;
    struct encoder *c = state;
    const struct stream_block *b = c->block;
    if (c->verdict != TRIAL_OURS || !is_of_events(b) || len != b->len ||
        room < ZSTD_sequenceBound(len)) {
        c->over = c->verdict == TRIAL_OURS;
        return ZSTD_SEQUENCE_PRODUCER_ERROR;
    }
    return event_match_block(c->match, bytes, len, b->first, b->end, window, out);
}

/* Creates a zstd encoder. `level` determines its search for blocks other than memory events. */
static ZSTD_CCtx *zstd_new(int level, struct err *e)
{
    const bool fast = level == CONTAINER_LEVEL_OWN_FAST;
    const struct {
        bool set;
        ZSTD_cParameter parameter;
        int value;
    } settings[] = {
        {true, ZSTD_c_compressionLevel,
         fast            ? 1
         : is_own(level) ? LEVEL_OFFICIAL
                         : level},
        {true, ZSTD_c_contentSizeFlag, 0},
        {fast, ZSTD_c_strategy, ZSTD_fast},
        {fast, ZSTD_c_hashLog, 17},
        {fast, ZSTD_c_minMatch, 5},
        {is_own(level), ZSTD_c_enableSeqProducerFallback, 1},
        {is_own(level), ZSTD_c_searchForExternalRepcodes, ZSTD_ps_enable},
    };
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    if (!zstd) {
        (void)err_no_memory(e, "a zstd encoder");
        return NULL;
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (settings[i].set &&
            ZSTD_isError(ZSTD_CCtx_setParameter(zstd, settings[i].parameter, settings[i].value))) {
            (void)err_set(e, ERR_OUTPUT, "zstd refuses level %d", level);
            ZSTD_freeCCtx(zstd);
            return NULL;
        }
    }
    return zstd;
}

/* Adds Tidemark's search for memory events, which a trial enables if it pays off. */
static int encoder_init_match(struct encoder *c, const struct container_options *o, struct err *e)
{
    ZSTD_CCtx *rival = zstd_new(o->level, e);
    if (!rival)
        return -1;
    c->match = event_match_new();
    if (c->match)
        c->trial = match_trial_new(rival, c->match, (TRIAL_BLOCKS - 1) / o->streams + 1);
    if (!c->trial) {
        ZSTD_freeCCtx(rival);
        return err_no_memory(e, "a zstd encoder");
    }
    ZSTD_registerSequenceProducer(c->zstd, c, produce_sequences);
    return 0;
}

static int encoder_init_zstd(struct encoder *c, const struct container_options *o, struct err *e)
{
    c->zstd = zstd_new(o->level, e);
    if (!c->zstd)
        return -1;
    return is_own(o->level) ? encoder_init_match(c, o, e) : 0;
}

static int encoder_init(struct encoder *c, const struct container_options *o, struct err *e)
{
    if (c->lz4 || c->lz4_hc || c->zstd)
        return 0;
    if (o->method == METHOD_ZSTD)
        return encoder_init_zstd(c, o, e);
    c->blocks[0] = malloc(BLOCK_SIZE);
    c->blocks[1] = malloc(BLOCK_SIZE);
    if (!c->blocks[0] || !c->blocks[1])
        return err_no_memory(e, "an LZ4 encoder");
    if (o->method == METHOD_LZ4) {
        c->lz4 = LZ4_createStream();
    } else {
        c->lz4_hc = LZ4_createStreamHC();
        if (c->lz4_hc)
            LZ4_resetStreamHC_fast(c->lz4_hc, o->method == METHOD_LZ4_EXTREME
                                                  ? LZ4HC_CLEVEL_MAX
                                                  : LZ4HC_CLEVEL_DEFAULT);
    }
    return c->lz4 || c->lz4_hc ? 0 : err_no_memory(e, "an LZ4 encoder");
}

/*
 * Follows a block that zstd's search compressed. The trial begins with the first block of events.
 */
static void go_on_trying(struct encoder *c, const struct stream_block *block, size_t size)
{
    bool events = is_of_events(block);
    c->trying |= events;
    if (c->trying)
        c->verdict = match_trial_block(c->trial, block, events, size);
    if (c->verdict == TRIAL_OPEN)
        return;
    match_trial_free(c->trial);
    c->trial = NULL;
}

static size_t encode_zstd(struct encoder *c, const struct stream_block *block, uint8_t *out)
{
    ZSTD_inBuffer from = {block->bytes, block->len, 0};
    ZSTD_outBuffer to = {out, BLOCK_COMPRESSED_MAX, 0};
    c->block = block;
    size_t left = ZSTD_compressStream2(c->zstd, &to, &from, ZSTD_e_flush);
    c->block = NULL;
    if (c->over)
        c->verdict = TRIAL_ZSTDS;
    if (c->trial)
        go_on_trying(c, block, to.pos);
    if (c->match)
        event_match_next(c->match, block->len);
    return left == 0 ? to.pos : 0;
}

/* Compresses a block to `out`, which has room for BLOCK_COMPRESSED_MAX bytes. 0 on failure. */
static size_t encode(struct encoder *c, const struct stream_block *block, uint8_t *out)
{
    c->last_len = block->len;
    if (c->zstd)
        return encode_zstd(c, block, out);
    uint8_t *in = c->blocks[c->turn];
    c->turn ^= 1;
    memcpy(in, block->bytes, block->len);
    c->last_input = in;
    int len = (int)block->len;
    int got = c->lz4 ? LZ4_compress_fast_continue(c->lz4, (const char *)in, (char *)out, len,
                                                  BLOCK_COMPRESSED_MAX, 1)
                     : LZ4_compress_HC_continue(c->lz4_hc, (const char *)in, (char *)out, len,
                                                BLOCK_COMPRESSED_MAX);
    return got > 0 ? (size_t)got : 0;
}

static void container_events(void *ctx, size_t first, size_t end)
{
    struct container_writer *w = ctx;
    w->first = first;
    w->end = end;
}

/* Compresses for one lane: changes nothing in the writer but the lane's encoder. */
static int container_encode(void *ctx, unsigned lane, const struct stream_block *block,
                            uint8_t *out, size_t *size, struct err *e)
{
    struct container_writer *w = ctx;
    struct encoder *c = &w->encoders[lane];
    uint64_t begin = monotonic_ns();
    if (encoder_init(c, &w->options, e) != 0)
        return -1;
    *size = encode(c, block, out);
    if (*size == 0)
        return err_set(e, ERR_OUTPUT, "compression failed (out of memory?)");
    c->time += monotonic_ns() - begin;
    return 0;
}

static int make_room(struct container_writer *w, struct err *e)
{
    return WRITE_PIECE - w->len < 4 + (size_t)BLOCK_COMPRESSED_MAX ? flush(w, e) : 0;
}

/* Notes that the block after those in the buffer was compressed to `size` bytes. */
static void note_block(struct container_writer *w, size_t size)
{
    store_u32(w->buf + w->len, (uint32_t)size);
    w->last = w->len;
    w->len += 4 + size;
    w->blocks++;
}

static int container_append(void *ctx, const uint8_t *bytes, size_t size, struct err *e)
{
    struct container_writer *w = ctx;
    uint64_t begin = monotonic_ns();
    if (make_room(w, e) != 0)
        return -1;
    memcpy(w->buf + w->len + 4, bytes, size);
    note_block(w, size);
    w->time += monotonic_ns() - begin;
    return 0;
}

static int container_put(void *ctx, const uint8_t *bytes, size_t len, struct err *e)
{
    struct container_writer *w = ctx;
    const struct stream_block block = {bytes, len, w->first, w->end};
    unsigned lane = (unsigned)(w->blocks % w->options.streams);
    size_t size;
    w->first = w->end = 0;
    if (make_room(w, e) != 0 ||
        container_encode(w, lane, &block, w->buf + w->len + 4, &size, e) != 0)
        return -1;
    note_block(w, size);
    return 0;
}

/* Writes an LZ4 block of one run of literals. Returns its size. */
static size_t store_literals(uint8_t *out, const uint8_t *bytes, size_t len)
{
    uint8_t *p = out;
    *p++ = (uint8_t)((len < 15 ? len : 15) << 4);
    if (len >= 15) {
        size_t rest = len - 15;
        for (; rest >= 255; rest -= 255)
            *p++ = 255;
        *p++ = (uint8_t)rest;
    }
    memcpy(p, bytes, len);
    return (size_t)(p - out) + len;
}

/*
 * Releases up to 0.10 read the next block's size before they need it. After a single block and
 * after a full last block, that reads four bytes past the end of the file, and past the mapping
 * when the file ends on a page boundary (`FileRead::ReadBlock`, server/TracyFileRead.hpp @ v0.9.1).
 * So such a file gets a last block of another size: an additional empty zstd block, or plain
 * literals in LZ4. Data that LZ4 already stored as literals gets four zero bytes after it, which
 * all releases ignore.
 */
static void avoid_page_end(struct container_writer *w)
{
    const struct encoder *c = &w->encoders[(w->blocks - 1) % w->options.streams];
    bool reads_on = w->blocks == 1 || c->last_len == BLOCK_SIZE;
    if (!w->options.old_magic || !reads_on || (w->written + w->len) % PAGE != 0)
        return;
    uint8_t *size_at = w->buf + w->last;
    size_t size = w->len - w->last - 4;
    if (w->options.method != METHOD_ZSTD) {
        size = store_literals(size_at + 4, c->last_input, c->last_len);
    } else if (size + 3 <= BLOCK_COMPRESSED_MAX) {
        memset(size_at + 4 + size, 0, 3);
        size += 3;
    }
    store_u32(size_at, (uint32_t)size);
    w->len = w->last + 4 + size;
    if ((w->written + w->len) % PAGE == 0) {
        memset(w->buf + w->len, 0, 4);
        w->len += 4;
    }
}

struct block_sink container_writer_sink(struct container_writer *w)
{
    return (struct block_sink){.ctx = w, .put = container_put, .events = container_events};
}

struct block_work container_writer_work(struct container_writer *w)
{
    return (struct block_work){.ctx = w,
                               .lanes = w->options.streams,
                               .room = BLOCK_COMPRESSED_MAX,
                               .encode = container_encode,
                               .append = container_append};
}

int container_writer_finish(struct container_writer *w, struct err *e)
{
    uint64_t begin = monotonic_ns();
    if (w->blocks > 0)
        avoid_page_end(w);
    int status = flush(w, e);
    w->time += monotonic_ns() - begin;
    return status;
}

const struct container_options *container_writer_options(const struct container_writer *w)
{
    return &w->options;
}

uint64_t container_writer_bytes(const struct container_writer *w)
{
    return w->written + w->len;
}

uint64_t container_writer_time(const struct container_writer *w)
{
    uint64_t time = w->time;
    for (unsigned i = 0; i < w->options.streams; i++)
        time += w->encoders[i].time;
    return time;
}
