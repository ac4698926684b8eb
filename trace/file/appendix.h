#pragma once

/*
 * Tidemark's data after a trace compressed with zstd, in the same file. Official readers stop at
 * the end of the trace, and other tools that rewrite the trace drop the appendix. To a program that
 * walks the blocks (trace/file/container.h), the appendix is more blocks. Its content is cut in
 * pieces that zstd decompresses to themselves: raw blocks of the frames that the trace's streams
 * have not ended.
 *
 *     u32 n + 3, u24 n << 3, n bytes          pieces of the content
 *     u32 51,    u24 384,    48 bytes         the end: the last 55 bytes of the file
 *
 *     the end: "TidemarkAppendix", u64 bytes of the trace before it, u64 bytes of the content,
 *              u64 XXH3 of that trace, u64 XXH3 of the content
 *
 * An appendix is valid only for the exact bytes before it: a change to any of them invalidates it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

#define APPENDIX_HEAD 7u /* bytes before a piece's content */
#define APPENDIX_END_PIECE 48u
#define APPENDIX_END (APPENDIX_HEAD + APPENDIX_END_PIECE)

/*
 * Appends `content` to the trace in `fd`, a regular file open for reading and writing; its offset
 * does not matter. On an error (ERR_OUTPUT), the file is restored.
 */
int appendix_write(int fd, struct view content, struct err *e);

struct appendix {
    uint64_t trace_bytes; /* offset where the appendix begins */
    uint64_t file_bytes;  /* offset where it ends */
    uint8_t *content;     /* owned and freed by the caller */
    size_t len;
};

/*
 * Reads the appendix of the trace in `fd`, a regular file. Returns 1, 0 when there is no valid one,
 * or -1 with `e`. Reads the whole file, and allocates no more than its size.
 */
int appendix_read(int fd, struct appendix *a, struct err *e);

/*
 * The content is a list of sections:
 *
 *     u64 APPENDIX_SECTIONS, then for each: u32 kind, u32 version, u64 n, n bytes
 *
 * Releases before it existed wrote the figures and the names alone, as u64 n, n bytes of figures,
 * then the names; they take APPENDIX_SECTIONS for a length beyond the content. A reader skips
 * sections of an unknown kind or version.
 */
#define APPENDIX_SECTIONS UINT64_C(0xffff534e4f495443)
#define APPENDIX_SECTION_HEAD 16u

enum appendix_kind {
    APPENDIX_FIGURES = 1,  /* analysis/figures/stored_figures.h */
    APPENDIX_NAMES = 2,    /* a whole .tracy file, of the trace's names without its events */
    APPENDIX_PAGES = 3,    /* trace/store/page_look.h */
    APPENDIX_RESIDENT = 5, /* trace/store/resident_stacks.h; 4: the same without nested bytes */
    APPENDIX_TIMES = 6,    /* i64 time of the first and last allocation of each pool in FIGURES */
    APPENDIX_ONLY = 7,     /* analysis/figures/figures_only.h */
};

#define APPENDIX_VERSION 1u /* of each of them */

/* Finds a section. False when there is none. *bytes is part of the content. */
bool appendix_find(const struct appendix *a, enum appendix_kind kind, struct view *bytes);

/* The contents of the end piece. */
struct appendix_sums {
    uint64_t trace_bytes, len, trace_hash, hash;
};

/* Whether `head` begins a piece; *n gets its length. */
bool appendix_piece(const uint8_t head[APPENDIX_HEAD], uint32_t *n);

/* Whether another piece may follow `len` bytes of content: all pieces but the last are full. */
bool appendix_goes_on(uint64_t len);

/* Parses the end piece; false if it is not one. */
bool appendix_sums(const uint8_t end[APPENDIX_END_PIECE], struct appendix_sums *sums);
