#include "proc/cgroup_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/view.h"

/* Cuts the text before the first `end` off *rest, and skips `end`. False: *rest is empty. */
static bool cut(struct view *rest, char end, struct view *part)
{
    if (rest->len == 0)
        return false;
    const char *at = memchr(rest->p, end, rest->len);
    *part = (struct view){rest->p, at ? (size_t)(at - rest->p) : rest->len};
    size_t skip = part->len + (at != NULL);
    *rest = (struct view){rest->p + skip, rest->len - skip};
    return true;
}

/* Whether a list, separated by commas, has `word`. */
static bool has_word(struct view list, const char *word)
{
    struct view one;
    while (cut(&list, ',', &one)) {
        if (view_equal(one, view_of(word)))
            return true;
    }
    return false;
}

/* Lines are "ID:CONTROLLERS:PATH"; version 2 has the id 0 and no controllers. */
static enum cgroup_version find_group(const char *groups, enum cgroup_version version,
                                      struct view *path)
{
    struct view text = view_of(groups), line, id, controllers;
    while (cut(&text, '\n', &line)) {
        if (!cut(&line, ':', &id) || !cut(&line, ':', &controllers))
            continue;
        bool fits = version == CGROUP_V1 ? has_word(controllers, "memory")
                                         : controllers.len == 0 && view_equal(id, view_of("0"));
        if (!fits)
            continue;
        *path = line;
        return version;
    }
    return CGROUP_NONE;
}

struct mount {
    struct view root, point, type, options;
};

/* "ID PARENT DEVICE ROOT POINT OPTIONS [OPTIONAL ...] - TYPE SOURCE OPTIONS" */
static bool parse_mount(struct view line, struct mount *m)
{
    struct view skipped, word = {0};
    for (int i = 0; i < 3; i++) {
        if (!cut(&line, ' ', &skipped))
            return false;
    }
    if (!cut(&line, ' ', &m->root) || !cut(&line, ' ', &m->point))
        return false;
    while (cut(&line, ' ', &word) && !view_equal(word, view_of("-")))
        continue;
    return cut(&line, ' ', &m->type) && cut(&line, ' ', &skipped) && cut(&line, ' ', &m->options);
}

static bool is_hierarchy(const struct mount *m, enum cgroup_version version)
{
    return version == CGROUP_V1
               ? view_equal(m->type, view_of("cgroup")) && has_word(m->options, "memory")
               : view_equal(m->type, view_of("cgroup2"));
}

/* A group outside of what is mounted has "..", and names with escapes are not decoded. */
static bool is_below(const struct mount *m, struct view path, struct view *below)
{
    struct view root = m->root;
    if (view_equal(root, view_of("/")))
        root.len = 0;
    if (path.len < root.len || memcmp(path.p, root.p, root.len) != 0 ||
        (path.len > root.len && path.p[root.len] != '/'))
        return false;
    *below = (struct view){path.p + root.len, path.len - root.len};
    return !memmem(below->p, below->len, "/..", 3) && !memchr(m->point.p, '\\', m->point.len);
}

static bool find_folder(const char *mounts, enum cgroup_version version, struct view path,
                        struct cgroup_memory *out)
{
    struct view text = view_of(mounts), line, below;
    struct mount m;
    while (cut(&text, '\n', &line)) {
        if (!parse_mount(line, &m) || !is_hierarchy(&m, version) || !is_below(&m, path, &below))
            continue;
        int n = snprintf(out->folder, sizeof out->folder, "%.*s%.*s", (int)m.point.len, m.point.p,
                         (int)below.len, below.p);
        out->mount = m.point.len;
        if (n > 0 && (size_t)n < sizeof out->folder)
            return true;
    }
    return false;
}

void cgroup_memory_find(const char *groups, const char *mounts, struct cgroup_memory *out)
{
    static const enum cgroup_version versions[] = {CGROUP_V1, CGROUP_V2};
    struct view path;
    out->version = CGROUP_NONE;
    for (size_t i = 0; i < 2; i++) {
        if (!find_group(groups, versions[i], &path))
            continue;
        if (find_folder(mounts, versions[i], path, out))
            out->version = versions[i];
        return;
    }
}
