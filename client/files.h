#ifndef TIDEMARK_CLIENT_FILES_H
#define TIDEMARK_CLIENT_FILES_H

/* Small files of /proc and /sys, without stdio. */

#include <stddef.h>
#include <sys/types.h>

/* Reads the beginning of a file into `text`, zero at the end. Returns its length, -1: not to be
 * had. */
ssize_t files_read(const char *path, char *text, size_t room);

#endif
