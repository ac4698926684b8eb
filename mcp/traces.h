#pragma once

/*
 * The open traces of a session. A file is read once and kept while there is room; the least
 * recently used trace is evicted. A changed file is read again.
 *
 * With a root, nothing outside of that folder can be opened: not by "..", absolute paths or
 * symlinks. The kernel enforces this (openat2). Without openat2, each step is opened separately and
 * no symlink is followed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "include/tidetrace.h"

#define TRACES_MAX 8u

/* Identifies a file and its version. */
struct file_identity {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of the last change */
};

struct open_trace {
    struct tidetrace *trace;
    struct file_identity file;
    uint32_t loaded; /* enum tidetrace_open_flags */
    uint64_t opened; /* number of the call that loaded it */
    uint64_t used;   /* and of the last one that used it */
};

struct traces {
    char *root_path; /* without symlinks; NULL: all files are readable */
    int root;        /* -1: none */
    bool stepwise;   /* open paths as on kernels without openat2; for tests */
    uint64_t memory; /* limit in bytes for all traces together; the newest may exceed it */
    uint64_t calls;
    VEC(struct open_trace) list;
};

/* `root` may be NULL. Fails with ERR_USAGE if it is no folder. */
int traces_init(struct traces *t, const char *root, uint64_t memory, struct err *e);
void traces_release(struct traces *t);

/* Call once before a call's first traces_get: its traces stay open until the next traces_begin. */
void traces_begin(struct traces *t);

/*
 * The trace at `path`, with the data in `wanted` (enum tidetrace_open_flags). The cache owns it.
 * Sets *fresh, and never clears it, if the trace had to be loaded.
 */
int traces_get(struct traces *t, const char *path, uint32_t wanted, struct tidetrace **trace,
               struct file_identity *file, bool *fresh, struct err *e);

/* Opens a folder for reading, under the same rules as traces; -1 with `e` set on failure. */
int traces_open_folder(const struct traces *t, const char *path, struct err *e);

/* Closes traces until the rest fits, except those of this call. */
void traces_trim(struct traces *t);

/* Closes all. False when this call loaded each of them. */
bool traces_close_all(struct traces *t);
