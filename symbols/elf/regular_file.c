#include "symbols/elf/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Fallback where /proc is not mounted: opens the path and checks that it is the file seen before.
 */
static int open_again(const char *path, const struct stat *seen)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_dev == seen->st_dev && st.st_ino == seen->st_ino)
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

static int open_place(int place, struct stat *seen)
{
    char again[48];
    if (fstat(place, seen) != 0)
        return -1;
    if (!S_ISREG(seen->st_mode))
        return errno = EINVAL, -1;
    snprintf(again, sizeof again, "/proc/self/fd/%d", place);
    return open(again, O_RDONLY | O_CLOEXEC);
}

static int close_place(int place, int result)
{
    int cause = errno;
    close(place);
    errno = cause;
    return result;
}

int regular_file_open_place(int place)
{
    struct stat st;
    return close_place(place, open_place(place, &st));
}

int regular_file_open(const char *path)
{
    struct stat st = {0};
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0)
        return -1;
    int fd = open_place(place, &st);
    if (fd < 0 && errno == ENOENT && S_ISREG(st.st_mode))
        fd = open_again(path, &st);
    return close_place(place, fd);
}
