#include "cli/options/resolve_options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/options/options.h"
#include "symbols/index/index.h"

static bool take(bool ok, struct err *e)
{
    if (!ok)
        err_no_memory(e, "options");
    return ok;
}

static bool take_base(void *ctx, const char *option, const char *text, struct err *e)
{
    (void)option;
    struct resolve_options *o = ctx;
    struct locate_base base;
    char *room = NULL;
    if (locate_base_parse(text, &base, &room, e) != 0)
        return false;
    if (vec_push(&o->bases, base))
        return true;
    free(room);
    return take(false, e);
}

/* A message to the helper holds so many directories and rules. */
static bool has_room(size_t n, struct err *e)
{
    if (n + 1 < HELPER_RULES_MAX)
        return true;
    err_set(e, ERR_USAGE, "more than %u of one option", HELPER_RULES_MAX - 1);
    return false;
}

static bool take_rule(void *ctx, const char *option, const char *text, struct err *e)
{
    (void)option;
    struct resolve_options *o = ctx;
    struct substitutions probe = {0};
    int status = substitutions_add(&probe, text, e);
    substitutions_release(&probe);
    return status == 0 && has_room(o->rules.len, e) && take(vec_push(&o->rules, text), e);
}

/* ---- rows */

static bool take_modules(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct resolve_options *o = ctx;
    return take(vec_push(&o->modules, value), e);
}

static bool take_debug_dir(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct resolve_options *o = ctx;
    return has_room(o->debug_dirs.len, e) && take(vec_push(&o->debug_dirs, value), e);
}

#define FIELD(NAME) OPTION_FIELD(struct resolve_options, NAME)

const struct option_row resolve_trace_rows[] = {
    {"--images-from-trace", NULL,
     "open images that the trace names also without a build id to check them by",
     FIELD(images_from_trace)},
    {"--modules", "FILE",
     "what the process had mapped where: from `tidemark modules`, or a copy of /proc/PID/maps",
     .take = take_modules},
    {"--base", "IMAGE=ADDRESS", "where an image was mapped (hexadecimal)", .take = take_base},
    {0},
};

const struct option_row resolve_source_rows[] = {
    {"--debug-dir", "DIR",
     "search debug files here, too, besides /usr/lib/debug; may be given several times",
     .take = take_debug_dir},
    {"--debuginfod", "URL", "ask this server for files that are not here (DEBUGINFOD_URLS)",
     FIELD(debuginfod)},
    {0},
};

const struct option_row resolve_file_rows[] = {
    {"--sysroot", "DIR", "the images' file system is in this folder", FIELD(sysroot)},
    {"--substitute", "'REGEX;PATH'", "replace what matches in paths of images by PATH",
     .take = take_rule},
    {"--no-debuginfod", NULL, "ask no server", FIELD(no_debuginfod)},
    {"--symbol-cache", "DIR", "keep the symbols that were read here (~/.cache/tidemark/symbols)",
     FIELD(cache)},
    {"--symbol-cache-size", "N", "size of the cache; the least recently used is dropped (2G)",
     .type = VALUE_BYTES, FIELD(cache_size)},
    {"--no-symbol-cache", NULL, "keep no symbols", FIELD(no_cache)},
    {"--time-limit", "SEC", "seconds for each image (120)", .type = VALUE_SECONDS, FIELD(seconds)},
    {0},
};

const struct option_row resolve_thread_rows[] = {
    {"--threads", "N", "threads that read an image (one per processor)", .type = VALUE_NUMBER,
     .least = 1, .most = 256, FIELD(threads)},
    {0},
};
