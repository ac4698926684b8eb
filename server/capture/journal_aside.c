#include "server/capture/journal_aside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"

#define ASIDE ".damaged"
#define NAMES_MAX 10000u

static bool ends_with(const char *path, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len > n && memcmp(path + len - n, end, n) == 0;
}

size_t journal_without_aside(const char *path, size_t len)
{
    static const char all[] = JOURNAL_SUFFIX ASIDE;
    size_t end = len;
    while (end > 0 && path[end - 1] >= '0' && path[end - 1] <= '9')
        end--;
    end = end < len && end > 0 && path[end - 1] == '.' ? end - 1 : len;
    return ends_with(path, end, all) ? end - (sizeof ASIDE - 1) : len;
}

/* The n-th name, from 1. NULL when memory is short. */
static char *aside_name(const char *path, unsigned n)
{
    struct buf name = {0};
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    buf_put(&name, path, len);
    buf_puts(&name, ASIDE);
    if (n > 1)
        buf_printf(&name, ".%u", n);
    char *text = name.failed ? NULL : strdup(buf_str(&name));
    buf_release(&name);
    return text;
}

char *journal_move_aside(const char *path, struct err *e)
{
    struct stat st;
    for (unsigned n = 1; n <= NAMES_MAX; n++) {
        char *name = aside_name(path, n);
        if (!name) {
            err_no_memory(e, "the journal's name");
            return NULL;
        }
        /* The holder of the journal's lock is the only one that makes this name. */
        bool is_free = lstat(name, &st) != 0 && errno == ENOENT;
        if (is_free && rename(path, name) == 0)
            return name;
        free(name);
        if (is_free || errno == ENAMETOOLONG)
            break;
        errno = EEXIST;
    }
    err_errno(e, ERR_OUTPUT, "the damaged journal %s cannot be moved aside", path);
    return NULL;
}
