#include "cli/export_tables.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/outfile.h"
#include "report/export/chrome_export.h"
#include "report/export/sqlite_db.h"

static int write_rows(struct export_input *input, struct table_sink *sink, uint64_t points,
                      struct err *e)
{
    const struct tables_source source = {input, export_load, input->resident_budget};
    sink->points = points;
    sink->only = &input->only;
    return tables_export(&source, sink, NULL, e);
}

/* ---- a file for each table */

struct table_outputs {
    struct outfile files[TABLE_COUNT]; /* path == NULL: not open */
    FILE *out[TABLE_COUNT];
    bool made_folder;
};

static const char *const suffixes[] = {
    [TABLE_FILE_TSV] = "tsv",
    [TABLE_FILE_NDJSON] = "ndjson",
    [TABLE_FILE_PARQUET] = "parquet",
};

static int open_output(struct table_outputs *o, enum table_id id, const char *path, bool force,
                       struct err *e)
{
    if (outfile_open(&o->files[id], path, force, e) != 0) {
        o->files[id] = (struct outfile){.fd = -1};
        return -1;
    }
    o->out[id] = outfile_stream(&o->files[id], e);
    return o->out[id] ? 0 : -1;
}

static int open_folder(struct table_outputs *o, const struct export_tables *x, struct err *e)
{
    struct buf path = {0};
    int status = 0;
    o->made_folder = mkdir(x->output, 0777) == 0;
    if (!o->made_folder && errno != EEXIST)
        return err_errno(e, ERR_OUTPUT, "cannot make the folder %s", x->output);
    for (unsigned i = 0; i < TABLE_COUNT && status == 0; i++) {
        if (!x->wanted[i])
            continue;
        buf_clear(&path);
        buf_printf(&path, "%s/%s.%s", x->output, table_get((enum table_id)i)->name,
                   suffixes[x->format]);
        status = path.failed ? err_no_memory(e, "names of files")
                             : open_output(o, (enum table_id)i, buf_str(&path), x->force, e);
    }
    buf_release(&path);
    return status;
}

static int open_outputs(struct table_outputs *o, const struct export_tables *x, struct err *e)
{
    if (!x->single)
        return open_folder(o, x, e);
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (!x->wanted[i])
            continue;
        if (strcmp(x->output, "-") != 0)
            return open_output(o, (enum table_id)i, x->output, x->force, e);
        o->out[i] = stdout;
    }
    return 0;
}

/* Names all files if `status` is 0, else none. */
static int close_outputs(struct table_outputs *o, const struct export_tables *x, int status,
                         struct err *e)
{
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (o->out[i] && o->out[i] != stdout && fclose(o->out[i]) != 0 && status == 0)
            status = err_errno(e, ERR_OUTPUT, "cannot write %s", x->output);
    }
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (!o->files[i].path)
            continue;
        if (status == 0)
            status = outfile_commit(&o->files[i], e);
        else
            outfile_abort(&o->files[i]);
    }
    if (status != 0 && o->made_folder)
        (void)rmdir(x->output);
    return status;
}

static int write_tables(const struct export_tables *x, FILE *const out[TABLE_COUNT], struct err *e)
{
    struct table_files *f =
        table_files_open(x->format, out, "tidemark version " TIDEMARK_VERSION, e);
    if (!f)
        return -1;
    struct table_sink sink = table_files_sink(f);
    int status = write_rows(x->input, &sink, x->points, e);
    if (status == 0)
        status = table_files_finish(f, e);
    table_files_free(f);
    return status;
}

int export_table_files(const struct export_tables *x, struct err *e)
{
    struct table_outputs o = {0};
    int status = open_outputs(&o, x, e);
    if (status == 0)
        status = write_tables(x, o.out, e);
    return close_outputs(&o, x, status, e);
}

/* ---- SQLite */

static int write_database(const struct export_tables *x, int fd, struct err *e)
{
    struct sqlite_db *d = sqlite_db_open(fd, e);
    if (!d)
        return -1;
    struct table_sink sink = sqlite_db_sink(d);
    int status = write_rows(x->input, &sink, x->points, e);
    if (status == 0)
        status = sqlite_db_finish(d, &x->input->progress, e);
    sqlite_db_free(d);
    return status;
}

int export_sqlite(const struct export_tables *x, struct err *e)
{
    struct outfile o;
    int status;
    if (outfile_open(&o, x->output, x->force, e) != 0)
        return -1;
    if (o.direct)
        status =
            err_set(e, ERR_OUTPUT, "%s: a database is written to a regular file only", x->output);
    else
        status = write_database(x, o.fd, e);
    if (status == 0)
        return outfile_commit(&o, e);
    outfile_abort(&o);
    return -1;
}

/* ---- Chrome's trace events */

int export_chrome(struct export_input *input, uint64_t points, FILE *out, struct err *e)
{
    struct chrome *c = chrome_open(out, points, e);
    if (!c)
        return -1;
    struct table_sink sink = chrome_sink(c);
    int status = write_rows(input, &sink, points, e);
    if (status == 0)
        status = chrome_finish(c, e);
    chrome_free(c);
    return status;
}
