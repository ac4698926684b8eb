#include "report/export/sqlite_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* SQLite's handle of an open file. SQLite accesses the first member. */
struct open_file {
    sqlite3_file base;
    int fd;
};

static int file_close(sqlite3_file *file)
{
    (void)file; /* the caller owns the descriptor */
    return SQLITE_OK;
}

/* Bytes beyond the end of the file read as zeros. */
static int file_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
    const struct open_file *f = (const struct open_file *)file;
    char *to = out;
    while (n > 0) {
        ssize_t got = pread(f->fd, to, (size_t)n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return SQLITE_IOERR_READ;
        if (got == 0) {
            for (int i = 0; i < n; i++)
                to[i] = 0;
            return SQLITE_IOERR_SHORT_READ;
        }
        to += got;
        at += got;
        n -= (int)got;
    }
    return SQLITE_OK;
}

static int file_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    const struct open_file *f = (const struct open_file *)file;
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = pwrite(f->fd, from, (size_t)n, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 && errno != ENOSPC && errno != EDQUOT ? SQLITE_IOERR_WRITE : SQLITE_FULL;
        from += put;
        at += put;
        n -= (int)put;
    }
    return SQLITE_OK;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    const struct open_file *f = (const struct open_file *)file;
    return ftruncate(f->fd, size) == 0 ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
}

static int file_sync(sqlite3_file *file, int flags)
{
    (void)file, (void)flags; /* outfile_commit syncs the file */
    return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    const struct open_file *f = (const struct open_file *)file;
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return SQLITE_IOERR_FSTAT;
    *size = st.st_size;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int level)
{
    (void)file, (void)level;
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *file, int *reserved)
{
    (void)file;
    *reserved = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    (void)file, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *file)
{
    (void)file;
    return 4096;
}

static int file_device(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_lock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_device,
};

/* The database is the open file, whatever its name. SQLite's temporary files are real files. */
static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *out_flags)
{
    struct sqlite_file *f = vfs->pAppData;
    if (!(flags & SQLITE_OPEN_MAIN_DB))
        return f->real->xOpen(f->real, name, file, flags, out_flags);
    *(struct open_file *)file = (struct open_file){.base.pMethods = &methods, .fd = f->fd};
    if (out_flags)
        *out_flags = flags;
    return SQLITE_OK;
}

static int vfs_full_name(sqlite3_vfs *vfs, const char *name, int room, char *out)
{
    (void)vfs;
    snprintf(out, (size_t)room, "%s", name);
    return SQLITE_OK;
}

/* There is no journal of an earlier run. */
static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *answer)
{
    struct sqlite_file *f = vfs->pAppData;
    if (flags == SQLITE_ACCESS_READWRITE)
        return f->real->xAccess(f->real, name, flags, answer); /* a folder for temporary files */
    *answer = 0;
    return SQLITE_OK;
}

int sqlite_file_failed(sqlite3 *db, struct err *e)
{
    if (sqlite3_errcode(db) == SQLITE_NOMEM) /* also when there is no database yet */
        return err_no_memory(e, "a database");
    return err_set(e, ERR_OUTPUT, "cannot write a database: %s", sqlite3_errmsg(db));
}

int sqlite_file_open(struct sqlite_file *f, int fd, sqlite3 **db, struct err *e)
{
    *db = NULL;
    f->fd = fd;
    f->real = sqlite3_vfs_find(NULL);
    if (!f->real)
        return sqlite_file_failed(NULL, e);
    snprintf(f->name, sizeof f->name, "tidemark-%p", (void *)f);
    f->vfs = *f->real;
    f->vfs.pNext = NULL;
    f->vfs.zName = f->name;
    f->vfs.pAppData = f;
    f->vfs.xOpen = vfs_open;
    f->vfs.xFullPathname = vfs_full_name;
    f->vfs.xAccess = vfs_access;
    if (f->vfs.szOsFile < (int)sizeof(struct open_file))
        f->vfs.szOsFile = sizeof(struct open_file);
    if (sqlite3_vfs_register(&f->vfs, 0) != SQLITE_OK)
        return sqlite_file_failed(NULL, e);
    if (sqlite3_open_v2("trace", db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        f->name) == SQLITE_OK)
        return 0;
    sqlite_file_failed(*db, e);
    sqlite3_close(*db);
    *db = NULL;
    sqlite3_vfs_unregister(&f->vfs);
    return -1;
}

int sqlite_file_close(struct sqlite_file *f, sqlite3 *db, struct err *e)
{
    int status = sqlite3_close(db) == SQLITE_OK ? 0 : sqlite_file_failed(db, e);
    sqlite3_vfs_unregister(&f->vfs);
    return status;
}
