#ifndef TIDEMARK_SERVER_CAPTURE_JOURNAL_ASIDE_H
#define TIDEMARK_SERVER_CAPTURE_JOURNAL_ASIDE_H

/*
 * Journals that are done with and cannot go, since nobody could use all of their bytes: they get
 * another name, "x.tracy.journal.damaged", that no daemon and no capture takes for one to finish.
 * A name needs no room on a disk and changes at once or not at all.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define JOURNAL_SUFFIX ".journal"

/*
 * Gives the journal at `path` the first such name that is free: ".damaged", ".damaged.2", …. The
 * caller frees it. NULL with ERR_OUTPUT, and the journal is where it was.
 */
char *journal_move_aside(const char *path, struct err *e);

/* Of such a name's first `len` bytes, those before its end; `len` when it is none. */
size_t journal_without_aside(const char *path, size_t len);

#endif
