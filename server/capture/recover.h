#pragma once

/* Recovers the journal of a capture that was cut off, for `recover` and for the next capture. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/capture/journal_read.h"
#include "trace/file/container.h"

struct recover_options {
    const char *journal; /* the folder */
    const char *output;  /* NULL: a free name beside the journal */
    const char *beside; /* the output that the capture had; NULL: derived from the journal's name */
    bool replace;       /* overwrite an existing output */
    bool keep;          /* keep the journal even if all of it is saved */
    bool unasked;       /* automatic: skip a journal that could not be removed later */
    uint32_t trace_version; /* 0: chosen by the client's protocol */
    struct container_options container;
    const char *spool_dir; /* NULL: the output's folder */
    uint64_t memory;       /* limit in bytes, kept by spilling; 0: by the control group */
    const char *outputs;   /* recover_folder, for a spool folder: only captures to this one */
    bool (*wanted)(void *ctx, uint64_t id); /* recover_folder: filters journals; NULL: all */
    void *wanted_ctx;
    bool progress; /* show it, if standard error is a terminal */
};

/*
 * Saves the journal's data, prints what it saved on standard output, and removes the journal.
 * Returns the exit status: 0; 3 when the journal is damaged or its bytes cannot be decoded (what
 * came before is saved; a damaged journal is moved aside: server/capture/journal_aside.h); 4 when
 * memory does not suffice for all of it (what came before is saved; the journal is moved aside if
 * `unasked`). All other values come with `e`; traces saved so far are removed again unless they
 * replaced a file.
 */
int recover_journal(const struct recover_options *options, struct err *e);

/*
 * Recovers all journals in a folder in turn, each to a trace beside it; skips those in use. With
 * `outputs` it recovers only journals of captures to that folder whose --spool was `folder`, and
 * saves the traces there. Errors of one journal are printed on standard error and do not stop the
 * others. Returns the worst exit status; *found is the number of journals. Of the options it also
 * uses `keep`, `trace_version`, `container`, `spool_dir`, `wanted`, `progress` and `memory`. For a
 * daemon.
 */
int recover_folder(const char *folder, const struct recover_options *options, unsigned *found,
                   struct err *e);

/*
 * Calls `each` for the journals that recover_folder would recover and that no process writes. Cheap
 * enough for polling.
 */
void recover_list_left(const char *folder, const char *outputs,
                       void (*each)(void *ctx, const struct journal_left *left), void *ctx);

/*
 * For a capture that is about to write to `output`: recovers a journal that an earlier one left at
 * `journal`. 0 when there is none (any more); -1 with ERR_OUTPUT when the capture must not go on.
 */
int recover_leftover(const char *journal, const char *output,
                     const struct container_options *container, struct err *e);
