/*
 * Watches the disk usage of captures and free space, once a second. It measures the files
 * themselves, since a compromised session may report anything.
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
#include "base/monotonic.h"
#include "report/write/json_value.h"
#include "server/capture/journal.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_limits.h"

#define LOOK_NS 1000000000LL

static uint64_t bytes_of(const struct stat *st)
{
    return (uint64_t)st->st_blocks * 512;
}

/* The size of a folder's files, without subfolders. */
static uint64_t folder_bytes(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    struct stat st;
    uint64_t sum = 0;
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += bytes_of(&st);
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* The size of unnamed files: spilled event data, and a trace being written. */
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

static uint64_t left_in_journal(const struct daemon *d, const struct capture *one)
{
    struct err e = {0};
    char *journal = one->output ? journal_name(one->output, d->spool, &e) : NULL;
    bool beside = journal && !d->spool && one->folder;
    uint64_t sum = beside    ? folder_bytes(one->folder->fd, strrchr(journal, '/') + 1)
                   : journal ? folder_bytes(AT_FDCWD, journal)
                             : 0;
    free(journal);
    return sum;
}

/* ---- output folders; each is read once for all its captures */

/* The common beginning of the names of a capture's files. */
struct stem {
    struct capture *one;
    struct view text;
};

struct look {
    VEC(struct stem) stems; /* of the current folder, sorted by text */
    bool whole;             /* also sum up the size of all files: `sum` */
    uint64_t sum;
};

static int compare_stems(const void *a, const void *b)
{
    struct view x = ((const struct stem *)a)->text, y = ((const struct stem *)b)->text;
    int order = memcmp(x.p, y.p, x.len < y.len ? x.len : y.len);
    return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* "x.tracy" has the parts "x.2.tracy", "x.3.tracy", …. */
static struct view stem_of(const char *output)
{
    static const char suffix[] = ".tracy";
    const char *slash = strrchr(output, '/');
    struct view text = view_of(slash ? slash + 1 : "");
    size_t cut = sizeof suffix - 1;
    if (text.len > cut && strcmp(text.p + text.len - cut, suffix) == 0)
        text.len -= cut - 1;
    return text;
}

static size_t same_bytes(struct view a, struct view b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.p[n] == b.p[n])
        n++;
    return n;
}

/*
 * The next of the stems that a file's name begins with; NULL: no more. Initially `rest` is the name
 * and `end` the number of stems. The last stem that does not sort after the name limits how much of
 * the name an earlier stem can share.
 */
static const struct stem *next_stem(const struct look *look, struct view *rest, size_t *end)
{
    while (*end > 0 && rest->len > 0) {
        const struct stem name = {.text = *rest};
        size_t begin = 0;
        while (begin < *end) {
            size_t middle = begin + (*end - begin) / 2;
            if (compare_stems(&look->stems.at[middle], &name) <= 0)
                begin = middle + 1;
            else
                *end = middle;
        }
        if (*end == 0)
            break;
        const struct stem *last = &look->stems.at[--*end];
        rest->len = same_bytes(last->text, *rest);
        if (rest->len == last->text.len)
            return last;
    }
    return NULL;
}

/* Stats only files that count: the folder may hold thousands of others. */
static void take_entry(struct look *look, int fd, const char *name)
{
    struct stat st;
    struct view rest = view_of(name);
    size_t end = look->stems.len;
    const struct stem *stem = next_stem(look, &rest, &end);
    if ((!stem && !look->whole) || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (look->whole && S_ISDIR(st.st_mode) && strstr(name, ".journal"))
        look->sum += folder_bytes(fd, name);
    if (!S_ISREG(st.st_mode))
        return;
    look->sum += bytes_of(&st);
    for (; stem; stem = next_stem(look, &rest, &end))
        stem->one->disk += bytes_of(&st);
}

static void read_folder(struct look *look, int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir)))
        take_entry(look, fd, entry->d_name);
    if (dir)
        closedir(dir);
}

/* Whether it is the first running capture in its folder. */
static bool stands_for_folder(const struct captures *c, size_t which)
{
    const struct capture *one = c->list.at[which];
    if (one->state != CAPTURE_RUNNING)
        return false;
    for (size_t i = 0; i < which; i++) {
        if (c->list.at[i]->state == CAPTURE_RUNNING && c->list.at[i]->folder == one->folder)
            return false;
    }
    return true;
}

static void take_stems(struct look *look, const struct captures *c, const struct output_folder *f)
{
    look->stems.len = 0;
    for (size_t i = 0; i < c->list.len; i++) {
        struct capture *one = c->list.at[i];
        struct stem stem = {one, stem_of(one->output ? one->output : "")};
        if (one->state == CAPTURE_RUNNING && one->folder == f && stem.text.len)
            (void)vec_push(&look->stems, stem);
    }
    if (look->stems.len)
        qsort(look->stems.at, look->stems.len, sizeof *look->stems.at, compare_stems);
}

/*
 * Reads the captures' folders, which may have been moved, and the one at the output path, whose
 * whole size may be needed.
 */
static void look_at_folders(const struct daemon *d, struct look *look, bool whole)
{
    const struct captures *c = &d->captures;
    bool done = !whole;
    for (size_t i = 0; i < c->list.len; i++) {
        if (!stands_for_folder(c, i))
            continue;
        const struct output_folder *f = c->list.at[i]->folder;
        look->whole = !done && (!f || output_folder_is_at(f, d->dir));
        done |= look->whole;
        take_stems(look, c, f);
        if (look->stems.len || look->whole)
            read_folder(look, f ? f->fd : AT_FDCWD, f ? "." : d->dir);
    }
    look->stems.len = 0;
    look->whole = true;
    if (!done)
        read_folder(look, AT_FDCWD, d->dir);
}

/* Measures each capture's journal, traces with parts, and unnamed files. */
static void look_at_all(const struct daemon *d, struct look *look, bool whole)
{
    if (!vec_reserve(&look->stems, d->captures.running))
        return; /* the previous figures stay */
    for (size_t i = 0; i < d->captures.list.len; i++) {
        struct capture *one = d->captures.list.at[i];
        if (one->state != CAPTURE_RUNNING)
            continue;
        uint64_t nameless = nameless_bytes(one->pid);
        one->disk = nameless + left_in_journal(d, one);
        look->sum += nameless;
    }
    look_at_folders(d, look, whole);
}

/* `sum`: what all files take, or 0 if that was not measured. */
static void take_disk(struct daemon *d, uint64_t sum)
{
    struct statvfs fs;
    d->disk = (struct daemon_disk){.held = d->total_quota ? sum : 0};
    for (size_t i = 0; !d->total_quota && i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        d->disk.held += one->state == CAPTURE_RUNNING ? one->disk : 0;
    }
    if (statvfs(d->dir, &fs) != 0)
        return;
    d->disk.size = (uint64_t)fs.f_blocks * fs.f_frsize;
    d->disk.free = (uint64_t)fs.f_bavail * fs.f_frsize;
}

uint64_t daemon_free_bytes(const struct daemon *d)
{
    struct statvfs fs;
    return statvfs(d->dir, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}

/* ---- enforcing the limits */

/* `limit`: the option's name. */
static void end_one(struct daemon *d, struct capture *one, const char *limit, const char *event,
                    const char *why)
{
    if (one->ending)
        return;
    one->ending = true;
    if (!one->left_alone)
        one->left_alone = limit;
    daemon_tell(d, LOG_ERROR, event, one, NULL, "client %u (%s) is ended: %s", one->number,
                one->client.broadcast.name, why);
    captures_stop_quickly(one);
}

static void keep_quota(struct daemon *d, struct capture *one)
{
    char held[FORMAT_SIZE], most[FORMAT_SIZE], why[128];
    if (!d->quota || one->disk <= d->quota)
        return;
    snprintf(why, sizeof why, "it takes %s of disk, and --quota is %s",
             format_bytes(held, one->disk), format_bytes(most, d->quota));
    end_one(d, one, "quota", "disk.quota", why);
}

/* A paused session reads nothing, so the data stays with its client. */
static void pause_all(struct daemon *d, bool pause)
{
    char left[FORMAT_SIZE];
    if (d->paused == pause)
        return;
    d->paused = pause;
    if (pause)
        daemon_tell(d, LOG_ERROR, "disk.full", NULL, NULL,
                    "%s are left on disk: all captures are paused until there is room",
                    format_bytes(left, daemon_free_bytes(d)));
    else
        daemon_log(d, LOG_WARNING, "disk.free", NULL, NULL, "there is room: captures go on");
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            (void)kill(d->captures.list.at[i]->pid, pause ? SIGSTOP : SIGCONT);
    }
}

static void end_all(struct daemon *d, const char *limit, const char *event, const char *why)
{
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            end_one(d, d->captures.list.at[i], limit, event, why);
    }
}

static void keep_total(struct daemon *d, uint64_t sum)
{
    char held[FORMAT_SIZE], most[FORMAT_SIZE], why[128];
    d->disk_full = sum > d->total_quota;
    if (!d->disk_full)
        return;
    snprintf(why, sizeof why, "all take %s of disk, and --total-quota is %s",
             format_bytes(held, sum), format_bytes(most, d->total_quota));
    end_all(d, "total-quota", "disk.quota", why);
}

static void keep_free(struct daemon *d)
{
    char left[FORMAT_SIZE], least[FORMAT_SIZE], why[128];
    uint64_t bytes = daemon_free_bytes(d);
    bool low = bytes < d->min_free;
    if (d->pause_when_full) {
        /* Resuming needs a little more free space than pausing, to avoid flapping. */
        pause_all(d, low || (d->paused && bytes < d->min_free + d->min_free / 4));
        d->disk_full = d->disk_full || d->paused;
        return;
    }
    d->disk_full = d->disk_full || low;
    if (!low)
        return;
    snprintf(why, sizeof why, "%s are left on disk, and --min-free is %s",
             format_bytes(left, bytes), format_bytes(least, d->min_free));
    end_all(d, "min-free", "disk.full", why);
}

void daemon_keep_disk(struct daemon *d)
{
    long long now = monotonic_ns();
    struct look look = {0};
    if (now - d->disk_looked < LOOK_NS)
        return;
    d->disk_looked = now;
    d->disk_full = false;
    look_at_all(d, &look, d->total_quota != 0);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            keep_quota(d, d->captures.list.at[i]);
    }
    vec_release(&look.stems);
    take_disk(d, look.sum);
    if (d->total_quota)
        keep_total(d, look.sum);
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
