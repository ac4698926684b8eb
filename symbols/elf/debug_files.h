#pragma once

/*
 * Finds the files that describe an image: the image itself, its separate debug file, the alternate
 * file that dwz made, and split DWARF (.dwo, .dwp). Opens only regular files. A file must match the
 * build id of the file that names it, else the CRC.
 *
 * Paths stated by a trace, an image or its debug information are untrusted. Such a path is opened
 * only if the caller allows it, or if it is in a debug directory or beside the image.
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
 * Fetches a file by its build id (debuginfod.h) into *fd; -1 if no server has it. The caller of the
 * callback checks the file.
 */
typedef int debug_fetch(void *ctx, const struct build_id *id, bool executable, int *fd,
                        struct err *e);

/* Opens the regular file at `path` for reading. Returns a descriptor, or -1 with errno. */
typedef int debug_open(void *ctx, const char *path);

/*
 * The user's settings; the caller keeps the memory. Zero-initialised, it searches /usr/lib/debug.
 */
struct debug_search {
    const char *const *dirs; /* debug directories, in order; NULL: /usr/lib/debug */
    size_t dir_count;
    const char *sysroot;                       /* prefix of absolute paths; NULL: / */
    const struct substitutions *substitutions; /* for paths of images and .dwo files; or NULL */
    bool trust_paths;                          /* open untrusted paths */
    const struct elf_limits *limits;           /* NULL: ELF_LIMITS_DEFAULT */
    debug_open *open;                          /* NULL: this process opens files itself */
    void *open_ctx;
    debug_fetch *fetch; /* NULL: nothing is fetched */
    void *fetch_ctx;
};

struct debug_file {
    struct elf_file *elf; /* NULL: not found */
    char *path;           /* the opened path; NULL if fetched */
    dev_t device;
    ino_t inode;
    struct err refused; /* why the first file that exists but does not match was rejected */
};

void debug_file_release(struct debug_file *f);

/*
 * Finds the image that was at `path`. If `wanted` is known (not NULL, length above 0), the image
 * must have that build id; else `path` is opened only if paths are trusted. If the file is missing
 * or differs, the image is searched by build id. Fails with ERR_INPUT and the reason if it is not
 * found.
 */
int debug_image_open(const struct debug_search *s, const char *path, const struct build_id *wanted,
                     struct debug_file *out, struct err *e);

/*
 * Finds the separate debug file of an image. An image with debug information needs none. If none is
 * found, out->elf is NULL. This and the functions below fail only if memory is short. If `image`
 * has no file (image->elf NULL), only `id` is searched for; otherwise `id` is NULL.
 */
int debug_file_find(const struct debug_search *s, const struct debug_file *image,
                    const struct build_id *id, struct debug_file *out, struct err *e);

/* Finds the alternate file (dwz) of the file with the debug information. */
int debug_alt_find(const struct debug_search *s, const struct debug_file *debug,
                   struct debug_file *out, struct err *e);

/*
 * Finds the split DWARF package beside the image or its debug file (NULL: none). Only the ids of
 * its units show whether it belongs to the image.
 */
int debug_dwp_find(const struct debug_search *s, const struct debug_file *image,
                   const struct debug_file *debug, struct debug_file *out, struct err *e);

/* Whether a .dwo file is the requested one, which its DW_AT_dwo_id or an equivalent shows. */
typedef bool debug_dwo_fits(void *ctx, struct elf_file *dwo);

/*
 * Finds the .dwo file that a unit of `debug` states by DW_AT_comp_dir and DW_AT_(GNU_)dwo_name.
 * `image` and `debug` as above.
 */
int debug_dwo_find(const struct debug_search *s, const struct debug_file *image,
                   const struct debug_file *debug, struct view comp_dir, struct view name,
                   debug_dwo_fits *fits, void *ctx, struct debug_file *out, struct err *e);
