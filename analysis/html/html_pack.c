#include "analysis/html/html_pack.h"

#include <stdlib.h>
#include <zlib.h>

void pack_unsigned(struct buf *raw, uint64_t n)
{
    while (n >= 0x80) {
        buf_u8(raw, (uint8_t)(n | 0x80));
        n >>= 7;
    }
    buf_u8(raw, (uint8_t)n);
}

void pack_signed(struct buf *raw, int64_t n)
{
    uint64_t bits = (uint64_t)n;
    pack_unsigned(raw, n < 0 ? ~(bits << 1) : bits << 1);
}

/* A digit below 85, as a character that neither HTML nor JSON escapes. */
static uint8_t digit(uint32_t value)
{
    uint8_t c = (uint8_t)('(' + value);
    return c == '<' ? '}' : c == '>' ? '~' : c == '\\' ? '!' : c;
}

/* Five digits for each four bytes; at the end, one digit more than there are bytes. */
static void put_base85(struct buf *out, const uint8_t *p, size_t n)
{
    size_t len = n / 4 * 5 + (n % 4 ? n % 4 + 1 : 0);
    uint8_t *to = buf_reserve(out, len);
    if (!to)
        return;
    for (size_t i = 0; i < n; i += 4) {
        size_t count = n - i < 4 ? n - i : 4;
        uint32_t bits = 0;
        uint32_t unit = 85 * 85 * 85 * 85;
        for (size_t k = 0; k < 4; k++)
            bits = bits << 8 | (k < count ? p[i + k] : 0u);
        for (size_t k = 0; k <= count; k++, unit /= 85)
            *to++ = digit(bits / unit % 85);
    }
    out->len += len;
}

int pack_text(const struct buf *raw, struct buf *out, struct err *e)
{
    uLongf len = compressBound(raw->len);
    uint8_t *packed = raw->failed ? NULL : malloc(len);
    if (!packed || compress2(packed, &len, raw->len ? raw->data : (const uint8_t *)"", raw->len,
                             Z_BEST_COMPRESSION) != Z_OK) {
        free(packed);
        return err_no_memory(e, "the page");
    }
    put_base85(out, packed, len);
    free(packed);
    return out->failed ? err_no_memory(e, "the page") : 0;
}

/* The number of cells from `i` on that belong to a step. */
static size_t cells_of_step(const struct page_cells *c, size_t i, uint32_t step)
{
    size_t n = i;
    while (n < c->list.len && c->list.at[n].step == step)
        n++;
    return n - i;
}

/* A bit mask of the cell's non-zero values. */
static unsigned values_of(const struct page_cell *cell)
{
    unsigned which = 0;
    for (unsigned k = 0; k < PAGE_VALUES_MAX; k++)
        which |= (unsigned)(cell->v[k] != 0) << k;
    return which;
}

void pack_cells(const struct page_cells *c, struct buf *raw)
{
    size_t n = c->list.len;
    for (size_t i = 0, step = 0; step < page_cells_steps(c); step++) {
        size_t cells = cells_of_step(c, i, (uint32_t)step);
        pack_unsigned(raw, cells);
        i += cells;
    }
    for (size_t i = 0; i < n; i++) {
        const struct page_cell *cell = &c->list.at[i];
        bool first = i == 0 || cell[-1].step != cell->step;
        pack_unsigned(raw, cell->key - (first ? 0 : cell[-1].key));
    }
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, values_of(&c->list.at[i]));
    for (unsigned k = 0; k < PAGE_VALUES_MAX; k++) {
        for (size_t i = 0; i < n; i++) {
            if (c->list.at[i].v[k])
                pack_signed(raw, c->list.at[i].v[k]);
        }
    }
}

void pack_tree(const struct page_data *d, struct buf *raw)
{
    for (size_t i = 1; i < d->nodes.len; i++)
        pack_unsigned(raw, i - d->nodes.at[i].parent);
    for (size_t i = 1; i < d->nodes.len; i++)
        pack_unsigned(raw, d->nodes.at[i].frame);
    for (size_t i = 0; i < d->stacks.len; i++)
        pack_unsigned(raw, (uint64_t)d->stacks.at[i].site << 1 | d->stacks.at[i].is_folded);
    for (size_t i = 0; i < d->stacks.len; i++)
        pack_signed(raw, (int64_t)d->stacks.at[i].node - (i ? d->stacks.at[i - 1].node : 0));
    for (size_t i = 0; i < d->stacks.len; i++)
        pack_unsigned(raw, d->stacks.at[i].node - d->stacks.at[i].begin);
    const struct page_key *keys = d->series.keys.at;
    size_t n = d->series.keys.len;
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, keys[i].pool);
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, keys[i].thread);
    for (size_t i = 0; i < n; i++)
        pack_signed(raw, (int64_t)keys[i].stack - (i ? keys[i - 1].stack : 0));
}

void pack_lives(const struct page_lives *l, struct buf *raw)
{
    const struct page_life *all = l->list.at;
    size_t n = l->list.len;
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, all[i].row - (i ? all[i - 1].row : 0));
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, all[i].born);
    for (size_t i = 0; i < n; i++)
        pack_signed(raw, (int64_t)all[i].freed - all[i].born);
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, all[i].count);
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, all[i].bytes);
}

/* A number of a block by which it is packed. */
static uint64_t block_value(const struct page_data *d, const struct page_block *b, int which)
{
    const struct page_map *m = &d->series.map;
    uint64_t slot = ((uint64_t)b->time - (uint64_t)d->from) / d->series.slot_ns;
    switch (which) {
    case 1:
        return b->ptr & ((UINT64_C(1) << m->shift) - 1);
    case 2:
        return b->size;
    case 3:
        return slot;
    case 4:
        if (b->freed == INT64_MAX)
            return 0;
        return 1 + ((uint64_t)b->freed - (uint64_t)d->from) / d->series.slot_ns - slot;
    case 5:
        return b->site;
    default:
        return page_map_find(m, b->pool, b->ptr, b->size).first;
    }
}

void pack_blocks(const struct page_data *d, struct buf *raw, size_t *n)
{
    const struct page_block *all = d->blocks.list.at;
    for (int which = 0; which < 6; which++) {
        uint64_t last = 0;
        *n = 0;
        for (size_t i = 0; i < d->blocks.list.len; i++) {
            if (page_map_find(&d->series.map, all[i].pool, all[i].ptr, all[i].size).count == 0)
                continue;
            uint64_t value = block_value(d, &all[i], which);
            pack_unsigned(raw, which ? value : value - last);
            last = value;
            ++*n;
        }
    }
}

int pack_size(const struct buf *raw, size_t *size, struct err *e)
{
    struct buf packed = {0};
    int status = pack_text(raw, &packed, e);
    *size += packed.len;
    buf_release(&packed);
    return status;
}
