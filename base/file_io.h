#ifndef TIDEMARK_BASE_FILE_IO_H
#define TIDEMARK_BASE_FILE_IO_H

/*
 * Calls on files, done to their end: what a signal interrupts is gone on with, and of what is
 * written in part the rest follows. 0, or -1 with errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All of it, from the offset `at` on. A write of nothing is ENOSPC. */
int file_write(int fd, const void *bytes, size_t n, uint64_t at);

/* Likewise reads all of it; EIO where the file ends before. */
int file_read(int fd, void *bytes, size_t n, uint64_t at);

/* Whether something has that name; a symlink does wherever it leads. */
bool file_is_there(const char *path);

int file_sync(int fd);
int file_sync_data(int fd); /* and of what describes the file only what reading it needs */
int file_resize(int fd, uint64_t size);

#endif
