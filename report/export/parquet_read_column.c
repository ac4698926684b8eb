#include "report/export/parquet_read_column.h"

#include "report/export/parquet_column.h"
#include "report/export/parquet_read.h"
#include "report/export/parquet_rle.h"
#include "report/export/thrift_read.h"

enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2 };
enum { DATA_HEADER = 5, DICTIONARY_HEADER = 7 };

struct page_head {
    int64_t kind, raw, packed;
    int64_t values, encoding;
};

void parquet_read_column_release(struct parquet_read_column *c)
{
    buf_release(&c->chunk);
    buf_release(&c->dictionary);
    vec_release(&c->entries);
    buf_release(&c->page);
    vec_release(&c->levels);
    vec_release(&c->indices);
}

void parquet_read_column_begin(struct parquet_read_column *c)
{
    c->pages = cursor_over(c->chunk.data, c->chunk.len);
    c->has_dictionary = false;
    c->entries.len = 0;
    c->rows = c->row = 0;
}

static int bad_page(const struct parquet_read_column *c, struct err *e)
{
    return err_set(e, ERR_INPUT, "a damaged page of the column %s (offset %llu)", c->column->name,
                   (unsigned long long)(c->at + cursor_offset(&c->pages)));
}

/* ---- page headers */

static void read_values_head(struct cursor *c, struct page_head *h)
{
    struct thrift_field f = {0};
    while (thrift_read_field(c, &f)) {
        if (f.number == 1)
            h->values = thrift_read_integer(c, &f);
        else if (f.number == 2)
            h->encoding = thrift_read_integer(c, &f);
        else
            thrift_skip(c, &f);
    }
}

static bool read_head(struct cursor *c, struct page_head *h)
{
    struct thrift_field f = {0};
    *h = (struct page_head){-1, -1, -1, -1, -1};
    while (thrift_read_field(c, &f)) {
        if (f.number == 1)
            h->kind = thrift_read_integer(c, &f);
        else if (f.number == 2)
            h->raw = thrift_read_integer(c, &f);
        else if (f.number == 3)
            h->packed = thrift_read_integer(c, &f);
        else if ((f.number == DATA_HEADER || f.number == DICTIONARY_HEADER) &&
                 thrift_read_struct(c, &f))
            read_values_head(c, h);
        else
            thrift_skip(c, &f);
    }
    return !c->short_read && h->raw >= 0 && h->raw <= PARQUET_READ_PAGE_MOST && h->packed >= 0 &&
           (uint64_t)h->packed <= cursor_left(c);
}

static int unpack(struct parquet_read_column *c, const struct page_head *h, struct buf *to,
                  ZSTD_DCtx *zstd, struct err *e)
{
    const uint8_t *packed = cursor_take(&c->pages, (size_t)h->packed);
    buf_clear(to);
    uint8_t *room = buf_reserve(to, (size_t)h->raw + 1); /* never NULL for an empty page */
    if (!room)
        return err_no_memory(e, "a page");
    size_t n =
        packed ? ZSTD_decompressDCtx(zstd, room, (size_t)h->raw, packed, (size_t)h->packed) : 0;
    if (!packed || ZSTD_isError(n) || n != (size_t)h->raw)
        return bad_page(c, e);
    to->len = n;
    return 0;
}

/* ---- dictionaries */

static size_t width_of(const struct parquet_read_column *c, struct cursor *from)
{
    return c->column->type == CELL_TEXT ? cursor_u32(from) : sizeof(uint64_t);
}

static int read_dictionary(struct parquet_read_column *c, const struct page_head *h,
                           ZSTD_DCtx *zstd, struct err *e)
{
    bool usual = !c->has_dictionary && c->column->type != CELL_BOOL && h->values >= 0 &&
                 h->encoding == PARQUET_PLAIN;
    if (!usual)
        return bad_page(c, e);
    if (unpack(c, h, &c->dictionary, zstd, e) != 0)
        return -1;
    struct cursor from = cursor_over(c->dictionary.data, c->dictionary.len);
    for (int64_t i = 0; i < h->values && !from.short_read; i++) {
        size_t n = width_of(c, &from);
        const uint8_t *p = cursor_take(&from, n);
        if (p && !vec_push(&c->entries, (struct view){(const char *)p, n}))
            return err_no_memory(e, "a dictionary");
    }
    c->has_dictionary = true;
    return from.short_read || cursor_left(&from) ? bad_page(c, e) : 0;
}

/* ---- pages */

/* The number of values among `rows`; -1 if the levels are damaged. */
static int64_t read_levels(struct parquet_read_column *c, struct cursor *from)
{
    int64_t values = 0;
    uint32_t len = cursor_u32(from);
    const uint8_t *p = cursor_take(from, len);
    if (!p)
        return -1;
    struct cursor levels = cursor_over(p, len);
    if (!parquet_rle_read(&levels, c->levels.at, c->rows, 1) || cursor_left(&levels))
        return -1;
    for (uint32_t i = 0; i < c->rows; i++)
        values += c->levels.at[i];
    return values;
}

static bool read_indices(struct parquet_read_column *c, struct cursor *from, size_t values)
{
    unsigned width = cursor_u8(from);
    if (width < 1 || width > 32 || !parquet_rle_read(from, c->indices.at, values, width))
        return false;
    for (size_t i = 0; i < values; i++) {
        if (c->indices.at[i] >= c->entries.len)
            return false;
    }
    return cursor_left(from) == 0;
}

static bool plain_fits(const struct parquet_read_column *c, size_t values)
{
    size_t bytes = cursor_left(&c->values);
    if (c->column->type == CELL_BOOL)
        return bytes == (values + 7) / 8;
    return c->column->type == CELL_TEXT || bytes == values * sizeof(uint64_t);
}

static int read_data(struct parquet_read_column *c, const struct page_head *h, ZSTD_DCtx *zstd,
                     struct err *e)
{
    c->coded = h->encoding == PARQUET_RLE_DICTIONARY;
    if (h->values < 1 || h->values > PARQUET_PAGE_ROWS ||
        (c->coded ? !c->has_dictionary : h->encoding != PARQUET_PLAIN))
        return bad_page(c, e);
    if (unpack(c, h, &c->page, zstd, e) != 0)
        return -1;
    c->rows = (uint32_t)h->values;
    c->row = c->value = 0;
    if (!vec_reserve(&c->levels, PARQUET_PAGE_ROWS) || !vec_reserve(&c->indices, PARQUET_PAGE_ROWS))
        return err_no_memory(e, "a page");
    c->values = cursor_over(c->page.data, c->page.len);
    int64_t values = c->column->nullable ? read_levels(c, &c->values) : c->rows;
    bool fits = values >= 0 && (c->coded ? read_indices(c, &c->values, (size_t)values)
                                         : plain_fits(c, (size_t)values));
    return fits ? 0 : bad_page(c, e);
}

/* All texts of the page were read; values of other types fit exactly. */
static bool is_used_up(const struct parquet_read_column *c)
{
    return c->rows == 0 || c->coded || c->column->type != CELL_TEXT || cursor_left(&c->values) == 0;
}

bool parquet_read_column_ended(const struct parquet_read_column *c)
{
    return c->row == c->rows && cursor_left(&c->pages) == 0 && is_used_up(c);
}

static int read_page(struct parquet_read_column *c, ZSTD_DCtx *zstd, struct err *e)
{
    struct page_head h;
    while (c->row == c->rows) {
        if (!is_used_up(c) || !read_head(&c->pages, &h) ||
            (h.kind != DATA_PAGE && h.kind != DICTIONARY_PAGE))
            return bad_page(c, e);
        if ((h.kind == DATA_PAGE ? read_data : read_dictionary)(c, &h, zstd, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- cells */

static void set_whole(struct cell *cell, enum cell_type type, struct cursor *from)
{
    if (type == CELL_REAL)
        cell->real = cursor_f64(from);
    else
        cell->count = cursor_u64(from); /* an integer has the same bytes */
}

static void set_coded(const struct parquet_read_column *c, struct cell *cell)
{
    struct view entry = c->entries.at[c->indices.at[c->value]];
    struct cursor from = cursor_over(entry.p, entry.len);
    if (c->column->type == CELL_TEXT)
        cell->text = entry;
    else
        set_whole(cell, c->column->type, &from);
}

static void set_plain(struct parquet_read_column *c, struct cell *cell)
{
    if (c->column->type == CELL_BOOL) {
        cell->truth = c->values.pos[c->value / 8] >> c->value % 8 & 1;
    } else if (c->column->type == CELL_TEXT) {
        uint32_t n = cursor_u32(&c->values);
        const uint8_t *p = cursor_take(&c->values, n);
        cell->text = p ? (struct view){(const char *)p, n} : (struct view){"", 0};
    } else {
        set_whole(cell, c->column->type, &c->values);
    }
}

int parquet_read_cell(struct parquet_read_column *c, struct cell *cell, ZSTD_DCtx *zstd,
                      struct err *e)
{
    if (read_page(c, zstd, e) != 0)
        return -1;
    *cell = (struct cell){.null = c->column->nullable && !c->levels.at[c->row]};
    c->row++;
    if (cell->null)
        return 0;
    if (c->coded)
        set_coded(c, cell);
    else
        set_plain(c, cell);
    c->value++;
    return c->values.short_read ? bad_page(c, e) : 0;
}
