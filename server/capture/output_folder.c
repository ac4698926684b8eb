#include "server/capture/output_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

struct output_folder *output_folder_take(struct output_folder *last, const char *path)
{
    struct stat named, ours;
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (last && fstat(fd, &named) == 0 && fstat(last->fd, &ours) == 0 && is_same(&named, &ours)) {
        close(fd);
        last->users++;
        return last;
    }
    struct output_folder *f = malloc(sizeof *f);
    if (f)
        *f = (struct output_folder){.fd = fd, .users = 1};
    else
        close(fd);
    return f;
}

void output_folder_leave(struct output_folder *f)
{
    if (!f || --f->users)
        return;
    close(f->fd);
    free(f);
}

bool output_folder_is_at(const struct output_folder *f, const char *path)
{
    struct stat named, ours;
    return stat(path, &named) == 0 && fstat(f->fd, &ours) == 0 && is_same(&named, &ours);
}

bool output_folder_is_removed(const struct output_folder *f)
{
    static const char deleted[] = " (deleted)";
    const size_t end = sizeof deleted - 1;
    char self[40], path[PATH_MAX];
    struct stat st;
    if (fstat(f->fd, &st) == 0 && st.st_nlink == 0)
        return true;
    /* On some file systems st_nlink of folders says nothing. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    ssize_t n = readlink(self, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return n > (ssize_t)end && strcmp(path + n - end, deleted) == 0 &&
           !output_folder_is_at(f, path);
}

bool working_folder_is_removed(void)
{
    char *here = getcwd(NULL, 0);
    bool removed = !here && errno == ENOENT;
    free(here);
    return removed;
}

char *output_folder_path(const struct output_folder *f, const char *name, const char *path)
{
    struct stat here, named;
    char self[40], now[PATH_MAX];
    struct buf out = {0};
    if (fstatat(f->fd, name, &here, AT_SYMLINK_NOFOLLOW) != 0)
        return NULL;
    if (lstat(path, &named) == 0 && is_same(&here, &named))
        return strdup(path);
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    ssize_t n = readlink(self, now, sizeof now - 1);
    if (n <= 0)
        return NULL;
    buf_put(&out, now, (size_t)n);
    buf_printf(&out, "/%s", name);
    bool is_there = !out.failed && lstat(buf_str(&out), &named) == 0 && is_same(&here, &named);
    char *text = is_there ? strdup(buf_str(&out)) : NULL;
    buf_release(&out);
    return text;
}
