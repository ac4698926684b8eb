#include "symbols/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where /proc is not mounted: opens it after all, and looks whether it is what was seen. */
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

int regular_file_open(const char *path)
{
    char again[48];
    struct stat st;
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0)
        return -1;
    int fd = -1;
    if (fstat(place, &st) == 0) {
        if (!S_ISREG(st.st_mode)) {
            errno = EINVAL;
        } else {
            snprintf(again, sizeof again, "/proc/self/fd/%d", place);
            fd = open(again, O_RDONLY | O_CLOEXEC);
            if (fd < 0 && errno == ENOENT)
                fd = open_again(path, &st);
        }
    }
    int cause = errno;
    close(place);
    errno = cause;
    return fd;
}
