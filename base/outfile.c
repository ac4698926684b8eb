#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_io.h"

/*
 * Whether output is written directly: to pipes, devices and every name in /dev or /proc.
 * /dev/stdout may lead to a regular file, but its name must not be replaced.
 */
static bool is_special(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    return !S_ISREG(st.st_mode) || strncmp(path, "/dev/", 5) == 0 ||
           strncmp(path, "/proc/", 6) == 0;
}

/* The length of the path's folder part with its slash; 0 without one. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

char *outfile_folder(const char *path)
{
    size_t dir = folder_length(path);
    return dir ? strndup(path, dir > 1 ? dir - 1 : 1) : strdup(".");
}

/*
 * A template for mkostemp beside `path`: hidden, and short whatever the length of the given name.
 */
static char *temporary_name(const char *path)
{
    static const char name[] = OUTFILE_HIDDEN OUTFILE_HIDDEN_END;
    size_t dir = folder_length(path);
    char *out = malloc(dir + sizeof name);
    if (out) {
        memcpy(out, path, dir);
        memcpy(out + dir, name, sizeof name);
    }
    return out;
}

/* Links the unnamed file open at `fd` to a name. Returns 0, or -1 with errno. */
static int link_to(int fd, const char *path)
{
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* Links the unnamed file to a new temporary name, stored in *name. */
static int link_to_temporary(int fd, const char *path, char **name)
{
    int status = -1;
    for (int tries = 0; tries < 100 && status != 0; tries++) {
        if (!(*name = temporary_name(path)))
            return -1;
        /* mkostemp chooses a free name; its file is deleted at once. */
        int other = mkostemp(*name, O_CLOEXEC);
        if (other >= 0) {
            close(other);
            unlink(*name);
            status = link_to(fd, *name);
        }
        if (status != 0) {
            int saved = errno;
            free(*name);
            *name = NULL;
            if (other < 0 || saved != EEXIST) {
                errno = saved;
                return -1;
            }
        }
    }
    return status;
}

static int open_nameless(const char *path)
{
    char *folder = outfile_folder(path);
    int fd = folder ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(folder);
    return fd;
}

/* Opens an unnamed file if the file system lets it be named later; else returns -1. */
static int open_unlinked(const char *path)
{
    /*
     * Some systems support O_TMPFILE and refuse the link: find out before the first byte is
     * written.
     */
    int probe = open_nameless(path);
    char *name = NULL;
    bool works = probe >= 0 && link_to_temporary(probe, path, &name) == 0;
    if (works)
        unlink(name);
    free(name);
    if (probe >= 0)
        close(probe);
    return works ? open_nameless(path) : -1;
}

static int open_temporary(struct outfile *o, struct err *e)
{
    o->temporary = temporary_name(o->path);
    if (!o->temporary)
        return err_no_memory(e, "the output's name");
    o->fd = mkostemp(o->temporary, O_CLOEXEC);
    if (o->fd < 0) {
        err_errno(e, ERR_OUTPUT, "cannot write %s", o->path);
        free(o->temporary);
        o->temporary = NULL;
        return -1;
    }
    (void)flock(o->fd, LOCK_EX | LOCK_NB); /* marks the file as in use: see outfile_remove_left */
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(o->fd, 0666 & ~mask) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot set the mode of %s", o->path);
    return 0;
}

static int outfile_create(struct outfile *o, struct err *e)
{
    struct stat old;
    o->fd = open_unlinked(o->path);
    if (o->fd < 0 && open_temporary(o, e) != 0)
        return -1;
    if (stat(o->path, &old) == 0 && fchmod(o->fd, old.st_mode & 0777) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot set the mode of %s", o->path);
    return 0;
}

int outfile_open(struct outfile *o, const char *path, bool replace, struct err *e)
{
    *o = (struct outfile){.fd = -1, .direct = is_special(path), .replace = replace};
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return err_set(e, ERR_OUTPUT, "%s is a folder", path);
    /* A symlink stays: its target is replaced. */
    if (!o->direct && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        o->path = realpath(path, NULL);
    if (!o->path)
        o->path = strdup(path);
    if (!o->path)
        return err_no_memory(e, "the output's name");
    int status;
    if (o->direct) {
        o->fd = open(path, O_WRONLY | O_CLOEXEC);
        status = o->fd < 0 ? err_errno(e, ERR_OUTPUT, "cannot write %s", path) : 0;
    } else if (!replace && lstat(path, &st) == 0) {
        status = err_set(e, ERR_OUTPUT, "%s exists already (use -f to replace it)", path);
    } else {
        status = outfile_create(o, e);
    }
    if (status != 0)
        outfile_abort(o);
    return status;
}

FILE *outfile_stream(const struct outfile *o, struct err *e)
{
    int fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (out)
        return out;
    err_errno(e, ERR_OUTPUT, "cannot write %s", o->path);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* Makes the rename durable. A folder that cannot be synced is not an error. */
static void sync_folder(const char *path)
{
    char *folder = outfile_folder(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)file_sync(fd);
        close(fd);
    }
    free(folder);
}

/* Gives the file its name, which must be free: an existing file stays. */
static int name_new(struct outfile *o)
{
    if (!o->temporary)
        return link_to(o->fd, o->path);
    if (link(o->temporary, o->path) == 0) {
        unlink(o->temporary);
        return 0;
    }
    /* File systems without hard links: this keeps the race between check and rename short. */
    if (errno == EEXIST || file_is_there(o->path))
        return errno = EEXIST, -1;
    return rename(o->temporary, o->path);
}

static int name_replacing(struct outfile *o)
{
    if (!o->temporary && link_to_temporary(o->fd, o->path, &o->temporary) != 0)
        return -1;
    return rename(o->temporary, o->path);
}

/*
 * Replacing a file takes two steps. Fatal signals are blocked until both are done, so that the
 * intermediate name never remains.
 */
static int name_undisturbed(struct outfile *o)
{
    sigset_t all, before;
    sigfillset(&all);
    bool blocked = pthread_sigmask(SIG_BLOCK, &all, &before) == 0;
    int status = o->replace ? name_replacing(o) : name_new(o);
    int cause = errno;
    if (blocked)
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = cause;
    return status;
}

static int outfile_name(struct outfile *o, struct err *e)
{
    if (file_sync(o->fd) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write %s", o->path);
    if (name_undisturbed(o) == 0) {
        free(o->temporary);
        o->temporary = NULL;
        sync_folder(o->path);
        return 0;
    }
    if (errno == EEXIST)
        return err_set(e, ERR_OUTPUT, "%s came to exist meanwhile (use -f to replace it)", o->path);
    return err_errno(e, ERR_OUTPUT, "cannot name the finished file %s", o->path);
}

int outfile_commit(struct outfile *o, struct err *e)
{
    int status = o->direct ? 0 : outfile_name(o, e);
    /*
     * For a pipe or a device, close reports the last write errors. A file is already synced and
     * named.
     */
    if (close(o->fd) != 0 && status == 0 && o->direct)
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", o->path);
    o->fd = -1;
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
