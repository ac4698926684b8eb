#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/outfile.h"
#include "report/export/parquet.h"
#include "server/sinks/push.h"

struct table_output {
    struct outfile file;
    struct emit emit; /* .out NULL: not open */
    struct parquet *rows;
};

struct files {
    char *folder;
    struct buf path;
    struct table_output tables[FLEET_TABLE_COUNT];
};

static int make_folder(struct files *f, struct err *e)
{
    if (f->path.failed)
        return err_no_memory(e, "the name of a folder");
    if (mkdir(buf_str(&f->path), 0777) == 0 || errno == EEXIST)
        return 0;
    return err_errno(e, ERR_OUTPUT, "cannot make the folder %s", buf_str(&f->path));
}

static int name_file(struct files *f, const struct fleet_trace *trace, unsigned table,
                     struct err *e)
{
    buf_clear(&f->path);
    buf_printf(&f->path, "%s/%s", f->folder, fleet_table(table)->name);
    if (make_folder(f, e) != 0)
        return -1;
    buf_printf(&f->path, "/day=%s", trace->day);
    if (make_folder(f, e) != 0)
        return -1;
    buf_printf(&f->path, "/%s.parquet", trace->id);
    return f->path.failed ? err_no_memory(e, "the name of a file") : 0;
}

static int open_table(struct files *f, const struct fleet_trace *trace, unsigned table,
                      struct err *e)
{
    struct table_output *o = &f->tables[table];
    if (name_file(f, trace, table, e) != 0)
        return -1;
    /* An existing file belongs to a trace that was not completed, or has the same content. */
    if (outfile_open(&o->file, buf_str(&f->path), true, e) != 0) {
        o->file = (struct outfile){.fd = -1};
        return -1;
    }
    o->emit = (struct emit){.out = outfile_stream(&o->file, e), .what = "a table"};
    if (!o->emit.out)
        return -1;
    o->rows = parquet_open(&o->emit, fleet_table(table), "tidemark version " TIDEMARK_VERSION, e);
    return o->rows ? 0 : -1;
}

static int put_row(void *ctx, const struct fleet_trace *trace, unsigned table,
                   const struct cell *cells, struct err *e)
{
    struct files *f = ctx;
    struct table_output *o = &f->tables[table];
    if (!o->rows && open_table(f, trace, table, e) != 0)
        return -1;
    return parquet_row(o->rows, cells, e);
}

static int finish_table(struct table_output *o, struct err *e)
{
    int status = parquet_finish(o->rows, e);
    if (status == 0)
        status = emit_finish(&o->emit, e);
    FILE *out = o->emit.out;
    o->emit.out = NULL;
    if (fclose(out) != 0 && status == 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write a table");
    return status;
}

static void drop(void *ctx)
{
    struct files *f = ctx;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        struct table_output *o = &f->tables[i];
        parquet_free(o->rows);
        emit_release(&o->emit);
        if (o->emit.out)
            (void)fclose(o->emit.out);
        if (o->file.path)
            outfile_abort(&o->file);
        *o = (struct table_output){.file.fd = -1};
    }
}

static int name_tables(struct files *f, struct err *e)
{
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        if (f->tables[i].rows && finish_table(&f->tables[i], e) != 0)
            return -1;
    }
    for (unsigned i = FLEET_TABLE_TRACES + 1; i < FLEET_TABLE_COUNT; i++) {
        if (f->tables[i].rows && outfile_commit(&f->tables[i].file, e) != 0)
            return -1;
    }
    return outfile_commit(&f->tables[FLEET_TABLE_TRACES].file, e);
}

static int end(void *ctx, struct err *e)
{
    int status = name_tables(ctx, e);
    drop(ctx);
    return status;
}

static int finish(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return 0;
}

/* Searches all days. */
static int has(void *ctx, const char *trace, bool *there, struct err *e)
{
    struct files *f = ctx;
    const struct dirent *day;
    *there = false;
    buf_clear(&f->path);
    buf_printf(&f->path, "%s/%s", f->folder, fleet_table(FLEET_TABLE_TRACES)->name);
    DIR *days = f->path.failed ? NULL : opendir(buf_str(&f->path));
    size_t len = f->path.len;
    while (days && !*there && (day = readdir(days))) {
        f->path.len = len;
        buf_printf(&f->path, "/%s/%s.parquet", day->d_name, trace);
        *there = !f->path.failed && access(buf_str(&f->path), F_OK) == 0;
    }
    if (days)
        closedir(days);
    return f->path.failed ? err_no_memory(e, "the name of a file") : 0;
}

static void release(void *ctx)
{
    struct files *f = ctx;
    drop(f);
    buf_release(&f->path);
    free(f->folder);
    free(f);
}

int push_files_open(struct push_sink *s, const char *folder, struct err *e)
{
    struct files *f = calloc(1, sizeof *f);
    if (!f)
        return err_no_memory(e, "a folder of tables");
    f->folder = strdup(folder);
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        f->tables[i].file.fd = -1;
    buf_printf(&f->path, "%s", folder);
    if (f->folder && make_folder(f, e) == 0) {
        *s = (struct push_sink){f, has, put_row, end, drop, finish, release};
        return 0;
    }
    if (!f->folder)
        err_no_memory(e, "a folder of tables");
    release(f);
    return -1;
}
