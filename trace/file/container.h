#pragma once

/*
 * The outer container of a .tracy file: a magic, then compressed blocks to the end of the file,
 * each `u32 compressed size, bytes`. Block i belongs to compression stream i mod N. Every block but
 * the last decompresses to exactly 64 KiB. There is no checksum and no terminator.
 *
 *     magic            then                                 since
 *     "tlZ\4"          blocks, LZ4, one stream              always
 *     "tZst"           blocks, zstd, one stream             always
 *     "tr\xFDP"        u8 compression, u8 streams, blocks   0.11.0
 *
 * Source: server/TracyFileHeader.hpp, TracyFileMeta.hpp, TracyFileRead.hpp and TracyFileWrite.hpp @
 * v0.9.1 … v0.14.0. Container and inner version are independent of each other.
 *
 * Readers and writers keep one codec state per stream and process the blocks one after another in
 * the caller's thread. Neither maps the file into memory.
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/file/stream.h"

enum container_kind { CONTAINER_LZ4, CONTAINER_ZSTD, CONTAINER_STREAMS };

enum container_codec { CODEC_LZ4, CODEC_ZSTD };

/* max(LZ4_compressBound(65536), ZSTD_compressBound(65536)). */
#define BLOCK_COMPRESSED_MAX 65824u

struct container_info {
    enum container_kind kind;
    enum container_codec codec;
    unsigned streams;
    uint64_t file_bytes;  /* read from the file so far */
    uint64_t blocks;      /* decompressed so far */
    uint64_t inner_bytes; /* uncompressed bytes of those blocks */
};

struct container_limits {
    uint64_t decoder_bytes; /* most memory that decoder states fill; 0: limit by the file's size */
};

/*
 * The default limit is CONTAINER_DECODER_SHARE times the file bytes read. It is at least
 * CONTAINER_DECODER_LEAST, and at most what 31 streams of the strongest official setting need (zstd
 * 22: a window of 128 MiB each). Allocated memory that was never written does not count.
 */
#define CONTAINER_DECODER_SHARE 64u
#define CONTAINER_DECODER_LEAST (UINT64_C(96) << 20)
#define CONTAINER_DECODER_MOST (UINT64_C(4) << 30)

/* Whether a file begins with the magic of a trace. */
bool container_begins(int fd);

struct container_reader;

/*
 * Starts reading a file descriptor at its current offset; the caller keeps owning it. Reads the
 * magic: ERR_INPUT if the file is no Tracy trace. `limits` may be NULL.
 */
int container_reader_open(struct container_reader **out, int fd,
                          const struct container_limits *limits, struct err *e);
void container_reader_free(struct container_reader *r);

/* Reads block headers up to the end of the file without decompressing. */
int container_reader_skip(struct container_reader *r, struct err *e);

/* The inner stream. Errors name block and file offset. */
struct byte_source container_reader_source(struct container_reader *r);

const struct container_info *container_reader_info(const struct container_reader *r);

/* A position between two blocks: bytes from the magic on, and their XXH3. */
struct container_mark {
    uint64_t offset, hash;
};

/* The start of the next block. After container_reader_skip the hash is invalid. */
struct container_mark container_reader_mark(const struct container_reader *r);

enum container_tail_kind {
    TAIL_NONE,
    TAIL_APPENDIX, /* a valid one for this trace (trace/file/appendix.h) */
    TAIL_CHANGED,  /* an appendix of other bytes, or a damaged one */
    TAIL_TRACE,    /* another trace, possibly after an appendix */
    TAIL_OTHER,
};

/* The data after the last block of the trace. */
struct container_tail {
    enum container_tail_kind kind;
    uint64_t offset, bytes;
    uint64_t other; /* TAIL_TRACE: offset of the other trace */
};

/*
 * Reads from `end`, a mark of this reader, to the end of the file. If the reader is past `end`, the
 * file must be seekable.
 */
int container_reader_tail(struct container_reader *r, const struct container_mark *end,
                          struct container_tail *tail, struct err *e);

enum container_method {
    METHOD_DEFAULT,     /* official default of the version: see container_options_default */
    METHOD_LZ4,         /* fast */
    METHOD_LZ4_HC,      /* level 9 */
    METHOD_LZ4_EXTREME, /* level 12, slow */
    METHOD_ZSTD,
};

/*
 * zstd levels with Tidemark's match finder for blocks of memory events (trace/file/event_match.h),
 * which takes a third of the time of level 3. It is used when the first such blocks show that it
 * does not make them larger (trace/file/match_trial.h). All other blocks use zstd's search: at
 * level 3, like official tools, or for the fast level the strategy of level 1 with matches of five
 * bytes and a table large enough to remember recurring addresses. Any zstd decoder reads both.
 */
#define CONTAINER_LEVEL_OWN 1000
#define CONTAINER_LEVEL_OWN_FAST 1001

struct container_options {
    enum container_method method;
    int level;        /* zstd level, ZSTD_minCLevel() to ZSTD_maxCLevel(), or a level above */
    unsigned streams; /* 1 to 255; 0: CONTAINER_STREAMS_OFFICIAL; old containers have one */
    bool old_magic;   /* "tlZ\4" or "tZst", which releases up to 0.10 need */
};

/* Source: capture/src/capture.cpp and update/src/update.cpp @ v0.11.1 … v0.14.0. */
#define CONTAINER_STREAMS_OFFICIAL 4u

/*
 * The default: LZ4 in an old container, else zstd, CONTAINER_LEVEL_OWN, in four streams. Users
 * compare the sizes of a trace before and after a tool strips it. So everything but memory events
 * must take as many bytes as with the official tools of the version.
 */
struct container_options container_options_default(void);

struct container_writer;

/* Writes the magic to `fd`, which the caller keeps owning. ERR_USAGE for options out of range. */
int container_writer_open(struct container_writer **out, int fd,
                          const struct container_options *options, struct err *e);
void container_writer_free(struct container_writer *w);

/* Takes the blocks of an out_stream. A failed write(2) is ERR_OUTPUT with its text. */
struct block_sink container_writer_sink(struct container_writer *w);

/*
 * An alternative to the sink: the same work in two steps, with a lane per compression stream (see
 * trace/file/block_thread.h).
 */
struct block_work container_writer_work(struct container_writer *w);

/* Flushes the buffer; call it once after the last block. */
int container_writer_finish(struct container_writer *w, struct err *e);

/* The effective options, with all defaults filled in. */
const struct container_options *container_writer_options(const struct container_writer *w);

/*
 * Bytes written to the file, and nanoseconds spent on compressing and writing, summed over all
 * threads.
 */
uint64_t container_writer_bytes(const struct container_writer *w);
uint64_t container_writer_time(const struct container_writer *w);
