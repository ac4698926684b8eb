#ifndef TIDEMARK_NAMING_RESOLVER_H
#define TIDEMARK_NAMING_RESOLVER_H

/*
 * What commands that look for names share: their options, the symbol helper, and the rules by which
 * files are opened for it:
 *
 *     a regular file whose build id is the one wanted         always
 *     the very file that was mapped, unchanged since          always
 *     any regular file in a debug directory or beside the image
 *     any regular file                                        when its image may be opened without
 *                                                             a build id (--images-from-trace)
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "naming/symbol_cache.h"
#include "symbols/elf/substitute.h"
#include "symbols/helper/debuginfod.h"
#include "symbols/helper/helper.h"
#include "symbols/place/locate.h"
#include "symbols/place/module_table.h"
#include "symbols/place/process_root.h"

struct resolve_options {
    bool images_from_trace;
    VEC(const char *) modules; /* files */
    VEC(struct locate_base) bases;
    const char *sysroot;
    VEC(const char *) debug_dirs;
    VEC(const char *) rules;
    const char *debuginfod; /* servers; NULL: those of the environment, if any */
    bool no_debuginfod;
    const char *cache; /* folder; NULL: the user's */
    bool no_cache;
    bool of_files_only;  /* the command has RESOLVE_LONG_OPTIONS_OF_FILES: not --modules and such */
    bool linkage;        /* linkage names are wanted, too: no option of the command line */
    uint64_t cache_size; /* bytes; 0: SYMBOL_CACHE_BYTES */
    uint8_t reader;      /* enum index_back_end */
    uint64_t threads;
    double seconds; /* that one image may take */
};

void resolve_options_release(struct resolve_options *o);

/* What allows an image to be opened where no build id is known. */
struct image_proof {
    bool trusted;                   /* the user does */
    const struct module_file *file; /* the file that was mapped; NULL: not known */
};

/* The image that is being asked about. */
struct resolver_image {
    const struct build_id *build_id; /* wanted; len 0: any */
    struct image_proof proof;
    char refused[256];  /* why its file was not opened, or "" */
    char fetching[256]; /* what a debuginfod server said, or "" */
};

struct resolver {
    const struct resolve_options *options;
    struct helper helper;
    struct resolver_image image;
    struct debuginfod fetcher; /* socket -1: none */
    bool terminal;             /* stderr is one */
    bool shown;                /* a progress line stands there */
    bool no_memory;            /* for a path that was wished for */
    struct buf folder;         /* that the image is in; empty: not opened yet */
    struct buf looked;         /* for the image at hand, files that are not there: "PATH, PATH, " */
    unsigned looked_count;
    struct symbol_cache cache;
    const struct process_root *root; /* where paths of the images lead first; NULL: where ours do */
};

#define RESOLVER_NONE                                                                              \
    ((struct resolver){.helper = {.launcher = LAUNCHER_NONE, .socket = -1, .in = {.fd = -1}},      \
                       .fetcher = {.socket = -1}})

/* Starts the helper's launcher: to be called before there are threads. */
int resolver_init(struct resolver *r, const struct resolve_options *options, struct err *e);
void resolver_release(struct resolver *r);

/*
 * Opens an image at a path of the client or the user. Errors are ERR_CHECK, of this image only, or
 * ERR_MEMORY.
 */
int resolver_open(struct resolver *r, struct view path, const struct build_id *id,
                  struct image_proof proof, struct image_facts *facts, struct err *e);

#endif
