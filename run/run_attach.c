#include "run/run_attach.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/print_error.h"
#include "run/attach_process.h"

/* Uses the program's own path, if it is known, instead of that of a link in /proc. */
static int name_program(struct program *p, const char *link, struct err *e)
{
    static const char gone[] = " (deleted)";
    char path[PATH_MAX];
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0)
        return err_errno(e, ERR_OUTPUT, "cannot look at %s", link);
    path[n] = 0;
    size_t length = (size_t)n, tail = sizeof gone - 1;
    if (length > tail && strcmp(path + length - tail, gone) == 0)
        path[length - tail] = 0;
    char *copy = strdup(path);
    if (!copy)
        return err_no_memory(e, "the program's path");
    free(p->path);
    p->path = copy;
    return 0;
}

int run_attach_check(const struct run_attach *a, struct program *program, const char *library,
                     struct err *e)
{
    char link[64];
    struct buf why = {0};
    if (attach_check(a->pid, library, e) != 0)
        return -1;
    snprintf(link, sizeof link, "/proc/%d/exe", (int)a->pid);
    if (program_find(program, link, e) != 0 || name_program(program, link, e) != 0)
        return -1;
    if (program->obstacle == PROGRAM_FINE)
        return 0;
    program_explain(program, &why);
    err_set(e, ERR_OUTPUT, "%s %s. Process %d was left alone", program->path, buf_str(&why),
            (int)a->pid);
    buf_release(&why);
    return -1;
}

int run_attach_begin(struct run_attach *a, const char *library, const char *socket, struct err *e)
{
    struct err left = {0};
    a->attached = attach_begin(a->pid, library, socket, &left, e) == 0;
    if (left.code)
        fprintf(stderr,
                "tidemark: not recorded are calls through pointers that process %d stored before: "
                "%s\n",
                (int)a->pid, left.text);
    return a->attached ? 0 : -1;
}

bool run_attach_end(struct run_attach *a)
{
    struct err e = {0};
    a->left = true;
    if (attach_end(a->pid, &e) == 0)
        return true;
    print_error(&e);
    return false;
}
