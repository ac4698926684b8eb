#include "naming/debug_packages.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a dpkg database of a real system stays far below; the rest is not read. */
#define LISTS_MAX 50000u
#define LIST_BYTES_MAX (16u << 20)
#define ALL_BYTES_MAX (512u << 20)

#define SUFFIX ".list"

bool package_of_list(const char *file, char out[DEBUG_PACKAGE_SIZE])
{
    size_t n = strlen(file);
    if (n <= strlen(SUFFIX) || strcmp(file + n - strlen(SUFFIX), SUFFIX) != 0)
        return false;
    n -= strlen(SUFFIX);
    const char *colon = memchr(file, ':', n);
    n = colon ? (size_t)(colon - file) : n;
    if (n == 0 || n >= DEBUG_PACKAGE_SIZE ||
        strspn(file, "abcdefghijklmnopqrstuvwxyz0123456789+-.") < n)
        return false;
    memcpy(out, file, n);
    out[n] = 0;
    return true;
}

/* Whether a whole line of the list is the path. */
static bool has_line(struct view list, struct view path)
{
    const char *end = list.p + list.len;
    for (const char *at = list.p; at && path.len && (size_t)(end - at) >= path.len;) {
        at = memmem(at, (size_t)(end - at), path.p, path.len);
        if (!at)
            return false;
        const char *after = at + path.len;
        if ((at == list.p || at[-1] == '\n') && (after == end || *after == '\n'))
            return true;
        at++;
    }
    return false;
}

bool package_lists(struct view list, struct view path)
{
    static const char usr[] = "/usr";
    size_t n = strlen(usr);
    char moved[4096];
    if (path.len == 0 || path.p[0] != '/' || memchr(path.p, '\n', path.len))
        return false;
    if (has_line(list, path))
        return true;
    if (path.len > n && memcmp(path.p, usr, n) == 0 && path.p[n] == '/')
        return has_line(list, (struct view){path.p + n, path.len - n});
    if (path.len + n >= sizeof moved)
        return false;
    snprintf(moved, sizeof moved, "%s%.*s", usr, (int)path.len, path.p);
    return has_line(list, view_of(moved));
}

const char *debug_package_name(const char *package, char out[DEBUG_PACKAGE_SIZE])
{
    /* The C library's has the older name. */
    bool is_libc = strcmp(package, "libc6") == 0;
    snprintf(out, DEBUG_PACKAGE_SIZE, "%.*s%s", DEBUG_PACKAGE_SIZE - 8, package,
             is_libc ? "-dbg" : "-dbgsym");
    return out;
}

/* Reads a list. NULL: it is none, too large, or memory is short. The caller frees it. */
static char *read_list(int folder, const char *file, struct view *out)
{
    struct stat st;
    int fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char *text = NULL;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= (off_t)LIST_BYTES_MAX)
        text = malloc((size_t)st.st_size);
    ssize_t n = text ? read(fd, text, (size_t)st.st_size) : -1;
    close(fd);
    if (n > 0) {
        *out = (struct view){text, (size_t)n};
        return text;
    }
    free(text);
    return NULL;
}

static void take_package(struct packaged_file *f, const char *package)
{
    if (f->ambiguous || strcmp(f->package, package) == 0)
        return;
    /* The same file of two packages, as diverted ones are: neither is known to be the owner. */
    f->ambiguous = f->package[0] != 0;
    if (f->ambiguous)
        f->package[0] = 0;
    else
        memcpy(f->package, package, strlen(package) + 1);
}

void packages_of_files(const char *folder, struct packaged_file *files, size_t n)
{
    size_t lists = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        files[i].package[0] = 0;
        files[i].ambiguous = false;
    }
    DIR *dir = n ? opendir(folder) : NULL;
    for (struct dirent *one; dir && (one = readdir(dir)) && lists < LISTS_MAX;) {
        char package[DEBUG_PACKAGE_SIZE];
        struct view list;
        if (!package_of_list(one->d_name, package) || bytes > ALL_BYTES_MAX)
            continue;
        char *text = read_list(dirfd(dir), one->d_name, &list);
        for (size_t i = 0; i < n && text; i++) {
            if (package_lists(list, files[i].path))
                take_package(&files[i], package);
        }
        bytes += text ? list.len : 0;
        lists++;
        free(text);
    }
    if (dir)
        closedir(dir);
}
