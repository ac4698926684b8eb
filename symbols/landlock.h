#pragma once

/*
 * Landlock, by which a process gives up access to files. Numbers and layouts are those of
 * linux/landlock.h, equal on all architectures, since Linux 5.13.
 */

#include <stdbool.h>
#include <stdint.h>

#define LANDLOCK_EXECUTE (1u << 0)
#define LANDLOCK_READ_FILE (1u << 2)
#define LANDLOCK_READ_DIR (1u << 3)
#define LANDLOCK_MAKE_CHAR (1u << 6)
#define LANDLOCK_MAKE_BLOCK (1u << 11)

/*
 * A rule set that forbids all access to files that this kernel can forbid; *files has these rights.
 * `more`: also bind, signals to other processes and their abstract sockets. The caller closes it.
 * -1: the kernel has no Landlock.
 */
int landlock_begin(bool more, uint64_t *files);

/* Allows access below an open folder. */
bool landlock_allow(int rules, int folder, uint64_t access);

/* Restricts this process and its threads. It needs PR_SET_NO_NEW_PRIVS. */
bool landlock_enter(int rules);
