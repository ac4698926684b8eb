#pragma once

/*
 * The data of one unit, in one block of bytes that is the same in memory and in the cache file:
 *
 *     header | scopes | segments | rows | files | texts | names | strings
 *
 * All numbers are little-endian. Addresses are offsets from `base`. Texts are offsets into
 * `strings`, which begins with an empty string and ends with a NUL. `names` has one entry per text,
 * filled in when the text is first used. Blocks from a cache file are untrusted: block_open checks
 * sizes, and each number is checked on use.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/view.h"

struct block_header {
    uint64_t base; /* base address of the offsets */
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
    uint32_t call_file; /* position of the call: file + 1; 0: unknown */
    uint32_t call_line;
    uint32_t call_column;
};

/* The innermost scope from `start` to the next segment. */
struct block_segment {
    uint32_t start;
    uint32_t scope; /* number + 1; 0: none */
};

#define ROW_GAP 1u /* no line is known from here on */

/* The line from `start` to the next row. */
struct block_row {
    uint32_t start;
    uint32_t line;
    uint32_t file; /* number + 1; 0: unknown */
    uint16_t column;
    uint16_t flags;
};

/* An opened block. It does not own `bytes`. */
struct block {
    struct block_header header;
    const struct block_scope *scopes;
    const struct block_segment *segments;
    const struct block_row *rows;
    const uint32_t *files; /* texts + 1 */
    const uint32_t *texts; /* offsets of strings */
    uint32_t *names;       /* by text: its name in the index + 1; 0: unknown yet */
    const char *strings;
};

/* The size in bytes of a block with this header; 0 if it exceeds the address space. */
size_t block_size(const struct block_header *h);

/*
 * Opens a block. False if `bytes` (aligned to 8) is not a block of exactly that size. The names are
 * writable if the bytes are.
 */
bool block_open(struct block *b, struct view bytes);

#define BLOCK_STRING_MAX ((size_t)1 << 20) /* bytes, with the NUL; longer strings are ignored */

/* The string of a text (number + 1); "" if there is none. */
const char *block_text(const struct block *b, uint32_t text);
/* The text (number + 1) of a file (number + 1); 0 if there is none. */
static inline uint32_t block_file(const struct block *b, uint32_t file)
{
    return file > 0 && file <= b->header.n_files ? b->files[file - 1] : 0;
}

/*
 * The row and the scope (number + 1) at an address; NULL and 0 if there is none. *near, initially
 * 0, is the position of the last result; it makes look-ups of rising addresses fast.
 */
const struct block_row *block_row_at(const struct block *b, uint64_t address, size_t *near);
uint32_t block_scope_at(const struct block *b, uint64_t address, size_t *near);
