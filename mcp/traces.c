#include "mcp/traces.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Memory limits of a loaded trace: a share of the total, but enough to answer without reloading. */
#define EVENTS_IN_MEMORY (UINT64_C(64) << 20)
#define SHARE 4u
#define PATH_BYTES_MAX 4096u

int traces_init(struct traces *t, const char *root, uint64_t memory, struct err *e)
{
    *t = (struct traces){.root = -1, .memory = memory};
    if (!root)
        return 0;
    t->root_path = realpath(root, NULL);
    if (t->root_path)
        t->root = open(t->root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->root >= 0)
        return 0;
    int status = err_errno(e, ERR_USAGE, "--root: cannot open the folder %s", root);
    traces_release(t);
    return status;
}

static void close_at(struct traces *t, size_t i)
{
    tidetrace_close(t->list.at[i].trace);
    t->list.at[i] = t->list.at[--t->list.len];
}

bool traces_close_all(struct traces *t)
{
    bool earlier = false;
    while (t->list.len) {
        earlier = earlier || t->list.at[t->list.len - 1].opened != t->calls;
        close_at(t, t->list.len - 1);
    }
    return earlier;
}

void traces_release(struct traces *t)
{
    (void)traces_close_all(t);
    vec_release(&t->list);
    if (t->root >= 0)
        close(t->root);
    free(t->root_path);
    *t = (struct traces){.root = -1};
}

void traces_begin(struct traces *t)
{
    t->calls++;
}

/* ---- opening files */

/* The message hides the folder's path from clients. */
static int outside(const char *path, struct err *e)
{
    return err_set(e, ERR_USAGE, "%.300s is not within the folder that may be read", path);
}

/* Opens one step of a path; a symlink is ELOOP. Takes over `at`. */
static int open_step(int at, const char *step, bool last)
{
    struct stat st;
    int flags =
        O_NOFOLLOW | O_CLOEXEC | (last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY);
    int fd = strcmp(step, "..") == 0 ? -1 : openat(at, step, flags);
    int why = errno;
    if (fd < 0 && (strcmp(step, "..") == 0 ||
                   (fstatat(at, step, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))))
        why = ELOOP;
    close(at);
    errno = why;
    return fd;
}

/* Opens a path step by step, for kernels without openat2. */
static int open_steps(const struct traces *t, const char *path, struct err *e)
{
    char copy[PATH_BYTES_MAX];
    char *rest = NULL;
    memcpy(copy, path, strlen(path) + 1);
    int at = dup(t->root);
    char *step = strtok_r(copy, "/", &rest);
    while (at >= 0 && step) {
        char *next = strtok_r(NULL, "/", &rest);
        at = open_step(at, step, next == NULL);
        step = next;
    }
    if (at >= 0)
        return at;
    return errno == ELOOP ? outside(path, e) : err_errno(e, ERR_INPUT, "cannot open %.300s", path);
}

static int open_below(const struct traces *t, const char *path, struct err *e)
{
    const struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    size_t root = strcmp(t->root_path, "/") == 0 ? 0 : strlen(t->root_path);
    if (strncmp(path, t->root_path, root) == 0 && (path[root] == '/' || path[root] == 0))
        path += root;
    else if (path[0] == '/')
        return outside(path, e);
    while (*path == '/')
        path++;
    if (!*path)
        path = ".";
    if (t->stepwise)
        return open_steps(t, path, e);
    long fd = syscall(__NR_openat2, t->root, path, &how, sizeof how);
    if (fd >= 0)
        return (int)fd;
    if (errno == ENOSYS || errno == EPERM)
        return open_steps(t, path, e);
    return errno == EXDEV || errno == ELOOP ? outside(path, e)
                                            : err_errno(e, ERR_INPUT, "cannot open %.300s", path);
}

static int open_path(const struct traces *t, const char *path, struct err *e)
{
    if (*path == 0 || strlen(path) >= PATH_BYTES_MAX)
        return err_set(e, ERR_USAGE, "that is no path of a file");
    if (t->root >= 0)
        return open_below(t, path, e);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 ? fd : err_errno(e, ERR_INPUT, "cannot open %.300s", path);
}

int traces_open_folder(const struct traces *t, const char *path, struct err *e)
{
    struct stat st;
    int fd = open_path(t, path, e);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)))
        return fd;
    close(fd);
    return err_set(e, ERR_INPUT, "%.300s is no folder", path);
}

static int open_file(const struct traces *t, const char *path, struct file_identity *file,
                     struct err *e)
{
    struct stat st;
    int fd = open_path(t, path, e);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(e, ERR_INPUT, "%.300s is no regular file", path);
    }
    *file = (struct file_identity){.device = st.st_dev,
                                   .inode = st.st_ino,
                                   .size = (uint64_t)st.st_size,
                                   .seconds = st.st_mtim.tv_sec,
                                   .nanoseconds = st.st_mtim.tv_nsec};
    return fd;
}

/* ---- the cache */

static bool same_file(const struct file_identity *a, const struct file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

static struct open_trace *find_open(struct traces *t, const struct file_identity *file,
                                    uint32_t wanted)
{
    for (size_t i = 0; i < t->list.len; i++) {
        if (same_file(&t->list.at[i].file, file) && (wanted & ~t->list.at[i].loaded) == 0)
            return &t->list.at[i];
    }
    return NULL;
}

static int load(struct traces *t, int fd, const char *path, const struct file_identity *file,
                uint32_t wanted, struct err *e)
{
    static const enum err_code codes[] = {[-TIDETRACE_USAGE] = ERR_USAGE,
                                          [-TIDETRACE_INPUT] = ERR_INPUT,
                                          [-TIDETRACE_SYSTEM] = ERR_OUTPUT,
                                          [-TIDETRACE_MEMORY] = ERR_MEMORY};
    struct tidetrace_open_options options = {
        .struct_size = sizeof options, .flags = wanted, .memory = t->memory / SHARE};
    if (options.memory > EVENTS_IN_MEMORY || options.memory == 0)
        options.memory = EVENTS_IN_MEMORY;
    struct open_trace one = {.file = *file, .loaded = wanted, .opened = t->calls};
    struct tidetrace_error error;
    int code = tidetrace_open_fd(fd, path, &options, &one.trace, &error);
    if (code != TIDETRACE_OK)
        return err_set(e, codes[-code], "%s", error.text);
    if (vec_push(&t->list, one))
        return 0;
    tidetrace_close(one.trace);
    return err_no_memory(e, "traces");
}

int traces_get(struct traces *t, const char *path, uint32_t wanted, struct tidetrace **trace,
               struct file_identity *file, bool *fresh, struct err *e)
{
    int fd = open_file(t, path, file, e);
    if (fd < 0)
        return -1;
    int status = 0;
    struct open_trace *one = find_open(t, file, wanted);
    if (!one) {
        status = load(t, fd, path, file, wanted, e);
        one = status == 0 ? &t->list.at[t->list.len - 1] : NULL;
        *fresh = true;
    }
    close(fd);
    if (one) {
        one->used = t->calls;
        *trace = one->trace;
    }
    return status;
}

void traces_trim(struct traces *t)
{
    for (;;) {
        uint64_t sum = 0;
        size_t oldest = 0;
        for (size_t i = 0; i < t->list.len; i++) {
            sum += tidetrace_memory(t->list.at[i].trace);
            if (t->list.at[i].used < t->list.at[oldest].used)
                oldest = i;
        }
        if (t->list.len == 0 || (sum <= t->memory && t->list.len <= TRACES_MAX) ||
            t->list.at[oldest].used == t->calls)
            return;
        close_at(t, oldest);
    }
}
