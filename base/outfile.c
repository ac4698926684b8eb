#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What is written as it is: pipes and devices, and whatever a name in /dev or /proc leads to
 * (/dev/stdout may lead to a regular file, but the name there is not ours to replace).
 */
static bool is_special(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    return !S_ISREG(st.st_mode) || strncmp(path, "/dev/", 5) == 0 ||
           strncmp(path, "/proc/", 6) == 0;
}

static int outfile_create_temporary(struct outfile *o, struct err *e)
{
    static const char suffix[] = ".XXXXXX";
    const char *slash = strrchr(o->path, '/');
    size_t dir = slash ? (size_t)(slash - o->path) + 1 : 0;
    size_t len = strlen(o->path) + sizeof suffix + 1;
    o->temporary = malloc(len);
    if (!o->temporary)
        return err_no_memory(e, "the output's name");
    /* A hidden name, so that a glob for the output never sees the unfinished file. */
    snprintf(o->temporary, len, "%.*s.%s%s", (int)dir, o->path, o->path + dir, suffix);
    o->fd = mkostemp(o->temporary, O_CLOEXEC);
    if (o->fd < 0) {
        err_errno(e, ERR_OUTPUT, "cannot write %s", o->path);
        free(o->temporary);
        o->temporary = NULL;
        return -1;
    }
    mode_t mask = umask(0);
    umask(mask);
    struct stat old;
    mode_t mode = stat(o->path, &old) == 0 ? old.st_mode & 0777 : 0666 & ~mask;
    if (fchmod(o->fd, mode) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot set the mode of %s", o->path);
    return 0;
}

int outfile_open(struct outfile *o, const char *path, bool replace, struct err *e)
{
    *o = (struct outfile){.fd = -1};
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return err_set(e, ERR_OUTPUT, "%s is a folder", path);
    /* A link stays: the file that it leads to is replaced. */
    if (!is_special(path) && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        o->path = realpath(path, NULL);
    if (!o->path)
        o->path = strdup(path);
    if (!o->path)
        return err_no_memory(e, "the output's name");
    int status;
    if (is_special(path)) {
        o->fd = open(path, O_WRONLY | O_CLOEXEC);
        status = o->fd < 0 ? err_errno(e, ERR_OUTPUT, "cannot write %s", path) : 0;
    } else if (!replace && lstat(path, &st) == 0) {
        status = err_set(e, ERR_OUTPUT, "%s exists already (use -f to replace it)", path);
    } else {
        status = outfile_create_temporary(o, e);
    }
    if (status != 0)
        outfile_abort(o);
    return status;
}

/* Makes the rename itself durable. Folders that cannot be synced are no reason to fail. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(dir);
}

int outfile_commit(struct outfile *o, struct err *e)
{
    int status = 0;
    if (o->temporary && fsync(o->fd) != 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", o->path);
    if (close(o->fd) != 0 && status == 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", o->path);
    o->fd = -1;
    if (status == 0 && o->temporary && rename(o->temporary, o->path) != 0)
        status = err_errno(e, ERR_OUTPUT, "cannot rename the finished file to %s", o->path);
    if (status == 0 && o->temporary) {
        sync_folder(o->path);
        free(o->temporary);
        o->temporary = NULL;
    }
    outfile_abort(o);
    return status;
}

void outfile_abort(struct outfile *o)
{
    if (o->fd >= 0)
        close(o->fd);
    if (o->temporary)
        unlink(o->temporary);
    free(o->temporary);
    free(o->path);
    *o = (struct outfile){.fd = -1};
}
