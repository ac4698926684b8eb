#include "server/capture/journal_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_io.h"
#include "server/capture/journal_format.h"

/* ---- the folder */

static int open_parent(struct journal_folder *f, const char *path)
{
    size_t len = strlen(path), name = 0;
    while (len > 1 && path[len - 1] == '/')
        len--;
    for (size_t i = 0; i < len; i++)
        name = path[i] == '/' && i + 1 < len ? i + 1 : name;
    char *parent = name ? strndup(path, name) : strdup(".");
    *f = JOURNAL_FOLDER_NONE;
    f->name = strndup(path + name, len - name);
    if (parent && f->name)
        f->parent = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(parent);
    return f->parent < 0 ? -1 : 0;
}

static int open_itself(struct journal_folder *f)
{
    f->fd = openat(f->parent, f->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (f->fd < 0 && errno == ELOOP)
        errno = ENOTDIR;
    return f->fd < 0 ? -1 : 0;
}

static int close_failed(struct journal_folder *f)
{
    int cause = errno;
    journal_folder_close(f);
    errno = cause;
    return -1;
}

int journal_folder_open(struct journal_folder *f, const char *path)
{
    return open_parent(f, path) == 0 && open_itself(f) == 0 ? 0 : close_failed(f);
}

int journal_folder_make(struct journal_folder *f, const char *path)
{
    if (open_parent(f, path) != 0 || mkdirat(f->parent, f->name, 0700) != 0)
        return close_failed(f);
    if (open_itself(f) == 0)
        return 0;
    int cause = errno;
    (void)unlinkat(f->parent, f->name, AT_REMOVEDIR);
    errno = cause;
    return close_failed(f);
}

void journal_folder_close(struct journal_folder *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->parent >= 0)
        close(f->parent);
    free(f->name);
    *f = JOURNAL_FOLDER_NONE;
}

bool journal_folder_is_ours(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

int journal_folder_remove(const struct journal_folder *f)
{
    struct stat ours, named;
    if (fstat(f->fd, &ours) != 0)
        return -1;
    if (fstatat(f->parent, f->name, &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -1;
    if (ours.st_dev != named.st_dev || ours.st_ino != named.st_ino)
        return 0; /* the folder was moved, and another one has its name now */
    return unlinkat(f->parent, f->name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

/* ---- files */

static int close_file(int fd)
{
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

/* Removes a file that was just made and cannot be used. */
static int drop_file(int dir, const char *name, int fd)
{
    int cause = errno;
    close(fd);
    (void)unlinkat(dir, name, 0);
    errno = cause;
    return -1;
}

/* Makes the file without a name until its header is written, as base/outfile.h does. */
static int make_nameless(int dir, const char *name, const uint8_t *header, size_t n)
{
    char self[32];
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (fd < 0 || (file_write(fd, header, n, 0) == 0 &&
                   linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) == 0))
        return fd;
    return close_file(fd);
}

/* For file systems without O_TMPFILE, or on which such files cannot be linked later. */
static int make_named(int dir, const char *name, const uint8_t *header, size_t n)
{
    int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || file_write(fd, header, n, 0) == 0)
        return fd;
    return drop_file(dir, name, fd);
}

int journal_file_make(int dir, const char *name, const uint8_t *header, size_t n, bool sync)
{
    int fd = make_nameless(dir, name, header, n);
    if (fd < 0 && errno != EEXIST)
        fd = make_named(dir, name, header, n);
    if (fd < 0 || !sync || (file_sync_data(fd) == 0 && file_sync(dir) == 0))
        return fd;
    return drop_file(dir, name, fd);
}

bool journal_file_is_ours(int dir, const char *name)
{
    uint8_t bytes[JOURNAL_FILE_HEADER_MAX] = {0};
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool read = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                pread(fd, bytes, sizeof bytes, 0) >= (ssize_t)SEGMENT_HEADER;
    close(fd);
    return read && (segment_header_is_whole(bytes) || checkpoint_header_is_whole(bytes));
}

off_t journal_file_remove(int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !journal_file_is_ours(dir, name))
        return 0;
    return unlinkat(dir, name, 0) == 0 ? st.st_size : 0;
}
