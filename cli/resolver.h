#ifndef TIDEMARK_CLI_RESOLVER_H
#define TIDEMARK_CLI_RESOLVER_H

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

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "cli/symbol_cache.h"
#include "symbols/debuginfod.h"
#include "symbols/helper.h"
#include "symbols/locate.h"
#include "symbols/module_table.h"
#include "symbols/process_root.h"
#include "symbols/substitute.h"

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

/* Rows for a table of long options, and what --help says of them. */
enum {
    RESOLVE_OPTION_FIRST = 600,
    RESOLVE_OPTION_IMAGES = RESOLVE_OPTION_FIRST,
    RESOLVE_OPTION_MODULES,
    RESOLVE_OPTION_BASE,
    RESOLVE_OPTION_SYSROOT,
    RESOLVE_OPTION_DEBUG_DIR,
    RESOLVE_OPTION_SUBSTITUTE,
    RESOLVE_OPTION_DEBUGINFOD,
    RESOLVE_OPTION_NO_DEBUGINFOD,
    RESOLVE_OPTION_CACHE,
    RESOLVE_OPTION_NO_CACHE,
    RESOLVE_OPTION_CACHE_SIZE,
    RESOLVE_OPTION_DWARF,
    RESOLVE_OPTION_THREADS,
    RESOLVE_OPTION_TIME_LIMIT,
    RESOLVE_OPTION_RESOLVE, /* struct resolve_request */
    RESOLVE_OPTION_END,
};

#define RESOLVE_LONG_OPTIONS_OF_FILES                                                              \
    {"sysroot", required_argument, NULL, RESOLVE_OPTION_SYSROOT},                                  \
        {"debug-dir", required_argument, NULL, RESOLVE_OPTION_DEBUG_DIR},                          \
        {"substitute", required_argument, NULL, RESOLVE_OPTION_SUBSTITUTE},                        \
        {"debuginfod", required_argument, NULL, RESOLVE_OPTION_DEBUGINFOD},                        \
        {"no-debuginfod", no_argument, NULL, RESOLVE_OPTION_NO_DEBUGINFOD},                        \
        {"symbol-cache", required_argument, NULL, RESOLVE_OPTION_CACHE},                           \
        {"no-symbol-cache", no_argument, NULL, RESOLVE_OPTION_NO_CACHE},                           \
        {"symbol-cache-size", required_argument, NULL, RESOLVE_OPTION_CACHE_SIZE},                 \
        {"dwarf", required_argument, NULL, RESOLVE_OPTION_DWARF},                                  \
        {"threads", required_argument, NULL, RESOLVE_OPTION_THREADS},                              \
    {                                                                                              \
        "time-limit", required_argument, NULL, RESOLVE_OPTION_TIME_LIMIT                           \
    }

#define RESOLVE_LONG_OPTIONS                                                                       \
    {"images-from-trace", no_argument, NULL, RESOLVE_OPTION_IMAGES},                               \
        {"modules", required_argument, NULL, RESOLVE_OPTION_MODULES},                              \
        {"base", required_argument, NULL, RESOLVE_OPTION_BASE}, RESOLVE_LONG_OPTIONS_OF_FILES

#define RESOLVE_USAGE_OF_TRACE                                                                     \
    "      --images-from-trace  open images that the trace names also without a build id to\n"     \
    "                      check them by\n"                                                        \
    "      --modules FILE  what the process had mapped where: from `tidemark modules`, or a\n"     \
    "                      copy of /proc/PID/maps\n"                                               \
    "      --base IMAGE=ADDRESS  where an image was mapped (hexadecimal)\n"
#define RESOLVE_USAGE_OF_FILES                                                                     \
    RESOLVE_USAGE_OF_FILES_AND("      --threads N     that read an image (one per processor)\n")
#define RESOLVE_USAGE_OF_FILES_AND(threads)                                                        \
    "      --sysroot DIR   the images' file system is here\n"                                      \
    "      --debug-dir DIR  debug files are here, too (and in /usr/lib/debug)\n"                   \
    "      --substitute 'REGEX;PATH'  replace what is found in paths of images\n"                  \
    "      --debuginfod URL  ask this server for what is not here (else DEBUGINFOD_URLS)\n"        \
    "      --no-debuginfod  ask no server\n"                                                       \
    "      --symbol-cache DIR  keep what was read here (else ~/.cache/tidemark/symbols)\n"         \
    "      --symbol-cache-size N  as much as this, what was not used for longest goes (2G)\n"      \
    "      --no-symbol-cache  keep nothing\n"                                                      \
    "      --dwarf READER  libdwarf or libdw (default: by image)\n" threads                        \
    "      --time-limit SEC  for each image (120)\n"

/* True when the option was one of these and is taken; else false, with `e` if its value is bad. */
bool resolve_option(struct resolve_options *o, int option, const char *value, struct err *e);
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
