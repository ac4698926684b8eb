#pragma once

/* Reads small files of /proc and /sys, without stdio. */

#include <stddef.h>
#include <sys/types.h>

/* Reads the beginning of a file into `text`, NUL-terminated. Returns its length, or -1. */
ssize_t files_read(const char *path, char *text, size_t room);
