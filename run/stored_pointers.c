#include "run/stored_pointers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/vec.h"
#include "run/process_stat.h"
#include "run/remote.h"

#define PIECE UINT64_C(262144)
#define PIECE_PAGES 64u /* at least 4 KiB each */

/*
 * Code that holds a real address in a register may store it again: the number of searches is
 * limited.
 */
#define SEARCHES 8u

/* Waits for threads in vfork, which ptrace cannot stop. */
#define TRIES 100u
#define PAUSE_NS 20000000

/* /proc/PID/pagemap: present, or swapped out */
#define TOUCHED (UINT64_C(3) << 62)

struct search {
    pid_t pid;
    int memory, pages; /* `pages` is -1 if the kernel lacks that file */
    const struct rec_stored *stored;
    bool back;
    uint64_t low, high; /* range of the searched addresses */
    VEC(uint64_t) found;
    VEC(pid_t) stopped;
    uint64_t page; /* its size, at most PIECE */
    uint64_t words[PIECE / sizeof(uint64_t)];
};

static uint64_t wanted(const struct search *s, uint32_t i)
{
    return s->back ? s->stored->at[i].hook : s->stored->at[i].real;
}

/* The replacement of this word; 0: it is not one of the addresses. */
static uint64_t substitute(const struct search *s, uint64_t word)
{
    if (word - s->low > s->high - s->low)
        return 0;
    for (uint32_t i = 0; i < s->stored->count; i++) {
        if (word == wanted(s, i))
            return s->back ? s->stored->at[i].real : s->stored->at[i].hook;
    }
    return 0;
}

/* ---- the search */

/* Reads as many bytes at `at` as possible; 0: none. */
static size_t read_memory(const struct search *s, uint64_t at, void *to, size_t size)
{
    ssize_t n = pread(s->memory, to, size, (off_t)at);
    return n > 0 ? (size_t)n : 0;
}

static bool is_own(const struct search *s, uint64_t at)
{
    for (uint32_t i = 0; i < s->stored->own_count; i++) {
        if (at >= s->stored->own[i].low && at < s->stored->own[i].high)
            return true;
    }
    return false;
}

static bool search_words(struct search *s, uint64_t at, uint64_t end)
{
    size_t n = read_memory(s, at, s->words, end - at) / sizeof *s->words;
    for (size_t i = 0; i < n; i++) {
        uint64_t place = at + i * sizeof *s->words;
        if (substitute(s, s->words[i]) && !is_own(s, place) && !vec_push(&s->found, place))
            return false;
    }
    return true;
}

/* Searches the touched pages of at most PIECE bytes. */
static bool search_piece(struct search *s, uint64_t at, uint64_t end)
{
    uint64_t pages[PIECE_PAGES], count = (end - at) / s->page;
    ssize_t size = (ssize_t)(count * sizeof *pages);
    if (s->pages < 0 ||
        pread(s->pages, pages, (size_t)size, (off_t)(at / s->page * sizeof *pages)) != size)
        return search_words(s, at, end);
    for (uint64_t i = 0, from; i < count; i++) {
        for (from = i; i < count && pages[i] & TOUCHED; i++)
            continue;
        if (i > from && !search_words(s, at + from * s->page, at + i * s->page))
            return false;
    }
    return true;
}

static int search_mapping(struct search *s, const char *line, struct err *e)
{
    uint64_t low, high;
    char rights[8];
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &low, &high, rights) != 3 ||
        strcmp(rights, "rw-p") != 0)
        return 0;
    for (uint64_t at = low, end; at < high; at = end) {
        end = high - at > PIECE ? at + PIECE : high;
        if (!search_piece(s, at, end))
            return err_no_memory(e, "pointers of the process");
    }
    return 0;
}

static int search(struct search *s, struct err *e)
{
    char path[64], *line = NULL;
    size_t room = 0;
    int status = 0;
    s->found.len = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)s->pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return err_errno(e, ERR_OUTPUT, "cannot read %s", path);
    while (status == 0 && getline(&line, &room, maps) > 0)
        status = search_mapping(s, line, e);
    free(line);
    fclose(maps);
    return status;
}

/* ---- while all threads are stopped */

static bool is_stopped(const struct search *s, pid_t tid)
{
    for (size_t i = 0; i < s->stopped.len; i++) {
        if (s->stopped.at[i] == tid)
            return true;
    }
    return false;
}

static void let_go(struct search *s)
{
    for (size_t i = 0; i < s->stopped.len; i++)
        remote_thread_leave(s->stopped.at[i]);
    s->stopped.len = 0;
}

enum stopping { STOPPED, ENDED, REFUSED };

static enum stopping stop_thread(struct search *s, pid_t tid)
{
    struct process_stat stat;
    /* "D" is also the state of a vfork parent, which only its child can end. */
    if (process_stat_read(tid, &stat) && stat.state == 'D')
        return REFUSED;
    if (!remote_thread_stop(tid))
        return !process_stat_read(tid, &stat) || stat.state == 'Z' || stat.state == 'X' ? ENDED
                                                                                        : REFUSED;
    if (vec_push(&s->stopped, tid))
        return STOPPED;
    remote_thread_leave(tid);
    return REFUSED;
}

/* Stops the threads that still run. *fresh: there were some. */
static bool stop_others(struct search *s, bool *fresh)
{
    char path[64];
    struct dirent *entry;
    bool good = true;
    *fresh = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)s->pid);
    DIR *tasks = opendir(path);
    while (tasks && good && (entry = readdir(tasks))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || is_stopped(s, tid))
            continue;
        enum stopping how = stop_thread(s, tid);
        *fresh |= how == STOPPED;
        good = how != REFUSED;
    }
    if (tasks)
        closedir(tasks);
    return tasks && good;
}

/* Stops all threads; those that others start meanwhile are found in the next round. */
static int stop_all(struct search *s, struct err *e)
{
    for (unsigned i = 0; i < TRIES; i++) {
        bool fresh, good;
        do
            good = stop_others(s, &fresh);
        while (good && fresh);
        if (good)
            return 0;
        let_go(s);
        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return err_set(e, ERR_OUTPUT, "a thread of process %d cannot be stopped", (int)s->pid);
}

static uint64_t change(const struct search *s)
{
    uint64_t changed = 0;
    for (size_t i = 0; i < s->found.len; i++) {
        uint64_t word;
        if (read_memory(s, s->found.at[i], &word, sizeof word) != sizeof word)
            continue;
        word = substitute(s, word);
        changed += word && pwrite(s->memory, &word, sizeof word, (off_t)s->found.at[i]) ==
                               (ssize_t)sizeof word;
    }
    return changed;
}

/* ---- search and change */

static int search_and_change(struct search *s, uint64_t *changed, struct err *e)
{
    for (unsigned i = 0; i < SEARCHES; i++) {
        if (search(s, e) != 0)
            return -1;
        if (s->found.len == 0)
            return 0;
        int status = stop_all(s, e);
        if (status == 0)
            *changed += change(s);
        let_go(s);
        if (status != 0)
            return status;
    }
    return 0;
}

static int open_process(struct search *s, struct err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)s->pid);
    s->pages = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/mem", (int)s->pid);
    s->memory = open(path, O_RDWR | O_CLOEXEC);
    return s->memory >= 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot open %s", path);
}

int stored_pointers_change(pid_t pid, const struct rec_stored *stored, bool back, uint64_t *changed,
                           struct err *e)
{
    struct search *s = calloc(1, sizeof *s);
    *changed = 0;
    if (!s)
        return err_no_memory(e, "pointers of the process");
    s->pid = pid;
    s->page = (uint64_t)sysconf(_SC_PAGESIZE);
    s->memory = s->pages = -1;
    s->stored = stored;
    s->back = back;
    s->low = UINT64_MAX;
    for (uint32_t i = 0; i < stored->count; i++) {
        uint64_t address = wanted(s, i);
        s->low = address < s->low ? address : s->low;
        s->high = address > s->high ? address : s->high;
    }
    int status = open_process(s, e);
    if (status == 0 && stored->count)
        status = search_and_change(s, changed, e);
    if (s->memory >= 0)
        close(s->memory);
    if (s->pages >= 0)
        close(s->pages);
    vec_release(&s->found);
    vec_release(&s->stopped);
    free(s);
    return status;
}
