#ifndef TIDEMARK_CLI_OPTIONS_RESOLVE_OPTIONS_H
#define TIDEMARK_CLI_OPTIONS_RESOLVE_OPTIONS_H

/* The options of commands that resolve the names of frames. */

#include <getopt.h>
#include <stdbool.h>

#include "base/err.h"
#include "cli/options/option_table.h"
#include "naming/resolve_trace.h"
#include "naming/resolver.h"

/*
 * Of struct resolve_options: where images come from; where files are, and how they are read; the
 * number of threads.
 */
extern const struct option_row resolve_trace_rows[];
extern const struct option_row resolve_source_rows[]; /* --debug-dir and --debuginfod */
extern const struct option_row resolve_file_rows[];
extern const struct option_row resolve_thread_rows[];

/* Rows for a table of long options, and their --help text. */
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

/*
 * True when the option was one of these and its value is valid; else false, with `e` if the value
 * is invalid.
 */
bool resolve_option(struct resolve_options *o, int option, const char *value, struct err *e);
#define RESOLVE_REQUEST_LONG_OPTIONS                                                               \
    {"resolve", no_argument, NULL, RESOLVE_OPTION_RESOLVE}, RESOLVE_LONG_OPTIONS

#define RESOLVE_REQUEST_USAGE                                                                      \
    "      --resolve       find names for frames that have none, as `tidemark symbols` does; "     \
    "its\n"                                                                                        \
    "                      options about images and debug files are known here, too\n"

/* As resolve_option. */
bool resolve_request_take(struct resolve_request *q, int option, const char *value, struct err *e);

#endif
