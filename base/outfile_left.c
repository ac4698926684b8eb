#include "base/outfile.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * Protects writers of earlier versions, which took no lock, and files created but not locked yet.
 */
#define SETTLED_S 3600

static bool has_our_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const size_t head = sizeof OUTFILE_HIDDEN - 1;
    return strncmp(name, OUTFILE_HIDDEN, head) == 0 &&
           strlen(name + head) == sizeof OUTFILE_HIDDEN_END - 1 &&
           strspn(name + head, letters) == sizeof OUTFILE_HIDDEN_END - 1;
}

static bool is_left(const struct stat *st)
{
    time_t now = time(NULL);
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_mtime < now &&
           now - st->st_mtime >= SETTLED_S;
}

/* Removing the file cannot block a writer: a writer always creates a new file with another name. */
static bool remove_left(int folder, const char *name, bool (*is_ours)(int fd))
{
    struct stat st, named;
    if (fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) != 0 || !is_left(&named))
        return false;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ours = fstat(fd, &st) == 0 && st.st_dev == named.st_dev && st.st_ino == named.st_ino &&
                flock(fd, LOCK_EX | LOCK_NB) == 0 && (st.st_size == 0 || is_ours(fd));
    bool gone = ours && unlinkat(folder, name, 0) == 0;
    close(fd);
    return gone;
}

unsigned outfile_remove_left(const char *folder, bool (*is_ours)(int fd))
{
    unsigned removed = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (has_our_name(entry->d_name))
            removed += remove_left(dirfd(dir), entry->d_name, is_ours);
    }
    if (dir)
        closedir(dir);
    return removed;
}
