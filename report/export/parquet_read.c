#include "report/export/parquet_read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file_io.h"
#include "report/export/parquet.h"
#include "report/export/parquet_column.h"
#include "report/export/parquet_read_column.h"
#include "report/export/thrift_read.h"

#define MAGIC_SIZE 4u
#define TAIL_SIZE 8u /* the size of the footer and the magic number */
enum { FILE_SCHEMA = 2, FILE_ROWS = 3, FILE_GROUPS = 4 };
enum { SCHEMA_TYPE = 1, SCHEMA_REPETITION = 3, SCHEMA_NAME = 4 };
enum { GROUP_COLUMNS = 1, GROUP_ROWS = 3 };
enum { CHUNK_META = 3 };
enum { META_CODEC = 4, META_SIZE = 7, META_DATA = 9, META_DICTIONARY = 11 };

struct chunk {
    int64_t codec, size, data, dictionary;
};

struct parquet_reader {
    int fd;
    const struct table *table;
    unsigned width;
    ZSTD_DCtx *zstd;
    uint64_t data_end; /* offset of the footer */
    struct buf footer;
    bool other; /* columns */
    int64_t all_rows;
    VEC(int64_t) group_rows;
    VEC(struct chunk) chunks; /* `width` for each group */
    size_t group;             /* the next one */
    int64_t left;             /* rows of the current one */
    struct parquet_read_column columns[TABLE_WIDTH_MAX];
};

static int bad(struct err *e)
{
    return err_set(e, ERR_INPUT, "the footer is damaged");
}

/* ---- the footer */

/* The root of the schema has no type. */
static bool read_schema_element(struct cursor *c, const struct table_column *wanted)
{
    struct thrift_field f = {0};
    int64_t type = -1;
    int64_t repetition = -1;
    struct view name = {"", 0};
    while (thrift_read_field(c, &f)) {
        if (f.number == SCHEMA_TYPE)
            type = thrift_read_integer(c, &f);
        else if (f.number == SCHEMA_REPETITION)
            repetition = thrift_read_integer(c, &f);
        else if (f.number == SCHEMA_NAME)
            name = thrift_read_binary(c, &f);
        else
            thrift_skip(c, &f);
    }
    return wanted ? type == (int64_t)parquet_type_of(wanted->type) &&
                        repetition == wanted->nullable && view_equal(name, view_of(wanted->name))
                  : type == -1;
}

static void read_schema(struct parquet_reader *r, struct cursor *c, const struct thrift_field *f)
{
    uint32_t n = thrift_read_list(c, f, THRIFT_STRUCT);
    r->other = n != r->table->width + 1;
    for (uint32_t i = 0; i < n && !c->short_read; i++) {
        const struct table_column *wanted =
            i > 0 && i <= r->table->width ? &r->table->columns[i - 1] : NULL;
        r->other |= !read_schema_element(c, wanted);
    }
}

static void read_meta(struct cursor *c, struct chunk *k)
{
    struct thrift_field f = {0};
    while (thrift_read_field(c, &f)) {
        if (f.number == META_CODEC)
            k->codec = thrift_read_integer(c, &f);
        else if (f.number == META_SIZE)
            k->size = thrift_read_integer(c, &f);
        else if (f.number == META_DATA)
            k->data = thrift_read_integer(c, &f);
        else if (f.number == META_DICTIONARY)
            k->dictionary = thrift_read_integer(c, &f);
        else
            thrift_skip(c, &f);
    }
}

static struct chunk read_chunk(struct cursor *c)
{
    struct chunk k = {-1, -1, -1, -1};
    struct thrift_field f = {0};
    while (thrift_read_field(c, &f)) {
        if (f.number == CHUNK_META && thrift_read_struct(c, &f))
            read_meta(c, &k);
        else
            thrift_skip(c, &f);
    }
    return k;
}

static bool read_group_columns(struct parquet_reader *r, struct cursor *c,
                               const struct thrift_field *f)
{
    uint32_t n = thrift_read_list(c, f, THRIFT_STRUCT);
    for (uint32_t i = 0; i < n && !c->short_read; i++) {
        struct chunk k = read_chunk(c);
        if (i < r->width && !vec_push(&r->chunks, k))
            return false;
    }
    return true;
}

static bool read_groups(struct parquet_reader *r, struct cursor *c, const struct thrift_field *list)
{
    uint32_t n = thrift_read_list(c, list, THRIFT_STRUCT);
    for (uint32_t i = 0; i < n && !c->short_read; i++) {
        struct thrift_field f = {0};
        int64_t rows = -1;
        while (thrift_read_field(c, &f)) {
            if (f.number == GROUP_ROWS)
                rows = thrift_read_integer(c, &f);
            else if (f.number != GROUP_COLUMNS)
                thrift_skip(c, &f);
            else if (!read_group_columns(r, c, &f))
                return false;
        }
        if (!vec_push(&r->group_rows, rows))
            return false;
    }
    return true;
}

/* Bytes of a column lie before the footer; rows add up. */
static bool is_consistent(const struct parquet_reader *r)
{
    int64_t rows = 0;
    for (size_t i = 0; i < r->group_rows.len; i++) {
        if (r->group_rows.at[i] < 1 || r->group_rows.at[i] > PARQUET_GROUP_ROWS)
            return false;
        rows += r->group_rows.at[i];
    }
    for (size_t i = 0; i < r->chunks.len; i++) {
        const struct chunk *k = &r->chunks.at[i];
        if (k->codec != PARQUET_ZSTD || k->size < 0 || k->data < 0 ||
            (uint64_t)k->size > r->data_end || (uint64_t)k->data > r->data_end ||
            k->dictionary > k->data)
            return false;
    }
    return rows == r->all_rows && r->chunks.len == r->group_rows.len * r->width;
}

static int parse_footer(struct parquet_reader *r, struct err *e)
{
    struct cursor c = cursor_over(r->footer.data, r->footer.len);
    struct thrift_field f = {0};
    r->all_rows = -1;
    r->other = true; /* until there is a schema */
    while (thrift_read_field(&c, &f)) {
        if (f.number == FILE_SCHEMA)
            read_schema(r, &c, &f);
        else if (f.number == FILE_ROWS)
            r->all_rows = thrift_read_integer(&c, &f);
        else if (f.number != FILE_GROUPS)
            thrift_skip(&c, &f);
        else if (!r->other && !read_groups(r, &c, &f))
            return err_no_memory(e, "a footer");
        else if (r->other)
            thrift_skip(&c, &f);
    }
    return c.short_read || (!r->other && !is_consistent(r)) ? bad(e) : 0;
}

static int read_footer(struct parquet_reader *r, struct err *e)
{
    struct stat st;
    uint8_t tail[TAIL_SIZE];
    if (fstat(r->fd, &st) != 0)
        return err_errno(e, ERR_INPUT, "cannot be read");
    uint64_t size = (uint64_t)st.st_size;
    if (!S_ISREG(st.st_mode) || size < MAGIC_SIZE + TAIL_SIZE)
        return err_set(e, ERR_INPUT, "this is not a Parquet file");
    if (file_read(r->fd, tail, TAIL_SIZE, size - TAIL_SIZE) != 0)
        return err_errno(e, ERR_INPUT, "cannot be read");
    uint32_t len = load_u32(tail);
    if (memcmp(tail + MAGIC_SIZE, "PAR1", MAGIC_SIZE) != 0)
        return err_set(e, ERR_INPUT, "this is not a Parquet file");
    if (len > size - MAGIC_SIZE - TAIL_SIZE)
        return bad(e);
    r->data_end = size - TAIL_SIZE - len;
    uint8_t *p = buf_reserve(&r->footer, len);
    if (!p)
        return len ? err_no_memory(e, "a footer") : bad(e);
    r->footer.len = len;
    if (file_read(r->fd, p, len, r->data_end) != 0)
        return err_errno(e, ERR_INPUT, "cannot be read");
    return parse_footer(r, e);
}

/* ---- the whole */

void parquet_read_free(struct parquet_reader *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < r->width; i++)
        parquet_read_column_release(&r->columns[i]);
    (void)ZSTD_freeDCtx(r->zstd);
    buf_release(&r->footer);
    vec_release(&r->group_rows);
    vec_release(&r->chunks);
    free(r);
}

enum parquet_opened parquet_read_open(struct parquet_reader **out, int fd,
                                      const struct table *table, unsigned width, struct err *e)
{
    struct parquet_reader *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r || !(r->zstd = ZSTD_createDCtx())) {
        free(r);
        err_no_memory(e, "a Parquet file");
        return PARQUET_FAILED;
    }
    r->fd = fd;
    r->table = table;
    r->width = width;
    for (unsigned i = 0; i < width; i++)
        r->columns[i].column = &table->columns[i];
    enum parquet_opened opened = read_footer(r, e) != 0 ? PARQUET_FAILED
                                 : r->other             ? PARQUET_OTHER_COLUMNS
                                                        : PARQUET_OPEN;
    if (opened == PARQUET_OPEN)
        *out = r;
    else
        parquet_read_free(r);
    return opened;
}

static int begin_group(struct parquet_reader *r, struct err *e)
{
    for (unsigned i = 0; i < r->width; i++) {
        const struct chunk *k = &r->chunks.at[r->group * r->width + i];
        struct parquet_read_column *c = &r->columns[i];
        c->at = (uint64_t)(k->dictionary >= 0 ? k->dictionary : k->data);
        if ((uint64_t)k->size > r->data_end - c->at)
            return bad(e);
        buf_clear(&c->chunk);
        uint8_t *p = buf_reserve(&c->chunk, (size_t)k->size + 1);
        if (!p)
            return err_no_memory(e, "a row group");
        if (file_read(r->fd, p, (size_t)k->size, c->at) != 0)
            return err_errno(e, ERR_INPUT, "cannot be read");
        c->chunk.len = (size_t)k->size;
        parquet_read_column_begin(c);
    }
    r->left = r->group_rows.at[r->group++];
    return 0;
}

int parquet_read_row(struct parquet_reader *r, struct cell *cells, struct err *e)
{
    if (r->left == 0) {
        if (r->group == r->group_rows.len)
            return 0;
        if (begin_group(r, e) != 0)
            return -1;
    }
    for (unsigned i = 0; i < r->width; i++) {
        if (parquet_read_cell(&r->columns[i], &cells[i], r->zstd, e) != 0)
            return -1;
    }
    r->left--;
    for (unsigned i = 0; r->left == 0 && i < r->width; i++) {
        if (!parquet_read_column_ended(&r->columns[i]))
            return err_set(e, ERR_INPUT, "the column %s has more than its rows",
                           r->table->columns[i].name);
    }
    return 1;
}
