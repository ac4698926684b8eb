#include "proc/process_memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "proc/memory_text.h"

#define TEXT_BYTES 16384u
#define MOUNTS_MOST ((size_t)4 << 20)

/* A limit of version 1 that is none: PAGE_COUNTER_MAX pages of mm/page_counter.c. */
#define NO_LIMIT (UINT64_C(1) << 62)

enum place { OF_PROCESS, OF_CGROUP_V1, OF_CGROUP_V2, OF_SYSTEM };

/* How a value follows from the number in the file. */
enum derivation { AS_IS, SUM, PER_SECOND, SINCE_FIRST, PERCENT_OF_TIME };

struct source {
    enum place place;
    const char *file, *line, *key; /* memory_text_number */
    unsigned field;                /* memory_text_stat; 0: not used */
    enum memory_value value;
    enum derivation derivation;
    uint64_t unit; /* bytes, or microseconds */
};

/* Those of one file are neighbours. */
static const struct source sources[] = {
    {OF_PROCESS, "status", "RssAnon:", "", 0, MEMORY_RSS_ANON, AS_IS, 1024},
    {OF_PROCESS, "status", "RssFile:", "", 0, MEMORY_RSS_FILE, AS_IS, 1024},
    {OF_PROCESS, "status", "RssShmem:", "", 0, MEMORY_RSS_SHMEM, AS_IS, 1024},
    {OF_PROCESS, "status", "VmSwap:", "", 0, MEMORY_SWAP, AS_IS, 1024},
    {OF_PROCESS, "stat", "", "", 10, MEMORY_MINOR_FAULTS, PER_SECOND, 1},
    {OF_PROCESS, "stat", "", "", 12, MEMORY_MAJOR_FAULTS, PER_SECOND, 1},
    {OF_CGROUP_V1, "memory.usage_in_bytes", "", "", 0, MEMORY_CGROUP_USE, AS_IS, 1},
    {OF_CGROUP_V1, "memory.limit_in_bytes", "", "", 0, MEMORY_CGROUP_LIMIT, AS_IS, 1},
    {OF_CGROUP_V1, "memory.failcnt", "", "", 0, MEMORY_CGROUP_HITS, SINCE_FIRST, 1},
    {OF_CGROUP_V1, "memory.oom_control", "oom_kill ", "", 0, MEMORY_CGROUP_KILLS, SINCE_FIRST, 1},
    {OF_CGROUP_V1, "memory.stat", "total_inactive_file ", "", 0, MEMORY_CGROUP_FILE, SUM, 1},
    {OF_CGROUP_V1, "memory.stat", "total_active_file ", "", 0, MEMORY_CGROUP_FILE, SUM, 1},
    {OF_CGROUP_V2, "memory.current", "", "", 0, MEMORY_CGROUP_USE, AS_IS, 1},
    {OF_CGROUP_V2, "memory.max", "", "", 0, MEMORY_CGROUP_LIMIT, AS_IS, 1},
    {OF_CGROUP_V2, "memory.events", "max ", "", 0, MEMORY_CGROUP_HITS, SINCE_FIRST, 1},
    {OF_CGROUP_V2, "memory.events", "oom_kill ", "", 0, MEMORY_CGROUP_KILLS, SINCE_FIRST, 1},
    {OF_CGROUP_V2, "memory.stat", "inactive_file ", "", 0, MEMORY_CGROUP_FILE, SUM, 1},
    {OF_CGROUP_V2, "memory.stat", "active_file ", "", 0, MEMORY_CGROUP_FILE, SUM, 1},
    {OF_CGROUP_V2, "memory.pressure", "some ", "total=", 0, MEMORY_CGROUP_SOME, PERCENT_OF_TIME, 1},
    {OF_CGROUP_V2, "memory.pressure", "full ", "total=", 0, MEMORY_CGROUP_FULL, PERCENT_OF_TIME, 1},
    {OF_SYSTEM, "/proc/pressure/memory", "some ", "total=", 0, MEMORY_SYSTEM_SOME, PERCENT_OF_TIME,
     1},
    {OF_SYSTEM, "/proc/pressure/memory", "full ", "total=", 0, MEMORY_SYSTEM_FULL, PERCENT_OF_TIME,
     1},
};

/* ---- files */

static void read_open(int fd, char *text, size_t room)
{
    size_t n = 0;
    for (ssize_t part = 1; fd >= 0 && part > 0 && n<room - 1; n += part> 0 ? (size_t)part : 0)
        part = pread(fd, text + n, room - 1 - n, (off_t)n);
    text[n] = 0;
}

/* "" when the file cannot be read. */
static void read_text(int folder, const char *path, char *text, size_t room)
{
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    read_open(fd, text, room);
    if (fd >= 0)
        close(fd);
}

/* The cgroup of `groups`. Called when it changed, so mounts are read anew. */
static void find_cgroup(struct process_memory *p)
{
    char *mounts = malloc(MOUNTS_MOST);
    p->cgroup.version = CGROUP_NONE;
    if (!mounts)
        return;
    read_text(AT_FDCWD, "/proc/self/mountinfo", mounts, MOUNTS_MOST);
    cgroup_memory_find(p->groups, mounts, &p->cgroup);
    free(mounts);
}

/*
 * A process may be moved to another cgroup, whose counts begin anew. One that has ended is in
 * another one, too, and has no memory: false, and the cgroup stays the one that it ended in.
 */
static bool follow_cgroup(struct process_memory *p)
{
    char groups[sizeof p->groups], status[TEXT_BYTES];
    uint64_t anonymous;
    read_text(p->folder, "cgroup", groups, sizeof groups);
    read_text(p->folder, "status", status, sizeof status);
    if (!memory_text_number(status, "RssAnon:", "", &anonymous))
        return false;
    if (strcmp(groups, p->groups) == 0)
        return true;
    memcpy(p->groups, groups, sizeof groups);
    find_cgroup(p);
    p->known &= ~(UINT32_C(1) << MEMORY_CGROUP_HITS | UINT32_C(1) << MEMORY_CGROUP_KILLS |
                  UINT32_C(1) << MEMORY_CGROUP_SOME | UINT32_C(1) << MEMORY_CGROUP_FULL);
    return true;
}

static void read_source(const struct process_memory *p, const struct source *s, char *text,
                        size_t room)
{
    char path[sizeof p->cgroup.folder + 64];
    bool of_cgroup = s->place == OF_CGROUP_V1 || s->place == OF_CGROUP_V2;
    *text = 0;
    if (of_cgroup && p->cgroup.version != (s->place == OF_CGROUP_V1 ? CGROUP_V1 : CGROUP_V2))
        return;
    snprintf(path, sizeof path, "%s%s%s", of_cgroup ? p->cgroup.folder : "", of_cgroup ? "/" : "",
             s->file);
    read_text(p->folder, path, text, room);
}

/* ---- values */

static void put(struct memory_reading *out, enum memory_value value, double number)
{
    out->known |= UINT32_C(1) << value;
    out->value[value] = number;
}

static void derive(struct process_memory *p, const struct source *s, uint64_t number,
                   struct memory_reading *out)
{
    uint64_t before = p->before[s->value];
    bool known = p->known & UINT32_C(1) << s->value && number >= before;
    double elapsed = (double)(out->time - p->time);
    if (s->derivation == AS_IS) {
        if (number < NO_LIMIT)
            put(out, s->value, (double)number * (double)s->unit);
        return;
    }
    if (s->derivation == SUM) {
        put(out, s->value, out->value[s->value] + (double)number * (double)s->unit);
        return;
    }
    if (s->derivation == SINCE_FIRST)
        put(out, s->value, known ? (double)(number - before) : 0);
    else if (known && elapsed > 0 && s->derivation == PER_SECOND)
        put(out, s->value, (double)(number - before) * 1e9 / elapsed);
    else if (known && elapsed > 0)
        put(out, s->value, fmin((double)(number - before) * 1e3 / elapsed * 100, 100));
    if (s->derivation == SINCE_FIRST && known)
        return;
    p->before[s->value] = number;
    p->known |= UINT32_C(1) << s->value;
    p->cgroups += s->value == MEMORY_CGROUP_KILLS;
}

static int open_early(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

struct process_early process_early_open(pid_t pid)
{
    return (struct process_early){.maps = open_early(pid, "maps"),
                                  .rollup = open_early(pid, "smaps_rollup"),
                                  .pagemap = open_early(pid, "pagemap")};
}

void process_early_close(struct process_early *p)
{
    const int all[] = {p->maps, p->rollup, p->pagemap};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i] >= 0)
            close(all[i]);
    }
    *p = PROCESS_EARLY_NONE;
}

bool process_memory_open(struct process_memory *p, pid_t pid)
{
    char path[64];
    *p = PROCESS_MEMORY_NONE;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    p->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->folder >= 0;
}

void process_memory_close(struct process_memory *p)
{
    if (p->folder >= 0)
        close(p->folder);
    process_early_close(&p->early);
    *p = PROCESS_MEMORY_NONE;
}

void process_memory_read(struct process_memory *p, struct memory_reading *out)
{
    char text[TEXT_BYTES];
    uint64_t number;
    *out = (struct memory_reading){.time = monotonic_ns()};
    if (p->folder < 0 || !follow_cgroup(p))
        return;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const struct source *s = &sources[i];
        if (i == 0 || strcmp(s->file, s[-1].file) != 0)
            read_source(p, s, text, sizeof text);
        if (s->field ? memory_text_stat(text, s->field, &number)
                     : memory_text_number(text, s->line, s->key, &number))
            derive(p, s, number, out);
    }
    if (!(out->known & UINT32_C(1) << MEMORY_RSS_ANON))
        out->known = 0;
    p->time = out->time;
}

static bool read_of_cgroup(const struct process_memory *p, enum memory_value value,
                           uint64_t *number)
{
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const struct source *s = &sources[i];
        if (s->value != value)
            continue;
        read_source(p, s, text, sizeof text);
        if (memory_text_number(text, s->line, s->key, number))
            return true;
    }
    return false;
}

bool process_memory_kills(const struct process_memory *p, uint64_t *kills)
{
    uint64_t before = p->before[MEMORY_CGROUP_KILLS];
    if (!(p->known & UINT32_C(1) << MEMORY_CGROUP_KILLS) ||
        !read_of_cgroup(p, MEMORY_CGROUP_KILLS, kills) || *kills < before)
        return false;
    *kills -= before;
    return true;
}

uint64_t process_memory_limit(const struct process_memory *p)
{
    uint64_t limit;
    return read_of_cgroup(p, MEMORY_CGROUP_LIMIT, &limit) && limit < NO_LIMIT ? limit : 0;
}

/* ---- notes */

#define NOTE_MOST (sizeof((struct cgroup_memory *)0)->folder + 160)

static void read_boot_id(char *id, size_t room)
{
    read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", id, room);
    id[strcspn(id, "\n")] = 0;
}

bool process_memory_note(const struct process_memory *p, struct buf *out)
{
    struct stat st;
    char boot[64];
    read_boot_id(boot, sizeof boot);
    if (!*boot || !(p->known & UINT32_C(1) << MEMORY_CGROUP_KILLS) ||
        stat(p->cgroup.folder, &st) != 0)
        return false;
    buf_printf(out, "%d %s %ju %ju %" PRIu64 " %s", p->cgroup.version == CGROUP_V2 ? 2 : 1, boot,
               (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, p->before[MEMORY_CGROUP_KILLS],
               p->cgroup.folder);
    return !out->failed;
}

/* A note is not trusted: only a cgroup has no files that block, or that reading changes. */
static bool is_same_cgroup(const struct cgroup_memory *c, uintmax_t device, uintmax_t inode)
{
    struct stat st;
    struct statfs fs;
    return statfs(c->folder, &fs) == 0 && stat(c->folder, &st) == 0 && st.st_dev == device &&
           st.st_ino == inode &&
           fs.f_type == (c->version == CGROUP_V2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC);
}

bool process_memory_from_note(struct process_memory *p, struct view note)
{
    char text[NOTE_MOST] = {0}, boot[64], noted[64];
    uintmax_t device, inode;
    int version, folder = 0;
    *p = PROCESS_MEMORY_NONE;
    if (note.len == 0 || note.len >= sizeof text)
        return false;
    memcpy(text, note.p, note.len);
    read_boot_id(boot, sizeof boot);
    if (sscanf(text, "%d %63s %ju %ju %" SCNu64 " %n", &version, noted, &device, &inode,
               &p->before[MEMORY_CGROUP_KILLS], &folder) != 5 ||
        strcmp(noted, boot) != 0 || (version != 1 && version != 2) || text[folder] != '/' ||
        strlen(text + folder) >= sizeof p->cgroup.folder)
        return false;
    memcpy(p->cgroup.folder, text + folder, strlen(text + folder) + 1);
    p->cgroup.version = version == 2 ? CGROUP_V2 : CGROUP_V1;
    p->known = UINT32_C(1) << MEMORY_CGROUP_KILLS;
    return is_same_cgroup(&p->cgroup, device, inode);
}

void process_memory_pss(struct process_memory *p, struct memory_reading *out)
{
    char text[TEXT_BYTES];
    uint64_t number;
    *out = (struct memory_reading){.time = monotonic_ns()};
    if (p->folder < 0)
        return;
    if (p->early.rollup >= 0)
        read_open(p->early.rollup, text, sizeof text);
    else
        read_text(p->folder, "smaps_rollup", text, sizeof text);
    if (memory_text_number(text, "Pss:", "", &number))
        put(out, MEMORY_PSS, (double)number * 1024);
}
