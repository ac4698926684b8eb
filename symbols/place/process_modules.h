#pragma once

/* The module table of a running process, with the build ids of its mapped files. */

#include <sys/types.h>

#include "base/err.h"
#include "symbols/place/module_table.h"
#include "symbols/place/process_root.h"

/* How to reach the files that a process has mapped. */
struct process_view {
    pid_t pid;
    const struct process_root *root; /* NULL: the process may be inspected */
    /*
     * Opens the mapped file itself on behalf of this process; -1: not this one. NULL: unavailable.
     */
    int (*open)(void *ctx, const struct module *m);
    void *open_ctx;
};

typedef int process_modules_put(void *ctx, const struct module *m, struct err *e);

/* Puts each executable file mapping, in order. Fails with ERR_INPUT if there is no such process. */
int process_modules(pid_t pid, process_modules_put *put, void *ctx, struct err *e);

/*
 * process_modules in two steps, for a process that gives up the right to inspect others in between.
 * The descriptor can be read repeatedly and returns the current table. Build ids are then those of
 * the files at the mappings' paths, within `root` if there is one. -1 with errno.
 */
int process_modules_open(pid_t pid);
int process_modules_read(int maps, const struct process_view *view, process_modules_put *put,
                         void *ctx, struct err *e);
