#ifndef TIDEMARK_BASE_TEMPFILE_H
#define TIDEMARK_BASE_TEMPFILE_H

/* Temporary files without a name: they are gone when their descriptor is closed. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* `dir`, or for NULL $TMPDIR, else /var/tmp. */
const char *tempfile_dir(const char *dir);

/* A descriptor, or -1 with ERR_OUTPUT. */
int tempfile_open(const char *dir, struct err *e);

/* All of it, or -1 with ERR_OUTPUT. `dir` is for the text of errors. */
int tempfile_write(int fd, const char *dir, const void *bytes, size_t n, uint64_t at,
                   struct err *e);
int tempfile_read(int fd, const char *dir, void *bytes, size_t n, uint64_t at, struct err *e);

/*
 * Copies what is left to read of `from` to a new temporary file, positioned at its start. Returns
 * it, or -1 with `e`: ERR_INPUT for reading, ERR_OUTPUT for writing.
 */
int tempfile_copy(int from, const char *dir, struct err *e);

#endif
