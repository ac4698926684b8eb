#include "run/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/print_error.h"
#include "base/view.h"

/* Prefixes of the file names of allocation wrappers: Kit's, heaptrack's, glibc's, bytehound's. */
static const char *const known[] = {"liballocwrapper", "libheaptrack_preload", "libmemusage",
                                    "libbytehound", "libmemory_profiler"};

#define SEPARATORS " :"

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether it is the file name of a known allocation wrapper. */
static bool preload_is_known(const char *path)
{
    const char *name = file_name(path);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t len = strlen(known[i]);
        if (strncmp(name, known[i], len) == 0 &&
            (name[len] == '.' || name[len] == '-' || name[len] == '\0'))
            return true;
    }
    return false;
}

/*
 * Copies `list`, the value of LD_PRELOAD, without the entries for which `drop` is true. The caller
 * frees the result; NULL when memory is short. `dropped` (may be NULL) is called with each removed
 * entry.
 */
static char *preload_without(const char *list, bool (*drop)(void *ctx, const char *entry),
                             void (*dropped)(void *ctx, const char *entry), void *ctx)
{
    size_t len = strlen(list);
    char *kept = malloc(len + 1);
    char *entry = malloc(len + 1);
    if (!kept || !entry) {
        free(kept);
        free(entry);
        return NULL;
    }
    size_t at = 0;
    for (const char *p = list; *p; p += strcspn(p, SEPARATORS)) {
        p += strspn(p, SEPARATORS);
        size_t n = strcspn(p, SEPARATORS);
        if (n == 0)
            break;
        memcpy(entry, p, n);
        entry[n] = '\0';
        if (drop(ctx, entry)) {
            if (dropped)
                dropped(ctx, entry);
            continue;
        }
        if (at)
            kept[at++] = ':';
        memcpy(kept + at, p, n);
        at += n;
    }
    kept[at] = '\0';
    free(entry);
    return kept;
}

/* Whether the library itself exports malloc, as opposed to a library that it needs. */
static bool exports_malloc(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return false; /* the dynamic linker cannot have preloaded it */
    Dl_info info;
    void *symbol = dlsym(library, "malloc");
    bool own = symbol && dladdr(symbol, &info) && info.dli_fname &&
               strcmp(file_name(info.dli_fname), file_name(path)) == 0;
    dlclose(library);
    return own;
}

struct choice {
    const char *const *names;
    size_t n;
    unsigned dropped;
};

static bool is_unwanted(void *ctx, const char *entry)
{
    const struct choice *c = ctx;
    for (size_t i = 0; i < c->n; i++) {
        if (*c->names[i] && strstr(file_name(entry), c->names[i]))
            return true;
    }
    return preload_is_known(entry) && exports_malloc(entry);
}

static void say_dropped(void *ctx, const char *entry)
{
    struct choice *c = ctx;
    struct err e = {0};
    c->dropped++;
    err_set(&e, ERR_USAGE, "%s is preloaded (LD_PRELOAD); starting again without it", entry);
    print_error(&e);
}

/* The full command line: a subcommand's argv begins at its own name. */
static char **whole_command_line(bool subcommand, char **argv)
{
    static char program[] = "tidemark";
    size_t n = 0;
    while (argv[n])
        n++;
    char **whole = malloc((n + 2) * sizeof *whole);
    if (!whole)
        return NULL;
    whole[0] = program;
    memcpy(whole + subcommand, argv, (n + 1) * sizeof *argv);
    return whole;
}

void preload_drop(bool subcommand, char **argv, const char *const *names, size_t n)
{
    struct choice c = {.names = names, .n = n};
    const char *list = getenv("LD_PRELOAD");
    if (!list || !*list)
        return;
    bool again = getenv(PRELOAD_DROPPED) != NULL;
    char *kept = preload_without(list, is_unwanted, again ? NULL : say_dropped, &c);
    if (c.dropped && kept && setenv(PRELOAD_DROPPED, "1", 1) == 0 &&
        (*kept ? setenv("LD_PRELOAD", kept, 1) : unsetenv("LD_PRELOAD")) == 0) {
        char **whole = whole_command_line(subcommand, argv);
        fflush(NULL);
        if (whole)
            execv("/proc/self/exe", whole);
        fprintf(stderr, "tidemark: cannot start again: %s\n", strerror(errno));
        free(whole);
    }
    free(kept);
}
