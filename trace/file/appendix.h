#ifndef TIDEMARK_TRACE_FILE_APPENDIX_H
#define TIDEMARK_TRACE_FILE_APPENDIX_H

/*
 * Something of our own behind a trace that is compressed with zstd, in the same file. Official
 * readers stop where the trace ends, and a tool that writes it anew leaves this out. To whoever
 * walks the blocks (trace/file/container.h) it is some more, cut in pieces that zstd decompresses
 * to themselves: raw blocks of the frames that the trace's streams have not ended.
 *
 *     u32 n + 3, u24 n << 3, n bytes          pieces of the content
 *     u32 51,    u24 384,    48 bytes         the end: the last 55 bytes of the file
 *
 *     the end: "TidemarkAppendix", u64 bytes of the trace before it, u64 bytes of the content,
 *              u64 XXH3 of that trace, u64 XXH3 of the content
 *
 * It holds for the very bytes before it: once one of them is another, there is none.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

#define APPENDIX_HEAD 7u /* bytes before those of a piece */
#define APPENDIX_END_PIECE 48u
#define APPENDIX_END (APPENDIX_HEAD + APPENDIX_END_PIECE)

/*
 * Appends `content` to the trace that is all of `fd` (a regular file, open for reading and writing,
 * wherever it stands). On an error, ERR_OUTPUT, the file is as it was.
 */
int appendix_write(int fd, struct view content, struct err *e);

struct appendix {
    uint64_t trace_bytes; /* where it begins in the file */
    uint64_t file_bytes;  /* where it ends */
    uint8_t *content;     /* the caller's, to be freed */
    size_t len;
};

/*
 * Reads the appendix of the trace that is all of `fd`, a regular file: 1, or 0 when there is none
 * that holds, or -1 with `e`. Reads the whole file, and allocates no more than is in it.
 */
int appendix_read(int fd, struct appendix *a, struct err *e);

/* What the end piece states. */
struct appendix_sums {
    uint64_t trace_bytes, len, trace_hash, hash;
};

/* Whether `head` begins a piece, and of how many bytes. */
bool appendix_piece(const uint8_t head[APPENDIX_HEAD], uint32_t *n);

/* Whether a piece may follow when `len` bytes of content came before: all but the last are full. */
bool appendix_goes_on(uint64_t len);

/* Reads the end piece; false: it is none. */
bool appendix_sums(const uint8_t end[APPENDIX_END_PIECE], struct appendix_sums *sums);

#endif
