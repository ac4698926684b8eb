/*
 * For tests only, loaded with LD_PRELOAD: makes a program misread what it received, or forbids it
 * ptrace.
 *
 *     ALTER_FROM=HEX ALTER_TO=HEX   the first 8 bytes of that value (little-endian) that a process
 *                                   decompresses with LZ4 become those of another value; with
 *                                   "hang" the process goes no further
 *     ALTER_PTRACE=1                ptrace fails with EPERM
 *     ALTER_HANG=WORD               a process whose first argument is that goes no further
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <unistd.h>

__attribute__((constructor)) static void hang(int argc, char **argv)
{
    const char *word = getenv("ALTER_HANG");
    if (word && argc > 1 && strcmp(argv[1], word) == 0)
        pause();
}

static void alter(char *bytes, int n)
{
    static int done;
    const char *from = getenv("ALTER_FROM"), *to = getenv("ALTER_TO");
    if (!from || !to || n < 8 || done)
        return;
    uint64_t old = strtoull(from, NULL, 16), new = strtoull(to, NULL, 16);
    char *at = memmem(bytes, (size_t)n, &old, sizeof old);
    if (at && strcmp(to, "hang") == 0)
        pause();
    if (at)
        memcpy(at, &new, sizeof new);
    done = at != NULL;
}

int LZ4_decompress_safe_usingDict(const char *in, char *out, int size, int room, const char *dict,
                                  int dict_size);

int LZ4_decompress_safe_usingDict(const char *in, char *out, int size, int room, const char *dict,
                                  int dict_size)
{
    int (*real)(const char *, char *, int, int, const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "LZ4_decompress_safe_usingDict");
    int n = real(in, out, size, room, dict, dict_size);
    alter(out, n);
    return n;
}

long ptrace(enum __ptrace_request request, ...)
{
    long (*real)(enum __ptrace_request, pid_t, void *, void *);
    va_list ap;
    va_start(ap, request);
    pid_t pid = va_arg(ap, pid_t);
    void *address = va_arg(ap, void *), *data = va_arg(ap, void *);
    va_end(ap);
    if (getenv("ALTER_PTRACE")) {
        errno = EPERM;
        return -1;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "ptrace");
    return real(request, pid, address, data);
}
