#include "mcp/trace_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/vec.h"
#include "mcp/params.h"
#include "mcp/rpc.h"

#define DEPTH_MAX 16u
#define ENTRIES_MAX 200000u
#define FILES_MAX 20000u

struct trace_file {
    char *path;
    uint64_t bytes;
    int64_t modified; /* seconds since 1970 */
};

struct search {
    VEC(struct trace_file) files;
    struct buf path; /* of the folder that is read, with a slash at its end; may be empty */
    unsigned depth;
    uint64_t entries;
    bool complete;
};

static bool is_trace(const char *name)
{
    static const char suffix[] = ".tracy";
    size_t n = strlen(name);
    return n >= sizeof suffix && strcmp(name + n - (sizeof suffix - 1), suffix) == 0;
}

/* False if memory is short. */
static bool add_file(struct search *s, const char *name, const struct stat *st)
{
    if (s->files.len == FILES_MAX) {
        s->complete = false;
        return true;
    }
    struct buf path = {0};
    buf_put(&path, s->path.data, s->path.len);
    buf_puts(&path, name);
    struct trace_file file = {
        .path = path.failed ? NULL : strdup(buf_str(&path)),
        .bytes = (uint64_t)st->st_size,
        .modified = st->st_mtim.tv_sec,
    };
    buf_release(&path);
    if (file.path && vec_push(&s->files, file))
        return true;
    free(file.path);
    return false;
}

static bool look_into(struct search *s, int fd);

static bool look_below(struct search *s, int folder, const char *name)
{
    size_t before = s->path.len;
    int fd = s->depth == DEPTH_MAX
                 ? -1
                 : openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    buf_puts(&s->path, name);
    buf_puts(&s->path, "/");
    s->depth++;
    bool ok = !s->path.failed && look_into(s, fd);
    s->depth--;
    s->path.len = before;
    return ok;
}

static bool take_entry(struct search *s, int folder, const char *name)
{
    struct stat st;
    if (name[0] == '.' || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return true;
    if (S_ISDIR(st.st_mode))
        return look_below(s, folder, name);
    return !S_ISREG(st.st_mode) || !is_trace(name) || add_file(s, name, &st);
}

/* Takes over `fd`; -1: the folder could not be opened. False if memory is short. */
static bool look_into(struct search *s, int fd)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        s->complete = false;
        return true;
    }
    bool ok = true;
    for (const struct dirent *d; ok && (d = readdir(dir));) {
        if (++s->entries > ENTRIES_MAX) {
            s->complete = false;
            break;
        }
        ok = take_entry(s, dirfd(dir), d->d_name);
    }
    closedir(dir);
    return ok;
}

static int newest_first(const void *a, const void *b)
{
    const struct trace_file *x = a, *y = b;
    if (x->modified != y->modified)
        return x->modified < y->modified ? 1 : -1;
    return strcmp(x->path, y->path);
}

static json_t *row_of(const struct trace_file *f)
{
    struct tm tm;
    char modified[32] = "";
    time_t at = (time_t)f->modified;
    if (gmtime_r(&at, &tm))
        strftime(modified, sizeof modified, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_pack("{s:o, s:I, s:s}", "path", rpc_text(view_of(f->path)), "bytes",
                     (json_int_t)f->bytes, "modified", modified);
}

static json_t *make_document(const struct search *s, const struct page *p, struct err *e)
{
    json_t *document = json_pack("{s:b}", "complete", s->complete);
    json_t *rows = json_array();
    bool ok = document && rows;
    for (size_t i = 0; ok && i < s->files.len; i++)
        ok = json_array_append_new(rows, row_of(&s->files.at[i])) == 0;
    int status =
        ok ? page_take_rows(p, document, "traces", rows, e) : err_no_memory(e, "an answer");
    json_decref(rows);
    if (status == 0)
        return document;
    json_decref(document);
    return NULL;
}

json_t *trace_files_list(struct tool_call *c, const struct page *p, struct err *e)
{
    const char *folder = params_text(c->arguments, "folder");
    struct search s = {.complete = true};
    int fd = traces_open_folder(&c->tools->traces, folder ? folder : ".", e);
    if (fd < 0)
        return NULL;
    if (folder && *folder)
        buf_printf(&s.path, "%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/");
    bool ok = !s.path.failed && look_into(&s, fd);
    if (s.path.failed)
        close(fd);
    if (s.files.len)
        qsort(s.files.at, s.files.len, sizeof *s.files.at, newest_first);
    json_t *document = ok ? make_document(&s, p, e) : NULL;
    if (!ok)
        err_no_memory(e, "the list of traces");
    for (size_t i = 0; i < s.files.len; i++)
        free(s.files.at[i].path);
    vec_release(&s.files);
    buf_release(&s.path);
    return document;
}
