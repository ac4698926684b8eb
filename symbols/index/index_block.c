/* Reads the parts of a unit's block. */

#include "symbols/index/index_block.h"

#include "base/order.h"

size_t block_size(const struct block_header *h)
{
    /* The counts are 32-bit and the records small, so the sum stays far below 2^64. */
    return sizeof *h + (size_t)h->n_scopes * sizeof(struct block_scope) +
           (size_t)h->n_segments * sizeof(struct block_segment) +
           (size_t)h->n_rows * sizeof(struct block_row) +
           ((size_t)h->n_files + 2 * (size_t)h->n_texts) * sizeof(uint32_t) + h->n_strings;
}

bool block_open(struct block *b, struct view bytes)
{
    if (bytes.len < sizeof b->header)
        return false;
    memcpy(&b->header, bytes.p, sizeof b->header);
    if (block_size(&b->header) != bytes.len || b->header.n_strings == 0)
        return false;
    b->scopes = (const void *)(bytes.p + sizeof b->header);
    b->segments = (const void *)(b->scopes + b->header.n_scopes);
    b->rows = (const void *)(b->segments + b->header.n_segments);
    b->files = (const void *)(b->rows + b->header.n_rows);
    b->texts = b->files + b->header.n_files;
    b->names = (uint32_t *)(b->texts + b->header.n_texts);
    b->strings = (const char *)(b->names + b->header.n_texts);
    return b->strings[0] == 0 && b->strings[b->header.n_strings - 1] == 0;
}

const char *block_text(const struct block *b, uint32_t text)
{
    uint32_t at = text > 0 && text <= b->header.n_texts ? b->texts[text - 1] : UINT32_MAX;
    if (at >= b->header.n_strings)
        return "";
    size_t most = b->header.n_strings - at;
    if (most > BLOCK_STRING_MAX && !memchr(b->strings + at, 0, BLOCK_STRING_MAX))
        return "";
    return b->strings + at;
}

/* Converts an address to an offset of this block; false if it is out of range. */
static bool offset_of(const struct block *b, uint64_t address, uint32_t *offset)
{
    *offset = (uint32_t)(address - b->header.base);
    return address >= b->header.base && address - b->header.base < UINT32_MAX;
}

/* Rows and segments both begin with their start offset. */
struct starts {
    const char *first;
    size_t n, size; /* size: bytes of one record */
};

static uint32_t start_at(const struct starts *s, size_t i)
{
    uint32_t start;
    memcpy(&start, s->first + i * s->size, sizeof start);
    return start;
}

/* The number of records that start at or before `offset`. `near`, the last result, speeds it up. */
static size_t count_until(const struct starts *s, uint32_t offset, size_t near)
{
    size_t low = 0, high = s->n;
    if (near > 0 && near <= s->n && start_at(s, near - 1) <= offset) {
        low = near;
        for (size_t step = 1; step <= s->n - near; step *= 2) {
            if (start_at(s, near + step - 1) > offset) {
                high = near + step - 1;
                break;
            }
            low = near + step;
        }
    }
    BISECT(low, high, i, start_at(s, i) <= offset);
    return low;
}

const struct block_row *block_row_at(const struct block *b, uint64_t address, size_t *near)
{
    const struct starts rows = {(const char *)b->rows, b->header.n_rows, sizeof *b->rows};
    uint32_t offset;
    if (!offset_of(b, address, &offset))
        return NULL;
    *near = count_until(&rows, offset, *near);
    const struct block_row *row = *near > 0 ? &b->rows[*near - 1] : NULL;
    return row && !(row->flags & ROW_GAP) ? row : NULL;
}

uint32_t block_scope_at(const struct block *b, uint64_t address, size_t *near)
{
    const struct starts segments = {(const char *)b->segments, b->header.n_segments,
                                    sizeof *b->segments};
    uint32_t offset;
    if (!offset_of(b, address, &offset))
        return 0;
    *near = count_until(&segments, offset, *near);
    uint32_t scope = *near > 0 ? b->segments[*near - 1].scope : 0;
    return scope <= b->header.n_scopes ? scope : 0;
}
