#include "base/tempfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file_io.h"

const char *tempfile_dir(const char *dir)
{
    if (!dir)
        dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/var/tmp";
}

int tempfile_open(const char *dir, struct err *e)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    /* Not every file system supports O_TMPFILE. */
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/tidemark-sort-XXXXXX", dir);
        if (len > 0 && (size_t)len < sizeof path)
            fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
    }
    if (fd < 0)
        err_errno(e, ERR_OUTPUT, "cannot make a temporary file in %s", dir);
    return fd;
}

int tempfile_write(int fd, const char *dir, const void *bytes, size_t n, uint64_t at, struct err *e)
{
    if (file_write(fd, bytes, n, at) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write a temporary file in %s", dir);
    return 0;
}

int tempfile_read(int fd, const char *dir, void *bytes, size_t n, uint64_t at, struct err *e)
{
    uint8_t *p = bytes;
    while (n > 0) {
        ssize_t done = pread(fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_errno(e, ERR_OUTPUT, "cannot read a temporary file in %s", dir);
        if (done == 0)
            return err_set(e, ERR_OUTPUT, "a temporary file in %s is shorter than it was", dir);
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

int tempfile_copy(int from, const char *dir, struct err *e)
{
    char bytes[65536];
    int fd = tempfile_open(dir, e);
    for (uint64_t end = 0; fd >= 0;) {
        ssize_t got = read(from, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            return fd;
        if (got < 0)
            err_errno(e, ERR_INPUT, "cannot read");
        if (got < 0 || tempfile_write(fd, dir, bytes, (size_t)got, end, e) != 0) {
            close(fd);
            fd = -1;
        }
        end += got > 0 ? (uint64_t)got : 0;
    }
    return -1;
}
