#include "proc/perf_map_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/monotonic.h"

/* The resolution of a file's times. */
#define SLACK_NS 1000000000LL

/* Whether a file was written after `began` of CLOCK_MONOTONIC. */
static bool is_newer(const struct stat *st, uint64_t began)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return false;
    int64_t age = (now.tv_sec - st->st_mtim.tv_sec) * INT64_C(1000000000) +
                  (now.tv_nsec - st->st_mtim.tv_nsec);
    return age <= monotonic_ns() - (int64_t)began + SLACK_NS;
}

static int read_text(int fd, uint64_t size, struct buf *text, struct err *e)
{
    uint8_t *room = buf_reserve(text, size + 1);
    if (!room)
        return err_no_memory(e, "names of generated code");
    if (file_read(fd, room, size, 0) != 0)
        return err_errno(e, ERR_INPUT, "cannot read it");
    text->len += size;
    return 0;
}

int perf_map_file_read(pid_t pid, uid_t owner, uint64_t began, struct buf *text, struct err *e)
{
    char path[64];
    struct stat st;
    int status = 0;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)pid);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) != 0)
        status = err_errno(e, ERR_INPUT, "cannot open it");
    else if (!S_ISREG(st.st_mode))
        status = err_set(e, ERR_INPUT, "it is no regular file");
    else if (!is_newer(&st, began))
        status = 0; /* an earlier process with this pid left it */
    else if (st.st_uid != owner)
        status = err_set(e, ERR_INPUT, "it is another user's");
    else if ((uint64_t)st.st_size > PERF_MAP_BYTES_MOST)
        status = err_set(e, ERR_INPUT, "it has more than 256 MiB");
    else
        status = read_text(fd, (uint64_t)st.st_size, text, e);
    if (fd >= 0)
        close(fd);
    return status == 0 ? 0 : err_prefix(e, "%s", path);
}
