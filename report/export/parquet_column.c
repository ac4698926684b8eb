#include "report/export/parquet_column.h"

#include <string.h>

#include <xxhash.h>

#include "base/format.h"
#include "report/export/parquet_rle.h"
#include "report/export/thrift.h"

/* A dictionary beyond this many entries or bytes costs more than it saves. */
#define ENTRIES_MAX 65536u
#define DICTIONARY_MAX (4u << 20)
#define LEVEL 1 /* compression level of zstd */

static int no_room(struct err *e)
{
    return err_no_memory(e, "a column");
}

enum parquet_type parquet_type_of(enum cell_type type)
{
    switch (type) {
    case CELL_REAL:
        return PARQUET_DOUBLE;
    case CELL_BOOL:
        return PARQUET_BOOLEAN;
    case CELL_TEXT:
        return PARQUET_BYTES;
    default:
        return PARQUET_INT64;
    }
}

void parquet_column_init(struct parquet_column *c, const struct table_column *column)
{
    *c = (struct parquet_column){.type = column->type, .nullable = column->nullable};
    c->tries = c->type == CELL_TEXT || c->type == CELL_COUNT;
    c->coding = c->tries;
}

void parquet_column_release(struct parquet_column *c)
{
    vec_release(&c->levels);
    vec_release(&c->indices);
    buf_release(&c->values);
    buf_release(&c->dictionary);
    vec_release(&c->entries);
    map_release(&c->numbers);
    vec_release(&c->recent);
    buf_release(&c->pages);
    buf_release(&c->raw);
    buf_release(&c->text);
}

void parquet_column_clear(struct parquet_column *c)
{
    buf_clear(&c->dictionary);
    c->entries.len = 0;
    map_release(&c->numbers);
    buf_clear(&c->pages);
    c->raw_bytes = c->count = c->missing = 0;
    c->plain_pages = c->coded_pages = c->any = false;
    c->coding = c->tries;
}

/* ---- pages */

/* Appends the header and compressed bytes of `c->raw` to `to`. */
static int put_page(struct parquet_column *c, ZSTD_CCtx *zstd, struct buf *to, bool dictionary,
                    uint32_t values, enum parquet_encoding encoding, struct err *e)
{
    size_t bound = ZSTD_compressBound(c->raw.len);
    buf_clear(&c->text);
    uint8_t *packed = buf_reserve(&c->text, bound);
    if (!packed || c->raw.failed)
        return no_room(e);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1); /* every reader checks the values */
    size_t n = ZSTD_compress2(zstd, packed, bound, c->raw.data, c->raw.len);
    if (ZSTD_isError(n))
        return err_set(e, ERR_OUTPUT, "cannot compress a column: %s", ZSTD_getErrorName(n));
    size_t begin = to->len;
    struct thrift t = thrift_begin(to);
    thrift_i32(&t, 1, dictionary ? 2 : 0);
    thrift_i32(&t, 2, (int32_t)c->raw.len);
    thrift_i32(&t, 3, (int32_t)n);
    thrift_struct(&t, dictionary ? 7 : 5);
    thrift_i32(&t, 1, (int32_t)values);
    thrift_i32(&t, 2, encoding);
    if (!dictionary) {
        thrift_i32(&t, 3, PARQUET_RLE);
        thrift_i32(&t, 4, PARQUET_RLE);
    }
    thrift_end(&t);
    thrift_end(&t);
    c->raw_bytes += to->len - begin + c->raw.len;
    buf_put(to, packed, n);
    return to->failed ? no_room(e) : 0;
}

static unsigned bits_for(size_t entries)
{
    return entries <= 2 ? 1 : 64 - (unsigned)__builtin_clzll(entries - 1);
}

static int end_page(struct parquet_column *c, ZSTD_CCtx *zstd, struct err *e)
{
    uint32_t rows = c->rows;
    buf_clear(&c->raw);
    if (rows == 0)
        return 0;
    if (c->nullable) {
        buf_u32(&c->raw, 0);
        parquet_rle(&c->raw, c->levels.at, c->levels.len, 1);
        if (c->raw.failed)
            return no_room(e);
        store_u32(c->raw.data, (uint32_t)(c->raw.len - sizeof(uint32_t)));
    }
    if (c->coding) {
        unsigned width = bits_for(c->entries.len);
        buf_u8(&c->raw, (uint8_t)width);
        parquet_rle(&c->raw, c->indices.at, c->indices.len, width);
    } else {
        buf_put(&c->raw, c->values.data, c->values.len);
    }
    *(c->coding ? &c->coded_pages : &c->plain_pages) = true;
    if (c->values.failed || put_page(c, zstd, &c->pages, false, rows,
                                     c->coding ? PARQUET_RLE_DICTIONARY : PARQUET_PLAIN, e) != 0)
        return c->values.failed ? no_room(e) : -1;
    c->count += rows;
    if (c->coding && (c->entries.len > ENTRIES_MAX || c->dictionary.len > DICTIONARY_MAX ||
                      c->entries.len > c->count / 2 + 64))
        c->tries = c->coding = false;
    c->levels.len = c->indices.len = 0;
    c->rows = 0;
    c->bits = 0;
    buf_clear(&c->values);
    return 0;
}

int parquet_column_end(struct parquet_column *c, ZSTD_CCtx *zstd, struct buf *dictionary_page,
                       struct err *e)
{
    if (end_page(c, zstd, e) != 0)
        return -1;
    if (!c->coded_pages)
        return 0;
    buf_clear(&c->raw);
    buf_put(&c->raw, c->dictionary.data, c->dictionary.len);
    return put_page(c, zstd, dictionary_page, true, (uint32_t)c->entries.len, PARQUET_PLAIN, e);
}

/* ---- values */

static bool entry_is(const struct parquet_column *c, uint64_t entry, struct view bytes)
{
    const struct parquet_entry *x = &c->entries.at[entry];
    return x->len == bytes.len &&
           (x->len == 0 || memcmp(c->dictionary.data + x->offset, bytes.p, x->len) == 0);
}

/* The dictionary entry of `bytes`, added if new. */
static int find_entry(struct parquet_column *c, uint64_t key, struct view bytes, uint32_t *entry,
                      struct err *e)
{
    for (;; key++) {
        bool fresh;
        uint64_t *number = map_add(&c->numbers, key, &fresh);
        if (!number)
            return no_room(e);
        if (fresh) {
            if (c->type == CELL_TEXT)
                buf_u32(&c->dictionary, (uint32_t)bytes.len);
            struct parquet_entry x = {(uint32_t)c->dictionary.len, (uint32_t)bytes.len};
            buf_put(&c->dictionary, bytes.p, bytes.len);
            *number = c->entries.len;
            if (c->dictionary.failed || !vec_push(&c->entries, x))
                return no_room(e);
        } else if (!entry_is(c, *number, bytes)) {
            continue; /* another text in this slot */
        }
        *entry = (uint32_t)*number;
        return 0;
    }
}

/* Where the entry of a value is that was met a short time ago, as most were. NULL with `e`. */
static uint32_t *recent_entry(struct parquet_column *c, uint64_t value, struct err *e)
{
    if (c->recent.len == 0) {
        if (!vec_reserve(&c->recent, PARQUET_RECENT)) {
            no_room(e);
            return NULL;
        }
        c->recent.len = PARQUET_RECENT;
        memset(c->recent.at, 0, PARQUET_RECENT * sizeof *c->recent.at);
    }
    return &c->recent.at[(value ^ value >> 13) % PARQUET_RECENT];
}

static int add_number_index(struct parquet_column *c, uint64_t n, struct err *e)
{
    const struct view bytes = {(const char *)&n, sizeof n};
    uint32_t *recent = recent_entry(c, n, e);
    bool known = recent && *recent < c->entries.len &&
                 load_u64(c->dictionary.data + *recent * sizeof n) == n;
    if (!recent || (!known && find_entry(c, n, bytes, recent, e) != 0))
        return -1;
    return vec_push(&c->indices, *recent) ? 0 : no_room(e);
}

/* Entries are valid UTF-8, so a text that equals one needs no other form. */
static int add_text_index(struct parquet_column *c, struct view raw, struct err *e)
{
    uint32_t *recent = recent_entry(c, (uintptr_t)raw.p >> 2 ^ raw.len, e);
    if (recent && (*recent >= c->entries.len || !entry_is(c, *recent, raw))) {
        buf_clear(&c->text);
        format_utf8(&c->text, raw);
        struct view text = {(const char *)c->text.data, c->text.len};
        if (c->text.failed)
            return no_room(e);
        if (find_entry(c, XXH3_64bits_withSeed(text.p, text.len, map_hash(text.len)), text, recent,
                       e) != 0)
            return -1;
    }
    return recent && vec_push(&c->indices, *recent) ? 0 : no_room(e);
}

static int add_text(struct parquet_column *c, struct view raw, struct err *e)
{
    if (c->coding)
        return add_text_index(c, raw, e);
    buf_clear(&c->text);
    format_utf8(&c->text, raw);
    if (c->text.failed)
        return no_room(e);
    buf_u32(&c->values, (uint32_t)c->text.len);
    buf_put(&c->values, c->text.data, c->text.len);
    return 0;
}

/*
 * Bounds of signed numbers are stored with the sign bit flipped, so that they compare as unsigned.
 */
static int add_whole(struct parquet_column *c, uint64_t n, struct err *e)
{
    uint64_t order = c->type == CELL_INTEGER ? n ^ UINT64_C(1) << 63 : n;
    if (!c->any || order < c->low)
        c->low = order;
    if (!c->any || order > c->high)
        c->high = order;
    c->any = true;
    if (c->coding)
        return add_number_index(c, n, e);
    buf_u64(&c->values, n);
    return 0;
}

static void add_bool(struct parquet_column *c, bool truth)
{
    if (c->bits % 8 == 0)
        buf_u8(&c->values, 0);
    if (!c->values.failed && truth)
        c->values.data[c->values.len - 1] |= (uint8_t)(1u << c->bits % 8);
    c->bits++;
}

static int add_value(struct parquet_column *c, const struct cell *cell, struct err *e)
{
    switch (c->type) {
    case CELL_INTEGER:
        return add_whole(c, (uint64_t)cell->integer, e);
    case CELL_COUNT:
    case CELL_ADDRESS:
        return add_whole(c, cell->count, e);
    case CELL_REAL:
        buf_f64(&c->values, cell->real);
        return 0;
    case CELL_BOOL:
        add_bool(c, cell->truth);
        return 0;
    case CELL_TEXT:
        return add_text(c, cell->text, e);
    }
    return 0;
}

int parquet_column_add(struct parquet_column *c, const struct cell *cell, ZSTD_CCtx *zstd,
                       struct err *e)
{
    if (c->nullable && !vec_push(&c->levels, !cell->null))
        return no_room(e);
    if (cell->null)
        c->missing++;
    else if (add_value(c, cell, e) != 0)
        return -1;
    c->rows++;
    if (c->rows < PARQUET_PAGE_ROWS && c->values.len < PARQUET_PAGE_BYTES &&
        c->dictionary.len <= DICTIONARY_MAX)
        return 0;
    return end_page(c, zstd, e);
}
