#include "naming/symbol_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/vec.h"
#include "symbols/elf/regular_file.h"
#include "symbols/index/index.h"

static bool folder_of(const struct symbol_cache *c, struct buf *out)
{
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    if (c->folder)
        buf_puts(out, c->folder);
    else if (xdg && *xdg == '/')
        buf_printf(out, "%s/tidemark/symbols", xdg);
    else if (home && *home == '/')
        buf_printf(out, "%s/.cache/tidemark/symbols", home);
    (void)buf_str(out);
    return !c->off && out->len > 0 && !out->failed;
}

static bool path_of(const struct symbol_cache *c, struct view key, struct buf *out)
{
    if (key.len == 0 || !folder_of(c, out))
        return false;
    buf_u8(out, '/');
    for (size_t i = 0; i < key.len; i++)
        buf_printf(out, "%02x", (unsigned)(uint8_t)key.p[i]);
    (void)buf_str(out);
    return !out->failed;
}

int symbol_cache_open(const struct symbol_cache *c, struct view key)
{
    struct buf path = {0};
    int fd = path_of(c, key, &path) ? regular_file_open(buf_str(&path)) : -1;
    /* The modification time records the last use. */
    if (fd >= 0)
        (void)utimensat(AT_FDCWD, buf_str(&path), NULL, 0);
    buf_release(&path);
    return fd;
}

/* ---- writing: failures are silent, the entry is just not cached */

static bool make_folders(const struct buf *path)
{
    char *text = strdup((const char *)path->data);
    bool made = text != NULL;
    for (char *p = text ? strchr(text + 1, '/') : NULL; p && made; p = strchr(p + 1, '/')) {
        *p = 0;
        made = mkdir(text, 0700) == 0 || errno == EEXIST;
        *p = '/';
    }
    free(text);
    return made;
}

int symbol_cache_begin(struct symbol_cache *c, struct view key)
{
    struct buf path = {0};
    int fd = -1;
    symbol_cache_release(c);
    c->writing = path_of(c, key, &path) && make_folders(&path) &&
                 outfile_open(&c->out, buf_str(&path), true, NULL) == 0;
    if (c->writing)
        fd = fcntl(c->out.fd, F_DUPFD_CLOEXEC, 3);
    buf_release(&path);
    return fd;
}

void symbol_cache_release(struct symbol_cache *c)
{
    if (c->writing)
        outfile_abort(&c->out);
    c->writing = false;
}

/* ---- the size limit */

struct kept {
    char name[2 * 64 + 1];
    struct timespec used;
    uint64_t bytes;
};

typedef VEC(struct kept) kept_list;

/* Removes only files named as this code names them. */
static bool is_ours(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n % 2 == 0 && n < sizeof(((struct kept *)0)->name) &&
           strspn(name, "0123456789abcdef") == n;
}

static uint64_t list_kept(int folder, kept_list *list)
{
    uint64_t all = 0;
    struct stat st;
    DIR *d = fdopendir(folder);
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        struct kept k = {0};
        if (!is_ours(entry->d_name) ||
            fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        memcpy(k.name, entry->d_name, strlen(entry->d_name) + 1);
        k.used = st.st_mtim;
        k.bytes = (uint64_t)st.st_size;
        all += k.bytes;
        if (!vec_push(list, k))
            break;
    }
    if (d)
        closedir(d);
    return all;
}

static bool is_cache_file(int folder, const char *name)
{
    char magic[sizeof INDEX_CACHE_MAGIC] = "";
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is = fd >= 0 && pread(fd, magic, sizeof magic - 1, 0) == (ssize_t)sizeof magic - 1 &&
              strcmp(magic, INDEX_CACHE_MAGIC) == 0;
    if (fd >= 0)
        close(fd);
    return is;
}

static int by_use(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static void make_room(const struct symbol_cache *c)
{
    struct buf path = {0};
    kept_list list = {0};
    uint64_t most = c->most ? c->most : SYMBOL_CACHE_BYTES;
    int folder =
        folder_of(c, &path) ? open(buf_str(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int again = folder >= 0 ? fcntl(folder, F_DUPFD_CLOEXEC, 3) : -1;
    uint64_t all = again >= 0 ? list_kept(again, &list) : 0;
    if (all > most && list.len > 1)
        qsort(list.at, list.len, sizeof *list.at, by_use);
    for (size_t i = 0; i < list.len && all > most; i++) {
        /* A file that is not ours stays, and does not count. */
        if (!is_cache_file(folder, list.at[i].name) || unlinkat(folder, list.at[i].name, 0) == 0)
            all -= list.at[i].bytes;
    }
    if (folder >= 0)
        close(folder);
    vec_release(&list);
    buf_release(&path);
}

void symbol_cache_commit(struct symbol_cache *c)
{
    if (!c->writing)
        return;
    c->writing = false;
    if (outfile_commit(&c->out, NULL) == 0)
        make_room(c);
    else
        outfile_abort(&c->out);
}
