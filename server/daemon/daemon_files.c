/* Serves the traces in the output folder. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report/write/json_value.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_http.h"

/* Only traces are served, not journals, spool files or other files. */
static bool is_trace_name(const char *name)
{
    size_t len = strlen(name), suffix = strlen(".tracy");
    return len > suffix && name[0] != '.' && !strchr(name, '/') &&
           strcmp(name + len - suffix, ".tracy") == 0;
}

bool daemon_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/*
 * No symlink leads out of the folder, and the open does not block. On kernels without openat2, and
 * in sandboxes that forbid it, O_NOFOLLOW suffices for a name without folders.
 */
int daemon_open_trace(const struct daemon *d, const char *name, struct stat *st)
{
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    const struct open_how how = {.flags = (unsigned)flags,
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    if (!is_trace_name(name))
        return -1;
    int fd = (int)syscall(__NR_openat2, d->http.dir, name, &how, sizeof how);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = openat(d->http.dir, name, flags);
    if (fd >= 0 && (fstat(fd, st) != 0 || !S_ISREG(st->st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static json_t *trace_json(const char *name, const struct stat *st)
{
    json_t *o = json_with(json_object(), "name", json_text(view_of(name)));
    o = json_with(o, "bytes", json_count((uint64_t)st->st_size));
    return json_with(o, "modified", json_integer((json_int_t)st->st_mtime));
}

json_t *daemon_traces_json(const struct daemon *d, struct err *e)
{
    int fd = openat(d->http.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    json_t *list = json_array();
    const struct dirent *entry;
    if (!dir) {
        err_errno(e, ERR_INPUT, "the output folder");
        if (fd >= 0)
            close(fd);
        json_decref(list);
        return NULL;
    }
    while (list && (entry = readdir(dir))) {
        struct stat st;
        int trace = daemon_open_trace(d, entry->d_name, &st);
        if (trace < 0)
            continue;
        close(trace);
        list = json_add(list, trace_json(entry->d_name, &st));
    }
    closedir(dir);
    if (!list)
        err_no_memory(e, "the list of traces");
    return list;
}

void daemon_send_trace(const struct daemon *d, struct http_exchange *x, const char *name)
{
    struct stat st;
    int fd = daemon_open_trace(d, name, &st);
    if (fd < 0)
        http_refuse(x, 404, "there is no such trace");
    else
        http_reply_file(x, fd, (uint64_t)st.st_size, "application/octet-stream", name);
}
