#pragma once

/* Unnamed temporary files: closing the descriptor deletes the file. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Returns `dir`, or for NULL $TMPDIR, else /var/tmp. */
const char *tempfile_dir(const char *dir);

/* Returns a descriptor, or -1 with ERR_OUTPUT. */
int tempfile_open(const char *dir, struct err *e);

/* Writes all bytes, or returns -1 with ERR_OUTPUT. Error texts name `dir`. */
int tempfile_write(int fd, const char *dir, const void *bytes, size_t n, uint64_t at,
                   struct err *e);
int tempfile_read(int fd, const char *dir, void *bytes, size_t n, uint64_t at, struct err *e);

/*
 * Copies the unread rest of `from` to a new temporary file, positioned at its start. Returns its
 * descriptor, or -1 with `e`: ERR_INPUT for reading, ERR_OUTPUT for writing.
 */
int tempfile_copy(int from, const char *dir, struct err *e);
