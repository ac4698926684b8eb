#include "report/export/parquet.h"

#include <stdlib.h>
#include <string.h>

#include "report/export/parquet_column.h"
#include "report/export/thrift.h"

static const char magic[4] = {'P', 'A', 'R', '1'};

enum { REQUIRED = 0, OPTIONAL = 1 };
enum { CONVERTED_UTF8 = 0, CONVERTED_UINT_64 = 14, CONVERTED_INT_64 = 18 };

struct parquet {
    struct emit *to;
    const struct table *table;
    const char *creator;
    ZSTD_CCtx *zstd;
    struct parquet_column columns[TABLE_WIDTH_MAX];
    uint32_t rows; /* of the current row group */
    uint64_t all_rows;
    uint32_t group_count;
    struct buf groups; /* their metadata */
    struct buf dictionary;
    struct buf chunks; /* column metadata of the current group */
};

static int no_room(struct err *e)
{
    return err_no_memory(e, "a Parquet file");
}

struct parquet *parquet_open(struct emit *to, const struct table *table, const char *creator,
                             struct err *e)
{
    struct parquet *p = calloc(1, sizeof *p);
    if (!p || !(p->zstd = ZSTD_createCCtx())) {
        free(p);
        no_room(e);
        return NULL;
    }
    p->to = to;
    p->table = table;
    p->creator = creator;
    for (unsigned i = 0; i < table->width; i++)
        parquet_column_init(&p->columns[i], &table->columns[i]);
    buf_put(&to->buf, magic, sizeof magic);
    return p;
}

void parquet_free(struct parquet *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < p->table->width; i++)
        parquet_column_release(&p->columns[i]);
    ZSTD_freeCCtx(p->zstd);
    buf_release(&p->groups);
    buf_release(&p->dictionary);
    buf_release(&p->chunks);
    free(p);
}

static uint64_t offset_of(const struct parquet *p)
{
    return p->to->written + p->to->buf.len;
}

/* ---- row groups */

static void put_bounds(struct thrift *t, const struct parquet_column *c)
{
    uint64_t flip = c->type == CELL_INTEGER ? UINT64_C(1) << 63 : 0;
    uint64_t low = c->low ^ flip;
    uint64_t high = c->high ^ flip;
    thrift_struct(t, 12);
    thrift_i64(t, 3, (int64_t)c->missing);
    if (c->any && parquet_has_bounds(c->type)) {
        thrift_binary(t, 5, (struct view){(const char *)&high, sizeof high});
        thrift_binary(t, 6, (struct view){(const char *)&low, sizeof low});
    }
    thrift_end(t);
}

/*
 * Writes a ColumnChunk. `at`: offset of its first byte in the file; `dictionary`: size of that
 * page, 0: none.
 */
static void put_chunk(struct thrift *t, const struct parquet_column *c, const char *name,
                      uint64_t at, size_t dictionary)
{
    thrift_element_struct(t);
    thrift_i64(t, 2, (int64_t)at);
    thrift_struct(t, 3);
    thrift_i32(t, 1, parquet_type_of(c->type));
    thrift_list(t, 2, THRIFT_I32, 1 + c->plain_pages + c->coded_pages);
    thrift_element_i32(t, PARQUET_RLE);
    if (c->plain_pages)
        thrift_element_i32(t, PARQUET_PLAIN);
    if (c->coded_pages)
        thrift_element_i32(t, PARQUET_RLE_DICTIONARY);
    thrift_list(t, 3, THRIFT_BINARY, 1);
    thrift_element_binary(t, view_of(name));
    thrift_i32(t, 4, PARQUET_ZSTD);
    thrift_i64(t, 5, (int64_t)c->count);
    thrift_i64(t, 6, (int64_t)c->raw_bytes);
    thrift_i64(t, 7, (int64_t)(dictionary + c->pages.len));
    thrift_i64(t, 9, (int64_t)(at + dictionary));
    if (dictionary)
        thrift_i64(t, 11, (int64_t)at);
    put_bounds(t, c);
    thrift_end(t);
    thrift_end(t);
}

static int put_group_columns(struct parquet *p, struct thrift *t, uint64_t *raw, struct err *e)
{
    for (unsigned i = 0; i < p->table->width; i++) {
        struct parquet_column *c = &p->columns[i];
        buf_clear(&p->dictionary);
        if (parquet_column_end(c, p->zstd, &p->dictionary, e) != 0)
            return -1;
        put_chunk(t, c, p->table->columns[i].name, offset_of(p), p->dictionary.len);
        buf_put(&p->to->buf, p->dictionary.data, p->dictionary.len);
        buf_put(&p->to->buf, c->pages.data, c->pages.len);
        *raw += c->raw_bytes;
        parquet_column_clear(c);
        if (p->to->buf.failed)
            return no_room(e);
        if (emit_check(p->to, e) != 0)
            return -1;
    }
    return 0;
}

/* Writes a row group: its columns, then its metadata. */
static int end_group(struct parquet *p, struct err *e)
{
    uint64_t begin = offset_of(p);
    uint64_t raw = 0;
    if (p->rows == 0)
        return 0;
    struct thrift t = thrift_begin(&p->groups);
    thrift_list(&t, 1, THRIFT_STRUCT, p->table->width);
    if (put_group_columns(p, &t, &raw, e) != 0)
        return -1;
    thrift_i64(&t, 2, (int64_t)raw);
    thrift_i64(&t, 3, p->rows);
    thrift_i64(&t, 5, (int64_t)begin);
    thrift_i64(&t, 6, (int64_t)(offset_of(p) - begin));
    thrift_end(&t);
    p->all_rows += p->rows;
    p->rows = 0;
    p->group_count++;
    return p->groups.failed ? no_room(e) : 0;
}

int parquet_row(struct parquet *p, const struct cell *cells, struct err *e)
{
    for (unsigned i = 0; i < p->table->width; i++) {
        if (parquet_column_add(&p->columns[i], &cells[i], p->zstd, e) != 0)
            return -1;
    }
    return ++p->rows < PARQUET_GROUP_ROWS ? 0 : end_group(p, e);
}

/* ---- the footer */

static void put_schema_column(struct thrift *t, const struct table_column *c)
{
    thrift_element_struct(t);
    thrift_i32(t, 1, parquet_type_of(c->type));
    thrift_i32(t, 3, c->nullable ? OPTIONAL : REQUIRED);
    thrift_binary(t, 4, view_of(c->name));
    if (c->type == CELL_TEXT) {
        thrift_i32(t, 6, CONVERTED_UTF8);
        thrift_struct(t, 10);
        thrift_struct(t, 1);
        thrift_end(t);
        thrift_end(t);
    } else if (parquet_has_bounds(c->type)) {
        bool is_signed = c->type == CELL_INTEGER;
        thrift_i32(t, 6, is_signed ? CONVERTED_INT_64 : CONVERTED_UINT_64);
        thrift_struct(t, 10);
        thrift_struct(t, 10);
        thrift_i8(t, 1, 64);
        thrift_bool(t, 2, is_signed);
        thrift_end(t);
        thrift_end(t);
    }
    thrift_end(t);
}

static void put_schema(struct thrift *t, const struct table *table)
{
    thrift_list(t, 2, THRIFT_STRUCT, 1 + table->width);
    thrift_element_struct(t);
    thrift_binary(t, 4, view_of(table->name));
    thrift_i32(t, 5, (int32_t)table->width);
    thrift_end(t);
    for (unsigned i = 0; i < table->width; i++)
        put_schema_column(t, &table->columns[i]);
}

/* Column orders: bounds compare as the column's type does. */
static void put_orders(struct thrift *t, unsigned width)
{
    thrift_list(t, 7, THRIFT_STRUCT, width);
    for (unsigned i = 0; i < width; i++) {
        thrift_element_struct(t);
        thrift_struct(t, 1);
        thrift_end(t);
        thrift_end(t);
    }
}

int parquet_finish(struct parquet *p, struct err *e)
{
    struct buf *b = &p->to->buf;
    if (end_group(p, e) != 0)
        return -1;
    uint64_t begin = offset_of(p);
    struct thrift t = thrift_begin(b);
    thrift_i32(&t, 1, 1);
    put_schema(&t, p->table);
    thrift_i64(&t, 3, (int64_t)p->all_rows);
    thrift_list(&t, 4, THRIFT_STRUCT, p->group_count);
    buf_put(b, p->groups.data, p->groups.len);
    thrift_binary(&t, 6, view_of(p->creator));
    put_orders(&t, p->table->width);
    thrift_end(&t);
    buf_u32(b, (uint32_t)(offset_of(p) - begin));
    buf_put(b, magic, sizeof magic);
    return b->failed ? no_room(e) : emit_flush(p->to, e);
}
