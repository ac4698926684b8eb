#include "client/files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

ssize_t files_read(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t length = 0;
    while (length < room - 1) {
        ssize_t n = read(fd, text + length, room - 1 - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    (void)close(fd);
    text[length] = 0;
    return (ssize_t)length;
}
