#include "cli/options/parse_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/options/options.h"
#include "cli/options/resolve_options.h"
#include "report/official_csv.h"
#include "server/capture/trace_name.h"
#include "trace/file/file_version.h"

/* A smaller buffer cannot hold a chunk of each column. */
#define BUFFER_LEAST ((size_t)1 << 20)

/* The program itself, including a save, needs this much. */

static const char usage[] =
    "usage: tidemark capture -o FILE [OPTIONS]\n"
    "\n"
    "Connects to a program instrumented with Tracy (any client protocol from 63 to 82), records\n"
    "what it sends, writes FILE and prints where the memory went.\n"
    "\n"
    "  -o FILE                 the trace to write\n"
    "      --name TEMPLATE     FILE is a folder, and the trace is named after its client, such as\n"
    "                          {program}_{host}_{port}_{pid}_{time}.tracy; with _1, _2 and so on\n"
    "                          when that exists already\n"
    "  -a ADDRESS              where the client is (127.0.0.1; ::1 is tried too)\n"
    "  -p PORT                 its port (8086)\n"
    "  -f                      replace FILE; the old one stays until the new one is whole\n"
    "  -s SECONDS              stop after so long\n"
    "      --max-time TIME     the same, with a unit: 90s, 30m, 12h\n"
    "      --max-size SIZE     stop when so much was received, such as 500M\n"
    "      --rotate TIME|SIZE  go on in FILE.2, FILE.3 and so on, each time so long has passed "
    "(30m,\n"
    "                          12h; minutes without a unit) or so much was received (500M, 2G)\n"
    "      --keep-last TIME|SIZE  keep only the last stretch, at least so long or so much and at\n"
    "                          most half as much again, with what was live at its beginning;\n"
    "                          SIGUSR1 saves that to the next free of FILE.2, FILE.3 and so on\n"
    "  -m PERCENT              stop when this process holds so much of the physical memory\n"
    "      --memory-limit SIZE|PERCENT%  keep this process's memory below by moving event data to\n"
    "                          the spool; 25% is of what the machine or its control group has\n"
    "      --strict            end at the first memory fault, as the official tool does\n"
    "      --compat TAG        as the official server of a release, v0.14.0 or older: memory "
    "events\n"
    "                          of fibers belong to their threads, plots' colours are as sent\n"
    "      --connect-timeout S wait so many seconds for the client (default: for ever)\n"
    "      --protocol N        offer protocol N only, instead of finding out\n"
    "      --trace-version V   file version to write (default: the client's generation)\n"
    "      --compression SPEC  lz4, lz4hc, zstd or zstd:LEVEL (default: by version)\n"
    "      --spool DIR         where the journal goes, and event data that does not fit in\n"
    "                          memory (FILE's folder)\n"
    "      --buffer SIZE       event data kept in memory before it goes there (96M)\n"
    "      --no-journal        do not keep what arrives on disk until FILE is written\n"
    "      --fsync             write the journal through to the disk, ten times a second\n"
    "      --progress SECONDS  print a progress line so often, also when not on a terminal\n"
    "      --no-code           do not ask for machine code and the lines of its instructions\n"
    "      --no-sources        do not ask for the texts of source files\n"
    "      --symbols WHERE     where functions get their names: client, server (this program,\n"
    "                          for clients on this host: the client is not asked) or both;\n"
    "                          without it the client, and this program what that left open\n"
    "      --debug-dir DIR     where this program looks for debug files, too\n"
    "      --debuginfod URL    a server that it asks for them\n"
    "      --no-summary        print no summary\n"
    "      --drop-preload NAME start again without the preloaded library of that name; known\n"
    "                          allocation wrappers are dropped without being named\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "SIGINT, SIGTERM and SIGHUP stop the capture and save it. Until FILE is whole all that "
    "arrived\n"
    "is in the folder FILE.journal; if the capture is killed, or there is no room to save,\n"
    "`tidemark recover FILE.journal` makes a trace of it, as the next capture to FILE does.\n"
    "Exit status: 0 saved; 1 a fault under --strict; 2 usage; 3 undecodable bytes (what came\n"
    "before is saved); 4 output exists or cannot be written; 5 no connection.\n";

enum {
    OPTION_STRICT = 256,
    OPTION_COMPAT,
    OPTION_CONNECT_TIMEOUT,
    OPTION_PROTOCOL,
    OPTION_TRACE_VERSION,
    OPTION_COMPRESSION,
    OPTION_SPOOL,
    OPTION_BUFFER,
    OPTION_NO_JOURNAL,
    OPTION_FSYNC,
    OPTION_MAX_TIME,
    OPTION_MAX_SIZE,
    OPTION_ROTATE,
    OPTION_KEEP_LAST,
    OPTION_MEMORY_LIMIT,
    OPTION_PROGRESS,
    OPTION_NO_CODE,
    OPTION_NO_SOURCES,
    OPTION_NO_SUMMARY,
    OPTION_DROP_PRELOAD,
    OPTION_SYMBOLS,
    OPTION_NAME,
};

static const struct option long_options[] = {
    {"name", required_argument, NULL, OPTION_NAME},
    {"strict", no_argument, NULL, OPTION_STRICT},
    {"compat", required_argument, NULL, OPTION_COMPAT},
    {"connect-timeout", required_argument, NULL, OPTION_CONNECT_TIMEOUT},
    {"protocol", required_argument, NULL, OPTION_PROTOCOL},
    {"trace-version", required_argument, NULL, OPTION_TRACE_VERSION},
    {"compression", required_argument, NULL, OPTION_COMPRESSION},
    {"spool", required_argument, NULL, OPTION_SPOOL},
    {"buffer", required_argument, NULL, OPTION_BUFFER},
    {"no-journal", no_argument, NULL, OPTION_NO_JOURNAL},
    {"fsync", no_argument, NULL, OPTION_FSYNC},
    {"max-time", required_argument, NULL, OPTION_MAX_TIME},
    {"max-size", required_argument, NULL, OPTION_MAX_SIZE},
    {"memory-limit", required_argument, NULL, OPTION_MEMORY_LIMIT},
    {"keep-last", required_argument, NULL, OPTION_KEEP_LAST},
    {"rotate", required_argument, NULL, OPTION_ROTATE},
    {"progress", required_argument, NULL, OPTION_PROGRESS},
    {"no-code", no_argument, NULL, OPTION_NO_CODE},
    {"no-sources", no_argument, NULL, OPTION_NO_SOURCES},
    {"no-summary", no_argument, NULL, OPTION_NO_SUMMARY},
    {"drop-preload", required_argument, NULL, OPTION_DROP_PRELOAD},
    {"symbols", required_argument, NULL, OPTION_SYMBOLS},
    {"debug-dir", required_argument, NULL, RESOLVE_OPTION_DEBUG_DIR},
    {"debuginfod", required_argument, NULL, RESOLVE_OPTION_DEBUGINFOD},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* All releases behave alike where this option matters. */
static bool parse_compat(struct capture_options *o, const char *text, struct err *e)
{
    struct csv_release release;
    o->session.as_released = true;
    return csv_release_parse(text, &release, e) == 0;
}

static bool parse_memory_limit(struct capture_options *o, const char *text, struct err *e)
{
    uint64_t percent;
    if (o->drop_in) { /* clamped, as the official tool does */
        long forced = strtol(text, NULL, 10);
        percent = forced < 1 ? 1 : forced > 999 ? 999 : (uint64_t)forced;
    } else if (!option_u64(text, "-m", 1, 999, &percent, e)) {
        return false;
    }
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    o->memory_limit = physical / 100 * percent;
    return true;
}

static bool parse_namer(struct capture_options *o, const char *text, struct err *e)
{
    static const char *const names[] = {
        [NAMER_CLIENT] = "client", [NAMER_SERVER] = "server", [NAMER_BOTH] = "both"};
    for (int i = NAMER_CLIENT; i <= NAMER_BOTH; i++) {
        if (strcmp(text, names[i]) == 0)
            o->namer = (enum namer)i;
    }
    o->session.no_symbols = o->namer == NAMER_SERVER;
    if (o->namer == NAMER_DEFAULT)
        err_set(e, ERR_USAGE, "--symbols is client, server or both, not '%s'", text);
    return o->namer != NAMER_DEFAULT;
}

static bool parse_max_time(struct capture_options *o, const char *text, struct err *e)
{
    int64_t time;
    if (!option_time(text, "--max-time", &time, e))
        return false;
    o->seconds = (double)time / 1e9;
    return time > 0 || (err_set(e, ERR_USAGE, "--max-time takes more than '%s'", text), false);
}

/*
 * "30s", "30m" and "2h" are times, "30K", "30M" and "2G" sizes; a plain "30" is multiplied by
 * `unit`.
 */
static bool parse_stretch(struct capture_options *o, const char *text, const char *option,
                          double unit, struct err *e)
{
    struct err ignored;
    uint64_t n;
    int64_t time;
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

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct capture_options *o = ctx;
    uint64_t n;
    switch (option) {
    case 'a':
        o->connect.address = value;
        return true;
    case 'o':
        o->output = value;
        return true;
    case 'p':
        if (!option_u64(value, "-p", 1, 65535, &n, e))
            return false;
        o->connect.port = (uint16_t)n;
        return true;
    case 'f':
        o->replace = true;
        return true;
    case 's':
        if (o->drop_in && strcmp(value, "-1") == 0) { /* the official tool's default */
            o->seconds = -1;
            return true;
        }
        return option_seconds(value, "-s", &o->seconds, e);
    case 'm':
        return parse_memory_limit(o, value, e);
    case OPTION_STRICT:
        o->session.strict = true;
        return true;
    case OPTION_COMPAT:
        return parse_compat(o, value, e);
    case OPTION_NO_CODE:
        o->session.no_code = true;
        return true;
    case OPTION_NO_SOURCES:
        o->session.no_sources = true;
        return true;
    case OPTION_CONNECT_TIMEOUT:
        return option_seconds(value, "--connect-timeout", &o->connect.timeout, e);
    case OPTION_PROTOCOL:
        if (!option_u64(value, "--protocol", PROTOCOL_MIN, PROTOCOL_MAX, &n, e))
            return false;
        o->connect.protocol = (uint32_t)n;
        return true;
    case OPTION_TRACE_VERSION:
        return file_version_parse(value, &o->trace_version, e) == 0;
    case OPTION_COMPRESSION:
        return option_compression(value, &o->container, e);
    case OPTION_SPOOL:
        free(o->spool_dir);
        o->spool_dir = strdup(value);
        o->spool_given = true;
        return o->spool_dir || (err_no_memory(e, "options"), false);
    case OPTION_BUFFER:
        if (format_parse_bytes("--buffer", value, &n, e) != 0)
            return false;
        o->buffer = n < BUFFER_LEAST ? BUFFER_LEAST : (size_t)n;
        return true;
    case OPTION_NAME:
        o->name = value;
        return trace_name_check(value, "--name", e) == 0;
    case OPTION_NO_JOURNAL:
        o->no_journal = true;
        return true;
    case OPTION_MEMORY_LIMIT:
        return option_memory_bound(value, &o->memory_bound, e);
    case OPTION_MAX_TIME:
        return parse_max_time(o, value, e);
    case OPTION_MAX_SIZE:
        return format_parse_bytes("--max-size", value, &o->max_bytes, e) == 0;
    case OPTION_ROTATE:
        return parse_stretch(o, value, "--rotate", 60, e);
    case OPTION_KEEP_LAST:
        o->keep_last = true;
        return parse_stretch(o, value, "--keep-last", 1, e);
    case OPTION_FSYNC:
        o->journaling.sync = true;
        return true;
    case OPTION_PROGRESS:
        return option_seconds(value, "--progress", &o->progress, e);
    case OPTION_NO_SUMMARY:
        o->summary = false;
        return true;
    case OPTION_DROP_PRELOAD:
        return vec_push(&o->unwanted, value) || (err_no_memory(e, "options"), false);
    case OPTION_SYMBOLS:
        return parse_namer(o, value, e);
    default:
        return resolve_option(&o->resolving, option, value, e);
    }
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    const struct capture_options *o = ctx;
    if (n > 0)
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[0]);
    else if (!o->output || !*o->output)
        err_set(e, ERR_USAGE, "no output file: -o FILE");
    else if (o->name && o->replace)
        err_set(e, ERR_USAGE, "--name does not go with -f");
    else if (o->keep_last && o->no_journal)
        err_set(e, ERR_USAGE, "--keep-last keeps what it keeps in the journal");
    else
        return true;
    return false;
}

int capture_options_parse(struct capture_options *o, bool drop_in, int argc, char **argv)
{
    *o = (struct capture_options){.connect = {.address = "127.0.0.1", .port = 8086, .timeout = -1},
                                  .summary = true,
                                  .drop_in = drop_in,
                                  .seconds = -1,
                                  .progress = -1,
                                  .container = container_options_default()};
    const struct command_line line = {
        .letters = "a:o:p:fs:m:hV",
        .names = long_options,
        .usage = usage,
        .hint = "usage: capture -o output.tracy [-a address] [-p port] [-f] [-s seconds] "
                "[-m memlimit]\nTry 'tidemark capture --help'.\n",
        .refused = o->drop_in ? 1 : 2,
        .take = parse_option,
        .rest = parse_rest};
    return command_line_parse(&line, o, argc, argv);
}

bool capture_option_check(const char *option, const char *value, struct err *e)
{
    struct capture_options o = {.container = container_options_default()};
    int letter = option[1] == '-' ? 0 : option[1];
    for (const struct option *l = long_options; !letter && l->name; l++) {
        if (strcmp(l->name, option + 2) == 0)
            letter = l->val;
    }
    bool good = parse_option(&o, letter, value, e);
    capture_options_release(&o);
    return good;
}

void capture_options_release(struct capture_options *o)
{
    resolve_options_release(&o->resolving);
    vec_release(&o->unwanted);
    free(o->spool_dir);
}
