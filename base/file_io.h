#pragma once

/*
 * File operations that run to completion: they restart interrupted calls and continue partial ones.
 * They return 0, or -1 with errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes all bytes from offset `at` on. A write of 0 bytes is ENOSPC. */
int file_write(int fd, const void *bytes, size_t n, uint64_t at);

/* Reads all bytes from offset `at` on. A file that ends earlier is EIO. */
int file_read(int fd, void *bytes, size_t n, uint64_t at);

/* Whether the name exists. A symlink exists even if its target does not. */
bool file_is_there(const char *path);

int file_sync(int fd);
int file_sync_data(int fd); /* fdatasync: of the metadata, only what reads need */
int file_resize(int fd, uint64_t size);

/* Closes the open descriptors from `first` to `last`, also on kernels without close_range. */
int file_close_range(unsigned first, unsigned last);
