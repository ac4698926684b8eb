#pragma once

/*
 * Shared by commands that look up names: their options, the symbol helper, and the rules for
 * opening files for it:
 *
 *     a regular file with the wanted build id                  always
 *     the file that was mapped, unchanged since                always
 *     any regular file in a debug directory or beside the image
 *     any regular file                                         if its image may be opened without
 *                                                              a build id (--images-from-trace)
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
    const char *debuginfod; /* server URLs; NULL: those of the environment, if any */
    bool no_debuginfod;
    const char *cache; /* folder; NULL: the user's */
    bool no_cache;
    bool of_files_only;  /* the command has RESOLVE_LONG_OPTIONS_OF_FILES: not --modules and such */
    bool quiet;          /* no progress lines; not a command-line option */
    bool linkage;        /* also return linkage names; not a command-line option */
    uint64_t cache_size; /* bytes; 0: SYMBOL_CACHE_BYTES */
    uint64_t threads;
    double seconds; /* time limit for one image */
};

void resolve_options_release(struct resolve_options *o);

/* What allows an image to be opened if no build id is known. */
struct image_proof {
    bool trusted;                   /* the user trusts it */
    const struct module_file *file; /* the file that was mapped; NULL: unknown */
};

/* The image of the current question. */
struct resolver_image {
    const struct build_id *build_id; /* required; len 0: any */
    struct image_proof proof;
    char refused[256]; /* why its file was not opened, or "" */
};

struct resolver {
    const struct resolve_options *options;
    struct helper helper;
    struct resolver_image image;
    struct debuginfod fetcher; /* socket -1: none */
    bool terminal;             /* stderr is a terminal */
    bool shown;                /* a progress line is on the terminal */
    bool no_memory;            /* memory was short for a requested path */
    uint64_t unfetched;        /* files that no debuginfod server could be asked for */
    char why_unfetched[256];   /* the first of them */
    struct buf folder;         /* the image's folder; empty: image not opened yet */
    struct buf looked;         /* files tried for the current image: "PATH, PATH (…), " */
    unsigned looked_count;
    struct symbol_cache cache;
    const struct process_root *root; /* tried first for image paths; NULL: our own root */
};

#define RESOLVER_NONE                                                                              \
    ((struct resolver){.helper = {.launcher = LAUNCHER_NONE, .socket = -1, .in = {.fd = -1}},      \
                       .fetcher = {.socket = -1}})

/* Starts the helper's launcher. Call it before creating threads. */
int resolver_init(struct resolver *r, const struct resolve_options *options, struct err *e);
void resolver_release(struct resolver *r);

/*
 * Opens an image at a path of the client or the user. Fails with ERR_CHECK, for this image only, or
 * ERR_MEMORY.
 */
int resolver_open(struct resolver *r, struct view path, const struct build_id *id,
                  struct image_proof proof, struct image_facts *facts, struct err *e);
