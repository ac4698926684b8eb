#include "naming/resolver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "base/print_error.h"
#include "symbols/elf/debug_paths.h"
#include "symbols/elf/regular_file.h"

#define DEBUG_DIR "/usr/lib/debug"
#define LOOKED_MAX 16u

void resolve_options_release(struct resolve_options *o)
{
    for (size_t i = 0; i < o->bases.len; i++)
        free((char *)o->bases.at[i].image);
    vec_release(&o->bases);
    vec_release(&o->modules);
    vec_release(&o->debug_dirs);
    vec_release(&o->rules);
}

/* ---- files */

/* Whether a path is below `root`/`folder`; `root` may be NULL. */
static bool below(struct view path, const char *root, struct view folder)
{
    size_t n = root ? strlen(root) : 0;
    while (n > 0 && root[n - 1] == '/')
        n--;
    if (path.len < n || (n > 0 && memcmp(path.p, root, n) != 0) || folder.len == 0)
        return false;
    return path_is_below((struct view){path.p + n, path.len - n}, folder);
}

/*
 * Whether the location of a file allows opening it. Callers resolve ".."; a path that still has one
 * is refused.
 */
static bool lies_well(const struct resolver *r, struct view path)
{
    const struct resolve_options *o = r->options;
    if (memmem(path.p, path.len, "/../", 4))
        return false;
    if (r->folder.len > 0 &&
        below(path, NULL, (struct view){(const char *)r->folder.data, r->folder.len}))
        return true;
    for (size_t i = 0; i < o->debug_dirs.len; i++) {
        if (below(path, NULL, view_of(o->debug_dirs.at[i])) ||
            below(path, o->sysroot, view_of(o->debug_dirs.at[i])))
            return true;
    }
    return below(path, NULL, view_of(DEBUG_DIR)) || below(path, o->sysroot, view_of(DEBUG_DIR));
}

static bool has_build_id(int fd, const struct build_id *wanted, struct build_id *found)
{
    return build_id_read(fd, found) && wanted->len > 0 && found->len == wanted->len &&
           memcmp(found->bytes, wanted->bytes, found->len) == 0;
}

/* The option that allows opening an image without a build id. */
static const char *without_build_id(const struct resolve_options *o)
{
    return o->of_files_only ? "`tidemark symbols --images-from-trace` allows it"
                            : "--images-from-trace allows it";
}

static void refuse(struct resolver *r, const char *path, const struct build_id *found)
{
    char id[2 * BUILD_ID_MAX + 1];
    struct resolver_image *image = &r->image;
    if (image->refused[0])
        return;
    build_id_text(found, id);
    if (image->build_id->len > 0)
        snprintf(image->refused, sizeof image->refused,
                 "%.120s is another build than the one that ran (%.40s)", path, id);
    else if (image->proof.file)
        snprintf(image->refused, sizeof image->refused,
                 "%.120s has no build id and is not, or no longer, the file that ran", path);
    else
        snprintf(image->refused, sizeof image->refused, "no build id to check %.120s by; %s", path,
                 without_build_id(r->options));
}

/* Returns the file if it may be opened, else closes it and returns -1. */
static int allow(struct resolver *r, int fd, struct view name, const char *path)
{
    struct build_id found = {0};
    const struct image_proof *proof = &r->image.proof;
    if (fd < 0 || proof->trusted || (proof->file && module_file_is(proof->file, fd)) ||
        has_build_id(fd, r->image.build_id, &found) || lies_well(r, name))
        return fd;
    refuse(r, path, &found);
    close(fd);
    return -1;
}

/*
 * Notes where debug information was searched for, or why a server was not, for the report. Another
 * rule may have tried the same path before.
 */
static void note_looked(struct resolver *r, struct view name, bool exists)
{
    struct buf one = {0};
    buf_put(&one, name.p, name.len);
    buf_puts(&one, exists ? " (exists, without matching debug information), " : ", ");
    struct view all = {buf_str(&r->looked), r->looked.len};
    if (r->looked_count < LOOKED_MAX && !memmem(all.p, all.len, one.data, one.len)) {
        buf_put(&r->looked, one.data, one.len);
        r->looked_count++;
    }
    buf_release(&one);
}

static int open_path(struct resolver *r, struct view name)
{
    struct buf path = {0};
    int fd = -1;
    buf_put(&path, name.p, name.len);
    const char *text = buf_str(&path);
    r->no_memory |= path.failed;
    if (!path.failed && r->root)
        fd = allow(r, process_root_file(r->root, text), name, text);
    if (!path.failed && fd < 0)
        fd = allow(r, regular_file_open(text), name, text);
    /* The first opened file is the image. Files beside it may be opened, too. */
    bool is_image = fd >= 0 && r->folder.len == 0;
    if (!path.failed && !is_image)
        note_looked(r, name, fd >= 0);
    if (is_image) {
        struct view folder = path_folder(name);
        buf_put(&r->folder, folder.p, folder.len);
    }
    buf_release(&path);
    return fd;
}

/* ---- the helper */

/* Shows a progress line for a download, on a terminal. */
static int show_fetch(void *ctx, uint64_t done, uint64_t total)
{
    char have[FORMAT_SIZE], all[FORMAT_SIZE];
    struct resolver *r = ctx;
    if (!r->terminal || done == 0)
        return 0;
    fprintf(stderr, "\r\033[Kdebuginfod: %s", format_bytes(have, done));
    if (total)
        fprintf(stderr, " of %s", format_bytes(all, total));
    r->shown = true;
    return 0;
}

static int fetch(struct resolver *r, const struct file_wish *wish)
{
    struct build_id id = {.len = (uint8_t)wish->id.len};
    struct err e = {0};
    int fd = -1;
    if (r->fetcher.socket < 0 || wish->id.len == 0 || wish->id.len > BUILD_ID_MAX)
        return -1;
    memcpy(id.bytes, wish->id.p, wish->id.len);
    if (debuginfod_ask(r->fetcher.socket, &id, wish->flag, show_fetch, r, &fd, &e) != 0)
        fd = -1;
    if (r->shown)
        fputs("\r\033[K", stderr);
    r->shown = false;
    if (e.code != ERR_NONE) {
        note_looked(r, view_of(e.text), false);
        if (r->unfetched++ == 0)
            snprintf(r->why_unfetched, sizeof r->why_unfetched, "%s", e.text);
    }
    return fd;
}

static int grant(void *ctx, const struct file_wish *wish)
{
    struct resolver *r = ctx;
    switch ((enum file_need)wish->need) {
    case NEED_PATH:
        return open_path(r, wish->name);
    case NEED_CACHE:
        return symbol_cache_open(&r->cache, wish->id);
    case NEED_STORE:
        if (!wish->flag)
            return symbol_cache_begin(&r->cache, wish->id);
        symbol_cache_commit(&r->cache);
        return -1;
    case NEED_FETCH:
        return fetch(r, wish);
    case FILE_NEEDS:
        break;
    }
    return -1;
}

int resolver_init(struct resolver *r, const struct resolve_options *options, struct err *e)
{
    *r = RESOLVER_NONE;
    r->options = options;
    r->terminal = !options->quiet && isatty(STDERR_FILENO) == 1;
    r->cache = (struct symbol_cache){
        .folder = options->cache, .off = options->no_cache, .most = options->cache_size};
    const struct debuginfod_options servers = {.urls = options->debuginfod};
    if (!options->no_debuginfod && debuginfod_is_wanted(&servers) &&
        debuginfod_start(&r->fetcher, &servers, e) != 0) {
        r->fetcher.socket = -1;
        if (options->debuginfod)
            return -1;
        /* If only the environment names servers, their failure is no error. */
        print_error(e);
        *e = (struct err){0};
    }
    const struct helper_options helper = {.seconds = options->seconds > 0 ? options->seconds
                                                                          : HELPER_SECONDS,
                                          .memory = HELPER_MEMORY,
                                          .wish = grant,
                                          .ctx = r,
                                          .linkage = options->linkage};
    return helper_init(&r->helper, &helper, e);
}

void resolver_release(struct resolver *r)
{
    helper_release(&r->helper);
    if (r->fetcher.socket >= 0)
        debuginfod_stop(&r->fetcher);
    symbol_cache_release(&r->cache);
    buf_release(&r->folder);
    buf_release(&r->looked);
}

static size_t views_of(struct view *out, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = view_of(texts[i]);
    return n;
}

int resolver_open(struct resolver *r, struct view path, const struct build_id *id,
                  struct image_proof proof, struct image_facts *facts, struct err *e)
{
    static const struct build_id none;
    const struct resolve_options *o = r->options;
    struct view dirs[HELPER_RULES_MAX], rules[HELPER_RULES_MAX];
    /* The helper cannot see the number of processors. */
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = o->threads ? o->threads : processors > 0 ? (uint64_t)processors : 1;
    struct helper_open open = {.path = path,
                               .build_id = id ? *id : none,
                               .trust_paths = proof.trusted || proof.file,
                               .threads = (uint32_t)threads,
                               .sysroot = view_of(o->sysroot ? o->sysroot : ""),
                               .dirs = dirs,
                               .rules = rules};
    open.dir_count = views_of(dirs, o->debug_dirs.at, o->debug_dirs.len);
    dirs[open.dir_count++] = view_of(DEBUG_DIR);
    open.rule_count = views_of(rules, o->rules.at, o->rules.len);
    r->image = (struct resolver_image){.build_id = id ? id : &none, .proof = proof};
    buf_clear(&r->folder);
    buf_clear(&r->looked);
    r->looked_count = 0;
    r->no_memory = false;
    if (helper_open_image(&r->helper, &open, facts, e) == 0)
        return 0;
    if (r->no_memory)
        return err_no_memory(e, "an image");
    if (e->code != ERR_CHECK)
        return -1;
    if (open.build_id.len == 0 && !open.trust_paths)
        return err_set(e, ERR_CHECK, "no build id to check it by: %s", without_build_id(o));
    /* The helper only knows that it got no file. */
    return r->image.refused[0] ? err_set(e, ERR_CHECK, "%s", r->image.refused) : -1;
}
