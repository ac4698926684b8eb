#ifndef TIDEMARK_MCP_TRACES_H
#define TIDEMARK_MCP_TRACES_H

/*
 * The traces that a session has open. A file is read once and kept while there is room: the trace
 * that was not asked for longest goes. A file that changed is read again.
 *
 * With a root nothing outside of that folder can be opened: not by "..", not by absolute paths, not
 * by symbolic links. The kernel resolves the path so (openat2), or, where it cannot, each step is
 * opened on its own and no symbolic link is followed at all.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "include/tidetrace.h"

#define TRACES_MAX 8u

/* Which bytes a name stood for. */
struct file_identity {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of its last change */
};

struct open_trace {
    struct tidetrace *trace;
    struct file_identity file;
    uint32_t loaded; /* enum tidetrace_open_flags */
    uint64_t used;   /* the newest call that wanted it */
};

struct traces {
    char *root_path; /* without links; NULL: everything may be read */
    int root;        /* -1 without one */
    bool stepwise;   /* open paths as on kernels without openat2; for tests */
    uint64_t memory; /* bytes that traces may take together; the newest may take more */
    uint64_t calls;
    VEC(struct open_trace) list;
};

/* `root` may be NULL. ERR_USAGE when it is no folder. */
int traces_init(struct traces *t, const char *root, uint64_t memory, struct err *e);
void traces_release(struct traces *t);

/* To be called once before the traces of a call are got: those stay open until the next one. */
void traces_begin(struct traces *t);

/*
 * The trace at `path`, with what `wanted` says (enum tidetrace_open_flags). It stays the cache's.
 * *fresh is set, and never cleared, when it was not there before.
 */
int traces_get(struct traces *t, const char *path, uint32_t wanted, struct tidetrace **trace,
               struct file_identity *file, bool *fresh, struct err *e);

/* Closes traces until the rest fits, but none of this call. */
void traces_trim(struct traces *t);

#endif
