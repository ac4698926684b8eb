#include "symbols/place/process_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "symbols/elf/regular_file.h"

#define OPENAT2 437 /* since Linux 5.6, the same number on all processors */

static bool same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_of(pid_t pid, const char *what, int flags)
{
    char path[48];
    if (pid == 0)
        snprintf(path, sizeof path, "/proc/self/%s", what);
    else
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    return open(path, flags | O_CLOEXEC);
}

struct process_root process_root_open(pid_t pid)
{
    struct process_root r = {.folder = open_of(pid, "root", O_PATH | O_DIRECTORY),
                             .mounts = open_of(pid, "ns/mnt", O_RDONLY)};
    int folder = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int mounts = open_of(0, "ns/mnt", O_RDONLY);
    bool other = r.folder >= 0 && r.mounts >= 0 && folder >= 0 && mounts >= 0 &&
                 !(same_file(r.folder, folder) && same_file(r.mounts, mounts));
    if (folder >= 0)
        close(folder);
    if (mounts >= 0)
        close(mounts);
    if (!other)
        process_root_close(&r);
    return r;
}

void process_root_close(struct process_root *r)
{
    if (r->folder >= 0)
        close(r->folder);
    if (r->mounts >= 0)
        close(r->mounts);
    *r = PROCESS_ROOT_NONE;
}

struct process_root process_root_copy(const struct process_root *r)
{
    struct process_root copy = {fcntl(r->folder, F_DUPFD_CLOEXEC, 0),
                                fcntl(r->mounts, F_DUPFD_CLOEXEC, 0)};
    if (copy.folder < 0 || copy.mounts < 0)
        process_root_close(&copy);
    return copy;
}

int process_root_file(const struct process_root *r, const char *path)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    if (r->folder < 0)
        return errno = ENOENT, -1;
    long place = syscall(OPENAT2, r->folder, path, &how, sizeof how);
    return place < 0 ? -1 : regular_file_open_place((int)place);
}
