#ifndef TIDEMARK_TRACE_FILE_CONTAINER_H
#define TIDEMARK_TRACE_FILE_CONTAINER_H

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
 * Readers and writers keep one codec state per stream and work block by block in the caller's
 * thread; neither maps the file into memory.
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
    uint64_t inner_bytes; /* that they held */
};

struct container_limits {
    uint64_t decoder_bytes; /* most memory that decoder states fill; 0: by the file's size */
};

/*
 * Without a limit: CONTAINER_DECODER_SHARE times the bytes of the file that were read, but from
 * CONTAINER_DECODER_LEAST to what 31 streams of the strongest official setting take (zstd 22: a
 * window of 128 MiB each). What was allocated and never written to does not count.
 */
#define CONTAINER_DECODER_SHARE 64u
#define CONTAINER_DECODER_LEAST (UINT64_C(96) << 20)
#define CONTAINER_DECODER_MOST (UINT64_C(4) << 30)

struct container_reader;

/*
 * Starts to read a file descriptor from where it stands; it stays the caller's. Reads the magic:
 * ERR_INPUT when it is no Tracy trace. `limits` may be NULL.
 */
int container_reader_open(struct container_reader **out, int fd,
                          const struct container_limits *limits, struct err *e);
void container_reader_free(struct container_reader *r);

/* Goes on to the end of the file, block by block, without looking into them. */
int container_reader_skip(struct container_reader *r, struct err *e);

/* The inner stream. Errors name block and file offset. */
struct byte_source container_reader_source(struct container_reader *r);

const struct container_info *container_reader_info(const struct container_reader *r);

/* A place between two blocks: bytes since the magic's first, and XXH3 of them. */
struct container_mark {
    uint64_t offset, hash;
};

/* Where the next block begins. After container_reader_skip the hash is not that of the bytes. */
struct container_mark container_reader_mark(const struct container_reader *r);

enum container_tail_kind {
    TAIL_NONE,
    TAIL_APPENDIX, /* one that holds for this trace (trace/file/appendix.h) */
    TAIL_CHANGED,  /* an appendix that holds for other bytes, or is damaged */
    TAIL_TRACE,    /* another trace, maybe behind an appendix */
    TAIL_OTHER,
};

/* What the file has behind the last block of the trace. */
struct container_tail {
    enum container_tail_kind kind;
    uint64_t offset, bytes;
    uint64_t other; /* TAIL_TRACE: where the other trace begins */
};

/*
 * Reads from `end`, a mark of this reader, to the end of the file. The file must be seekable if
 * the reader is beyond `end`.
 */
int container_reader_tail(struct container_reader *r, const struct container_mark *end,
                          struct container_tail *tail, struct err *e);

enum container_method {
    METHOD_DEFAULT, /* what official tools of the version write: see container_options_default */
    METHOD_LZ4,     /* fast */
    METHOD_LZ4_HC,  /* level 9 */
    METHOD_LZ4_EXTREME, /* level 12, slow */
    METHOD_ZSTD,
};

/*
 * Levels of zstd with a match finder of our own for blocks of memory events
 * (trace/file/event_match.h), used when the first of them show that it makes them no larger
 * (trace/file/match_trial.h). It takes a third of the time of level 3. All other blocks are
 * compressed by zstd's search: at level 3, as official tools do, or by the fast strategy of level 1
 * with matches of five bytes and a table large enough to remember addresses that come back. Any
 * zstd decoder reads both.
 */
#define CONTAINER_LEVEL_OWN 1000
#define CONTAINER_LEVEL_OWN_FAST 1001

struct container_options {
    enum container_method method;
    int level;        /* zstd level, ZSTD_minCLevel() to ZSTD_maxCLevel(), or one of those above */
    unsigned streams; /* 1 to 255; 0: CONTAINER_STREAMS_OFFICIAL; the old containers have one */
    bool old_magic;   /* "tlZ\4" or "tZst", which releases up to 0.10 need */
};

/* Source: capture/src/capture.cpp and update/src/update.cpp @ v0.11.1 … v0.14.0. */
#define CONTAINER_STREAMS_OFFICIAL 4u

/*
 * The default: LZ4 in an old container, else zstd, CONTAINER_LEVEL_OWN, in four streams. Users
 * compare the sizes of a trace before and after a tool strips it. So all that is not memory events
 * must take as many bytes as the official tools of the version make of it.
 */
struct container_options container_options_default(void);

struct container_writer;

/* Writes the magic to `fd`, which stays the caller's. ERR_USAGE for options out of range. */
int container_writer_open(struct container_writer **out, int fd,
                          const struct container_options *options, struct err *e);
void container_writer_free(struct container_writer *w);

/* Takes the blocks of an out_stream. An error of write(2) is ERR_OUTPUT with its text. */
struct block_sink container_writer_sink(struct container_writer *w);

/*
 * The same in two steps, instead of it, with a lane for each compression stream (see
 * trace/file/block_thread.h).
 */
struct block_work container_writer_work(struct container_writer *w);

/* Writes out what is buffered; to be called once after the last block. */
int container_writer_finish(struct container_writer *w, struct err *e);

/* With nothing left open. */
const struct container_options *container_writer_options(const struct container_writer *w);

/* Bytes written to the file, and nanoseconds spent on compressing and writing, of all threads. */
uint64_t container_writer_bytes(const struct container_writer *w);
uint64_t container_writer_time(const struct container_writer *w);

#endif
