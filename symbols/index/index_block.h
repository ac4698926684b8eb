#ifndef TIDEMARK_SYMBOLS_INDEX_INDEX_BLOCK_H
#define TIDEMARK_SYMBOLS_INDEX_INDEX_BLOCK_H

/*
 * What the index knows of one unit, in one piece of bytes that is the same in memory and in the
 * cache file:
 *
 *     header | scopes | segments | rows | files | texts | names | strings
 *
 * All numbers are little-endian; places of addresses are offsets from `base`; texts are offsets
 * into `strings`, which begins with an empty string and ends with a NUL. `names`, one beside each
 * text, are filled in as texts are asked for. Bytes from a cache file may be anything: block_open
 * checks sizes, and each number is checked where it is used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/view.h"

struct block_header {
    uint64_t base; /* address that the offsets count from */
    uint32_t n_scopes, n_segments, n_rows, n_files;
    uint32_t n_strings; /* bytes */
    uint32_t n_texts;
};

#define SCOPE_INLINED 1u

/* A function with code, or one inlined into the scope `parent`. */
struct block_scope {
    uint32_t parent; /* number + 1; 0: none. Always lower than the scope's own number */
    uint32_t name;   /* text + 1: linkage name, else the plain one; 0: none */
    uint32_t flags;
    uint32_t low;       /* lowest address; UINT32_MAX: none */
    uint32_t call_file; /* where the call stood: file + 1; 0: not known */
    uint32_t call_line;
    uint32_t call_column;
};

/* From `start` on, up to the next segment, the innermost scope is this one. */
struct block_segment {
    uint32_t start;
    uint32_t scope; /* number + 1; 0: none */
};

#define ROW_GAP 1u /* nothing is known from here on */

/* From `start` on, up to the next row. */
struct block_row {
    uint32_t start;
    uint32_t line;
    uint32_t file; /* number + 1; 0: not known */
    uint16_t column;
    uint16_t flags;
};

/* A block with its parts found; `bytes` are somebody else's. */
struct block {
    struct block_header header;
    const struct block_scope *scopes;
    const struct block_segment *segments;
    const struct block_row *rows;
    const uint32_t *files; /* texts + 1 */
    const uint32_t *texts; /* places of strings */
    uint32_t *names;       /* of texts, in the index: number + 1; 0: not known yet */
    const char *strings;
};

/* Bytes of a block with a header like this one; 0 when that is more than memory can have. */
size_t block_size(const struct block_header *h);

/*
 * Finds the parts. False when `bytes` (aligned to 8) is not a block of exactly that size. The names
 * can be written if the bytes can.
 */
bool block_open(struct block *b, struct view bytes);

#define BLOCK_STRING_MAX ((size_t)1 << 20) /* bytes, with the NUL: longer ones are not given */

/* Of a text (number + 1); "" where there is none. */
const char *block_text(const struct block *b, uint32_t text);
/* The text (number + 1) of a file (number + 1); 0 where there is none. */
static inline uint32_t block_file(const struct block *b, uint32_t file)
{
    return file > 0 && file <= b->header.n_files ? b->files[file - 1] : 0;
}

/*
 * The row and the scope (number + 1) at an address; NULL and 0 when there is none. *near, 0 at the
 * beginning, is where the last one was found: addresses that rise are found close behind it.
 */
const struct block_row *block_row_at(const struct block *b, uint64_t address, size_t *near);
uint32_t block_scope_at(const struct block *b, uint64_t address, size_t *near);

#endif
