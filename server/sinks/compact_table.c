/*
 * The files of one table and day. Files of traces that are not in `traces` are not merged: such a
 * trace is incomplete, and when it is sent again, the new file replaces the old one by its name.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "analysis/tables/fleet.h"
#include "base/file_io.h"
#include "server/sinks/compact_day.h"
#include "server/sinks/table_output.h"

/* Merged files of this size are left alone, so a row is not rewritten for ever. */
#define PART_BYTES ((off_t)64 << 20)

enum action { KEEP, MERGE, DROP };

struct day_file {
    char *name;
    enum action action;
};

struct day_table {
    struct compact_day *day;
    unsigned id;
    const struct table *table;
    const char *from, *to; /* the folder in use and the new one */
    VEC(struct day_file) files;
    bool drops;     /* the file that is looked at has rows to drop */
    bool any_drops; /* some file has */
    struct table_output out;
    uint64_t kept;    /* files of the new folder */
    uint64_t dropped; /* rows and files of single traces */
};

bool compact_drops(const struct compact_day *d, struct view trace)
{
    const uint64_t *limit = trace_set_find(&d->limits, trace);
    uint64_t days = limit && *limit ? *limit - 1 : d->limit;
    return d->age >= 0 && (uint64_t)d->age > days;
}

static char *joined(const char *folder, const char *name)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", folder, name);
    if (*buf_str(&path))
        return (char *)path.data;
    buf_release(&path);
    return NULL;
}

/* ---- what is there */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct day_file *)a)->name, ((const struct day_file *)b)->name);
}

static int note_drop(void *ctx, const struct cell *cells, struct err *e)
{
    struct day_table *t = ctx;
    (void)e;
    t->drops |= compact_drops(t->day, cells[FLEET_TRACE].text);
    return 0;
}

/* Chooses for a Parquet file of many traces or of a complete one. */
static int look_into(struct day_table *t, const char *path, off_t size, enum action *action,
                     struct err *e)
{
    t->drops = false;
    int status = table_file_read(path, t->table, FLEET_TRACE + 1, note_drop, t, e);
    if (status < 0)
        return -1;
    t->day->told->other += status == 1;
    if (status == 0)
        *action = t->drops || size < PART_BYTES ? MERGE : KEEP;
    t->any_drops |= t->drops;
    return 0;
}

static int choose(struct day_table *t, const char *name, enum action *action, struct err *e)
{
    struct view id;
    struct stat st;
    const char *end = strrchr(name, '.');
    bool single = trace_file_name(name, &id);
    *action = KEEP;
    if (strncmp(name, OUTFILE_HIDDEN, strlen(OUTFILE_HIDDEN)) == 0)
        *action = DROP; /* left by a killed push: none runs */
    else if (single && compact_drops(t->day, id))
        *action = DROP;
    else if (end && strcmp(end, ".parquet") == 0 &&
             (!single || trace_set_find(&t->day->whole, id))) {
        char *path = joined(t->from, name);
        int status = !path                  ? err_no_memory(e, "a file's name")
                     : stat(path, &st) != 0 ? err_errno(e, ERR_INPUT, "cannot read %s", path)
                                            : look_into(t, path, st.st_size, action, e);
        free(path);
        return status;
    }
    return 0;
}

static int list_files(struct day_table *t, struct err *e)
{
    const struct dirent *entry;
    int status = 0;
    DIR *dir = opendir(t->from);
    if (!dir)
        return errno == ENOENT ? 0 : err_errno(e, ERR_INPUT, "cannot read %s", t->from);
    while (status == 0 && (errno = 0, entry = readdir(dir))) {
        struct day_file file = {0};
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        status = choose(t, entry->d_name, &file.action, e);
        if (status == 0 && (!(file.name = strdup(entry->d_name)) || !vec_push(&t->files, file))) {
            free(file.name);
            status = err_no_memory(e, "files");
        }
    }
    if (status == 0 && errno)
        status = err_errno(e, ERR_INPUT, "cannot read %s", t->from);
    closedir(dir);
    if (t->files.len)
        qsort(t->files.at, t->files.len, sizeof *t->files.at, by_name);
    return status;
}

/* ---- the new folder */

/* A name that no file beside it has: those of which this one is made are gone then. */
static char *part_path(const struct day_table *t)
{
    uint64_t hash = 0;
    char name[64];
    for (size_t i = 0; i < t->files.len; i++) {
        const struct day_file *f = &t->files.at[i];
        if (f->action == MERGE)
            hash = XXH3_64bits_withSeed(f->name, strlen(f->name), hash);
    }
    snprintf(name, sizeof name, "part-%016llx.parquet", (unsigned long long)hash);
    return joined(t->to, name);
}

static int open_part(struct day_table *t, struct err *e)
{
    char *path = part_path(t);
    int status = !path                 ? err_no_memory(e, "a file's name")
                 : file_is_there(path) ? err_set(e, ERR_OUTPUT, "%s exists already", path)
                                       : table_output_open(&t->out, path, t->table, e);
    free(path);
    return status;
}

static int put_row(void *ctx, const struct cell *cells, struct err *e)
{
    struct day_table *t = ctx;
    if (compact_drops(t->day, cells[FLEET_TRACE].text)) {
        t->dropped++;
        return 0;
    }
    if (!t->out.rows && open_part(t, e) != 0)
        return -1;
    return parquet_row(t->out.rows, cells, e);
}

/* The other name of a file that stays. */
static int keep_file(struct day_table *t, const char *name, struct err *e)
{
    char *from = joined(t->from, name);
    char *to = joined(t->to, name);
    int status = !from || !to          ? err_no_memory(e, "a file's name")
                 : link(from, to) != 0 ? err_errno(e, ERR_OUTPUT, "cannot link %s", from)
                                       : 0;
    free(from);
    free(to);
    return status;
}

static int merge_file(struct day_table *t, const char *name, struct err *e)
{
    char *path = joined(t->from, name);
    int status = path ? table_file_read(path, t->table, t->table->width, put_row, t, e)
                      : err_no_memory(e, "a file's name");
    if (status > 0)
        status = err_set(e, ERR_INPUT, "%s changed meanwhile", path);
    free(path);
    return status;
}

/* With the mode of the one in use, since others may push there, too. */
static int make_folder(const struct day_table *t, struct err *e)
{
    struct stat st;
    if (stat(t->from, &st) == 0 && mkdir(t->to, 0777) == 0 && chmod(t->to, st.st_mode & 07777) == 0)
        return 0;
    return err_errno(e, ERR_OUTPUT, "cannot make the folder %s", t->to);
}

static int make_new(struct day_table *t, struct err *e)
{
    if (make_folder(t, e) != 0)
        return -1;
    for (size_t i = 0; i < t->files.len; i++) {
        const struct day_file *f = &t->files.at[i];
        struct view id;
        t->kept += f->action == KEEP;
        t->dropped += f->action == DROP && trace_file_name(f->name, &id);
        if ((f->action == KEEP && keep_file(t, f->name, e) != 0) ||
            (f->action == MERGE && merge_file(t, f->name, e) != 0))
            return -1;
    }
    if (!t->out.rows)
        return 0;
    t->kept++;
    return table_output_finish(&t->out, e) == 0 ? outfile_commit(&t->out.file, e) : -1;
}

/* ---- the exchange */

static int sync_folder(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status =
        fd >= 0 && file_sync(fd) == 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot sync %s", path);
    if (fd >= 0)
        close(fd);
    return status;
}

/*
 * Afterwards the folder that was in use is the one in FOLDER/.compact. It stays until the next
 * compaction: a reader that is listing it must not see a half.
 */
static int exchange(struct day_table *t, struct err *e)
{
    if (sync_folder(t->to, e) != 0)
        return -1;
    /* Without a file there is no folder; the new one is empty and is replaced. */
    int status = t->kept ? renameat2(AT_FDCWD, t->to, AT_FDCWD, t->from, RENAME_EXCHANGE)
                         : rename(t->from, t->to);
    if (status != 0)
        return err_errno(e, ERR_OUTPUT, "cannot exchange the folder %s", t->from);
    char *folder = outfile_folder(t->from);
    status = folder ? sync_folder(folder, e) : err_no_memory(e, "a folder's name");
    free(folder);
    return status;
}

static bool is_needed(const struct day_table *t)
{
    size_t merged = 0;
    for (size_t i = 0; i < t->files.len; i++) {
        if (t->files.at[i].action == DROP)
            return true;
        merged += t->files.at[i].action == MERGE;
    }
    return merged > 1 || t->any_drops;
}

static int rewrite(struct day_table *t, struct err *e)
{
    struct compact_told *told = t->day->told;
    if (list_files(t, e) != 0)
        return -1;
    if (is_needed(t)) {
        if (make_new(t, e) != 0 || exchange(t, e) != 0)
            return -1;
        told->dropped += t->id == FLEET_TABLE_TRACES ? t->dropped : 0;
    } else {
        t->kept = t->files.len;
    }
    told->files_before += t->files.len;
    told->files_after += t->kept;
    return 0;
}

int compact_table(struct compact_day *d, unsigned table, struct err *e)
{
    struct day_table t = {
        .day = d, .id = table, .table = fleet_table(table), .out = TABLE_OUTPUT_NONE};
    struct buf from = {0}, to = {0};
    buf_printf(&from, "%s/%s/%s", d->folder, t.table->name, d->day);
    buf_printf(&to, "%s/" COMPACT_STAGE "/%s.%s", d->folder, t.table->name, d->day);
    t.from = buf_str(&from);
    t.to = buf_str(&to);
    int status = *t.from && *t.to ? rewrite(&t, e) : err_no_memory(e, "a folder's name");
    table_output_drop(&t.out);
    for (size_t i = 0; i < t.files.len; i++)
        free(t.files.at[i].name);
    vec_release(&t.files);
    buf_release(&from);
    buf_release(&to);
    return status;
}
