#ifndef TIDEMARK_SERVER_GUARD_GUARD_H
#define TIDEMARK_SERVER_GUARD_GUARD_H

/*
 * Gives up what a process that reads a stranger's bytes does not need, for good:
 *
 *     rlimits    no core dumps; descriptors; memory
 *     seccomp    no new privileges, no programs started, no other process touched, no executable
 *                memory, none of the calls that are there for administrators; sockets and copies of
 *                the process (fork) only while they are needed. What is refused fails with EPERM,
 *                so that a call of a future C library that is on the list costs what it was made
 *                for and not the recording
 *     Landlock   files are made, changed and removed in the given folders only
 *
 * Kernels that have one of the last two not are still guarded by the other.
 * symbols/helper/sandbox.h is stricter, for processes that open nothing at all.
 */

#include <stdbool.h>
#include <stdint.h>

#define GUARD_FOLDERS_MAX 4

struct guard_folders {
    const char *writable[GUARD_FOLDERS_MAX]; /* with what is below them; NULLs are passed over */
    bool reads;                              /* opens files beyond those folders, to read */
    bool has_root;                           /* and in the folder open at `root`, of other mounts */
    int root;
};

/* No core dumps; `files` descriptors and `memory` bytes of data at most. 0: as it is. */
void guard_limits(unsigned files, uint64_t memory);

/*
 * The others to be called before there are other threads; each says whether this kernel has it.
 * Landlock also keeps the process from looking into others (/proc/PID/maps), whatever is granted;
 * what was opened of them before can still be read.
 */
bool guard_calls(void);
bool guard_sockets(void); /* no socket is made or connected from here on; after guard_calls */
bool guard_forks(
    void); /* no process is forked from here on, threads still are; after guard_calls */
bool guard_files(const struct guard_folders *folders);

#endif
