#ifndef TIDEMARK_SYMBOLS_PROCESS_MODULES_H
#define TIDEMARK_SYMBOLS_PROCESS_MODULES_H

/* The module table of a process that lives, with the build ids of what it has mapped. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbols/module_table.h"

typedef int process_modules_put(void *ctx, const struct module *m, struct err *e);

/* Reads the build id of a mapping, from the very file that is mapped where that can be reached. */
int process_module_build_id(pid_t pid, struct module *m, struct err *e);

/* Puts each executable mapping of a file, in order. ERR_INPUT when the process is not there. */
int process_modules(pid_t pid, process_modules_put *put, void *ctx, struct err *e);

#endif
