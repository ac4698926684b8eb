#pragma once

/*
 * Journals that were recovered but hold bytes that could not be used. They are renamed to
 * "x.tracy.journal.damaged", which no daemon and no capture recovers. A rename needs no disk space
 * and is atomic.
 */

#include <stddef.h>

#include "base/err.h"

#define JOURNAL_SUFFIX ".journal"

/*
 * Renames the journal at `path` to the first free such name: ".damaged", ".damaged.2", …. The
 * caller frees it. NULL with ERR_OUTPUT; the journal then keeps its name.
 */
char *journal_move_aside(const char *path, struct err *e);

/* The length of the name without such a suffix; `len` if it has none. */
size_t journal_without_aside(const char *path, size_t len);
