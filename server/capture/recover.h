#ifndef TIDEMARK_SERVER_CAPTURE_RECOVER_H
#define TIDEMARK_SERVER_CAPTURE_RECOVER_H

/* Finishing the journal of a capture that was cut off, for `recover` and for the next capture. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/capture/journal_read.h"
#include "trace/file/container.h"

struct recover_options {
    const char *journal;    /* the folder */
    const char *output;     /* NULL: beside the journal, a name that is free */
    const char *beside;     /* of the output that the capture had; NULL: by the journal's name */
    bool replace;           /* an existing output */
    bool keep;              /* the journal, although all of it is saved */
    bool unasked;           /* nothing stays saved of a journal that cannot be got out of the way */
    uint32_t trace_version; /* 0: the client's generation */
    struct container_options container;
    const char *spool_dir; /* NULL: the output's folder */
    uint64_t memory;       /* bytes of anonymous memory, kept by spilling; 0: what a group leaves */
    const char *outputs;   /* recover_folder: of a spool folder, only captures to this one */
    bool (*wanted)(void *ctx, uint64_t id); /* recover_folder: of a journal; NULL: all are */
    void *wanted_ctx;
    bool progress; /* print how far it is, on one line */
};

/*
 * Saves what is in the journal, says so on standard output, and removes the journal. The exit
 * status: 0; 3 when the journal is damaged or its bytes cannot be decoded (what came before is
 * saved, a damaged journal is moved aside: server/capture/journal_aside.h); 4 when there is not
 * memory for all of it (what came before is saved, the journal is moved aside if `unasked`); else
 * with `e` filled, and what was saved is removed again unless it replaced a file.
 */
int recover_journal(const struct recover_options *options, struct err *e);

/*
 * All journals in a folder, one after the other, each to a trace beside it; those in use are left
 * alone. With `outputs` only those that a capture to that folder left in this one, which was its
 * --spool, and the traces go there. What goes wrong with one is said on standard error and keeps no
 * other from being finished. The exit status of the worst; *found tells how many journals there
 * were. Of the options `keep`, `trace_version`, `container`, `spool_dir`, `wanted` and `progress`
 * count, too, and `memory`. For a daemon.
 */
int recover_folder(const char *folder, const struct recover_options *options, unsigned *found,
                   struct err *e);

/*
 * Hands out the journals of those that recover_folder would look at, without those that somebody
 * writes. Cheap: to be asked again and again.
 */
void recover_list_left(const char *folder, const char *outputs,
                       void (*each)(void *ctx, const struct journal_left *left), void *ctx);

/*
 * A capture that is about to write to `output`: a journal that an earlier one left at `journal` is
 * finished first. 0 when there is none (any more); -1 with ERR_OUTPUT when it must not go on.
 */
int recover_leftover(const char *journal, const char *output,
                     const struct container_options *container, struct err *e);

#endif
