#include "symbols/place/process_modules.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Processes that cannot be inspected are no error, except if memory is short. */
static int unseen(struct err *e)
{
    return errno == ENOMEM ? err_no_memory(e, "the module table") : 0;
}

/* map_files opens the mapped file itself, even if the path has another file now. */
static int open_mapped(const struct process_view *v, const struct module *m)
{
    char place[4200];
    const struct process_root *root = v->root;
    int pid = (int)v->pid, given = v->open ? v->open(v->open_ctx, m) : -1;
    if (given >= 0)
        return given;
    snprintf(place, sizeof place, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m->start, m->end);
    int fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return fd;
    snprintf(place, sizeof place, "/proc/%d/root%s", pid, m->path);
    fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 || !root)
        return fd;
    /* For a process that gave up the right to inspect others. */
    return root->folder >= 0 ? process_root_file(root, m->path)
                             : open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static int read_build_id(const struct process_view *v, struct module *m, struct err *e)
{
    int status = 0, fd = open_mapped(v, m);
    m->build_id = (struct build_id){0};
    if (fd >= 0) {
        errno = 0;
        if (!build_id_read(fd, &m->build_id))
            status = unseen(e);
        close(fd);
    }
    return status;
}

struct reader {
    struct process_view view;
    process_modules_put *put;
    void *ctx;
};

/* Parses one line into a table, which stays empty unless the line is an executable file mapping. */
static int put_line(const struct reader *r, struct view line, struct err *e)
{
    struct module_table one = {0};
    struct err bad = {0};
    int status = module_table_add_line(&one, line, &bad);
    if (status != 0 && bad.code != ERR_MEMORY)
        status = 0; /* the kernel writes no such line */
    else if (status != 0)
        err_no_memory(e, "the module table");
    for (size_t i = 0; i < one.list.len && status == 0; i++) {
        struct module *m = &one.list.at[i];
        status = read_build_id(&r->view, m, e);
        if (status == 0)
            status = r->put(r->ctx, m, e);
    }
    module_table_release(&one);
    return status;
}

static int put_lines(const struct reader *r, FILE *f, struct err *e)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len = 0;
    int status = 0;
    errno = 0;
    while (status == 0 && (len = getline(&line, &cap, f)) >= 0) {
        if (len > 0 && line[len - 1] == '\n')
            len--;
        status = put_line(r, (struct view){line, (size_t)len}, e);
    }
    if (status == 0 && !feof(f))
        status = errno == ENOMEM ? err_no_memory(e, "the module table")
                                 : err_errno(e, ERR_INPUT, "cannot read the mappings of process %d",
                                             (int)r->view.pid);
    free(line);
    return status;
}

int process_modules_open(pid_t pid)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads the table open at `fd` and closes it. */
static int read_table(const struct reader *r, int fd, struct err *e)
{
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    int status = f ? put_lines(r, f, e)
                   : err_errno(e, errno == ENOMEM ? ERR_MEMORY : ERR_INPUT,
                               "cannot read the mappings of process %d", (int)r->view.pid);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return status;
}

int process_modules(pid_t pid, process_modules_put *put, void *ctx, struct err *e)
{
    return read_table(&(struct reader){.view = {.pid = pid}, .put = put, .ctx = ctx},
                      process_modules_open(pid), e);
}

int process_modules_read(int maps, const struct process_view *view, process_modules_put *put,
                         void *ctx, struct err *e)
{
    const struct reader r = {.view = *view, .put = put, .ctx = ctx};
    if (lseek(maps, 0, SEEK_SET) != 0)
        return err_errno(e, ERR_INPUT, "cannot read the mappings of process %d", (int)view->pid);
    return read_table(&r, fcntl(maps, F_DUPFD_CLOEXEC, 0), e);
}
