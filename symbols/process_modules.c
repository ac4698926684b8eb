#include "symbols/process_modules.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What cannot be looked at is not ours to see, except when it was for want of memory. */
static int unseen(struct err *e)
{
    return errno == ENOMEM ? err_no_memory(e, "the module table") : 0;
}

int process_module_build_id(pid_t pid, struct module *m, struct err *e)
{
    char place[4200];
    int status = 0;
    /* map_files reaches the very file that is mapped, also when it was replaced since. */
    snprintf(place, sizeof place, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, m->start,
             m->end);
    int fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        snprintf(place, sizeof place, "/proc/%d/root%s", (int)pid, m->path);
        fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    m->build_id = (struct build_id){0};
    if (fd >= 0) {
        errno = 0;
        if (!build_id_read(fd, &m->build_id))
            status = unseen(e);
        close(fd);
    }
    return status;
}

/* One line as a table of its own, which is empty when it is no executable mapping of a file. */
static int put_line(pid_t pid, struct view line, process_modules_put *put, void *ctx, struct err *e)
{
    struct module_table one = {0};
    struct err bad = {0};
    int status = module_table_add_line(&one, line, &bad);
    if (status != 0 && bad.code != ERR_MEMORY)
        status = 0; /* not as the kernel writes them */
    else if (status != 0)
        err_no_memory(e, "the module table");
    for (size_t i = 0; i < one.list.len && status == 0; i++) {
        struct module *m = &one.list.at[i];
        status = process_module_build_id(pid, m, e);
        if (status == 0)
            status = put(ctx, m, e);
    }
    module_table_release(&one);
    return status;
}

int process_modules(pid_t pid, process_modules_put *put, void *ctx, struct err *e)
{
    char path[48];
    char *line = NULL;
    size_t cap = 0;
    ssize_t len = 0;
    int status = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return err_errno(e, errno == ENOMEM ? ERR_MEMORY : ERR_INPUT, "cannot read %s", path);
    errno = 0;
    while (status == 0 && (len = getline(&line, &cap, f)) >= 0) {
        if (len > 0 && line[len - 1] == '\n')
            len--;
        status = put_line(pid, (struct view){line, (size_t)len}, put, ctx, e);
    }
    if (status == 0 && !feof(f))
        status = errno == ENOMEM ? err_no_memory(e, "the module table")
                                 : err_errno(e, ERR_INPUT, "cannot read %s", path);
    free(line);
    fclose(f);
    return status;
}
