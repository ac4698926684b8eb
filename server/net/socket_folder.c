#include "server/net/socket_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

#define PREFIX "tidemark-"
#define LETTERS 6 /* random letters of mkdtemp */
#define SOCKET "socket"

/* A new folder may not have its lock yet. */
#define YOUNG_SECONDS 60

static bool has_our_name(const char *name)
{
    return strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 &&
           strlen(name) == sizeof PREFIX - 1 + LETTERS;
}

/*
 * A leftover: a folder of this user that no other user can write, with only a socket in it, and
 * unlocked.
 */
static bool is_left(int parent, const char *name, int *folder)
{
    struct stat st;
    *folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *folder >= 0 && fstat(*folder, &st) == 0 && st.st_uid == geteuid() &&
           (st.st_mode & 022) == 0 && st.st_mtime + YOUNG_SECONDS < time(NULL) &&
           fstatat(*folder, SOCKET, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
           flock(*folder, LOCK_EX | LOCK_NB) == 0;
}

static void remove_left(const char *parent)
{
    struct dirent *entry;
    DIR *folder = opendir(parent);
    while (folder && (entry = readdir(folder))) {
        int left = -1;
        if (has_our_name(entry->d_name) && is_left(dirfd(folder), entry->d_name, &left) &&
            unlinkat(left, SOCKET, 0) == 0)
            (void)unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
        if (left >= 0)
            close(left);
    }
    if (folder)
        closedir(folder);
}

int socket_folder_make(struct socket_folder *f, const char *parent, struct err *e)
{
    struct buf b = {0};
    *f = SOCKET_FOLDER_NONE;
    remove_left(parent);
    buf_printf(&b, "%s/" PREFIX "XXXXXX", parent);
    f->path = b.failed ? NULL : strdup(buf_str(&b));
    buf_release(&b);
    if (!f->path)
        return err_no_memory(e, "the collector");
    if (!mkdtemp(f->path)) {
        free(f->path);
        f->path = NULL;
        return err_errno(e, ERR_OUTPUT, "cannot make a folder in %s", parent);
    }
    /* Without lock support the folder is left behind when this process is killed. */
    f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock >= 0)
        (void)flock(f->lock, LOCK_EX | LOCK_NB);
    buf_printf(&b, "%s/" SOCKET, f->path);
    f->socket = b.failed ? NULL : strdup(buf_str(&b));
    buf_release(&b);
    return f->socket ? 0 : err_no_memory(e, "the collector");
}

void socket_folder_release(struct socket_folder *f)
{
    if (f->socket)
        unlink(f->socket);
    if (f->path)
        rmdir(f->path);
    if (f->lock >= 0)
        close(f->lock);
    free(f->socket);
    free(f->path);
    *f = SOCKET_FOLDER_NONE;
}
