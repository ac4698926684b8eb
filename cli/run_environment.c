#include "cli/run_environment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "client/record.h"

#define LIBRARY "libtidemark.so"

extern char **environ;

/* Beside this program, as it is built, or where `make install` puts it. NULL: nowhere. */
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

/* The dynamic linker takes spaces and colons for the end of a name. */
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

/* Puts NAME=VALUE in, in the place of an entry of that name. */
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

int run_environment_make(struct run_environment *v, const struct run_environment_plan *plan,
                         struct err *e)
{
    size_t n = 0;
    char *library = plan->library ? realpath(plan->library, NULL) : own_library();
    library = without_separators(v, library, plan->folder);
    if (!library)
        return err_set(e, ERR_OUTPUT, "there is no %s beside this program",
                       plan->library ? plan->library : LIBRARY);
    while (environ[n])
        n++;
    v->list = calloc(n + plan->count + 3, sizeof *v->list);
    bool done = v->list != NULL;
    for (size_t i = 0; i < n && done; i++)
        done = put(v, environ[i]);
    for (size_t i = 0; i < plan->count && done; i++)
        done = put(v, plan->more[i]);
    if (done) {
        char *before = strdup(value_of(v, "LD_PRELOAD"));
        done = before && put_pair(v, "LD_PRELOAD", library, before[0] ? ":" : "", before) &&
               put_pair(v, REC_ENV_SOCKET, plan->socket, "", "");
        free(before);
    }
    free(library);
    return done ? 0 : err_no_memory(e, "the environment");
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
