#include "run/run_environment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "client/recording_format.h"

#define LIBRARY "libtidemark.so"
#define GPU_LIBRARY "libtidemark-gpu.so"

extern char **environ;

/* Beside this program in a build folder, or where `make install` puts it. NULL: not found. */
static char *own_library(void)
{
    static const char *const places[] = {"", "../lib/tidemark/", "../lib/"};
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return NULL;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s" LIBRARY, self, places[i]);
        if (access(path, R_OK) == 0)
            return realpath(path, NULL);
    }
    return NULL;
}

/* LD_PRELOAD cannot contain paths with spaces or colons: makes a link without them. */
static char *without_separators(struct run_environment *v, char *library, const char *folder)
{
    struct buf link = {0};
    if (!library || !strpbrk(library, " :"))
        return library;
    char *at = realpath(folder, NULL);
    if (at && !strpbrk(at, " :")) {
        buf_printf(&link, "%s/" LIBRARY, at);
        if (!link.failed && symlink(library, buf_str(&link)) == 0) {
            v->link = strdup(buf_str(&link));
            free(library);
            library = v->link ? strdup(v->link) : NULL;
        }
    }
    free(at);
    buf_release(&link);
    return library;
}

static bool has_name(const char *entry, const char *with, size_t len)
{
    return entry && strncmp(entry, with, len) == 0 && entry[len] == '=';
}

/* Adds NAME=VALUE, or replaces the entry of that name. */
static bool put(struct run_environment *v, const char *entry)
{
    size_t len = strcspn(entry, "=");
    char *copy = strdup(entry);
    if (!copy)
        return false;
    for (size_t i = 0; i < v->count; i++) {
        if (has_name(v->list[i], entry, len)) {
            free(v->list[i]);
            v->list[i] = copy;
            return true;
        }
    }
    v->list[v->count++] = copy;
    return true;
}

static bool put_pair(struct run_environment *v, const char *name, const char *value,
                     const char *between, const char *rest)
{
    struct buf b = {0};
    buf_printf(&b, "%s=%s%s%s", name, value, between, rest);
    bool done = put(v, buf_str(&b)) && !b.failed;
    buf_release(&b);
    return done;
}

static const char *value_of(const struct run_environment *v, const char *name)
{
    for (size_t i = 0; i < v->count; i++) {
        if (has_name(v->list[i], name, strlen(name)))
            return v->list[i] + strlen(name) + 1;
    }
    return "";
}

/* The library of --gpu, from the same folder. */
static char *gpu_library(const char *library, struct err *e)
{
    struct buf path = {0};
    char *result = NULL;
    const char *slash = strrchr(library, '/');
    buf_printf(&path, "%.*s" GPU_LIBRARY, slash ? (int)(slash + 1 - library) : 0, library);
    if (path.failed)
        err_no_memory(e, "the environment");
    else if (access(buf_str(&path), R_OK) != 0)
        err_set(e, ERR_OUTPUT, "%s: there is no such library", buf_str(&path));
    else if (strpbrk(buf_str(&path), " :"))
        err_set(e, ERR_OUTPUT, "%s: the dynamic linker takes no path with spaces or colons",
                buf_str(&path));
    else if (!(result = strdup(buf_str(&path))))
        err_no_memory(e, "the environment");
    buf_release(&path);
    return result;
}

/* LD_PRELOAD with Tidemark's libraries before its previous value. */
static bool put_preload(struct run_environment *v, const char *library, const char *gpu)
{
    struct buf b = {0};
    const char *before = value_of(v, "LD_PRELOAD");
    buf_printf(&b, "LD_PRELOAD=%s%s%s%s%s", library, gpu ? ":" : "", gpu ? gpu : "",
               before[0] ? ":" : "", before);
    bool done = put(v, buf_str(&b)) && !b.failed;
    buf_release(&b);
    return done;
}

char *run_environment_library(const char *given, struct err *e)
{
    char *library = given ? realpath(given, NULL) : own_library();
    if (!library)
        err_set(e, ERR_OUTPUT, "there is no %s beside this program", given ? given : LIBRARY);
    return library;
}

int run_environment_make(struct run_environment *v, const struct run_environment_plan *plan,
                         struct err *e)
{
    size_t n = 0;
    int status = -1;
    char *gpu = NULL;
    char *library = run_environment_library(plan->library, e);
    if (!library || (plan->gpu && !(gpu = gpu_library(library, e))))
        goto out;
    library = without_separators(v, library, plan->folder);
    if (!library) {
        err_no_memory(e, "the environment");
        goto out;
    }
    while (environ[n])
        n++;
    v->list = calloc(n + plan->count + 3, sizeof *v->list);
    bool done = v->list != NULL;
    for (size_t i = 0; i < n && done; i++)
        done = put(v, environ[i]);
    for (size_t i = 0; i < plan->count && done; i++)
        done = put(v, plan->more[i]);
    done =
        done && put_preload(v, library, gpu) && put_pair(v, REC_ENV_SOCKET, plan->socket, "", "");
    status = done ? 0 : err_no_memory(e, "the environment");
out:
    free(gpu);
    free(library);
    return status;
}

void run_environment_release(struct run_environment *v)
{
    for (size_t i = 0; i < v->count; i++)
        free(v->list[i]);
    free(v->list);
    if (v->link)
        unlink(v->link);
    free(v->link);
    *v = (struct run_environment){0};
}
