#pragma once

/*
 * Permanently gives up rights that a process reading untrusted bytes does not need:
 *
 *     rlimits    no core dumps; limits of descriptors and memory
 *     seccomp    no new privileges, no exec, no access to other processes, no executable memory, no
 *                administrative calls; sockets and fork only while they are needed. Refused calls
 *                fail with EPERM, so that a listed call that a later C library makes costs only
 *                its purpose, not the recording
 *     Landlock   files are made, changed and removed only in the given folders
 *
 * On a kernel that lacks one of seccomp and Landlock, the other still applies.
 * symbols/helper/sandbox.h is stricter, for processes that open no files.
 */

#include <stdbool.h>
#include <stdint.h>

#define GUARD_FOLDERS_MAX 4

struct guard_folders {
    const char *writable[GUARD_FOLDERS_MAX]; /* with their contents; NULLs are skipped */
    bool reads;                              /* may read files outside those folders */
    bool has_root; /* may read files below the folder open at `root`, of another mount namespace */
    int root;
};

/* Disables core dumps; limits descriptors to `files` and data to `memory` bytes. 0: unchanged. */
void guard_limits(unsigned files, uint64_t memory);

/*
 * The other guards must be applied before there are other threads; each returns whether the kernel
 * supports it. Landlock also forbids access to other processes (/proc/PID/maps), whatever is
 * granted; files opened before stay readable.
 */
bool guard_calls(void);
bool guard_sockets(void); /* forbids making and connecting sockets; after guard_calls */
bool guard_forks(void);   /* no fork from then on, threads still are; after guard_calls */
bool guard_files(const struct guard_folders *folders);
