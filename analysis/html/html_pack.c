#include "analysis/html/html_pack.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/map.h"
#include "base/saturate.h"

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

/*
 * Small numbers repeat in many places. Level 9 searches all of them, in five times the time, for a
 * percent or two. Z_FILTERED avoids short matches, whose distances take more bits than the numbers.
 */
int pack_text(const struct buf *raw, struct buf *out, struct err *e)
{
    z_stream z = {.next_in = raw->data, .avail_in = (uInt)raw->len};
    uint8_t *packed = NULL;
    int status = Z_MEM_ERROR;
    if (!raw->failed && deflateInit2(&z, 7, Z_DEFLATED, MAX_WBITS, 8, Z_FILTERED) == Z_OK) {
        z.avail_out = (uInt)deflateBound(&z, raw->len);
        z.next_out = packed = malloc(z.avail_out);
        status = packed ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
        deflateEnd(&z);
    }
    if (status == Z_STREAM_END)
        put_base85(out, packed, z.total_out);
    free(packed);
    return status != Z_STREAM_END || out->failed ? err_no_memory(e, "the page") : 0;
}

/* The number of cells from `i` on that belong to a step. */
static size_t cells_of_step(const struct page_cells *c, size_t i, uint32_t step)
{
    size_t n = i;
    while (n < c->list.len && c->list.at[n].step == step)
        n++;
    return n - i;
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
    for (unsigned k = 0; k < c->options.values; k++) {
        for (size_t i = 0; i < n; i++)
            pack_signed(raw, c->list.at[i].v[k]);
    }
}

/* ---- figures of keys */

/* What n blocks of a size have; 0 if not exact as a number of JavaScript. */
static int64_t bytes_of(int64_t n, int64_t size)
{
    double bytes = (double)n * (double)size;
    return bytes > -0x1p53 && bytes < 0x1p53 ? (int64_t)bytes : 0;
}

static void subtract(int64_t *from, int64_t n)
{
    *from = saturating_sum(*from, n == INT64_MIN ? INT64_MAX : -n);
}

/* The blocks of a key and those of its site have mostly one size: what differs is small. */
static void predict(int64_t *v, int64_t *of_key, int64_t *of_site)
{
    int64_t size = *of_key ? *of_key : *of_site;
    const int64_t allocs = v[PAGE_ALLOCS];
    const int64_t bytes = v[PAGE_ALLOC_BYTES];
    subtract(&v[PAGE_ALLOC_BYTES], bytes_of(allocs, size));
    if (allocs && bytes < INT64_C(1) << 53)
        size = *of_site = bytes / allocs;
    *of_key = size;
    subtract(&v[PAGE_FREES], allocs);
    subtract(&v[PAGE_FREE_BYTES], bytes);
    subtract(&v[PAGE_FREE_BYTES], bytes_of(v[PAGE_FREES], size));
    subtract(&v[PAGE_TEMPORARY_BYTES], bytes_of(v[PAGE_TEMPORARY], size));
    subtract(&v[PAGE_PEAK_BYTES], bytes_of(v[PAGE_PEAK], size));
}

void pack_figures(const struct page_data *d, struct buf *raw)
{
    const struct page_series *s = &d->series;
    size_t n = s->cells.list.len;
    struct page_cells c = s->cells;
    int64_t *of_key = calloc(s->keys.len + 1, sizeof *of_key);
    int64_t *of_site = calloc(d->sites.len + 1, sizeof *of_site);
    c.list.at = calloc(n + 1, sizeof *c.list.at); /* clang-tidy does not see that all is filled */
    if (of_key && of_site && c.list.at) {
        for (size_t i = 0; i < n; i++) {
            const uint32_t key = s->cells.list.at[i].key;
            c.list.at[i] = s->cells.list.at[i];
            predict(c.list.at[i].v, &of_key[key],
                    &of_site[d->stacks.at[s->keys.at[key].stack].site]);
        }
        pack_cells(&c, raw);
    } else {
        raw->failed = true;
    }
    free(of_key);
    free(of_site);
    free(c.list.at);
}

/* ---- the tree */

/*
 * A node by how many levels its caller is above the node before, and the number of its frame among
 * those that its caller's frame called before, from 1; 0 and the frame if it is a new one.
 */
static void pack_nodes(const struct page_data *d, struct buf *raw)
{
    struct map callees = {0};
    uint32_t *counts = calloc(d->frames.len + 1, sizeof *counts);
    raw->failed |= !counts;
    for (uint32_t i = 1; i < d->nodes.len && !raw->failed; i++) {
        const struct page_node *node = &d->nodes.at[i];
        uint32_t caller = d->nodes.at[node->parent].frame;
        uint32_t up = 0;
        bool fresh;
        for (uint32_t at = i - 1; at != node->parent; at = d->nodes.at[at].parent)
            up++;
        uint64_t *which = map_add(&callees, (uint64_t)caller << 32 | node->frame, &fresh);
        pack_unsigned(raw, up);
        pack_unsigned(raw, which && !fresh ? *which : 0);
        if (fresh)
            pack_unsigned(raw, node->frame);
        if (which && fresh)
            *which = ++counts[caller];
        raw->failed |= !which;
    }
    map_release(&callees);
    free(counts);
}

/*
 * Call stacks by their nodes, the levels from these up to where the program begins, and sites: 0
 * for that of the call stack before whose program begins in the same frame.
 */
static void pack_stacks(const struct page_data *d, struct buf *raw)
{
    const struct page_stack *all = d->stacks.at;
    size_t n = d->stacks.len;
    uint32_t *sites = calloc(d->frames.len + 1, sizeof *sites);
    raw->failed |= !sites;
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, all[i].node - (i ? all[i - 1].node : 0));
    for (size_t i = 0; i < n; i++) {
        uint32_t up = 0;
        for (uint32_t at = all[i].node; at != all[i].begin; at = d->nodes.at[at].parent)
            up++;
        pack_unsigned(raw, up);
    }
    for (size_t i = 0; i < n && sites; i++) {
        uint32_t *site = &sites[d->nodes.at[all[i].begin].frame];
        uint64_t number = all[i].site == *site ? 0 : all[i].site + UINT64_C(1);
        pack_unsigned(raw, number << 1 | all[i].is_folded);
        *site = all[i].site;
    }
    free(sites);
}

void pack_tree(const struct page_data *d, struct buf *raw)
{
    const struct page_key *keys = d->series.keys.at;
    size_t n = d->series.keys.len;
    pack_nodes(d, raw);
    pack_stacks(d, raw);
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, keys[i].pool);
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, keys[i].thread);
    for (size_t i = 0; i < n; i++)
        pack_unsigned(raw, keys[i].stack - (i ? keys[i - 1].stack : 0));
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
    const struct page_map *m = &d->map;
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
            if (page_map_find(&d->map, all[i].pool, all[i].ptr, all[i].size).count == 0)
                continue;
            uint64_t value = block_value(d, &all[i], which);
            pack_unsigned(raw, which ? value : value - last);
            last = value;
            ++*n;
        }
    }
}
