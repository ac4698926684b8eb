#ifndef TIDEMARK_SYMBOLS_ELF_DEBUG_FILES_H
#define TIDEMARK_SYMBOLS_ELF_DEBUG_FILES_H

/*
 * Finds the files that say what is in an image: the image itself, its separate debug file, the
 * alternate file that dwz made, split DWARF (.dwo, .dwp). Only regular files are opened, and what
 * is found is held against what asked for it: its build id, else its CRC.
 *
 * A path that a trace, an image or its debug information states is a stranger's. It is opened only
 * when the caller allows that, or when it lies in one of the debug directories, or beside the
 * image.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"
#include "symbols/elf/elf_file.h"
#include "symbols/elf/substitute.h"

/*
 * Asks elsewhere for a file by its build id (debuginfod.h): *fd is it, or -1 when nobody has it.
 * What comes is checked here.
 */
typedef int debug_fetch(void *ctx, const struct build_id *id, bool executable, int *fd,
                        struct err *e);

/* Opens the regular file at `path` for reading: a descriptor, or -1 with errno. */
typedef int debug_open(void *ctx, const char *path);

/* All of it is the user's; the caller keeps it. Zero-initialised it searches /usr/lib/debug. */
struct debug_search {
    const char *const *dirs; /* debug directories, in order; NULL: /usr/lib/debug */
    size_t dir_count;
    const char *sysroot;                       /* where absolute paths begin; NULL: / */
    const struct substitutions *substitutions; /* in paths of images and .dwo files; or NULL */
    bool trust_paths;                          /* open paths that strangers state */
    const struct elf_limits *limits;           /* NULL: ELF_LIMITS_DEFAULT */
    debug_open *open;                          /* NULL: this process does */
    void *open_ctx;
    debug_fetch *fetch; /* NULL: nowhere else is asked */
    void *fetch_ctx;
};

struct debug_file {
    struct elf_file *elf; /* NULL: none was found */
    char *path;           /* that was opened; NULL for one that was fetched */
    dev_t device;
    ino_t inode;
    struct err refused; /* why the first of those that were there and do not fit was passed over */
};

void debug_file_release(struct debug_file *f);

/*
 * The image that was at `path`. With `wanted` (NULL or of length 0: not known) it must have that
 * build id; without, it is opened only when paths are trusted. When it is not there, or another, it
 * is looked for by its build id. ERR_INPUT, saying why, when it is nowhere.
 */
int debug_image_open(const struct debug_search *s, const char *path, const struct build_id *wanted,
                     struct debug_file *out, struct err *e);

/*
 * The separate debug file of an image; none is looked for when the image has debug information
 * itself. With out->elf NULL there is none; errors are of memory only, here and below. `image` may
 * have no file (image->elf NULL): then only `id` is searched for, which else is NULL.
 */
int debug_file_find(const struct debug_search *s, const struct debug_file *image,
                    const struct build_id *id, struct debug_file *out, struct err *e);

/* The alternate file (dwz) of the file with the debug information. */
int debug_alt_find(const struct debug_search *s, const struct debug_file *debug,
                   struct debug_file *out, struct err *e);

/* The package of split DWARF beside the image or its debug file (NULL: none). Nothing in it says
 * whose it is but the ids of its units. */
int debug_dwp_find(const struct debug_search *s, const struct debug_file *image,
                   const struct debug_file *debug, struct debug_file *out, struct err *e);

/* Whether a .dwo file is the one that was asked for; it holds DW_AT_dwo_id or its kind. */
typedef bool debug_dwo_fits(void *ctx, struct elf_file *dwo);

/*
 * The .dwo file that a unit of `debug` states: DW_AT_comp_dir and DW_AT_(GNU_)dwo_name. `image`
 * and `debug` as above.
 */
int debug_dwo_find(const struct debug_search *s, const struct debug_file *image,
                   const struct debug_file *debug, struct view comp_dir, struct view name,
                   debug_dwo_fits *fits, void *ctx, struct debug_file *out, struct err *e);

#endif
