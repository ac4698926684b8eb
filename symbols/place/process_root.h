#ifndef TIDEMARK_SYMBOLS_PLACE_PROCESS_ROOT_H
#define TIDEMARK_SYMBOLS_PLACE_PROCESS_ROOT_H

/*
 * The file system of a process that sees another one than we do: in a container, or behind chroot.
 * It is kept while the process lives, and stays as it is when it ends.
 */

#include <sys/types.h>

struct process_root {
    int folder; /* its root; -1: none, or it is ours */
    int mounts; /* what is mounted there goes with the last who holds it */
};

#define PROCESS_ROOT_NONE ((struct process_root){-1, -1})

/* None when the process sees what we see, or is hidden from us. */
struct process_root process_root_open(pid_t pid);
void process_root_close(struct process_root *r);

/* The same once more, to be closed by itself; none where descriptors are short. */
struct process_root process_root_copy(const struct process_root *r);

/*
 * Opens an absolute path of the process as regular_file_open does, no link leading out of its root.
 * -1 with errno, ENOSYS before Linux 5.6.
 */
int process_root_file(const struct process_root *r, const char *path);

#endif
