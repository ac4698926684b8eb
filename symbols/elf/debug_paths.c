#include "symbols/elf/debug_paths.h"

#include <ctype.h>
#include <string.h>

static size_t last_slash(struct view path)
{
    size_t i = path.len;
    while (i > 0 && path.p[i - 1] != '/')
        i--;
    return i; /* index after it; 0: none */
}

struct view path_folder(struct view path)
{
    size_t i = last_slash(path);
    if (i == 0)
        return view_of(".");
    while (i > 1 && path.p[i - 1] == '/')
        i--;
    return (struct view){path.p, i};
}

struct view path_base(struct view path)
{
    size_t i = last_slash(path);
    return (struct view){path.p + i, path.len - i};
}

bool path_is_windows(struct view path)
{
    if (path.len >= 2 && path.p[0] == '\\' && path.p[1] == '\\')
        return true;
    return path.len >= 3 && isalpha((unsigned char)path.p[0]) && path.p[1] == ':' &&
           (path.p[2] == '\\' || path.p[2] == '/');
}

struct view path_stem(struct view name)
{
    const char *dot = name.len ? memrchr(name.p, '.', name.len) : NULL;
    return (struct view){name.p, dot ? (size_t)(dot - name.p) : name.len};
}

bool path_is_name(struct view name)
{
    return name.len > 0 && !memchr(name.p, '/', name.len) && !memchr(name.p, 0, name.len) &&
           !view_equal(name, view_of(".")) && !view_equal(name, view_of(".."));
}

/* Removes the last part again. False if there is none. */
static bool drop_part(struct buf *out, size_t root)
{
    if (out->len <= root)
        return false;
    while (out->len > root && out->data[out->len - 1] != '/')
        out->len--;
    if (out->len > root)
        out->len--;
    return true;
}

static bool append(struct buf *out, struct view path)
{
    size_t root = out->len > 0 && out->data[0] == '/' ? 1 : 0;
    for (size_t at = 0; at < path.len;) {
        const char *slash = memchr(path.p + at, '/', path.len - at);
        size_t end = slash ? (size_t)(slash - path.p) : path.len;
        struct view part = {path.p + at, end - at};
        at = end + 1;
        if (part.len == 0 || view_equal(part, view_of(".")))
            continue;
        if (view_equal(part, view_of(".."))) {
            if (!drop_part(out, root))
                return false;
            continue;
        }
        if (out->len > root)
            buf_u8(out, '/');
        buf_put(out, part.p, part.len);
    }
    return true;
}

bool path_join(struct buf *out, struct view folder, struct view path)
{
    bool absolute = path.len > 0 && path.p[0] == '/';
    if (memchr(path.p, 0, path.len) || (!absolute && memchr(folder.p, 0, folder.len)))
        return false;
    struct view first = absolute ? path : folder;
    if (first.len > 0 && first.p[0] == '/')
        buf_u8(out, '/');
    if (!append(out, first) || (!absolute && !append(out, path)))
        return false;
    if (out->len == 0)
        buf_u8(out, '.');
    return true;
}

bool path_is_below(struct view path, struct view folder)
{
    while (folder.len > 0 && folder.p[folder.len - 1] == '/')
        folder.len--;
    return path.len > folder.len && path.p[folder.len] == '/' &&
           memcmp(path.p, folder.p, folder.len) == 0;
}

bool path_of_build_id(struct buf *out, const struct build_id *id, const char *suffix)
{
    char text[2 * BUILD_ID_MAX + 1];
    if (id->len < 2)
        return false;
    build_id_text(id, text);
    buf_printf(out, ".build-id/%.2s/%s%s", text, text + 2, suffix);
    return true;
}
