#include "base/file_io.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* Reading goes on from a descriptor's number, so that closing meanwhile skips none. */
static int close_listed(unsigned first, unsigned last)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    if (!dir)
        return -1;
    const unsigned own = (unsigned)dirfd(dir);
    while ((entry = readdir(dir))) {
        char *end;
        unsigned long fd = strtoul(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == 0 && fd >= first && fd <= last && fd != own)
            (void)close((int)fd);
    }
    return closedir(dir);
}

int file_close_range(unsigned first, unsigned last)
{
    /* Not the C library's function, which version 2.34 introduced. */
    if (syscall(__NR_close_range, first, last, 0) == 0)
        return 0;
    return errno == ENOSYS || errno == EPERM ? close_listed(first, last) : -1;
}
