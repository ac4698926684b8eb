/*
 * For tests only, loaded with LD_PRELOAD: makes allocations of the program fail, and file systems
 * poorer than they are.
 *
 *     FAILMALLOC_AT=N      the N-th call of malloc and its kin (from 1) fails
 *     FAILMALLOC_FROM=N    and so do all that come after it
 *     FAILMALLOC_COUNT=F   writes the number of calls to the file F at the end
 *     NO_TMPFILE=1         there are no files without names (O_TMPFILE)
 *     NO_LINK=1            files have one name only (link, linkat)
 *
 * Calls from within the C library and other libraries count too. What the environment asks for is
 * taken out of it, so that programs started by the program run undisturbed.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    unsigned long calls;       /* since the program's constructors ran */
    unsigned long first, last; /* calls that fail; first == 0: none */
    const char *count;
    bool counting;
} state;

/* What the loader asks for while the real functions are looked up. It is never freed. */
static uint8_t early[8192] __attribute__((aligned(16)));
static size_t early_used;

static void *early_take(size_t n)
{
    size_t at = early_used;
    if (n > sizeof early - at)
        abort();
    early_used += (n + 15) & ~(size_t)15;
    return early + at;
}

static void find_next(void)
{
    static bool looking;
    if (state.realloc || looking)
        return;
    looking = true;
    *(void **)&state.malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&state.calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&state.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    *(void **)&state.realloc = dlsym(RTLD_NEXT, "realloc");
    looking = false;
}

static bool fails(void)
{
    if (!state.counting)
        return false;
    unsigned long n = __atomic_add_fetch(&state.calls, 1, __ATOMIC_RELAXED);
    if (state.first == 0 || n < state.first || n > state.last)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    find_next();
    return !state.malloc ? early_take(n) : fails() ? NULL : state.malloc(n);
}

void *calloc(size_t count, size_t size)
{
    find_next();
    return !state.calloc ? early_take(count * size) : fails() ? NULL : state.calloc(count, size);
}

void *realloc(void *p, size_t n)
{
    find_next();
    return !state.realloc || fails() ? NULL : state.realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    find_next();
    return !state.aligned_alloc || fails() ? NULL : state.aligned_alloc(alignment, n);
}

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "open");
    if ((flags & O_TMPFILE) == O_TMPFILE && getenv("NO_TMPFILE")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return next(path, flags, mode);
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    static int (*next)(int, const char *, int, const char *, int);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "linkat");
    if (getenv("NO_LINK")) {
        errno = EPERM;
        return -1;
    }
    return next(from_fd, from, to_fd, to, flags);
}

static unsigned long take_number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    find_next();
    unsigned long at = take_number("FAILMALLOC_AT"), from = take_number("FAILMALLOC_FROM");
    state.first = at ? at : from;
    state.last = at ? at : (unsigned long)-1;
    state.count = getenv("FAILMALLOC_COUNT");
    unsetenv("LD_PRELOAD");
    state.counting = true;
}

__attribute__((destructor)) static void end(void)
{
    state.counting = false;
    if (!state.count)
        return;
    int fd = open(state.count, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0) {
        dprintf(fd, "%lu\n", state.calls);
        close(fd);
    }
}
