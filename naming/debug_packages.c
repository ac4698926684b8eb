#include "naming/debug_packages.h"

#include <stdio.h>
#include <string.h>

/* The name before ":ARCH: /PATH" or ": /PATH"; the path begins at `n`. */
static bool is_name(const char *line, size_t n, char out[DEBUG_PACKAGE_SIZE])
{
    const char *colon = memchr(line, ':', n);
    size_t len = colon ? (size_t)(colon - line) : n;
    if (len == 0 || len >= DEBUG_PACKAGE_SIZE || memchr(line, ' ', n))
        return false;
    memcpy(out, line, len);
    out[len] = 0;
    return strspn(out, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == len;
}

bool package_of_answer(struct view answer, char out[DEBUG_PACKAGE_SIZE])
{
    char name[DEBUG_PACKAGE_SIZE];
    out[0] = 0;
    while (answer.len) {
        const char *end = memchr(answer.p, '\n', answer.len);
        size_t n = end ? (size_t)(end - answer.p) : answer.len;
        const char *path = memmem(answer.p, n, ": /", 3);
        if (path && (!is_name(answer.p, (size_t)(path - answer.p), name) ||
                     (out[0] && strcmp(out, name) != 0))) {
            out[0] = 0;
            return false;
        }
        if (path)
            memcpy(out, name, sizeof name);
        n += end ? 1 : 0;
        answer = (struct view){answer.p + n, answer.len - n};
    }
    return out[0] != 0;
}

const char *debug_package_name(const char *package, char out[DEBUG_PACKAGE_SIZE])
{
    /* The C library's has the older name. */
    bool is_libc = strcmp(package, "libc6") == 0;
    snprintf(out, DEBUG_PACKAGE_SIZE, "%.*s%s", DEBUG_PACKAGE_SIZE - 8, package,
             is_libc ? "-dbg" : "-dbgsym");
    return out;
}
