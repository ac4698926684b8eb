#include "server/capture/memory_limit.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/cgroup_memory.h"

/* Limits as shares of the bound: memory may grow by the rest before the next check. */
#define NEAR(BYTES) ((BYTES) / 4 * 3)
#define BEYOND(BYTES) ((BYTES) / 16 * 15)

/* Memory that saving takes, which may begin when the bound is nearly reached. */
#define RESERVE_MOST ((uint64_t)32 << 20)

/* In bytes; zeros when the system does not report them. Allocates no memory. */
struct usage {
    uint64_t anonymous; /* resident */
    uint64_t mapped;    /* all that RLIMIT_DATA counts */
};

static struct usage usage_now(void)
{
    unsigned long long resident, shared, mapped;
    char text[160];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "%*s %llu %llu %*s %*s %llu", &resident, &shared, &mapped) != 3 ||
        shared > resident)
        return (struct usage){0};
    return (struct usage){(resident - shared) * page, mapped * page};
}

uint64_t memory_anonymous(void)
{
    return usage_now().anonymous;
}

/* ---- measuring */

/* The number in a one-number file; `most` when there is none, as with "max". */
static uint64_t number_in(const char *path, uint64_t most)
{
    unsigned long long n = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return most;
    bool read = fscanf(f, "%llu", &n) == 1;
    fclose(f);
    return read && n < most ? n : most;
}

/* The text of a file of the kernel, below `root`; NULL: none. The caller frees it. */
static char *read_text(const char *root, const char *name)
{
    char path[4096], *text = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s%s", root, name);
    FILE *f = fopen(path, "re");
    if (f && getdelim(&text, &room, 0, f) < 0) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

static uint64_t memory_of_machine(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t memory_limit_of_group(void)
{
    uint64_t most = memory_physical();
    return most < memory_of_machine() ? most / 4 * 3 : 0;
}

uint64_t memory_physical(void)
{
    return memory_within_group("", memory_of_machine());
}

/* The lowest limit of a control group and its ancestors, as far as they are mounted. */
static uint64_t group_limit(const char *root, struct cgroup_memory *group, uint64_t most)
{
    const char *file = group->version == CGROUP_V1 ? "memory.limit_in_bytes" : "memory.max";
    char path[sizeof group->folder + 512];
    for (;;) {
        int n = snprintf(path, sizeof path, "%s%s/%s", root, group->folder, file);
        if (n > 0 && (size_t)n < sizeof path)
            most = number_in(path, most);
        char *slash = strrchr(group->folder + group->mount, '/');
        if (!slash)
            return most;
        *slash = 0;
    }
}

uint64_t memory_within_group(const char *root, uint64_t most)
{
    char *groups = read_text(root, "/proc/self/cgroup");
    char *mounts = read_text(root, "/proc/self/mountinfo");
    struct cgroup_memory group = {.version = CGROUP_NONE};
    if (groups && mounts)
        cgroup_memory_find(groups, mounts, &group);
    if (group.version != CGROUP_NONE)
        most = group_limit(root, &group, most);
    free(groups);
    free(mounts);
    return most;
}

/* ---- keeping the bound */

struct memory_limit memory_limit_of(uint64_t bytes, size_t wanted)
{
    struct memory_limit l = {.bytes = bytes, .budget = wanted};
    if (bytes && bytes / 4 < wanted)
        l.budget = (size_t)(bytes / 4);
    if (l.budget < MEMORY_BUDGET_LEAST)
        l.budget = MEMORY_BUDGET_LEAST;
    return l;
}

static int shrink(struct memory_limit *l, struct trace *t, uint64_t excess, struct err *e)
{
    size_t least = l->budget / 2; /* in steps: freed memory shows only at the next check */
    l->budget = excess < l->budget - least ? l->budget - (size_t)excess : least;
    if (l->budget < MEMORY_BUDGET_LEAST)
        l->budget = MEMORY_BUDGET_LEAST;
    l->shrunken++;
    if (spool_set_budget(&t->spool, l->budget, e) != 0)
        return -1;
    (void)malloc_trim(0);
    return 0;
}

int memory_limit_keep(struct memory_limit *l, struct trace *t, uint64_t ahead, struct err *e)
{
    if (l->bytes == 0)
        return 0;
    uint64_t bound = l->bytes > l->lent ? l->bytes - l->lent : 1;
    uint64_t used = memory_anonymous() + ahead;
    while (used > NEAR(bound) && l->budget > MEMORY_BUDGET_LEAST) {
        if (shrink(l, t, used - NEAR(bound), e) != 0)
            return -1;
        used = memory_anonymous() + ahead;
    }
    return used > bound ? 2 : used > BEYOND(bound);
}

uint64_t memory_limit_reserve(const struct memory_limit *l, const struct trace *t)
{
    uint64_t fixed = l->bytes / 6 < RESERVE_MOST ? l->bytes / 6 : RESERVE_MOST;
    return fixed + (t ? zones_settle_needs(&t->zones) : 0);
}

/* AddressSanitizer aborts when an allocation fails. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_GATE false
#else
#define HAS_GATE true
#endif

static void set_gate(rlim_t bytes)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_DATA, &now) != 0)
        return;
    now.rlim_cur = bytes < now.rlim_max ? bytes : now.rlim_max;
    (void)setrlimit(RLIMIT_DATA, &now);
}

void memory_limit_close_gate(struct memory_limit *l, uint64_t reserve)
{
    struct rlimit before;
    if (!HAS_GATE || l->bytes == 0)
        return;
    const struct usage now = usage_now();
    uint64_t taken = l->lent + reserve;
    uint64_t bound = l->bytes > taken ? l->bytes - taken : 1;
    if (!l->gated && getrlimit(RLIMIT_DATA, &before) != 0)
        return;
    if (!l->gated)
        l->before = before.rlim_cur;
    l->gated = now.mapped != 0;
    uint64_t most = now.mapped + (bound > now.anonymous ? bound - now.anonymous : 0);
    if (l->gated)
        set_gate(most < l->before ? most : l->before);
}

void memory_limit_open_gate(struct memory_limit *l)
{
    if (l && l->gated)
        set_gate(l->before);
    if (l)
        l->gated = false;
}

int memory_limit_change(struct memory_limit *l, struct trace *t, uint64_t bytes, size_t wanted,
                        struct err *e)
{
    const struct memory_limit fresh = memory_limit_of(bytes, wanted);
    l->bytes = bytes;
    if (fresh.budget <= l->budget)
        return 0;
    l->budget = fresh.budget;
    return spool_set_budget(&t->spool, l->budget, e);
}
