#pragma once

/* A file in memory, for benchmarks. Read errors end the program. */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct bytes {
    uint8_t *p;
    size_t len;
};

static inline struct bytes read_whole(const char *path)
{
    struct bytes b = {0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !(b.p = malloc((size_t)st.st_size + 1))) {
        perror(path);
        exit(3);
    }
    for (ssize_t n; (n = read(fd, b.p + b.len, (size_t)st.st_size - b.len)) > 0;)
        b.len += (size_t)n;
    close(fd);
    return b;
}
