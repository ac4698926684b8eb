#ifndef TIDEMARK_SYMBOLS_PLACE_PROCESS_MODULES_H
#define TIDEMARK_SYMBOLS_PLACE_PROCESS_MODULES_H

/* The module table of a process that lives, with the build ids of what it has mapped. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbols/place/module_table.h"
#include "symbols/place/process_root.h"

/* How the files that a process has mapped are reached. */
struct process_view {
    pid_t pid;
    const struct process_root *root; /* NULL: the process may be looked into */
    /* Opens the mapped file itself, in place of us; -1: not this one. NULL: there is no such way.
     */
    int (*open)(void *ctx, const struct module *m);
    void *open_ctx;
};

typedef int process_modules_put(void *ctx, const struct module *m, struct err *e);

/* Reads the build id of a mapping, from the very file that is mapped where that can be reached. */
int process_module_build_id(pid_t pid, struct module *m, struct err *e);

/* Puts each executable mapping of a file, in order. ERR_INPUT when the process is not there. */
int process_modules(pid_t pid, process_modules_put *put, void *ctx, struct err *e);

/*
 * The same in two steps, for whoever gives up the right to look into other processes in between:
 * the descriptor of the table can be read time and again, and gives it as it is then. Build ids are
 * then those of the files at the mappings' paths, in `root` unless that is none. -1 with errno.
 */
int process_modules_open(pid_t pid);
int process_modules_read(int maps, const struct process_view *view, process_modules_put *put,
                         void *ctx, struct err *e);

#endif
