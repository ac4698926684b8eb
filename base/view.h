#pragma once

/* A reference to bytes owned elsewhere: text with a length, any byte allowed, no terminator. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct view {
    const char *p;
    size_t len;
};

static inline struct view view_of(const char *s)
{
    return (struct view){s, strlen(s)};
}

static inline bool view_equal(struct view a, struct view b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

/* Compares bytes; a prefix sorts before the longer text. */
static inline int view_compare(struct view a, struct view b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* What follows the last '/' or '\\' of a path. */
static inline struct view view_base_name(struct view path)
{
    size_t at = path.len;
    while (at && path.p[at - 1] != '/' && path.p[at - 1] != '\\')
        at--;
    return at ? (struct view){path.p + at, path.len - at} : path;
}
