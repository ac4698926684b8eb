#pragma once

/*
 * The root directory of a process whose file system differs from this process's: in a container, or
 * after chroot. Opened while the process runs; stays usable after it exits.
 */

#include <sys/types.h>

struct process_root {
    int folder; /* its root; -1: none, or the same as this process's */
    int mounts; /* keeps the mounts alive while open */
};

#define PROCESS_ROOT_NONE ((struct process_root){-1, -1})

/* Empty if the process has the same root, or cannot be inspected. */
struct process_root process_root_open(pid_t pid);
void process_root_close(struct process_root *r);

/* A copy, closed separately; empty if descriptors are short. */
struct process_root process_root_copy(const struct process_root *r);

/*
 * Opens an absolute path of the process like regular_file_open. No link leads out of its root. -1
 * with errno, ENOSYS before Linux 5.6.
 */
int process_root_file(const struct process_root *r, const char *path);
