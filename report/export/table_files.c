#include "report/export/table_files.h"

#include <stdlib.h>
#include <string.h>

#include "report/export/parquet.h"
#include "report/export/tsv.h"
#include "report/write/emit.h"

struct table_files {
    enum table_file_format format;
    struct table_sink sink;
    struct emit emit[TABLE_COUNT];
    struct parquet *parquet[TABLE_COUNT];
    struct buf utf8;
};

/* ---- TSV */

static void put_tsv_row(struct table_files *f, struct emit *w, const struct table *t,
                        const struct cell *cells)
{
    for (unsigned i = 0; i < t->width; i++) {
        if (i > 0)
            buf_put(&w->buf, "\t", 1);
        cell_put(w, &cell_form_tsv, t->columns[i].type, &cells[i], &f->utf8);
    }
    buf_put(&w->buf, "\n", 1);
}

static void put_tsv_head(struct emit *w, const struct table *t)
{
    for (unsigned i = 0; i < t->width; i++) {
        emit_text(w, i > 0 ? "\t" : "");
        emit_text(w, t->columns[i].name);
    }
    emit_text(w, "\n");
}

/* ---- NDJSON */

static void put_json_row(struct emit *w, const struct table *t, const struct cell *cells)
{
    for (unsigned i = 0; i < t->width; i++) {
        emit_text(w, i > 0 ? ",\"" : "{\"");
        emit_text(w, t->columns[i].name);
        emit_text(w, "\":");
        cell_put(w, &cell_form_json, t->columns[i].type, &cells[i], NULL);
    }
    emit_text(w, "}\n");
}

/* ---- all formats */

static int put_row(void *ctx, enum table_id table, const struct cell *cells, struct err *e)
{
    struct table_files *f = ctx;
    struct emit *w = &f->emit[table];
    switch (f->format) {
    case TABLE_FILE_TSV:
        put_tsv_row(f, w, table_get(table), cells);
        return emit_check(w, e);
    case TABLE_FILE_NDJSON:
        put_json_row(w, table_get(table), cells);
        return emit_check(w, e);
    case TABLE_FILE_PARQUET:
        return parquet_row(f->parquet[table], cells, e);
    }
    return 0;
}

static int open_table(struct table_files *f, enum table_id id, FILE *out, const char *creator,
                      struct err *e)
{
    f->sink.wanted[id] = true;
    f->emit[id] = (struct emit){.out = out, .what = "a table"};
    if (f->format == TABLE_FILE_TSV)
        put_tsv_head(&f->emit[id], table_get(id));
    if (f->format != TABLE_FILE_PARQUET)
        return 0;
    f->parquet[id] = parquet_open(&f->emit[id], table_get(id), creator, e);
    return f->parquet[id] ? 0 : -1;
}

struct table_files *table_files_open(enum table_file_format format, FILE *const out[TABLE_COUNT],
                                     const char *creator, struct err *e)
{
    struct table_files *f = calloc(1, sizeof *f);
    if (!f) {
        err_no_memory(e, "tables");
        return NULL;
    }
    f->format = format;
    f->sink = (struct table_sink){.ctx = f, .row = put_row};
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (out[i] && open_table(f, (enum table_id)i, out[i], creator, e) != 0) {
            table_files_free(f);
            return NULL;
        }
    }
    return f;
}

struct table_sink table_files_sink(struct table_files *f)
{
    return f->sink;
}

int table_files_finish(struct table_files *f, struct err *e)
{
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (!f->sink.wanted[i])
            continue;
        if (f->parquet[i] && parquet_finish(f->parquet[i], e) != 0)
            return -1;
        if (emit_finish(&f->emit[i], e) != 0)
            return -1;
    }
    return 0;
}

void table_files_free(struct table_files *f)
{
    if (!f)
        return;
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        parquet_free(f->parquet[i]);
        emit_release(&f->emit[i]);
    }
    buf_release(&f->utf8);
    free(f);
}
