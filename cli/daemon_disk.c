/*
 * What captures take on disk, and what is left there. Looked at from outside, once a second: a
 * session that its client broke may say what it likes.
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/daemon.h"
#include "report/json_value.h"
#include "server/journal.h"

#define LOOK_NS 1000000000LL

static uint64_t bytes_of(const struct stat *st)
{
    return (uint64_t)st->st_blocks * 512;
}

/* The files of a folder for which `counts` says so, or all; not those of folders in it. */
static uint64_t folder_bytes(int at, const char *path, const char *stem, size_t stem_len)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    struct stat st;
    uint64_t sum = 0;
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        if (stem && strncmp(entry->d_name, stem, stem_len) != 0)
            continue;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(st.st_mode))
            sum += bytes_of(&st);
        else if (!stem && S_ISDIR(st.st_mode) && strstr(entry->d_name, ".journal"))
            sum += folder_bytes(fd, entry->d_name, NULL, 0);
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* Files without a name: event data that does not fit in memory, and a trace being written. */
static uint64_t nameless_bytes(pid_t pid)
{
    char path[40];
    struct stat st;
    uint64_t sum = 0;
    const struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
            st.st_nlink == 0)
            sum += bytes_of(&st);
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* Its journal, its traces, parts included, and what has no name. */
static uint64_t capture_bytes(const struct daemon *d, const struct capture *one)
{
    static const char suffix[] = ".tracy";
    const char *slash = one->output ? strrchr(one->output, '/') : NULL;
    uint64_t sum = nameless_bytes(one->pid);
    struct err e = {0};
    if (!slash)
        return sum;
    /* "x.tracy" has the parts "x.2.tracy", "x.3.tracy", …. */
    size_t len = strlen(slash + 1);
    size_t cut = sizeof suffix - 1;
    if (len > cut && strcmp(slash + 1 + len - cut, suffix) == 0)
        len -= cut - 1;
    char *journal = journal_name(one->output, d->spool, &e);
    sum += folder_bytes(AT_FDCWD, d->dir, slash + 1, len);
    if (journal)
        sum += folder_bytes(AT_FDCWD, journal, NULL, 0);
    free(journal);
    return sum;
}

static uint64_t free_bytes(const struct daemon *d)
{
    struct statvfs fs;
    return statvfs(d->dir, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}

/* ---- what is done about it */

static void end_one(struct daemon *d, struct capture *one, const char *event, const char *why)
{
    if (one->ending)
        return;
    one->ending = true;
    daemon_tell(d, LOG_ERROR, event, one, NULL, "client %u (%s) is ended: %s", one->number,
                one->client.broadcast.name, why);
    captures_stop_quickly(one);
}

static void keep_quota(struct daemon *d, struct capture *one)
{
    char held[FORMAT_SIZE], most[FORMAT_SIZE], why[128];
    one->disk = capture_bytes(d, one);
    if (!d->quota || one->disk <= d->quota)
        return;
    snprintf(why, sizeof why, "it takes %s of disk, and --quota is %s",
             format_bytes(held, one->disk), format_bytes(most, d->quota));
    end_one(d, one, "disk.quota", why);
}

/* Paused sessions leave what their clients send to the clients. */
static void pause_all(struct daemon *d, bool pause)
{
    char left[FORMAT_SIZE];
    if (d->paused == pause)
        return;
    d->paused = pause;
    if (pause)
        daemon_tell(d, LOG_ERROR, "disk.full", NULL, NULL,
                    "%s are left on disk: all captures are paused until there is room",
                    format_bytes(left, free_bytes(d)));
    else
        daemon_log(d, LOG_WARNING, "disk.free", NULL, NULL, "there is room: captures go on");
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            (void)kill(d->captures.list.at[i]->pid, pause ? SIGSTOP : SIGCONT);
    }
}

static void end_all(struct daemon *d, const char *event, const char *why)
{
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            end_one(d, d->captures.list.at[i], event, why);
    }
}

static void keep_total(struct daemon *d)
{
    char held[FORMAT_SIZE], most[FORMAT_SIZE], why[128];
    uint64_t sum = folder_bytes(AT_FDCWD, d->dir, NULL, 0);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            sum += nameless_bytes(d->captures.list.at[i]->pid);
    }
    d->disk_full = sum > d->total_quota;
    if (!d->disk_full)
        return;
    snprintf(why, sizeof why, "all take %s of disk, and --total-quota is %s",
             format_bytes(held, sum), format_bytes(most, d->total_quota));
    end_all(d, "disk.quota", why);
}

static void keep_free(struct daemon *d)
{
    char left[FORMAT_SIZE], least[FORMAT_SIZE], why[128];
    uint64_t bytes = free_bytes(d);
    bool low = bytes < d->min_free;
    if (d->pause_when_full) {
        /* A little more than it takes to be paused, so that it does not go on and off. */
        pause_all(d, low || (d->paused && bytes < d->min_free + d->min_free / 4));
        d->disk_full = d->paused;
        return;
    }
    d->disk_full = d->disk_full || low;
    if (!low)
        return;
    snprintf(why, sizeof why, "%s are left on disk, and --min-free is %s",
             format_bytes(left, bytes), format_bytes(least, d->min_free));
    end_all(d, "disk.full", why);
}

void daemon_keep_disk(struct daemon *d)
{
    long long now = monotonic_ns();
    if (now - d->disk_looked < LOOK_NS)
        return;
    d->disk_looked = now;
    d->disk_full = false;
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            keep_quota(d, d->captures.list.at[i]);
    }
    if (d->total_quota)
        keep_total(d);
    if (d->min_free)
        keep_free(d);
}

void daemon_stop_pausing(struct daemon *d)
{
    d->pause_when_full = false;
    d->min_free = 0;
    if (d->paused)
        pause_all(d, false);
}
