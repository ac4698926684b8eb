/* The output folder: made at the start, and again if it was removed. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "base/outfile.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_limits.h"
#include "server/daemon/daemon_sinks.h"
#include "trace/file/container.h"

#define LOOK_NS 1000000000LL

int daemon_make_folder(const char *path, struct err *e)
{
    char *copy = strdup(path);
    if (!copy)
        return err_no_memory(e, "a folder's name");
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(copy, 0777);
        *p = '/';
    }
    free(copy);
    struct stat st;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return err_errno(e, ERR_OUTPUT, "cannot make the folder %s", path);
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_OUTPUT, "%s is no folder", path);
    if (access(path, W_OK | X_OK) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write into %s", path);
    return 0;
}

void daemon_tidy_folder(struct daemon *d)
{
    char text[FORMAT_SIZE];
    unsigned removed = outfile_remove_left(d->dir, container_begins);
    if (removed)
        daemon_log(d, LOG_INFO, "folder.tidied", NULL, NULL,
                   "%s that killed processes left in %s: removed",
                   format_counted(text, removed, "unfinished file"), d->dir);
}

/* The traces that are served and uploaded are those in the current folder. */
static bool open_folder(struct daemon *d)
{
    int fd = open(d->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    close(d->http.dir);
    d->http.dir = fd;
    daemon_sinks_look(d);
    return true;
}

void daemon_keep_folder(struct daemon *d)
{
    struct stat named, ours;
    struct err e = {0};
    long long now = monotonic_ns();
    if (now - d->folder_looked < LOOK_NS)
        return;
    d->folder_looked = now;
    if (stat(d->dir, &named) != 0) {
        bool made = errno == ENOENT && daemon_make_folder(d->dir, &e) == 0;
        if (!d->folder_told)
            daemon_log(d, LOG_WARNING, "folder.gone", NULL, NULL, "%s is gone%s%s", d->dir,
                       made     ? ": it was made again"
                       : e.code ? ": "
                                : "",
                       e.code ? e.text : "");
        d->folder_told = !made;
        if (!made || stat(d->dir, &named) != 0)
            return;
    }
    d->folder_told = false;
    if (d->http.dir >= 0 && fstat(d->http.dir, &ours) == 0 &&
        (named.st_dev != ours.st_dev || named.st_ino != ours.st_ino))
        (void)open_folder(d);
}
