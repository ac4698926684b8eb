#include "naming/generated_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/monotonic.h"
#include "naming/generated_frames.h"
#include "naming/jitdump.h"
#include "naming/perf_map.h"

/* The resolution of a file's times. */
#define SLACK_NS 1000000000LL

#define OPENING (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* ---- finding */

void generated_files_begin(struct generated_files *g, pid_t pid)
{
    char path[32];
    if (g->begun)
        return;
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    *g = (struct generated_files){.begun = true,
                                  .root = process_root_open(pid),
                                  .folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC),
                                  .dump = -1,
                                  .map = -1};
    generated_files_look(g, pid);
}

void generated_files_release(struct generated_files *g)
{
    if (!g->begun)
        return;
    process_root_close(&g->root);
    if (g->folder >= 0)
        close(g->folder);
    if (g->dump >= 0)
        close(g->dump);
    if (g->map >= 0)
        close(g->map);
    *g = (struct generated_files){0};
}

static int open_path(const struct generated_files *g, const char *path)
{
    return g->begun && g->root.folder >= 0 ? process_root_file(&g->root, path)
                                           : open(path, OPENING);
}

/* The path of a line of /proc/PID/maps, if a jitdump may be there. */
static const char *dump_in(char *line)
{
    char *path = strchr(line, '/'), *end = path ? strstr(path, ".dump") : NULL;
    const char *name = path ? strrchr(path, '/') : NULL;
    line[strcspn(line, "\n")] = 0;
    return end && end[strlen(".dump")] == 0 && strncmp(name, "/jit-", strlen("/jit-")) == 0 ? path
                                                                                            : NULL;
}

void generated_files_look(struct generated_files *g, pid_t pid)
{
    char name[32], *line = NULL;
    size_t room = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = g->begun && g->dump < 0 ? fopen(name, "re") : NULL;
    while (maps && g->dump < 0 && getline(&line, &room, maps) > 0) {
        const char *path = dump_in(line);
        if (path)
            g->dump = open_path(g, path);
    }
    free(line);
    if (maps)
        fclose(maps);
}

static int open_map(const struct generated_files *g, pid_t pid, char path[64])
{
    snprintf(path, 64, "/tmp/perf-%d.map", (int)pid);
    return open_path(g, path);
}

void generated_files_keep_map(struct generated_files *g, pid_t pid)
{
    char path[64];
    int fd = g->begun ? open_map(g, pid, path) : -1;
    if (fd < 0)
        return;
    if (g->map >= 0)
        close(g->map);
    g->map = fd;
}

/* ---- reading */

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

/* Appends a file of the process; nothing if there is none. `fd`: from opening it, with errno. */
static int read_file(int fd, const struct generated_process *p, struct buf *text, struct err *e)
{
    struct stat st;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_errno(e, ERR_INPUT, "cannot open it");
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "it is no regular file");
    if (!is_newer(&st, p->began))
        return 0; /* an earlier process with this pid left it */
    if (st.st_uid != p->owner)
        return err_set(e, ERR_INPUT, "it is another user's");
    if ((uint64_t)st.st_size > GENERATED_BYTES_MOST)
        return err_set(e, ERR_INPUT, "it has more than 256 MiB");
    return read_text(fd, (uint64_t)st.st_size, text, e);
}

/* Opens the n-th place of its jitdump: among its mappings, where it began, in /tmp. */
static int open_dump(const struct generated_files *g, unsigned n, const char *path)
{
    int folder = g->begun && g->folder >= 0 ? g->folder : AT_FDCWD;
    if (n == 0 && g->begun && g->dump >= 0)
        return fcntl(g->dump, F_DUPFD_CLOEXEC, 0);
    if (n == 1)
        return openat(folder, path + strlen("/tmp/"), OPENING);
    errno = ENOENT;
    return n == 2 ? open_path(g, path) : -1;
}

static int read_dump(const struct generated_files *g, const struct generated_process *p,
                     struct buf *bytes, struct err *e)
{
    char path[64];
    int status = 0;
    snprintf(path, sizeof path, "/tmp/jit-%d.dump", (int)p->pid);
    for (unsigned i = 0; i < 3 && status == 0 && bytes->len == 0; i++) {
        int fd = open_dump(g, i, path);
        status = read_file(fd, p, bytes, e);
        if (fd >= 0)
            close(fd);
    }
    return status == 0 ? 0 : err_prefix(e, "jit-%d.dump", (int)p->pid);
}

static int read_map(const struct generated_files *g, const struct generated_process *p,
                    struct buf *text, struct err *e)
{
    char path[64];
    int fd = open_map(g, p->pid, path);
    int status = read_file(fd, p, text, e);
    if (fd >= 0)
        close(fd);
    if (status == 0 && text->len == 0 && g->begun && g->map >= 0)
        status = read_file(g->map, p, text, e);
    return status == 0 ? 0 : err_prefix(e, "%s", path);
}

typedef int parse_function(struct perf_map *m, struct view text, struct err *e);

/* Names by what was read; the totals grow. */
static int apply(struct buf *text, parse_function *parse, uint64_t begin, struct trace *t,
                 struct generated_frames *total, struct err *e)
{
    struct perf_map m = {0};
    struct generated_frames n = {0};
    int status = text->len ? parse(&m, buf_view(text), e) : 0;
    if (status == 0)
        status = generated_frames_name(&m, t, begin, &n, e);
    total->named += n.named;
    total->ambiguous += n.ambiguous;
    perf_map_release(&m);
    buf_release(text);
    return status;
}

int generated_files_name(const struct generated_files *g, const struct generated_process *p,
                         uint64_t begin, struct trace *t, struct err *e)
{
    struct buf dump = {0}, map = {0};
    struct generated_frames n = {0};
    struct err other = {0};
    int status = read_dump(g, p, &dump, e);
    if (status == 0 && apply(&dump, jitdump_parse, begin, t, &n, e) != 0)
        status = err_prefix(e, "jit-%d.dump", (int)p->pid);
    if (read_map(g, p, &map, &other) != 0 ||
        apply(&map, perf_map_parse, begin, t, &n, &other) != 0) {
        *e = status == 0 ? other : *e;
        status = -1;
    }
    buf_release(&dump);
    buf_release(&map);
    if (n.named && trace_add_fact(t, status == 0 ? e : &other, "generated_code",
                                  "%" PRIu64 " ambiguous %" PRIu64, n.named, n.ambiguous) != 0)
        status = -1;
    return status;
}
