#include "cli/options/parse_run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "cli/options/options.h"
#include "cli/options/question.h"
#include "cli/options/resolve_options.h"
#include "report/html/html.h"
#include "trace/file/file_version.h"

#define THREADS_MOST 512 /* as REC_THREADS_BYTES of client/recording_format.h */
#define BUFFER_LEAST ((uint64_t)16 << 20)

/* A separate macro, since clang-format aligns what follows a macro's parentheses with them. */
#define FILES_USAGE                                                                                \
    RESOLVE_USAGE_OF_FILES_AND("      --symbol-threads N  that read an image (one per "            \
                               "processor)\n")

static const char usage[] =
    "usage: tidemark run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "       tidemark run --pid PID [OPTIONS]\n"
    "       tidemark run --recover RECORDING|FOLDER [-o FILE] [OPTIONS]\n"
    "\n"
    "Runs a program that was not built for it, records what it allocates and frees with call\n"
    "stacks, writes a trace and prints where the memory went. The program's input, output and\n"
    "exit status are its own; what is printed here goes to standard error, after its end, and a\n"
    "report in JSON or CSV to standard output.\n"
    "\n"
    "  -o, --output FILE       the trace (default: PROGRAM.PID.tracy)\n"
    "  -f, --force             replace FILE when it exists\n"
    "      --report FORMAT     text, json, csv, html or none (text)\n"
    "      --report-file FILE  where the report goes (text: standard error; json, csv: standard\n"
    "                          output; html: beside the trace)\n"
    "      --fail-if EXPR      exit with 1 when this is true of the figures, such as 'peak>512M';\n"
    "                          may be given several times\n"
    "      --this-process      --fail-if is for the program's own process alone, whatever its\n"
    "                          children take; without this it fails when some were not recorded\n"
    "      --open              show the page in a browser afterwards\n"
    "      --follow-fork       record the program's children, too, each to a separate trace\n"
    "      --min-lifetime SEC  children that live shorter share one trace (1)\n"
    "      --env NAME=VALUE    in the program's environment; may be given several times\n"
    "      --depth N           frames of a call stack (64, at most 255)\n"
    "      --min-size N        do not record blocks that are smaller\n"
    "      --sample N          record one allocation for every so many bytes, by chance\n"
    "      --pools LIST        malloc, or malloc,mmap to record mappings, too (malloc)\n"
    "      --threads LIST      of whose allocations: main, thread ids, names with * and ?; !NAME\n"
    "                          for all but that (all)\n"
    "      --gpu               record device memory of CUDA programs, a pool for each device\n"
    "      --python-allocators  record each Python object: sets PYTHONMALLOC=malloc\n"
    "      --no-python         record native frames only where Python functions run\n"
    "      --buffer SIZE       what the recording may take on disk (no limit)\n"
    "      --when-full WHAT    then wait until some of it was read, drop allocations until then,\n"
    "                          or stop recording (wait)\n"
    "      --seconds SEC       stop recording after so long; the program goes on\n"
    "      --start-paused      record no allocations before --toggle or the program says so\n"
    "      --toggle SIGNAL     USR1 or USR2: when this process gets it, allocations are recorded "
    "no\n"
    "                          more, or again; the program does not get it\n"
    "      --listen[=ADDRESS]  let a Tracy server connect while the program runs, as to a program\n"
    "                          that was built with Tracy (of this host alone, unless ADDRESS is\n"
    "                          given)\n"
    "      --port N            where to listen (the first of 8086 to 8105 that is free; 0: any)\n"
    "      --protocol N        Tracy's protocol number to speak, 63 to 82 (82)\n"
    "      --no-exit           wait for a server when the program has ended before one came\n"
    "      --no-code           offer servers no machine code\n"
    "      --no-client         do not record the program's own Tracy client\n"
    "      --pid PID           record a process that runs already, until it ends, Ctrl-C or "
    "--seconds\n"
    "      --spool DIR         where the recording is kept meanwhile (the trace's folder)\n"
    "      --keep-recording    do not delete it\n"
    "      --recover FILE      finish a recording that was left behind, or all in a folder\n"
    "      --adopt PID         record a process that loads the library now; sends it the socket\n"
    "      --adopt-after SEC   then write a trace only if it lives so long (0)\n"
    "      --library FILE      the library to preload, instead of the one that belongs here\n"
    "      --trace-version V   file version to write (0.14.0)\n"
    "      --compression SPEC  lz4, lz4hc, zstd or zstd:LEVEL (default: by version)\n"
    "      --no-symbols        do not look for the names of functions; no debuginfod server is "
    "asked\n"
    "                          for them but that of --debuginfod\n" FILES_USAGE
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "Exit status: the program's when it is not 0 (128 + N when signal N ended it); else 1 when\n"
    "--fail-if holds, 0 when not. When nothing was run: 2 usage, 4 the output cannot be written\n"
    "or the port is taken, 126 the program cannot be run or recorded, 127 it is not there.\n";

enum {
    OPTION_REPORT = 256,
    OPTION_REPORT_FILE,
    OPTION_FAIL_IF,
    OPTION_THIS_PROCESS,
    OPTION_OPEN,
    OPTION_GPU,
    OPTION_NO_PYTHON,
    OPTION_PYTHON_ALLOCATORS,
    OPTION_FOLLOW_FORK,
    OPTION_MIN_LIFETIME,
    OPTION_ENV,
    OPTION_DEPTH,
    OPTION_MIN_SIZE,
    OPTION_SAMPLE,
    OPTION_POOLS,
    OPTION_THREADS,
    OPTION_SYMBOL_THREADS,
    OPTION_BUFFER,
    OPTION_WHEN_FULL,
    OPTION_SECONDS,
    OPTION_START_PAUSED,
    OPTION_TOGGLE,
    OPTION_LISTEN,
    OPTION_PORT,
    OPTION_PROTOCOL,
    OPTION_NO_EXIT,
    OPTION_NO_CODE,
    OPTION_NO_CLIENT,
    OPTION_PID,
    OPTION_SPOOL,
    OPTION_KEEP,
    OPTION_RECOVER,
    OPTION_ADOPT,
    OPTION_ADOPT_AFTER,
    OPTION_LIBRARY,
    OPTION_TRACE_VERSION,
    OPTION_COMPRESSION,
    OPTION_NO_SYMBOLS,
};

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, 'f'},
    {"report", required_argument, NULL, OPTION_REPORT},
    {"report-file", required_argument, NULL, OPTION_REPORT_FILE},
    {"fail-if", required_argument, NULL, OPTION_FAIL_IF},
    {"this-process", no_argument, NULL, OPTION_THIS_PROCESS},
    {"open", no_argument, NULL, OPTION_OPEN},
    {"follow-fork", no_argument, NULL, OPTION_FOLLOW_FORK},
    {"min-lifetime", required_argument, NULL, OPTION_MIN_LIFETIME},
    {"env", required_argument, NULL, OPTION_ENV},
    {"depth", required_argument, NULL, OPTION_DEPTH},
    {"min-size", required_argument, NULL, OPTION_MIN_SIZE},
    {"sample", required_argument, NULL, OPTION_SAMPLE},
    {"pools", required_argument, NULL, OPTION_POOLS},
    {"threads", required_argument, NULL, OPTION_THREADS}, /* precedes the resolver's option */
    {"symbol-threads", required_argument, NULL, OPTION_SYMBOL_THREADS},
    {"gpu", no_argument, NULL, OPTION_GPU},
    {"no-python", no_argument, NULL, OPTION_NO_PYTHON},
    {"python-allocators", no_argument, NULL, OPTION_PYTHON_ALLOCATORS},
    {"buffer", required_argument, NULL, OPTION_BUFFER},
    {"when-full", required_argument, NULL, OPTION_WHEN_FULL},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"start-paused", no_argument, NULL, OPTION_START_PAUSED},
    {"toggle", required_argument, NULL, OPTION_TOGGLE},
    {"listen", optional_argument, NULL, OPTION_LISTEN},
    {"port", required_argument, NULL, OPTION_PORT},
    {"protocol", required_argument, NULL, OPTION_PROTOCOL},
    {"no-exit", no_argument, NULL, OPTION_NO_EXIT},
    {"no-code", no_argument, NULL, OPTION_NO_CODE},
    {"no-client", no_argument, NULL, OPTION_NO_CLIENT},
    {"pid", required_argument, NULL, OPTION_PID},
    {"spool", required_argument, NULL, OPTION_SPOOL},
    {"keep-recording", no_argument, NULL, OPTION_KEEP},
    {"recover", required_argument, NULL, OPTION_RECOVER},
    {"adopt", required_argument, NULL, OPTION_ADOPT},
    {"adopt-after", required_argument, NULL, OPTION_ADOPT_AFTER},
    {"library", required_argument, NULL, OPTION_LIBRARY},
    {"trace-version", required_argument, NULL, OPTION_TRACE_VERSION},
    {"compression", required_argument, NULL, OPTION_COMPRESSION},
    {"no-symbols", no_argument, NULL, OPTION_NO_SYMBOLS},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    RESOLVE_LONG_OPTIONS_OF_FILES,
    {NULL, 0, NULL, 0},
};

static bool take_report(struct run_options *o, const char *value, struct err *e)
{
    static const char *const names[] = {[RUN_TEXT] = "text",
                                        [RUN_JSON] = "json",
                                        [RUN_CSV] = "csv",
                                        [RUN_HTML] = "html",
                                        [RUN_NONE] = "none"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(value, names[i]) != 0)
            continue;
        o->report = (enum run_report)i;
        return true;
    }
    return refuse_value(e, "--report", "text, json, csv, html or none", value);
}

static bool take_environment(struct run_options *o, const char *value, struct err *e)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return refuse_value(e, "--env", "NAME=VALUE", value);
    return vec_push(&o->environment, value) || (err_no_memory(e, "options"), false);
}

static bool take_pools(struct run_options *o, const char *value, struct err *e)
{
    o->mmap_pool = false;
    for (const char *p = value; *p;) {
        size_t n = strcspn(p, ",");
        if (n == 4 && memcmp(p, "mmap", n) == 0)
            o->mmap_pool = true;
        else if (n != 6 || memcmp(p, "malloc", n) != 0)
            return refuse_value(e, "--pools", "malloc or malloc,mmap", value);
        p += n + (p[n] == ',');
    }
    return true;
}

static bool take_when_full(struct run_options *o, const char *value, struct err *e)
{
    static const char *const names[] = {
        [RUN_FULL_STOP] = "stop", [RUN_FULL_WAIT] = "wait", [RUN_FULL_DROP] = "drop"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(value, names[i]) != 0)
            continue;
        o->when_full = (enum run_full)i;
        return true;
    }
    return refuse_value(e, "--when-full", "wait, drop or stop", value);
}

/* A smaller buffer cannot hold a chunk for each of a few threads. */
static bool take_buffer(struct run_options *o, const char *value, struct err *e)
{
    if (format_parse_bytes("--buffer", value, &o->buffer, e) != 0)
        return false;
    if (o->buffer < BUFFER_LEAST)
        o->buffer = BUFFER_LEAST;
    return true;
}

static bool take_threads(struct run_options *o, const char *value, struct err *e)
{
    o->threads = value;
    return (*value && strlen(value) < THREADS_MOST) ||
           refuse_value(e, "--threads", "a list of up to 511 bytes", value);
}

static bool take_toggle(struct run_options *o, const char *value, struct err *e)
{
    const char *name = strncmp(value, "SIG", 3) == 0 ? value + 3 : value;
    o->toggle = strcmp(name, "USR1") == 0 ? SIGUSR1 : strcmp(name, "USR2") == 0 ? SIGUSR2 : 0;
    return o->toggle || refuse_value(e, "--toggle", "USR1 or USR2", value);
}

/* Options that select what is recorded. */
static bool take_recorded(struct run_options *o, int option, const char *value, struct err *e)
{
    switch (option) {
    case OPTION_FOLLOW_FORK:
        return o->follow_fork = true;
    case OPTION_MIN_LIFETIME:
        return option_seconds(value, "--min-lifetime", &o->min_lifetime, e);
    case OPTION_DEPTH:
        return option_u64(value, "--depth", 1, RUN_DEPTH_MAX, &o->depth, e);
    case OPTION_MIN_SIZE:
        return format_parse_bytes("--min-size", value, &o->min_size, e) == 0;
    case OPTION_SAMPLE:
        return format_parse_bytes("--sample", value, &o->sample, e) == 0;
    case OPTION_POOLS:
        return take_pools(o, value, e);
    case OPTION_THREADS:
        return take_threads(o, value, e);
    case OPTION_SYMBOL_THREADS:
        return option_u64(value, "--symbol-threads", 1, 256, &o->resolving.threads, e);
    case OPTION_BUFFER:
        return take_buffer(o, value, e);
    case OPTION_WHEN_FULL:
        return take_when_full(o, value, e);
    case OPTION_SECONDS:
        return option_seconds(value, "--seconds", &o->seconds, e);
    case OPTION_START_PAUSED:
        return o->start_paused = true;
    case OPTION_TOGGLE:
        return take_toggle(o, value, e);
    default:
        return resolve_option(&o->resolving, option, value, e);
    }
}

/* Options for servers; each enables --listen. */
static bool take_listening(struct run_options *o, int option, const char *value, struct err *e)
{
    o->listen = true;
    switch (option) {
    case OPTION_LISTEN:
        if (value)
            o->listen_address = value;
        return !value || *value || refuse_value(e, "--listen", "an address", value);
    case OPTION_PORT:
        if (!option_u64(value, "--port", 0, UINT16_MAX, &o->port, e))
            return false;
        o->any_port = o->port == 0;
        return true;
    case OPTION_PROTOCOL:
        return option_u64(value, "--protocol", PROTOCOL_MIN, PROTOCOL_MAX, &o->protocol, e);
    default:
        return o->no_exit = true;
    }
}

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct run_options *o = ctx;
    switch (option) {
    case 'o':
        o->output = value;
        return true;
    case 'f':
        return o->replace = true;
    case OPTION_REPORT:
        return take_report(o, value, e);
    case OPTION_REPORT_FILE:
        o->report_file = value;
        return true;
    case OPTION_FAIL_IF:
        return budgets_add(&o->fail_if, "--fail-if", value, true, e);
    case OPTION_THIS_PROCESS:
        return o->this_process = true;
    case OPTION_OPEN:
        return o->open = true;
    case OPTION_GPU:
        return o->gpu = true;
    case OPTION_NO_PYTHON:
        return o->no_python = true;
    case OPTION_PYTHON_ALLOCATORS:
        o->python_allocators = true;
        return take_environment(o, "PYTHONMALLOC=malloc", e);
    case OPTION_ENV:
        return take_environment(o, value, e);
    case OPTION_LISTEN:
    case OPTION_PORT:
    case OPTION_PROTOCOL:
    case OPTION_NO_EXIT:
        return take_listening(o, option, value, e);
    case OPTION_PID:
        return option_u64(value, "--pid", 1, INT32_MAX, &o->pid, e);
    case OPTION_SPOOL:
        o->spool = value;
        return true;
    case OPTION_KEEP:
        return o->keep = true;
    case OPTION_RECOVER:
        o->recover = value;
        return true;
    case OPTION_ADOPT:
        return option_u64(value, "--adopt", 1, INT32_MAX, &o->adopt, e);
    case OPTION_ADOPT_AFTER:
        return option_seconds(value, "--adopt-after", &o->adopt_after, e);
    case OPTION_LIBRARY:
        o->library = value;
        return true;
    case OPTION_TRACE_VERSION:
        return o->version_given = file_version_parse(value, &o->version, e) == 0;
    case OPTION_COMPRESSION:
        return option_compression(value, &o->container, e);
    case OPTION_NO_SYMBOLS:
        return o->no_symbols = true;
    case OPTION_NO_CODE:
        return o->no_code = true;
    case OPTION_NO_CLIENT:
        return o->no_client = true;
    default:
        return take_recorded(o, option, value, e);
    }
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct run_options *o = ctx;
    if (n == 0 && !o->recover && !o->pid && !o->adopt)
        err_set(e, ERR_USAGE, "which program?");
    else if (o->pid && (n > 0 || o->recover))
        err_set(e, ERR_USAGE, "--pid runs nothing: what is '%s' for?",
                n > 0 ? arguments[0] : o->recover);
    else if (o->pid && o->python_allocators)
        err_set(e, ERR_USAGE, "--python-allocators is for programs that are started here");
    else if (o->pid && (o->follow_fork || o->gpu || o->environment.len))
        err_set(e, ERR_USAGE,
                "--follow-fork, --gpu and --env are for programs that are started here");
    else if (n > 0 && o->recover)
        err_set(e, ERR_USAGE, "--recover runs nothing: what is '%s' for?", arguments[0]);
    else if (o->adopt && (n > 0 || o->recover || o->pid))
        err_set(e, ERR_USAGE, "--adopt runs nothing");
    else if (o->recover && o->listen)
        err_set(e, ERR_USAGE, "--recover runs nothing that a server could watch");
    else if (o->output && !*o->output)
        err_set(e, ERR_USAGE, "the output has no name");
    else if ((o->report == RUN_HTML || o->open) && !html_available())
        err_set(e, ERR_USAGE,
                "this program was built without the page that --open and --report html need; "
                "`make web` builds it when node and npm are there");
    else {
        o->program = arguments;
        return true;
    }
    return false;
}

/* Variables that Tracy clients read. Options take precedence. */
static int take_environment_of_clients(struct run_options *o)
{
    static const char *const names[] = {"TRACY_DATA_PORT", "TRACY_PORT"};
    struct err e = {0};
    const char *no_exit = getenv("TRACY_NO_EXIT");
    o->no_exit_of_clients = !o->no_exit && no_exit && strcmp(no_exit, "1") == 0;
    o->no_exit |= o->no_exit_of_clients;
    for (size_t i = 0; i < 2 && !o->port && !o->any_port; i++) {
        const char *value = getenv(names[i]);
        if (value && !option_u64(value, names[i], 1, UINT16_MAX, &o->port, &e)) {
            print_error(&e);
            return 2;
        }
    }
    return -1;
}

int run_options_parse(struct run_options *o, int argc, char **argv)
{
    int status;
    const struct command_line line = {
        .letters = "+o:fhV",
        .names = long_options,
        .usage = usage,
        .hint =
            "usage: tidemark run [OPTIONS] [--] PROGRAM [ARGUMENTS]; try 'tidemark run --help'\n",
        .take = take_option,
        .rest = take_rest};
    status = command_line_parse(&line, o, argc, argv);
    if (status < 0 && o->listen)
        status = take_environment_of_clients(o);
    /* No debuginfod server is queried unless the user named one. */
    o->resolving.no_debuginfod = !o->resolving.debuginfod;
    o->resolving.of_files_only = true;
    return status;
}

void run_options_release(struct run_options *o)
{
    vec_release(&o->environment);
    budgets_release(&o->fail_if);
    resolve_options_release(&o->resolving);
}
