#include "cli/options/parse_capture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/options/look_options.h"
#include "cli/options/options.h"
#include "cli/options/resolve_options.h"
#include "proc/memory_rounds.h"
#include "report/official_csv.h"
#include "server/capture/trace_name.h"
#include "trace/file/file_version.h"
#include "trace/save/save_file.h"

/* A smaller buffer cannot hold a chunk of each column. */
#define BUFFER_LEAST ((size_t)1 << 20)

/* The program itself, including a save, needs this much. */

static const char usage[] =
    "usage: tidemark capture -o FILE [OPTIONS]\n"
    "\n"
    "Connects to a program instrumented with Tracy (any client protocol from 63 to 82), records\n"
    "what it sends, writes FILE and prints where the memory went.\n";

static const char footer[] =
    "SIGINT, SIGTERM and SIGHUP stop the capture and save it. Until FILE is complete, all "
    "received\n"
    "data is in the folder FILE.journal; if the capture is killed, or there is no room to save,\n"
    "`tidemark recover FILE.journal` makes a trace of it, as the next capture to FILE does.\n"
    "Exit status: 0 saved; 1 a fault under --strict; 2 usage; 3 undecodable bytes (what came\n"
    "before is saved); 4 output exists or cannot be written; 5 no connection.\n";

/* All releases behave alike where this option matters. */
static bool take_compat(void *ctx, const char *option, const char *text, struct err *e)
{
    (void)option;
    struct csv_release release;
    ((struct capture_options *)ctx)->session.as_released = true;
    return csv_release_parse(text, &release, e) == 0;
}

static bool take_memory(void *ctx, const char *option, const char *text, struct err *e)
{
    struct capture_options *o = ctx;
    uint64_t percent;
    if (o->drop_in) { /* clamped, as the official tool does */
        long forced = strtol(text, NULL, 10);
        percent = forced < 1 ? 1 : forced > 999 ? 999 : (uint64_t)forced;
    } else if (!option_u64(text, option, 1, 999, &percent, e)) {
        return false;
    }
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    o->memory_limit = physical / 100 * percent;
    return true;
}

static bool take_seconds(void *ctx, const char *option, const char *value, struct err *e)
{
    struct capture_options *o = ctx;
    bool forever = o->drop_in && strcmp(value, "-1") == 0; /* the official tool's default */
    if (forever)
        o->seconds = -1;
    return forever || option_seconds(value, option, &o->seconds, e);
}

static bool take_max_time(void *ctx, const char *option, const char *text, struct err *e)
{
    int64_t time;
    if (!option_time(text, option, &time, e))
        return false;
    ((struct capture_options *)ctx)->seconds = (double)time / 1e9;
    return time > 0 || refuse_value(e, option, "a time above 0", text);
}

/*
 * "30s", "30m" and "2h" are times, "30K", "30M" and "2G" sizes; a plain "30" is minutes, for
 * --keep-last seconds.
 */
static bool take_stretch(void *ctx, const char *option, const char *text, struct err *e)
{
    struct capture_options *o = ctx;
    struct err ignored;
    uint64_t n;
    int64_t time;
    double unit = strcmp(option, "--rotate") == 0 ? 60 : 1;
    const char *suffix = text + strspn(text, "0123456789.");
    bool timed = *suffix && strchr("smh", *suffix);
    o->rotate_seconds = 0;
    o->rotate_bytes = 0;
    if (timed && option_time(text, option, &time, &ignored) && time > 0)
        o->rotate_seconds = (double)time / 1e9;
    else if (!*suffix && option_u64(text, option, 1, 1u << 20, &n, &ignored))
        o->rotate_seconds = (double)n * unit;
    else if (*suffix && !timed && format_parse_bytes(option, text, &n, &ignored) == 0 && n > 0)
        o->rotate_bytes = n;
    else
        err_set(e, ERR_USAGE, "%s takes a time or a size, such as 30m or 500M, not '%s'", option,
                text);
    return o->rotate_seconds > 0 || o->rotate_bytes;
}

static bool take_spool(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct capture_options *o = ctx;
    free(o->spool_dir);
    o->spool_dir = strdup(value);
    return o->spool_dir || (err_no_memory(e, "options"), false);
}

static bool take_buffer(void *ctx, const char *option, const char *value, struct err *e)
{
    uint64_t n;
    if (format_parse_bytes(option, value, &n, e) != 0)
        return false;
    ((struct capture_options *)ctx)->buffer = n < BUFFER_LEAST ? BUFFER_LEAST : (size_t)n;
    return true;
}

static bool take_name(void *ctx, const char *option, const char *value, struct err *e)
{
    ((struct capture_options *)ctx)->name = value;
    return trace_name_check(value, option, e) == 0;
}

static bool take_preload(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return vec_push(&((struct capture_options *)ctx)->unwanted, value) ||
           (err_no_memory(e, "options"), false);
}

#define FIELD(NAME) OPTION_FIELD(struct capture_options, NAME)

static const struct option_row rows[] = {
    {"-o", "FILE", "the trace to write", FIELD(output)},
    {"--name", "TEMPLATE",
     "FILE is a folder, and the trace is named after its client, such as "
     "{program}_{host}_{port}_{pid}_{time}.tracy; with _1, _2 and so on when that exists already",
     .take = take_name},
    {"-a", "ADDRESS", "where the client is (127.0.0.1; ::1 is tried too)", FIELD(connect.address)},
    {"-p", "PORT", "its port", "8086", .type = VALUE_NUMBER, .least = 1, FIELD(connect.port)},
    {"-f", NULL, "replace FILE; the old one stays until the new one is complete", FIELD(replace)},
    {"-s", "SECONDS", "stop after so long", .take = take_seconds},
    {"--max-time", "TIME", "the same, with a unit: 90s, 30m, 12h", .take = take_max_time},
    {"--max-size", "SIZE", "stop when so much was received, such as 500M", .type = VALUE_BYTES,
     FIELD(max_bytes)},
    {"--rotate", "TIME|SIZE",
     "go on in FILE.2, FILE.3 and so on, each time so long has passed (30m, 12h; minutes without a "
     "unit) or so much was received (500M, 2G)",
     .take = take_stretch},
    {"--keep-last", "TIME|SIZE",
     "keep only the last stretch, at least so long or so much and at most half as much again, with "
     "what was live at its beginning; SIGUSR1 saves that to the next free of FILE.2, FILE.3 and so "
     "on",
     .take = take_stretch, .given = offsetof(struct capture_options, keep_last)},
    {"--figures", NULL,
     "keep no memory events, only their exact figures by call stack, site and pool, behind the "
     "trace",
     FIELD(session.figures)},
    {"-m", "PERCENT", "stop when this process holds so much of the physical memory",
     .take = take_memory},
    {"--memory-limit", "SIZE|PERCENT%",
     "keep this process's memory below by moving event data to the spool; 25% is of what the "
     "machine or its control group has",
     .type = VALUE_MEMORY_BOUND, FIELD(memory_bound)},
    {"--strict", NULL, "end at the first memory fault, as the official tool does",
     FIELD(session.strict)},
    {"--compat", "TAG",
     "as the official server of a release, v0.14.0 or older: memory events of fibers belong to "
     "their threads, plots' colours are as sent",
     .take = take_compat},
    {"--connect-timeout", "S", "wait so many seconds for the client (default: for ever)",
     .type = VALUE_SECONDS, FIELD(connect.timeout)},
    {"--protocol", "N", "offer protocol N only, instead of finding out", .type = VALUE_NUMBER,
     .least = PROTOCOL_MIN, .most = PROTOCOL_MAX, FIELD(connect.protocol)},
    {"--trace-version", "V", "file version to write (default: the client's generation)",
     .type = VALUE_FILE_VERSION, FIELD(trace_version)},
    {"--compression", "SPEC", "lz4, lz4hc, zstd or zstd:LEVEL (default: by version)",
     .type = VALUE_COMPRESSION, FIELD(container)},
    {"--spool", "DIR",
     "where the journal goes, and event data that does not fit in memory (FILE's folder)",
     .take = take_spool, .given = offsetof(struct capture_options, spool_given)},
    {"--buffer", "SIZE", "event data kept in memory before it goes there (96M)",
     .take = take_buffer},
    {"--no-journal", NULL, "do not keep what arrives on disk until FILE is written",
     FIELD(no_journal)},
    {"--fsync", NULL, "write the journal through to the disk, ten times a second",
     FIELD(journaling.sync)},
    {"--progress", "SECONDS", "print a progress line so often, also when not on a terminal",
     .type = VALUE_SECONDS, FIELD(progress)},
    QUIET_ROW(struct capture_options, quiet),
    {"--no-code", NULL, "do not ask for machine code and the lines of its instructions",
     FIELD(session.no_code)},
    {"--no-sources", NULL, "do not ask for the texts of source files", FIELD(session.no_sources)},
    {"--memory-plots", "HZ",
     "readings per second of what the kernel counts of a client on this host, as plots of the "
     "trace: resident pages, swap, faults, the cgroup (10; 0: none)",
     .type = VALUE_NUMBER, .most = 100, FIELD(session.memory_hz),
     .given = offsetof(struct capture_options, memory_asked)},
    {"--no-resident", NULL, "do not look at which pages of such a client are in memory",
     FIELD(session.no_resident)},
    {"--symbols", "WHERE",
     "where functions get their names: {}; server is this program, for clients on this host: the "
     "client is not asked; without it the client, and this program what that left open",
     .type = VALUE_WORD, .words = "client, server or both", .least = NAMER_CLIENT, FIELD(namer)},
    {"--no-summary", NULL, "print no summary", .type = VALUE_SET, .least = false, FIELD(summary)},
    {"--drop-preload", "NAME",
     "start again without the preloaded library of that name; known allocation wrappers are "
     "dropped without being named",
     .take = take_preload},
    OPTION_HELP_ROW,
    OPTION_VERSION_ROW,
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = look_rows, .base = offsetof(struct capture_options, session.looks)},
    {.rows = resolve_source_rows,
     .base = offsetof(struct capture_options, resolving),
     .title = "Names that this program looks up"},
    {0},
};
static const struct option_row positional[] = {{0}};
static const struct option_rule rules[] = {
    {"--name", OPTION_EXCLUDES, "-f", NULL},
    {"--keep-last", OPTION_EXCLUDES, "--no-journal", "--keep-last needs the journal"},
    {"--resident-at --resident-on", OPTION_EXCLUDES, "--no-resident --figures", NULL},
    {"--figures", OPTION_EXCLUDES, "--keep-last",
     "--figures count from the beginning: they do not go with --keep-last"},
    {0},
};

static bool check_output(void *ctx, int n, char **arguments, struct err *e)
{
    (void)n;
    (void)arguments;
    struct capture_options *o = ctx;
    uint32_t version = o->trace_version ? o->trace_version : FILE_VERSION(0, 14, 0);
    o->session.no_symbols = o->namer == NAMER_SERVER;
    if (o->session.figures && save_check_figures(version, &o->container, e) != 0)
        return false;
    if (o->keep_last && o->session.looks.signal == SIGUSR1)
        return err_set(e, ERR_USAGE,
                       "--keep-last saves on SIGUSR1: use --resident-on USR2 with it"),
               false;
    if (o->output && *o->output)
        return true;
    err_set(e, ERR_USAGE, "no output file: -o FILE");
    return false;
}

int capture_options_parse(struct capture_options *o, bool drop_in, int argc, char **argv)
{
    *o = (struct capture_options){.connect = {.address = "127.0.0.1", .timeout = -1},
                                  .summary = true,
                                  .drop_in = drop_in,
                                  .session.memory_hz = MEMORY_HZ,
                                  .seconds = -1,
                                  .progress = -1,
                                  .container = container_options_default()};
    const struct command_line line = {
        .options = groups,
        .usage = usage,
        .footer = footer,
        .rules = rules,
        .positional = positional,
        .hint = "usage: capture -o output.tracy [-a address] [-p port] [-f] [-s seconds] "
                "[-m memlimit]\nTry 'tidemark capture --help'.\n",
        .refused = o->drop_in ? 1 : 2,
        .help_refused = o->drop_in,
        .rest = check_output};
    return command_line_parse(&line, o, argc, argv);
}

bool capture_option_check(const char *option, const char *value, struct err *e)
{
    struct capture_options o = {.container = container_options_default()};
    bool good = option_take_value(groups, &o, option, value, e);
    capture_options_release(&o);
    return good;
}

void capture_options_release(struct capture_options *o)
{
    resolve_options_release(&o->resolving);
    vec_release(&o->unwanted);
    free(o->spool_dir);
}
