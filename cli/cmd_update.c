/*
 * tidemark update, and the drop-in for tracy-update: rewrites a trace in bounded memory, stripped,
 * cut, recompressed, with names added, or in another file version.
 * What it prints and how it exits when called by the official name: update/src/update.cpp @
 * v0.14.0.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "base/outfile.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/trace_input.h"
#include "cli/update_sizes.h"
#include "naming/update_resolve.h"
#include "report/write/official_units.h"
#include "server/capture/stored_summary.h"
#include "trace/filter/rewrite.h"
#include "trace/filter/strip.h"
#include "trace/save/save_file.h"

static const char usage[] =
    "usage: tidemark update [OPTIONS] INPUT OUTPUT\n"
    "\n"
    "Rewrites a trace: strips what is not wanted, cuts it to a range of time, compresses it anew,\n"
    "names its call stack frames, converts it to the file version of an older or newer Tracy.\n"
    "INPUT may be - for standard input. OUTPUT is replaced when the new one is whole; it may be\n"
    "INPUT itself.\n";

static const char footer[] =
    "Exit status: 0 done; 1 INPUT has figures only, which would be lost; 2 usage; 3 INPUT is no\n"
    "trace or damaged; 4 OUTPUT cannot be written.\n";

struct update {
    const char *input;
    const char *output;
    bool drop_in;     /* called by the official tool's name: its exit codes */
    bool quiet;       /* no progress line */
    char letters[16]; /* to strip, each once */
    struct rewrite_options rewrite;
    struct update_resolve resolve;
    VEC(const char *) pools;
    struct trace_writer_options writer;
    /* while it runs */
    struct trace_input in;
    uint64_t begin; /* ns */
};

/* ---- arguments */

static bool parse_number(const char *text, long least, long most, long *out)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < least || n > most)
        return false;
    *out = n;
    return true;
}

static bool take_level(void *ctx, const char *option, const char *text, struct err *e)
{
    (void)option;
    struct update *u = ctx;
    long level;
    if (!parse_number(text, ZSTD_minCLevel(), ZSTD_maxCLevel(), &level)) {
        err_set(e, ERR_USAGE, "Available Zstd compression levels range: %d - %d", ZSTD_minCLevel(),
                ZSTD_maxCLevel());
        return false;
    }
    u->writer.container.method = METHOD_ZSTD;
    u->writer.container.level = (int)level;
    return true;
}

static bool take_streams(void *ctx, const char *option, const char *text, struct err *e)
{
    (void)option;
    struct update *u = ctx;
    long streams;
    if (!parse_number(text, -1, 255, &streams)) {
        err_set(e, ERR_USAGE, "-j takes a number of streams up to 255, or -1, not '%s'", text);
        return false;
    }
    if (streams <= 0)
        streams = sysconf(_SC_NPROCESSORS_ONLN);
    u->writer.container.streams = streams < 1 ? 1 : streams > 255 ? 255 : (unsigned)streams;
    return true;
}

static bool take_strip(void *ctx, const char *option, const char *letters, struct err *e)
{
    (void)option;
    struct update *u = ctx;
    struct strip probe;
    struct record_sink nowhere = {0};
    strip_init(&probe, &nowhere);
    if (strip_add(&probe, letters, e) != 0)
        return false;
    /* Given twice, both count. */
    for (const char *p = letters; *p; p++) {
        size_t n = strlen(u->letters);
        if (!strchr(u->letters, *p))
            u->letters[n] = *p;
    }
    return true;
}

static bool take_pools(void *ctx, const char *option, const char *names, struct err *e)
{
    struct update *u = ctx;
    u->rewrite.pools.drop = strcmp(option, "--drop-pools") == 0;
    if (!vec_push(&u->pools, names)) {
        err_no_memory(e, "names of pools");
        return false;
    }
    return true;
}

/* As in the official tool, an invalid substitution is reported and skipped. */
static bool take_substitution(void *ctx, const char *option, const char *text, struct err *e)
{
    (void)option;
    struct update *u = ctx;
    if (substitutions_add(&u->resolve.substitutions, text, e) == 0)
        return true;
    if (!u->drop_in || e->code != ERR_USAGE)
        return false;
    print_error(e);
    *e = (struct err){0};
    return true;
}

#define FIELD(NAME) OPTION_FIELD(struct update, NAME)
#define METHOD(METHOD) .type = VALUE_SET, .least = (METHOD), FIELD(writer.container.method)

static const struct option_row rows[] = {
    {"-4", NULL, "compress with LZ4", METHOD(METHOD_LZ4)},
    {"-h", NULL, "compress with LZ4 HC", METHOD(METHOD_LZ4_HC)},
    {"-e", NULL, "compress with LZ4 extreme (very slow)", METHOD(METHOD_LZ4_EXTREME)},
    {"-z", "LEVEL",
     "compress with zstd at a level, -131072 to 22 (without any of these options: as official "
     "tools do; level 3, LZ4 before 0.11.0)",
     .take = take_level},
    {"-j", "STREAMS",
     "compression streams, 1 to 255; -1: one per processor (default: as INPUT, 4 at most)",
     .take = take_streams},
    {"-s", "FLAGS",
     "strip: l locks, m messages, p plots, M memory, i frame images, c context switches, s "
     "samples, C symbol code, S source files",
     .take = take_strip},
    {"--keep-pools", "A,B",
     "keep only the memory pools of these names or keys (0x...); the default pool is called "
     "default",
     .take = take_pools},
    {"--drop-pools", "A,B", "drop the memory pools of these names or keys", .take = take_pools},
    {"--range", "A:B",
     "keep what happened from A to B, ns since the trace began or with a unit, such as 1.5s:2m",
     .type = VALUE_RANGE, FIELD(rewrite.range.begin),
     .second = offsetof(struct update, rewrite.range.end),
     .given = offsetof(struct update, rewrite.has_range)},
    {"--trace-version", "V", "file version to write (default: that of INPUT)", .type = VALUE_LAYOUT,
     FIELD(rewrite.convert.target)},
    {"-d", NULL, "add a dictionary for the frame images", FIELD(rewrite.image_dict)},
    {"-c", NULL, "add source files that the trace names, as they are on this machine",
     FIELD(rewrite.cache_sources)},
    {"-r", NULL, "resolve unresolved call stack frames by addr2line",
     FIELD(rewrite.symbols.resolve)},
    {"-R", NULL, "make all call stack frames unresolved, before -r", FIELD(rewrite.symbols.reset)},
    {"-p", "REGEX;PATH", "replace what matches in the paths of images by another path",
     .take = take_substitution},
    {"-a", "TOOL", "ask this tool instead of addr2line", FIELD(resolve.tool.tool)},
    {"-A", "ARGUMENTS", "further arguments for the tool", FIELD(resolve.tool.arguments)},
    {"-v", NULL, "print each frame that is resolved", FIELD(resolve.verbose)},
    {"-f", NULL, "replace OUTPUT if it exists (always done)", .type = VALUE_IGNORED},
    QUIET_ROW(struct update, quiet),
    {"--help", NULL, "this text", .type = VALUE_HELP},
    OPTION_VERSION_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};
static const struct option_rule rules[] = {
    {"--keep-pools --drop-pools", OPTION_ONE_OF, NULL,
     "--keep-pools and --drop-pools exclude each other"},
    {0},
};

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct update *u = ctx;
    if (n != 2) {
        err_set(e, ERR_USAGE, "an input and an output are needed");
        return false;
    }
    u->input = arguments[0];
    u->output = arguments[1];
    u->rewrite.pools.names = u->pools.at;
    u->rewrite.pools.n = u->pools.len;
    return true;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct update *u, int argc, char **argv)
{
    const struct command_line line = {
        .options = groups,
        .usage = usage,
        .footer = footer,
        .rules = rules,
        .hint = "usage: update [-4|-h|-e|-z LEVEL] [-j STREAMS] [-s FLAGS] [-dcrRv] "
                "[-p REGEX;PATH]\n"
                "              [-a TOOL] [-A ARGUMENTS] [--keep-pools A,B | --drop-pools A,B]\n"
                "              [--range A:B] [--trace-version V] INPUT OUTPUT\nTry 'tidemark "
                "update --help'.\n",
        .refused = u->drop_in ? 1 : 2,
        .help_refused = u->drop_in,
        .rest = parse_rest};
    return command_line_parse(&line, u, argc, argv);
}

/* ---- the work */

struct outcome {
    struct rewrite_outcome rewrite;
    struct trace_write_stats stats;
};

static int write_trace(struct update *u, int fd, struct outcome *o, struct err *e)
{
    struct trace_writer *w;
    const struct rewrite_source source = trace_input_source(&u->in);
    if (trace_writer_open(&w, fd, &u->writer, e) != 0)
        return -1;
    int status = rewrite_trace(&source, &u->rewrite, w, &o->rewrite, e);
    if (status == 0)
        status = trace_writer_finish(w, &o->stats, e);
    trace_writer_free(w);
    trace_input_clear(&u->in);
    return status;
}

/* What the official tool does not know, it drops. */
static int keep_pages(const struct update *u, int fd, const struct outcome *o, struct err *e)
{
    const struct rewrite_options *r = &u->rewrite;
    const struct file_layout *layout =
        r->convert.target ? r->convert.target : o->rewrite.info.layout;
    bool whole = !r->strip && !r->has_range && u->pools.len == 0;
    bool fits = whole && save_may_append(layout->version, &u->writer.container);
    return u->drop_in ? 0 : stored_pages_keep(u->input, fd, fits, !strchr(u->letters, 'M'), e);
}

/* Which source files were not added, and why. */
static void report_sources(const struct update *u, const struct source_cache_found *found)
{
    char absent[FORMAT_SIZE], newer[FORMAT_SIZE];
    if (found->newer)
        fprintf(stderr, "tidemark: %s: %s left out: not older than the program or its capture\n",
                u->input, format_counted(newer, found->newer, "source file"));
    if (found->files == 0 && found->absent)
        fprintf(stderr, "tidemark: %s: no source file was added: %s not on this machine\n",
                u->input, format_counted(absent, found->absent, "named file"));
    else if (found->files + found->held + found->absent + found->newer + found->too_large == 0)
        fprintf(stderr,
                "tidemark: %s: no source file was added: the trace names none; `tidemark symbols` "
                "finds them\n",
                u->input);
}

/* What is worth knowing beside the summary. */
static void report_oddities(const struct update *u, struct outcome *o, const char *target)
{
    const struct rewrite_outcome *r = &o->rewrite;
    for (unsigned i = 0; i < r->info.warning_count; i++)
        fprintf(stderr, "tidemark: %s: %s\n", u->input, r->info.warnings[i]);
    if (r->losses.len > 0)
        fprintf(stderr, "tidemark: version %s cannot hold: %s\n", target,
                buf_str(&o->rewrite.losses));
    if (r->sources.too_large > 0)
        fprintf(stderr,
                "tidemark: source files of more than %" PRIu64 " MiB left out: %" PRIu64 "\n",
                SOURCE_CACHE_FILE_MAX >> 20, r->sources.too_large);
    if (u->rewrite.cache_sources)
        report_sources(u, &r->sources);
    if (u->rewrite.image_dict && r->dict_size == 0)
        fprintf(stderr, "tidemark: too few frame images for a dictionary; none was added\n");
}

/* As the official tool reports, except that "load" is everything but compressing and writing. */
static void report(const struct update *u, struct outcome *o, FILE *to)
{
    char from[FILE_VERSION_TEXT_SIZE], target[FILE_VERSION_TEXT_SIZE];
    char in_bytes[FORMAT_SIZE], out_bytes[FORMAT_SIZE], load[FORMAT_SIZE], save[FORMAT_SIZE];
    const struct trace_info *info = &o->rewrite.info;
    const struct file_layout *layout =
        u->rewrite.convert.target ? u->rewrite.convert.target : info->layout;
    uint64_t in = info->container.file_bytes, out = o->stats.file_bytes;
    int64_t save_ns = (int64_t)o->stats.compress_ns;
    int64_t load_ns = (int64_t)(monotonic_ns() - u->begin) - save_ns;
    const char *(*bytes)(char *, uint64_t) = u->drop_in ? official_bytes : format_bytes;
    const char *(*time)(char *, int64_t) = u->drop_in ? official_time : format_duration;
    file_version_text(layout->version, target);
    report_oddities(u, o, target);
    if (u->rewrite.symbols.reset)
        fprintf(to, "Reset %" PRIu64 " callstack frames.\n", o->rewrite.frames);
    fprintf(to, "%s (%s) {%s} -> %s (%s) {%s, %.2f%%}  %s load, %s save, %.2f%% change\n", u->input,
            file_version_text(info->version, from), bytes(in_bytes, in), u->output, target,
            bytes(out_bytes, out), 100.0 * (double)out / (double)o->stats.inner_bytes,
            time(load, load_ns > 0 ? load_ns : 0), time(save, save_ns),
            100.0 * (double)out / (double)in);
}

static void report_sizes(const struct update *u, const struct outcome *o, FILE *to)
{
    const struct update_sizes sizes = {.input = u->input,
                                       .output = u->output,
                                       .in = &o->rewrite.info,
                                       .out = &o->stats,
                                       .no_memory = strchr(u->letters, 'M') != NULL,
                                       .stripped = o->rewrite.stripped};
    update_sizes_memory(&sizes, u->drop_in ? NULL : to);
    update_sizes_growth(&sizes);
}

static int update_file(struct update *u, struct err *e)
{
    struct outfile out;
    struct outcome o = {0};
    if (outfile_open(&out, u->output, true, e) != 0)
        return -1;
    FILE *say = out.direct ? stderr : stdout;
    u->resolve.say = say;
    int status = write_trace(u, out.fd, &o, e);
    if (status == 0)
        status = keep_pages(u, out.fd, &o, e);
    if (status == 0)
        status = outfile_commit(&out, e);
    if (status == 0) {
        report(u, &o, say);
        report_sizes(u, &o, say);
    }
    outfile_abort(&out);
    buf_release(&o.rewrite.losses);
    return status;
}

static int update_run(struct update *u, struct err *e)
{
    u->begin = monotonic_ns();
    if (trace_input_open(&u->in, u->input, rewrite_passes(&u->rewrite), u->quiet, e) != 0)
        return -1;
    int status = update_file(u, e);
    trace_input_close(&u->in);
    return status;
}

static int update_main(int argc, char **argv, bool drop_in)
{
    struct update u = {.drop_in = drop_in,
                       .writer = trace_writer_options_default(),
                       .resolve = {.resolver = RESOLVER_NONE}};
    struct err e = {0};
    int status = parse_arguments(&u, argc, argv);
    if (status < 0) {
        u.rewrite.strip = u.letters[0] ? u.letters : NULL;
        u.rewrite.resolve = update_resolve;
        u.rewrite.resolve_ctx = &u.resolve;
        status = update_run(&u, &e) == 0 ? 0 : drop_in ? 1 : err_exit_status(&e);
        if (status != 0)
            print_error(&e);
    }
    vec_release(&u.pools);
    substitutions_release(&u.resolve.substitutions);
    resolver_release(&u.resolve.resolver);
    return status;
}

int cmd_update(int argc, char **argv)
{
    return update_main(argc, argv, false);
}

int cmd_update_drop_in(int argc, char **argv)
{
    return update_main(argc, argv, true);
}
