#ifndef TIDEMARK_PROC_PERF_MAP_FILE_H
#define TIDEMARK_PROC_PERF_MAP_FILE_H

/* The file /tmp/perf-PID.map that a process may leave: naming/perf_map.h has its format. */

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Larger files are not read. */
#define PERF_MAP_BYTES_MOST ((uint64_t)256 << 20)

/*
 * Appends the file of a process, which may have ended; nothing if there is none. Only a regular
 * file of the process's user, written since it began, is its own: pids come again, and all users
 * may write there. `began`: CLOCK_MONOTONIC, ns. ERR_INPUT for a file that is not read, with why.
 */
int perf_map_file_read(pid_t pid, uid_t owner, uint64_t began, struct buf *text, struct err *e);

#endif
