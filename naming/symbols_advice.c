#include "naming/symbols_advice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "naming/debug_packages.h"
#include "symbols/elf/debug_paths.h"
#include "symbols/elf/regular_file.h"
#include "symbols/place/module_table.h"
#include "trace/store/frame_book.h"

#define IMAGES 32u
#define SHOWN 3u
#define LEAST_PERCENT 5u /* of all bytes: what an image has to have to be named */

extern char **environ;

/* An image with sites whose source file is unknown. */
struct unlined {
    struct view path; /* absolute */
    uint64_t bytes;
    bool named;            /* a site has a name */
    struct view name_from; /* of all these names; empty: unknown, or they differ */
};

/* What a trace knows of an image's file. */
struct recorded {
    char path[PATH_MAX];
    struct build_id build_id;
    const struct module_file *file; /* NULL: unknown */
};

/* Sums the bytes of such sites by image, most first. Returns the number of images worth naming. */
static size_t find_unlined(const struct summary *s, struct unlined list[IMAGES])
{
    size_t n = 0, shown = 0;
    for (size_t i = 0; i < s->sites.len; i++) {
        const struct summary_row *row = &s->sites.at[i];
        size_t k = 0;
        if (row->no_callstack || row->frame.file.len || row->frame.image.len == 0 ||
            row->frame.image.p[0] != '/')
            continue;
        while (k < n && !view_equal(list[k].path, row->frame.image))
            k++;
        if (k == IMAGES)
            continue;
        if (k == n)
            list[n++] = (struct unlined){.path = row->frame.image};
        struct unlined *u = &list[k];
        u->bytes += row->figures.bytes;
        if (!row->frame.has_name)
            continue;
        if (u->named && !view_equal(u->name_from, row->frame.name_from))
            u->name_from = (struct view){"", 0};
        else if (!u->named)
            u->name_from = row->frame.name_from;
        u->named = true;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) {
            struct unlined before = list[i];
            if (list[k].bytes <= before.bytes)
                continue;
            list[i] = list[k];
            list[k] = before;
        }
    }
    while (shown < n && shown < SHOWN &&
           (unsigned __int128)list[shown].bytes * 100 >=
               (unsigned __int128)s->total_bytes * LEAST_PERCENT)
        shown++;
    return s->total_bytes ? shown : 0;
}

/* ---- the module table */

static int read_modules(struct module_table *modules, const struct trace *t, struct err *e)
{
    struct frame_book book = {0};
    int status = frame_book_take_modules(&book, t, e);
    for (size_t i = 0; i < book.modules.len && status == 0; i++) {
        struct err bad = {0};
        if (module_table_add_line(modules, book.modules.at[i], &bad) != 0 && bad.code == ERR_MEMORY)
            status = err_no_memory(e, "the module table");
    }
    frame_book_release(&book);
    return status;
}

/* False: the table does not have the image, or several builds of it. */
static bool find_recorded(struct recorded *r, const struct module_table *modules, struct view path)
{
    bool found = false;
    if (path.len >= sizeof r->path)
        return false;
    snprintf(r->path, sizeof r->path, "%.*s", (int)path.len, path.p);
    for (size_t i = 0; i < modules->list.len; i++) {
        const struct module *m = &modules->list.at[i];
        if (strcmp(m->path, r->path) != 0)
            continue;
        if (found && !build_id_equal(&m->build_id, &r->build_id))
            return false;
        r->build_id = m->build_id;
        found = true;
    }
    r->file = module_table_file(modules, path);
    return found;
}

/* Whether this machine's file of that path is the recorded one. */
static bool is_here(const struct recorded *r)
{
    struct build_id id = {0};
    int fd = regular_file_open(r->path);
    if (fd < 0)
        return false;
    bool known = build_id_read(fd, &id);
    bool same = r->build_id.len ? known && build_id_equal(&id, &r->build_id)
                                : r->file && module_file_is(r->file, fd);
    close(fd);
    return same;
}

static bool has_debug_file(const struct recorded *r)
{
    struct buf path = {0};
    buf_puts(&path, "/usr/lib/debug/");
    bool there = path_of_build_id(&path, &r->build_id, ".debug") && !path.failed &&
                 access(buf_str(&path), F_OK) == 0;
    buf_release(&path);
    return there;
}

/* ---- packages */

enum packaged { PACKAGED, PACKAGED_NOT, PACKAGED_UNKNOWN };

/* Runs dpkg-query to its end. It fails where one of several names is unknown. False: it is missing.
 */
static bool run_dpkg_query(char *const arguments[], int output)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    int failed = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    failed |= posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (failed == 0)
        failed = posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    while (failed == 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return failed == 0;
}

/* The path of the same file before or after distributions moved /lib to /usr/lib. */
static const char *moved(const char *path, char out[PATH_MAX + 8])
{
    snprintf(out, PATH_MAX + 8, "/usr%.*s", PATH_MAX, path);
    return strncmp(path, "/usr/", 5) == 0 ? path + 4 : out;
}

/* The Debian package of a file. Unknown: there is no dpkg, or it names several. */
static enum packaged find_package(const char *path, char out[DEBUG_PACKAGE_SIZE])
{
    char real[PATH_MAX], before[PATH_MAX + 8], after[PATH_MAX + 8], answer[8192];
    if (!realpath(path, real) || strpbrk(path, "*?[\\") || strpbrk(real, "*?[\\"))
        return PACKAGED_UNKNOWN; /* the characters of a pattern */
    char *const arguments[] = {(char *)"dpkg-query",
                               (char *)"--search",
                               (char *)path,
                               (char *)moved(path, before),
                               real,
                               (char *)moved(real, after),
                               NULL};
    int output = memfd_create("tidemark-package", MFD_CLOEXEC);
    if (output < 0)
        return PACKAGED_UNKNOWN;
    bool ran = run_dpkg_query(arguments, output);
    ssize_t n = pread(output, answer, sizeof answer, 0);
    close(output);
    if (!ran || n < 0 || (size_t)n == sizeof answer)
        return PACKAGED_UNKNOWN;
    if (package_of_answer((struct view){answer, (size_t)n}, out))
        return PACKAGED;
    return n == 0 ? PACKAGED_NOT : PACKAGED_UNKNOWN;
}

/* ---- the text */

/* False: no server has its debug symbols. */
static bool put_image(struct buf *out, const struct recorded *r, const struct unlined *image,
                      uint64_t all)
{
    char share[FORMAT_SIZE], package[DEBUG_PACKAGE_SIZE], debug[DEBUG_PACKAGE_SIZE];
    char id[2 * BUILD_ID_MAX + 1];
    enum packaged packaged = is_here(r) ? find_package(r->path, package) : PACKAGED_UNKNOWN;
    buf_printf(out, "no source lines for %s of bytes, at functions of ",
               format_percent(share, image->bytes, all));
    format_terminal(out, view_base_name(view_of(r->path)));
    if (image->name_from.len)
        buf_printf(out, ", named from %.*s", (int)image->name_from.len, image->name_from.p);
    build_id_text(&r->build_id, id);
    if (packaged == PACKAGED)
        buf_printf(out,
                   ": its package is %s, and the debug symbols' is %s if Debian's naming holds",
                   package, debug_package_name(package, debug));
    else if (packaged == PACKAGED_NOT)
        buf_puts(out, ": no Debian package has it; if you build it, -g without strip gives lines");
    else if (r->build_id.len)
        buf_printf(out, " (build id %s)", id);
    buf_puts(out, "\n");
    return r->build_id.len && packaged != PACKAGED_NOT;
}

void symbols_advice(struct buf *out, const struct summary *s, const char *trace)
{
    struct unlined list[IMAGES];
    struct module_table modules = {0};
    struct err e = {0};
    bool may_fetch = false;
    size_t n = find_unlined(s, list);
    out->failed |= n && read_modules(&modules, s->trace, &e) != 0;
    for (size_t i = 0; i < n && !out->failed; i++) {
        struct recorded r = {0};
        if (!find_recorded(&r, &modules, list[i].path) || has_debug_file(&r))
            continue;
        may_fetch |= put_image(out, &r, &list[i], s->total_bytes);
    }
    if (may_fetch && trace && strcmp(trace, "-") != 0) {
        buf_puts(out, "debug symbols from a debuginfod server: tidemark symbols ");
        format_terminal(out, view_of(trace));
        buf_puts(out, " -o OUT --debuginfod URL\n");
    }
    module_table_release(&modules);
}
