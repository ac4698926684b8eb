#include "base/file_io.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int file_write(int fd, const void *bytes, size_t n, uint64_t at)
{
    const uint8_t *p = bytes;
    while (n > 0) {
        ssize_t done = pwrite(fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = ENOSPC;
        if (done <= 0)
            return -1;
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

int file_read(int fd, void *bytes, size_t n, uint64_t at)
{
    uint8_t *p = bytes;
    while (n > 0) {
        ssize_t done = pread(fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = EIO;
        if (done <= 0)
            return -1;
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

bool file_is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

int file_sync(int fd)
{
    int status;
    do
        status = fsync(fd);
    while (status != 0 && errno == EINTR);
    return status;
}

int file_sync_data(int fd)
{
    int status;
    do
        status = fdatasync(fd);
    while (status != 0 && errno == EINTR);
    return status;
}

int file_resize(int fd, uint64_t size)
{
    int status;
    do
        status = ftruncate(fd, (off_t)size);
    while (status != 0 && errno == EINTR);
    return status;
}
