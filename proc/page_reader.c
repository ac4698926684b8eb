#include "proc/page_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "proc/memory_text.h"

#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define OF_FILE (UINT64_C(1) << 61)
#define MAPPED_ONCE (UINT64_C(1) << 56)

/* include/uapi/linux/fs.h of Linux 6.7 */
struct page_scan {
    uint64_t size, flags, start, end, walk_end, regions, regions_most, pages_most;
    uint64_t inverted, mask, any_mask, return_mask;
};
struct page_region {
    uint64_t start, end, categories;
};
#define SCAN_PAGEMAP _IOWR('f', 16, struct page_scan)
#define SCAN_ZERO (UINT64_C(1) << 5)
#define SCAN_HUGE (UINT64_C(1) << 6)
#define REGIONS 64u

#define ENTRIES 8192u
#define MAPS_MOST ((size_t)64 << 20)
#define THREADS_MOST 4096u
#define ADDRESS_MOST (UINT64_C(1) << 57)

#define HEAP_HEAD_MOST 256u

/* Address space without access is left out above the first size; other is unread above the second.
 */
#define RESERVED_MOST (UINT64_C(1) << 30)
#define AREA_MOST (UINT64_C(64) << 30)

/* ---- mappings */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

static enum area_kind kind_of(const char *access, const char *path, uint64_t inode)
{
    bool shared = access[3] == 's';
    if (strcmp(path, "[heap]") == 0)
        return AREA_HEAP;
    if (strcmp(path, "[stack]") == 0)
        return AREA_STACK;
    if (shared && (has_suffix(path, ".recording") || has_suffix(path, ".recording (deleted)")))
        return AREA_RECORDER;
    if (shared || has_prefix(path, "/dev/zero") || has_prefix(path, "/memfd:") ||
        has_prefix(path, "/SYSV"))
        return AREA_SHARED;
    return inode ? AREA_FILE : AREA_ANONYMOUS;
}

bool page_reader_area(struct view line, const struct look_area *before, struct look_area *out)
{
    char text[4096 + 128], access[5] = "", *path;
    uint64_t start, end, inode;
    int n = 0;
    if (line.len >= sizeof text)
        return false;
    memcpy(text, line.p, line.len);
    text[line.len] = 0;
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %" SCNu64 "%n", &start, &end, access,
               &inode, &n) != 4 ||
        strlen(access) != 4 || start >= end || end > ADDRESS_MOST)
        return false;
    path = text + n + strspn(text + n, " ");
    if (strcmp(path, "[vvar]") == 0 || strcmp(path, "[vdso]") == 0 ||
        strcmp(path, "[vsyscall]") == 0 || strcmp(path, "[vvar_vclock]") == 0)
        return false;
    *out = (struct look_area){.start = start, .end = end, .kind = kind_of(access, path, inode)};
    /*
     * The zeroed data of an image has no name and follows its last segment. What follows that may
     * be anything: images are loaded right below a thread's stack.
     */
    out->zeroed = out->kind == AREA_ANONYMOUS && !*path && strcmp(access, "rw-p") == 0 && before &&
                  before->kind == AREA_FILE && !before->zeroed && before->end == start;
    if (out->zeroed)
        out->kind = AREA_FILE;
    out->unread = end - start > AREA_MOST;
    return access[0] != '-' || end - start <= RESERVED_MOST;
}

/* A file that was opened early may be read by others, too: its position is not used. */
static int open_file(const struct process_memory *of, int early, const char *name)
{
    return early >= 0 ? fcntl(early, F_DUPFD_CLOEXEC, 0)
                      : openat(of->folder, name, O_RDONLY | O_CLOEXEC);
}

static char *read_whole(const struct process_memory *of, int early, const char *name, size_t most)
{
    size_t room = 65536, n = 0;
    char *text = malloc(room);
    int fd = open_file(of, early, name);
    ssize_t part = -1;
    while (fd >= 0 && text && (part = pread(fd, text + n, room - 1 - n, (off_t)n)) > 0) {
        n += (size_t)part;
        if (room - n > 4096)
            continue;
        char *more = room < most ? realloc(text, room *= 2) : NULL;
        if (!more) {
            part = -1;
            break;
        }
        text = more;
    }
    if (fd >= 0)
        close(fd);
    if (part < 0) {
        free(text);
        return NULL;
    }
    text[n] = 0;
    return text;
}

static bool read_areas(struct page_look *l, const char *maps)
{
    for (const char *p = maps; *p;) {
        size_t n = strcspn(p, "\n");
        const struct look_area *before = l->areas.len ? &l->areas.at[l->areas.len - 1] : NULL;
        struct look_area a;
        if (page_reader_area((struct view){p, n}, before, &a) &&
            (!before || before->end <= a.start) && a.start % l->page == 0 && a.end % l->page == 0 &&
            !vec_push(&l->areas, a))
            return false;
        p += n + (p[n] == '\n');
    }
    return true;
}

/* ---- glibc's arenas */

/* Files of a process; -1: it may not be read. */
struct opened {
    int pagemap, memory;
};

/*
 * struct heap_info of glibc's malloc/arena.c: the arena's address, the heap before, bytes in use,
 * bytes that may be used. The arena is behind the header of its first heap. A page that is not in
 * memory has no header, and is not read: that would bring it into memory.
 */
static bool is_heap(const struct page_look *l, const struct opened *files, uint64_t at)
{
    uint64_t head[4], entry;
    if (pread(files->pagemap, &entry, 8, (off_t)(at / l->page * 8)) != 8 || !(entry & PRESENT) ||
        pread(files->memory, head, sizeof head, (off_t)at) != (ssize_t)sizeof head)
        return false;
    return head[0] >= LOOK_HEAP_BYTES && head[0] % LOOK_HEAP_BYTES < HEAP_HEAD_MOST &&
           head[1] % LOOK_HEAP_BYTES == 0 && head[2] && head[2] <= head[3] &&
           head[3] <= LOOK_HEAP_BYTES;
}

/*
 * Adds `whole`, each heap in it as a separate area: the kernel makes one mapping of neighbours of
 * equal access, such as a heap and the memory mapped below it.
 */
static bool add_parts(struct page_look *l, const struct opened *files,
                      const struct look_area *whole)
{
    struct look_area rest = *whole;
    uint64_t past = rest.start % LOOK_HEAP_BYTES;
    for (uint64_t at = rest.start + (past ? LOOK_HEAP_BYTES - past : 0); at < whole->end;
         at += LOOK_HEAP_BYTES) {
        if (!is_heap(l, files, at))
            continue;
        struct look_area before = rest, heap = rest;
        before.end = heap.start = at;
        heap.end = at + LOOK_HEAP_BYTES < whole->end ? at + LOOK_HEAP_BYTES : whole->end;
        heap.kind = AREA_ARENA;
        rest.start = heap.end;
        if ((before.start < before.end && !vec_push(&l->areas, before)) ||
            !vec_push(&l->areas, heap))
            return false;
    }
    return rest.start == rest.end || vec_push(&l->areas, rest);
}

/* Those of a process whose memory may not be read are not found. */
static bool mark_arenas(struct page_look *l, const struct opened *files)
{
    struct page_look parts = {.page = l->page};
    bool done = true;
    for (size_t i = 0; i < l->areas.len && done; i++) {
        const struct look_area *a = &l->areas.at[i];
        done = a->kind == AREA_ANONYMOUS && !a->unread ? add_parts(&parts, files, a)
                                                       : vec_push(&parts.areas, *a);
    }
    vec_release(&l->areas);
    l->areas = parts.areas;
    return done;
}

/* ---- threads */

/* "NUMBER ARGUMENTS SP PC" of a thread in a system call; "running" of another one. */
static void mark_stack(struct page_look *l, int tasks, const char *thread)
{
    char name[300], text[512];
    snprintf(name, sizeof name, "%s/syscall", thread);
    int fd = openat(tasks, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    char *last = strrchr(text, ' ');
    if (!last)
        return;
    *last = 0;
    char *pointer = strrchr(text, ' ');
    uint64_t address = pointer ? strtoull(pointer + 1, NULL, 16) : 0;
    size_t i = page_look_area(l, address);
    if (i < l->areas.len && l->areas.at[i].start <= address &&
        l->areas.at[i].kind == AREA_ANONYMOUS)
        l->areas.at[i].kind = AREA_STACK;
}

static void mark_stacks(struct page_look *l, int folder)
{
    int tasks = openat(folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = tasks >= 0 ? fdopendir(tasks) : NULL;
    const struct dirent *one;
    for (unsigned i = 0; list && i < THREADS_MOST && (one = readdir(list)); i++) {
        if (one->d_name[0] != '.')
            mark_stack(l, tasks, one->d_name);
    }
    if (list)
        closedir(list);
    else if (tasks >= 0)
        close(tasks);
}

/* ---- pages */

/*
 * The zero pages and huge pages of the entries being read, which do not show them. Linux has the
 * call from 6.7 on; its first versions do not report the huge zero page as a zero page.
 */
struct scan {
    VEC(struct page_region) regions;
    size_t at; /* the first region that ends behind the last address asked for */
    bool failed;
};

static bool scan_range(struct scan *s, int pagemap, uint64_t start, uint64_t end)
{
    struct page_region found[REGIONS] = {0}; /* valgrind does not know the call */
    struct page_scan scan = {.size = sizeof scan,
                             .start = start,
                             .end = end,
                             .regions = (uint64_t)(uintptr_t)found,
                             .regions_most = REGIONS,
                             .any_mask = SCAN_ZERO | SCAN_HUGE,
                             .return_mask = SCAN_ZERO | SCAN_HUGE};
    s->regions.len = s->at = 0;
    while (scan.start < scan.end && !s->failed) {
        int n = ioctl(pagemap, SCAN_PAGEMAP, &scan);
        s->failed = n < 0 || scan.walk_end <= scan.start;
        for (int i = 0; i < n; i++) {
            if (!vec_push(&s->regions, found[i]))
                return false;
        }
        scan.start = scan.walk_end;
    }
    return true;
}

/* SCAN_ZERO and SCAN_HUGE of a page, of no lower address than before. */
static uint64_t categories_of(struct scan *s, uint64_t address)
{
    while (s->at < s->regions.len && s->regions.at[s->at].end <= address)
        s->at++;
    return s->at < s->regions.len && s->regions.at[s->at].start <= address
               ? s->regions.at[s->at].categories
               : 0;
}

/* Anonymous memory of the process. */
static bool is_own(const struct look_area *a)
{
    return a->kind == AREA_HEAP || a->kind == AREA_ANONYMOUS || a->kind == AREA_STACK ||
           a->kind == AREA_ARENA;
}

/* Shared memory may map what is no page of memory. */
static bool is_scanned(const struct look_area *a, const struct scan *s)
{
    return (is_own(a) || a->kind == AREA_FILE) && !s->failed;
}

/*
 * A page that is mapped more than once belongs to a forked process, too, unless it is a zero page.
 * From Linux 6.11 on, the huge zero page has the bit of a file's pages.
 */
static enum page_state state_of(const struct look_area *a, uint64_t entry, bool is_told,
                                uint64_t categories)
{
    if (!(entry & PRESENT))
        return entry & SWAPPED ? PAGE_SWAPPED : PAGE_ABSENT;
    if (entry & OF_FILE)
        return is_own(a) ? PAGE_UNSURE : PAGE_PRESENT;
    return entry & MAPPED_ONCE || (is_told && !categories) ? PAGE_PRESENT : PAGE_UNSURE;
}

static bool take_page(struct page_look *l, struct look_area *a, uint64_t address, uint64_t entry,
                      struct scan *scan)
{
    bool is_told = is_scanned(a, scan);
    uint64_t categories = is_told ? categories_of(scan, address) : 0;
    enum page_state state = state_of(a, entry, is_told, categories);
    a->present += state == PAGE_PRESENT;
    a->swapped += state == PAGE_SWAPPED;
    a->unsure += state == PAGE_UNSURE;
    l->huge += is_own(a) && state == PAGE_PRESENT && categories & SCAN_HUGE ? l->page : 0;
    return a->kind == AREA_FILE || page_look_set(l, address, state);
}

/* Pages that are unmapped meanwhile read as absent. */
static bool read_area(struct page_look *l, struct look_area *a, int pagemap, uint64_t *entries,
                      struct scan *scan)
{
    uint64_t step = (uint64_t)ENTRIES * l->page;
    for (uint64_t at = a->start; at < a->end; at += step) {
        uint64_t bytes = a->end - at < step ? a->end - at : step;
        if (is_scanned(a, scan) && !scan_range(scan, pagemap, at, at + bytes))
            return false;
        ssize_t n = pread(pagemap, entries, bytes / l->page * 8, (off_t)(at / l->page * 8));
        if (n < 0)
            return false;
        for (uint64_t k = 0; k < (uint64_t)n / 8; k++) {
            if (entries[k] && !take_page(l, a, at + k * l->page, entries[k], scan))
                return false;
        }
    }
    return true;
}

/* The bytes in a line of a file that counts KiB; 0: there is none. */
static uint64_t read_size(const struct process_memory *of, const char *file, const char *line)
{
    uint64_t kib = 0;
    char *text = read_whole(of, -1, file, (size_t)1 << 20);
    if (!text || !memory_text_number(text, line, "", &kib) || kib > UINT64_MAX / 1024)
        kib = 0;
    free(text);
    return kib * 1024;
}

static bool read_pages(struct page_look *l, const struct process_memory *of, int pagemap,
                       uint64_t *entries)
{
    struct scan scan = {0};
    bool done = true;
    for (size_t i = 0; i < l->areas.len && done; i++)
        done = l->areas.at[i].unread || read_area(l, &l->areas.at[i], pagemap, entries, &scan);
    if (scan.failed)
        l->huge = read_size(of, "smaps_rollup", "AnonHugePages:");
    vec_release(&scan.regions);
    return done;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static bool read_look(struct page_look *l, const struct process_memory *of, const char *maps)
{
    uint64_t *entries = malloc(ENTRIES * sizeof *entries);
    const struct opened files = {.pagemap = open_file(of, of->early.pagemap, "pagemap"),
                                 .memory = open_file(of, -1, "mem")};
    bool done = entries && files.pagemap >= 0 && read_areas(l, maps) && mark_arenas(l, &files);
    if (done) {
        mark_stacks(l, of->folder);
        done = read_pages(l, of, files.pagemap, entries);
    }
    close_if_open(files.pagemap);
    close_if_open(files.memory);
    free(entries);
    return done;
}

int page_look_read(struct page_look *out, const struct process_memory *of, struct err *e)
{
    *out = (struct page_look){.page = (uint32_t)sysconf(_SC_PAGESIZE), .begin = monotonic_ns()};
    char *maps = read_whole(of, of->early.maps, "maps", MAPS_MOST);
    bool done = maps && *maps;
    if (done) {
        out->rss = read_size(of, "status", "VmRSS:");
        done = read_look(out, of, maps);
    }
    out->end = monotonic_ns();
    free(maps);
    if (done)
        return 0;
    err_errno(e, ERR_INPUT, "cannot read the process's pages");
    page_look_release(out);
    return -1;
}
