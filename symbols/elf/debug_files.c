#include "symbols/elf/debug_files.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "symbols/elf/debug_link.h"
#include "symbols/elf/debug_paths.h"
#include "symbols/elf/regular_file.h"
#include "symbols/pdb/pe_image.h"

#define PDB_GUID_DIGITS 32

static const char *const default_dirs[] = {"/usr/lib/debug"};

/* One search: what the file must have, and where the result goes. */
struct finder {
    const struct debug_search *s;
    struct debug_file *out;
    const struct build_id *id;         /* required build id; NULL: see the search */
    const uint32_t *crc;               /* required CRC, unless build ids decide; NULL: any */
    const struct debug_file *other[2]; /* files that do not count as found, or NULL */
    bool wants_debug;                  /* the file must have debug information or symbols */
    debug_dwo_fits *fits;              /* extra check; NULL: none */
    void *ctx;
    struct err *e;
};

/* ---- existing files that do not match */

static void refuse(struct finder *f, const char *path, const char *cause)
{
    if (f->out->refused.code == ERR_NONE)
        (void)err_set(&f->out->refused, ERR_INPUT, "%s: %s", path ? path : "a fetched file", cause);
}

static void refuse_build_id(struct finder *f, const char *path, const struct build_id *has)
{
    char have[2 * BUILD_ID_MAX + 1], want[2 * BUILD_ID_MAX + 1], cause[5 * BUILD_ID_MAX];
    build_id_text(has, have);
    build_id_text(f->id, want);
    snprintf(cause, sizeof cause, "its build id is %s, not %s", have, want);
    refuse(f, path, cause);
}

static bool fits(struct finder *f, const char *path, struct elf_file *elf)
{
    const struct build_id *has = elf_file_build_id(elf);
    if (f->id && f->id->len > 0 && (has->len > 0 || !f->crc)) {
        if (!build_id_equal(has, f->id)) {
            refuse_build_id(f, path, has);
            return false;
        }
    } else if (f->crc && debug_link_crc(elf_file_bytes(elf)) != *f->crc) {
        refuse(f, path, "its CRC is not the one in .gnu_debuglink");
        return false;
    }
    if (f->wants_debug && !elf_file_has_debug_info(elf) && !elf_file_has_section(elf, ".symtab")) {
        refuse(f, path, "neither debug information nor symbols are in it");
        return false;
    }
    if (f->fits && !f->fits(f->ctx, elf)) {
        refuse(f, path, "it belongs to another build");
        return false;
    }
    return true;
}

static bool is_other(const struct finder *f, const struct stat *st)
{
    for (size_t i = 0; i < sizeof f->other / sizeof f->other[0]; i++) {
        const struct debug_file *x = f->other[i];
        if (x && x->elf && x->device == st->st_dev && x->inode == st->st_ino)
            return true;
    }
    return false;
}

/* ---- one candidate: 1 if it matches, 0 if not, -1 if memory is short */

static int try_file(struct finder *f, int fd, const char *path)
{
    struct stat st;
    struct err cause = {0};
    struct elf_file *elf;
    if (fstat(fd, &st) != 0 || is_other(f, &st))
        return 0;
    if (elf_file_open(&elf, fd, f->s->limits, &cause) != 0) {
        if (cause.code == ERR_MEMORY)
            return err_no_memory(f->e, "a debug file");
        refuse(f, path, cause.text);
        return 0;
    }
    char *copy = NULL;
    int found = fits(f, path, elf) ? 1 : 0;
    if (found && path && !(copy = strdup(path)))
        found = err_no_memory(f->e, "a path");
    if (found == 1) {
        f->out->elf = elf;
        f->out->path = copy;
        f->out->device = st.st_dev;
        f->out->inode = st.st_ino;
    } else {
        elf_file_close(elf);
    }
    return found;
}

static int try_path(struct finder *f, struct buf *path)
{
    const char *text = buf_str(path);
    if (path->failed)
        return err_no_memory(f->e, "a path");
    int fd = f->s->open ? f->s->open(f->s->open_ctx, text) : regular_file_open(text);
    if (fd < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            refuse(f, text, errno == EINVAL ? "not a regular file" : strerror(errno));
        return 0;
    }
    int found = try_file(f, fd, text);
    close(fd);
    return found;
}

/* `folder`/`name` */
static int try_in(struct finder *f, const char *before, struct view folder, struct view name)
{
    struct buf path = {0};
    buf_puts(&path, before);
    buf_put(&path, folder.p, folder.len);
    buf_u8(&path, '/');
    buf_put(&path, name.p, name.len);
    int found = try_path(f, &path);
    buf_release(&path);
    return found;
}

static const char *sysroot_of(const struct debug_search *s)
{
    return s->sysroot ? s->sysroot : "";
}

/* Tries `relative` in each debug directory, first within the sysroot. */
static int try_dirs(struct finder *f, struct view relative)
{
    const char *const *dirs = f->s->dirs ? f->s->dirs : default_dirs;
    size_t n = f->s->dirs ? f->s->dir_count : 1;
    const char *sysroot = sysroot_of(f->s);
    int found = 0;
    for (size_t i = 0; i < n && found == 0; i++) {
        if (*sysroot && dirs[i][0] == '/')
            found = try_in(f, sysroot, view_of(dirs[i]), relative);
        if (found == 0)
            found = try_in(f, "", view_of(dirs[i]), relative);
    }
    return found;
}

/* Tries a name right in each debug directory, where users put files. */
static int try_name_in_dirs(struct finder *f, struct view name, const char *suffix)
{
    struct buf file = {0};
    if (!path_is_name(name))
        return 0;
    buf_put(&file, name.p, name.len);
    buf_puts(&file, suffix);
    int found = file.failed ? err_no_memory(f->e, "a path")
                            : try_dirs(f, (struct view){(const char *)file.data, file.len});
    buf_release(&file);
    return found;
}

static int try_build_id(struct finder *f, const char *suffix)
{
    struct buf path = {0};
    int found = 0;
    if (f->id && path_of_build_id(&path, f->id, suffix))
        found = path.failed ? err_no_memory(f->e, "a path")
                            : try_dirs(f, (struct view){(const char *)path.data, path.len});
    buf_release(&path);
    return found;
}

/* Tries the image's name in the debug directories. The build id decides. */
static int try_plain(struct finder *f, const char *path, const char *suffix)
{
    return f->id ? try_name_in_dirs(f, path_base(view_of(path)), suffix) : 0;
}

static int try_fetch(struct finder *f, bool executable)
{
    struct err cause = {0};
    int fd = -1;
    if (!f->s->fetch || !f->id || f->id->len == 0)
        return 0;
    if (f->s->fetch(f->s->fetch_ctx, f->id, executable, &fd, &cause) != 0) {
        if (cause.code == ERR_MEMORY)
            return err_no_memory(f->e, "a debug file");
        if (f->out->refused.code == ERR_NONE)
            f->out->refused = cause;
        return 0;
    }
    if (fd < 0)
        return 0;
    int found = try_file(f, fd, NULL);
    close(fd);
    return found;
}

void debug_file_release(struct debug_file *f)
{
    elf_file_close(f->elf);
    free(f->path);
    *f = (struct debug_file){0};
}

static int ended(int found)
{
    return found < 0 ? -1 : 0;
}

/* ---- folders of a file that was found: the path it was opened by, and its real path */

struct folders {
    char *real;
    struct view list[2];
    size_t n;
};

static void folders_of(struct folders *out, const struct debug_file *file)
{
    *out = (struct folders){0};
    if (!file || !file->path)
        return;
    out->list[out->n++] = path_folder(view_of(file->path));
    out->real = realpath(file->path, NULL);
    if (!out->real)
        return;
    struct view folder = path_folder(view_of(out->real));
    if (!view_equal(folder, out->list[0]))
        out->list[out->n++] = folder;
}

/* ---- images */

/* The path on this machine of an image that was at `path`. */
static int place_of_image(const struct debug_search *s, const char *path, struct buf *out,
                          struct err *e)
{
    struct buf substituted = {0};
    const char *sysroot = sysroot_of(s);
    bool rule = s->substitutions && substitutions_apply(s->substitutions, path, &substituted);
    /* The result of a rule is a path of this machine already. */
    if (!rule && *sysroot && path[0] == '/')
        buf_puts(out, sysroot);
    buf_puts(out, rule ? buf_str(&substituted) : path);
    bool failed = substituted.failed || out->failed;
    buf_release(&substituted);
    return failed ? err_no_memory(e, "a path") : 0;
}

/*
 * Tries a Windows image's name in the debug directories, and its PDB file in its place, which has
 * its sections. Traces have no build id of it, so the user must permit it.
 */
static int try_windows(struct finder *f, const char *path)
{
    struct view name = view_base_name(view_of(path));
    if (!path_is_windows(view_of(path)) || (!f->s->trust_paths && !f->id))
        return 0;
    int found = try_name_in_dirs(f, name, "");
    return found == 0 ? try_name_in_dirs(f, path_stem(name), ".pdb") : found;
}

int debug_image_open(const struct debug_search *s, const char *path, const struct build_id *wanted,
                     struct debug_file *out, struct err *e)
{
    struct finder f = {.s = s, .out = out, .id = wanted && wanted->len ? wanted : NULL, .e = e};
    struct buf place = {0};
    *out = (struct debug_file){0};
    int found = place_of_image(s, path, &place, e);
    bool foreign = path_is_windows(view_of(buf_str(&place)));
    if (found == 0 && !foreign && (f.id || s->trust_paths))
        found = try_path(&f, &place);
    else if (found == 0 && !s->trust_paths && !f.id)
        refuse(&f, path, "no build id is known to check it by, and it may not be opened unchecked");
    if (found == 0)
        found = try_build_id(&f, "");
    if (found == 0)
        found = try_plain(&f, path, "");
    if (found == 0)
        found = try_windows(&f, path);
    if (found == 0)
        found = try_fetch(&f, true);
    if (found == 0 && out->refused.code != ERR_NONE)
        found = err_set(e, ERR_INPUT, "%s", out->refused.text);
    else if (found == 0)
        found = err_set(e, ERR_INPUT, "%s: no such file", buf_str(&place));
    buf_release(&place);
    return ended(found);
}

/* ---- separate debug files */

/* A folder of the image as debug directories mirror it: absolute, without the sysroot. */
static struct view folder_in_dirs(const struct debug_search *s, struct view folder)
{
    struct view sysroot = view_of(sysroot_of(s));
    if (sysroot.len > 0 && path_is_below(folder, sysroot)) {
        while (sysroot.len > 0 && sysroot.p[sysroot.len - 1] == '/')
            sysroot.len--;
        folder.p += sysroot.len;
        folder.len -= sysroot.len;
    }
    return folder;
}

static bool is_absolute(struct view path)
{
    return path.p && path.len > 0 && path.p[0] == '/';
}

static int try_folder(struct finder *f, struct view folder, struct view name)
{
    struct buf below = {0};
    int found = try_in(f, "", folder, name);
    buf_put(&below, folder.p, folder.len);
    buf_puts(&below, "/.debug");
    if (found == 0 && !below.failed)
        found = try_in(f, "", (struct view){(const char *)below.data, below.len}, name);
    buf_clear(&below);
    struct view repeated = folder_in_dirs(f->s, folder);
    if (found == 0 && is_absolute(repeated)) {
        buf_put(&below, repeated.p + 1, repeated.len - 1);
        buf_u8(&below, '/');
        buf_put(&below, name.p, name.len);
        if (!below.failed)
            found = try_dirs(f, (struct view){(const char *)below.data, below.len});
    }
    if (found == 0 && below.failed)
        found = err_no_memory(f->e, "a path");
    buf_release(&below);
    return found;
}

/* Tries the name in .gnu_debuglink; without one, the usual name if a build id can confirm it. */
static int try_debuglink(struct finder *f, const struct debug_file *image)
{
    struct debug_link link;
    struct folders folders;
    struct buf usual = {0};
    struct view name = {0};
    int found = 0;
    if (debug_link_read(image->elf, &link)) {
        name = link.name;
        f->crc = &link.crc;
    } else if (f->id && image->path) {
        struct view base = path_base(view_of(image->path));
        buf_put(&usual, base.p, base.len);
        buf_puts(&usual, ".debug");
        name = (struct view){(const char *)usual.data, usual.len};
    }
    folders_of(&folders, image);
    if (path_is_name(name)) {
        for (size_t i = 0; i < folders.n && found == 0; i++)
            found = try_folder(f, folders.list[i], name);
        if (found == 0)
            found = try_dirs(f, name);
    } else if (name.len > 0) {
        refuse(f, image->path, ".gnu_debuglink is not the name of a file");
    }
    free(folders.real);
    buf_release(&usual);
    f->crc = NULL;
    return found;
}

/* ---- PDB files: GUID and age decide */

/* NAME/GUIDAGE/NAME, as a symbol store has it. The age is a number without leading zeros. */
static int try_store(struct finder *f, struct view name)
{
    char id[2 * BUILD_ID_MAX + 1];
    struct buf path = {0};
    build_id_text(f->id, id);
    for (char *p = id; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    const char *age = id + PDB_GUID_DIGITS;
    while (*age == '0' && age[1])
        age++;
    buf_printf(&path, "%.*s/%.*s%s/%.*s", (int)name.len, name.p, PDB_GUID_DIGITS, id, age,
               (int)name.len, name.p);
    int found = path.failed ? err_no_memory(f->e, "a path")
                            : try_dirs(f, (struct view){(const char *)path.data, path.len});
    buf_release(&path);
    return found;
}

static int try_pdb_name(struct finder *f, const struct folders *folders, struct view name)
{
    int found = 0;
    if (!path_is_name(name))
        return 0;
    for (size_t i = 0; i < folders->n && found == 0; i++)
        found = try_in(f, "", folders->list[i], name);
    if (found == 0)
        found = try_name_in_dirs(f, name, "");
    return found == 0 ? try_store(f, name) : found;
}

/* Finds the PDB file of an image: by the name that the image states, then by the image's own. */
static int try_pdb(struct finder *f, const struct debug_file *image)
{
    struct folders folders;
    struct buf own = {0};
    if (elf_file_build_id(image->elf)->len != PDB_ID_SIZE)
        return 0;
    struct view stated = view_base_name(elf_file_pdb_name(image->elf));
    struct view stem = path_stem(view_base_name(view_of(image->path ? image->path : "")));
    buf_put(&own, stem.p, stem.len);
    buf_puts(&own, ".pdb");
    folders_of(&folders, image);
    int found = try_pdb_name(f, &folders, stated);
    if (found == 0 && own.failed)
        found = err_no_memory(f->e, "a path");
    if (found == 0 && !view_equal(stated, (struct view){(const char *)own.data, own.len}))
        found = try_pdb_name(f, &folders, (struct view){(const char *)own.data, own.len});
    free(folders.real);
    buf_release(&own);
    return found;
}

int debug_file_find(const struct debug_search *s, const struct debug_file *image,
                    const struct build_id *id, struct debug_file *out, struct err *e)
{
    struct finder f = {.s = s, .out = out, .id = id, .other = {image}, .wants_debug = true, .e = e};
    *out = (struct debug_file){0};
    if (image->elf && elf_file_has_debug_info(image->elf))
        return 0;
    if (image->elf && elf_file_build_id(image->elf)->len > 0)
        f.id = elf_file_build_id(image->elf);
    if (f.id && f.id->len == 0)
        f.id = NULL;
    if (image->elf && !elf_file_is_elf(image->elf))
        return ended(try_pdb(&f, image));
    int found = try_build_id(&f, ".debug");
    if (found == 0 && image->elf)
        found = try_debuglink(&f, image);
    if (found == 0 && image->path)
        found = try_plain(&f, image->path, ".debug");
    if (found == 0 && image->path)
        found = try_plain(&f, image->path, "");
    if (found == 0)
        found = try_fetch(&f, false);
    return ended(found);
}

/* ---- alternate files */

static bool in_debug_dirs(const struct debug_search *s, struct view path)
{
    const char *const *dirs = s->dirs ? s->dirs : default_dirs;
    size_t n = s->dirs ? s->dir_count : 1;
    for (size_t i = 0; i < n; i++) {
        if (path_is_below(path, view_of(dirs[i])))
            return true;
    }
    return false;
}

/* Tries a path that the debug file states, absolute or relative to the debug file's folder. */
static int try_stated(struct finder *f, struct view folder, struct view name)
{
    struct buf path = {0};
    const char *sysroot = sysroot_of(f->s);
    int found = 0;
    if (path_join(&path, folder, name)) {
        struct view joined = {(const char *)path.data, path.len};
        if (path.failed)
            found = err_no_memory(f->e, "a path");
        else if (f->s->trust_paths || in_debug_dirs(f->s, joined)) {
            if (*sysroot && is_absolute(joined))
                found = try_in(f, sysroot, (struct view){"", 0},
                               (struct view){joined.p + 1, joined.len - 1});
            if (found == 0)
                found = try_path(f, &path);
        } else {
            refuse(f, buf_str(&path), "it may not be opened on the word of a debug file");
        }
    }
    buf_release(&path);
    return found;
}

/* The part after the last "/.dwz/" of a stated path, else its base name. */
static struct view name_in_dwz(struct view name)
{
    static const char dwz[] = "/.dwz/";
    const size_t n = sizeof dwz - 1;
    for (size_t i = name.len; i >= n; i--) {
        if (memcmp(name.p + i - n, dwz, n) == 0)
            return (struct view){name.p + i, name.len - i};
    }
    return path_base(name);
}

/* Tries the place where distributions install alternate files, in each debug directory. */
static int try_dwz(struct finder *f, struct view name)
{
    struct buf path = {0};
    int found = 0;
    if (path_join(&path, view_of(".dwz"), name_in_dwz(name)) &&
        path_is_below((struct view){(const char *)path.data, path.len}, view_of(".dwz")))
        found = path.failed ? err_no_memory(f->e, "a path")
                            : try_dirs(f, (struct view){(const char *)path.data, path.len});
    buf_release(&path);
    return found;
}

int debug_alt_find(const struct debug_search *s, const struct debug_file *debug,
                   struct debug_file *out, struct err *e)
{
    struct finder f = {.s = s, .out = out, .other = {debug}, .e = e};
    struct debug_link link;
    struct folders folders;
    *out = (struct debug_file){0};
    if (!debug->elf || !debug_altlink_read(debug->elf, &link))
        return 0;
    f.id = &link.build_id;
    folders_of(&folders, debug);
    int found = try_build_id(&f, ".debug");
    if (found == 0)
        found = try_dwz(&f, link.name);
    /* The real folder comes first: ".." is relative to it. */
    for (size_t i = folders.n; i > 0 && found == 0; i--)
        found = try_stated(&f, folders.list[i - 1], link.name);
    if (found == 0 && folders.n == 0 && is_absolute(link.name))
        found = try_stated(&f, view_of("/"), link.name);
    if (found == 0)
        found = try_fetch(&f, false);
    free(folders.real);
    return ended(found);
}

/* ---- split DWARF */

static bool is_package(void *ctx, struct elf_file *elf)
{
    (void)ctx;
    return elf_file_has_section(elf, ".debug_info.dwo") ||
           elf_file_has_section(elf, ".debug_cu_index");
}

static int try_with_suffix(struct finder *f, const char *path, size_t len, const char *suffix)
{
    struct buf place = {0};
    buf_put(&place, path, len);
    buf_puts(&place, suffix);
    int found = try_path(f, &place);
    buf_release(&place);
    return found;
}

/* Tries FILE.dwp; for FILE.debug also FILE.dwp without ".debug". */
static int try_dwp(struct finder *f, const struct debug_file *file)
{
    static const char debug[] = ".debug";
    const size_t tail = sizeof debug - 1;
    int found = 0;
    if (!file || !file->path)
        return 0;
    char *real = realpath(file->path, NULL);
    const char *const paths[] = {file->path, real};
    for (size_t i = 0; i < 2 && found == 0; i++) {
        size_t len = paths[i] ? strlen(paths[i]) : 0;
        if (len > 0)
            found = try_with_suffix(f, paths[i], len, ".dwp");
        if (found == 0 && len > tail && strcmp(paths[i] + len - tail, debug) == 0)
            found = try_with_suffix(f, paths[i], len - tail, ".dwp");
    }
    free(real);
    return found;
}

int debug_dwp_find(const struct debug_search *s, const struct debug_file *image,
                   const struct debug_file *debug, struct debug_file *out, struct err *e)
{
    struct finder f = {.s = s, .out = out, .other = {image, debug}, .fits = is_package, .e = e};
    *out = (struct debug_file){0};
    int found = try_dwp(&f, image);
    if (found == 0)
        found = try_dwp(&f, debug);
    return ended(found);
}

/* Tries the path that the user's rules make of a stated one. */
static int try_substituted(struct finder *f, struct view stated)
{
    struct buf from = {0}, to = {0}, path = {0};
    int found = 0;
    buf_put(&from, stated.p, stated.len);
    if (f->s->substitutions && substitutions_apply(f->s->substitutions, buf_str(&from), &to) &&
        path_join(&path, view_of("/"), (struct view){(const char *)to.data, to.len}))
        found = try_path(f, &path);
    if (found == 0 && (from.failed || to.failed))
        found = err_no_memory(f->e, "a path");
    buf_release(&from);
    buf_release(&to);
    buf_release(&path);
    return found;
}

/* Tries the folder of a file: the stated relative path, then the base name. */
static int try_beside(struct finder *f, const struct debug_file *file, struct view name)
{
    struct folders folders;
    int found = 0;
    folders_of(&folders, file);
    for (size_t i = 0; i < folders.n && found == 0; i++) {
        struct buf relative = {0};
        if (!is_absolute(name) && path_join(&relative, (struct view){"", 0}, name) &&
            !relative.failed && memchr(relative.data, '/', relative.len))
            found = try_in(f, "", folders.list[i],
                           (struct view){(const char *)relative.data, relative.len});
        if (found == 0 && path_is_name(path_base(name)))
            found = try_in(f, "", folders.list[i], path_base(name));
        buf_release(&relative);
    }
    free(folders.real);
    return found;
}

int debug_dwo_find(const struct debug_search *s, const struct debug_file *image,
                   const struct debug_file *debug, struct view comp_dir, struct view name,
                   debug_dwo_fits *fits_unit, void *ctx, struct debug_file *out, struct err *e)
{
    struct finder f = {
        .s = s, .out = out, .other = {image, debug}, .fits = fits_unit, .ctx = ctx, .e = e};
    struct buf stated = {0};
    int found = 0;
    *out = (struct debug_file){0};
    if (name.len == 0)
        return 0;
    if (path_join(&stated, comp_dir, name)) {
        struct view path = {(const char *)stated.data, stated.len};
        found = stated.failed ? err_no_memory(e, "a path") : try_substituted(&f, path);
        if (found == 0 && is_absolute(path))
            found = try_stated(&f, view_of("/"), path);
    }
    if (found == 0)
        found = try_beside(&f, image, name);
    if (found == 0)
        found = try_beside(&f, debug, name);
    buf_release(&stated);
    return ended(found);
}
