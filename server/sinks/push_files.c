#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "server/sinks/push.h"
#include "server/sinks/table_output.h"
#include "server/sinks/trace_set.h"

struct files {
    char *folder;
    int lock; /* of the folder, shared: no day is compacted meanwhile */
    bool parts_read;
    struct trace_set parts; /* traces in files of many traces */
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
    return table_output_open(o, buf_str(&f->path), fleet_table(table), e);
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

static void drop(void *ctx)
{
    struct files *f = ctx;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        table_output_drop(&f->tables[i]);
}

static int name_tables(struct files *f, struct err *e)
{
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        if (f->tables[i].rows && table_output_finish(&f->tables[i], e) != 0)
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

/* Calls `each` for each day, with its folder in `path`, until it gives a status other than 0. */
static int each_day(struct files *f, int (*each)(struct files *f, const char *trace, struct err *e),
                    const char *trace, struct err *e)
{
    const struct dirent *day;
    int status = 0;
    buf_clear(&f->path);
    buf_printf(&f->path, "%s/%s", f->folder, fleet_table(FLEET_TABLE_TRACES)->name);
    DIR *days = f->path.failed ? NULL : opendir(buf_str(&f->path));
    size_t len = f->path.len;
    while (days && status == 0 && (day = readdir(days))) {
        f->path.len = len;
        buf_printf(&f->path, "/%s", day->d_name);
        status = day->d_name[0] == '.' ? 0 : each(f, trace, e);
    }
    if (days)
        closedir(days);
    return f->path.failed ? err_no_memory(e, "the name of a file") : status;
}

static int is_in_day(struct files *f, const char *trace, struct err *e)
{
    (void)e;
    buf_printf(&f->path, "/%s.parquet", trace);
    return !f->path.failed && access(buf_str(&f->path), F_OK) == 0;
}

static int read_parts(struct files *f, const char *trace, struct err *e)
{
    (void)trace;
    const struct dirent *entry;
    int status = 0;
    DIR *dir = opendir(buf_str(&f->path));
    size_t len = f->path.len;
    while (dir && status >= 0 && (entry = readdir(dir))) {
        struct view id;
        const char *end = strrchr(entry->d_name, '.');
        if (!end || end == entry->d_name || strcmp(end, ".parquet") != 0 ||
            trace_file_name(entry->d_name, &id))
            continue;
        f->path.len = len;
        buf_printf(&f->path, "/%s", entry->d_name);
        status = f->path.failed ? 0 : trace_set_read(&f->parts, buf_str(&f->path), e);
        if (status > 0)
            status = err_set(e, ERR_INPUT, "%s has other columns: its traces are unknown",
                             buf_str(&f->path));
    }
    if (dir)
        closedir(dir);
    return status;
}

/* Searches all days. */
static int has(void *ctx, const char *trace, enum push_there *there, struct err *e)
{
    struct files *f = ctx;
    int found = each_day(f, is_in_day, trace, e);
    if (found == 0 && !f->parts_read) {
        found = each_day(f, read_parts, NULL, e);
        f->parts_read = found == 0;
    }
    if (found < 0)
        return -1;
    *there = found                                       ? PUSH_THERE
             : trace_set_find(&f->parts, view_of(trace)) ? PUSH_IN_PART
                                                         : PUSH_NOT_THERE;
    return 0;
}

static void release(void *ctx)
{
    struct files *f = ctx;
    drop(f);
    trace_set_release(&f->parts);
    buf_release(&f->path);
    if (f->lock >= 0)
        close(f->lock);
    free(f->folder);
    free(f);
}

static int lock_folder(struct files *f, struct err *e)
{
    f->lock = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock >= 0 && flock(f->lock, LOCK_SH) == 0)
        return 0;
    return err_errno(e, ERR_OUTPUT, "cannot lock the folder %s", f->folder);
}

int push_files_open(struct push_sink *s, const char *folder, struct err *e)
{
    struct files *f = calloc(1, sizeof *f);
    if (!f)
        return err_no_memory(e, "a folder of tables");
    f->folder = strdup(folder);
    f->lock = -1;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        f->tables[i] = (struct table_output)TABLE_OUTPUT_NONE;
    buf_printf(&f->path, "%s", folder);
    if (f->folder && make_folder(f, e) == 0 && lock_folder(f, e) == 0) {
        *s = (struct push_sink){f, has, put_row, end, drop, finish, release};
        return 0;
    }
    if (!f->folder)
        err_no_memory(e, "a folder of tables");
    release(f);
    return -1;
}
