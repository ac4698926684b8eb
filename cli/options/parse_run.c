#include "cli/options/parse_run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "cli/options/look_options.h"
#include "cli/options/options.h"
#include "cli/options/question.h"
#include "cli/options/resolve_options.h"
#include "report/html/html.h"
#include "trace/save/save_file.h"

#define THREADS_MOST 512 /* as REC_THREADS_BYTES of client/recording_format.h */
#define BUFFER_LEAST ((uint64_t)16 << 20)

static const char usage[] =
    "usage: tidemark run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "       tidemark run --pid PID [OPTIONS]\n"
    "       tidemark run --recover RECORDING|FOLDER [-o FILE] [OPTIONS]\n"
    "\n"
    "Runs a program that was not built for it, records what it allocates and frees with call\n"
    "stacks, writes a trace and prints where the memory went. The program's input, output and\n"
    "exit status are its own; what is printed here goes to standard error, after its end, and a\n"
    "report in JSON, CSV, Markdown or JUnit XML to standard output.\n";

static const char footer[] =
    "Exit status: the program's when it is not 0 (128 + N when signal N ended it); else 1 when\n"
    "--fail-if holds, 0 when not. When nothing was run: 2 usage, 4 the output cannot be written\n"
    "or the port is taken, 126 the program cannot be run or recorded, 127 it is not there.\n";

static bool take_environment(void *ctx, const char *option, const char *value, struct err *e)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return refuse_value(e, option, "NAME=VALUE", value);
    return vec_push(&((struct run_options *)ctx)->environment, value) ||
           (err_no_memory(e, "options"), false);
}

static bool take_python_allocators(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)value;
    ((struct run_options *)ctx)->python_allocators = true;
    return take_environment(ctx, option, "PYTHONMALLOC=malloc", e);
}

static bool take_pools(void *ctx, const char *option, const char *value, struct err *e)
{
    struct run_options *o = ctx;
    o->mmap_pool = false;
    for (const char *p = value; *p;) {
        size_t n = strcspn(p, ",");
        if (n == 4 && memcmp(p, "mmap", n) == 0)
            o->mmap_pool = true;
        else if (n != 6 || memcmp(p, "malloc", n) != 0)
            return refuse_value(e, option, "malloc or malloc,mmap", value);
        p += n + (p[n] == ',');
    }
    return true;
}

/* A smaller buffer cannot hold a chunk for each of a few threads. */
static bool take_buffer(void *ctx, const char *option, const char *value, struct err *e)
{
    struct run_options *o = ctx;
    if (format_parse_bytes(option, value, &o->buffer, e) != 0)
        return false;
    if (o->buffer < BUFFER_LEAST)
        o->buffer = BUFFER_LEAST;
    return true;
}

static bool take_threads(void *ctx, const char *option, const char *value, struct err *e)
{
    ((struct run_options *)ctx)->threads = value;
    return (*value && strlen(value) < THREADS_MOST) ||
           refuse_value(e, option, "a list of up to 511 bytes", value);
}

static bool take_toggle(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    (void)e;
    struct run_options *o = ctx;
    return (o->toggle = look_signal(value)) != 0;
}

static bool take_listen(void *ctx, const char *option, const char *value, struct err *e)
{
    if (value)
        ((struct run_options *)ctx)->listen_address = value;
    return !value || *value || refuse_value(e, option, "an address", value);
}

static bool take_port(void *ctx, const char *option, const char *value, struct err *e)
{
    struct run_options *o = ctx;
    if (!option_u64(value, option, 0, UINT16_MAX, &o->port, e))
        return false;
    o->any_port = o->port == 0;
    return true;
}

#define FIELD(NAME) OPTION_FIELD(struct run_options, NAME)
#define LISTENS .given = offsetof(struct run_options, listen)

static const struct option_row rows[] = {
    {"--output", "FILE", "the trace (default: PROGRAM.PID.tracy)", .letter = 'o', FIELD(output)},
    {"--force", NULL, "replace FILE when it exists", .letter = 'f', FIELD(replace)},
    {"--report", "FORMAT", "{}", "text", .type = VALUE_WORD,
     .words = "text, json, csv, html, markdown, junit or none",
     FIELD(report)}, /* enum run_report */
    {"--report-file", "FILE",
     "where the report goes (text: standard error; json, csv, markdown, junit: standard output; "
     "html: beside the "
     "trace)",
     FIELD(report_file)},
    {"--fail-if", "EXPR",
     "exit with 1 when this is true of the figures, such as 'peak>512M'; may be given several "
     "times",
     .type = VALUE_CHANGE, FIELD(fail_if)},
    {"--no-suppressions", NULL,
     "count as leaked what the C library, the C++ library and the loader keep until the end",
     FIELD(all_leaks)},
    {"--this-process", NULL,
     "--fail-if is for the program's own process alone, whatever its children take; without this "
     "it fails when some were not recorded",
     FIELD(this_process)},
    {"--repeat", "N",
     "run the program N times, record each run to its own trace (FILE with .1, .2 before the "
     "ending), and report all together, as `tidemark diff` does",
     .type = VALUE_NUMBER, .least = 1, .most = 100, FIELD(repeat)},
    {"--base", "RUNS", "compare these runs with that trace, file of figures, or folder of either",
     FIELD(base)},
    {"--open", NULL, "show the page in a browser afterwards", FIELD(open)},
    {"--follow-fork", NULL, "record the program's children, too, each to a separate trace",
     FIELD(follow_fork)},
    {"--min-lifetime", "SEC", "children that live shorter share one trace (1)",
     .type = VALUE_SECONDS, FIELD(min_lifetime)},
    {"--env", "NAME=VALUE", "in the program's environment; may be given several times",
     .take = take_environment},
    {"--depth", "N", "frames of a call stack (64, at most 255)", .type = VALUE_NUMBER, .least = 1,
     .most = RUN_DEPTH_MAX, FIELD(depth)},
    {"--min-size", "N", "do not record blocks that are smaller", .type = VALUE_BYTES,
     FIELD(min_size)},
    {"--sample", "N", "record one allocation for every so many bytes, by chance",
     .type = VALUE_BYTES, FIELD(sample)},
    {"--pools", "LIST", "malloc, or malloc,mmap to record mappings, too (malloc)",
     .take = take_pools},
    {"--threads", "LIST",
     "of whose allocations: main, thread ids, names with * and ?; !NAME for all but that (all)",
     .take = take_threads},
    {"--memory-plots", "HZ",
     "readings per second of what the kernel counts, as plots of the trace: resident pages, swap, "
     "faults, the cgroup (10; 0: none)",
     .type = VALUE_NUMBER, .most = 100, FIELD(memory_hz)},
    {"--no-resident", NULL, "do not look at which pages of the program are in memory",
     FIELD(no_resident)},
    {"--gpu", NULL, "record device memory of CUDA programs, a pool for each device", FIELD(gpu)},
    {"--python-allocators", NULL, "record each Python object: sets PYTHONMALLOC=malloc",
     .take = take_python_allocators},
    {"--no-python", NULL, "record native frames only where Python functions run", FIELD(no_python)},
    {"--buffer", "SIZE", "what the recording may take on disk (half of what is free)",
     .take = take_buffer},
    {"--when-full", "WHAT",
     "then {}: wait until some of it was read (with --buffer), drop allocations until then, or "
     "stop recording (without)",
     .type = VALUE_WORD, .words = "wait, drop or stop", FIELD(when_full)}, /* run_full */
    {"--figures", NULL,
     "keep no memory events, only their exact figures by call stack, site and pool, behind the "
     "trace; without --resident and the program's own Tracy client",
     FIELD(figures)},
    {"--seconds", "SEC", "stop recording after so long; the program goes on", .type = VALUE_SECONDS,
     FIELD(seconds)},
    {"--start-paused", NULL, "record no allocations before --toggle or the program says so",
     FIELD(start_paused)},
    {"--toggle", "SIGNAL",
     "{}: when this process gets it, it pauses or resumes recording; the program does not get it",
     .words = "USR1 or USR2", .take = take_toggle},
    {"--listen", "[=ADDRESS]",
     "let a Tracy server connect while the program runs, as to a program that was built with Tracy "
     "(of this host alone, unless ADDRESS is given)",
     .take = take_listen, LISTENS},
    {"--port", "N", "where to listen (the first of 8086 to 8105 that is free; 0: any)",
     .take = take_port, LISTENS},
    {"--protocol", "N", "Tracy's protocol number to speak, 63 to 82 (82)", .type = VALUE_NUMBER,
     .least = PROTOCOL_MIN, .most = PROTOCOL_MAX, FIELD(protocol), LISTENS},
    {"--no-exit", NULL, "wait for a server when the program has ended before one came",
     FIELD(no_exit), LISTENS},
    {"--no-code", NULL, "offer servers no machine code", FIELD(no_code)},
    {"--no-client", NULL, "do not record the program's own Tracy client", FIELD(no_client)},
    {"--pid", "PID", "record a process that runs already, until it ends, Ctrl-C or --seconds",
     .type = VALUE_NUMBER, .least = 1, .most = INT32_MAX, FIELD(pid)},
    {"--spool", "DIR", "where the recording is kept meanwhile (the trace's folder)", FIELD(spool)},
    {"--keep-recording", NULL, "do not delete it", FIELD(keep)},
    {"--recover", "FILE", "finish a recording that was left behind, or all in a folder",
     FIELD(recover)},
    {"--adopt", "PID", "record a process that loads the library now; sends it the socket",
     .type = VALUE_NUMBER, .least = 1, .most = INT32_MAX, FIELD(adopt)},
    {"--adopt-after", "SEC", "then write a trace only if it lives so long (0)",
     .type = VALUE_SECONDS, FIELD(adopt_after)},
    {"--library", "FILE", "the library to preload, instead of the one that belongs here",
     FIELD(library)},
    {"--trace-version", "V", "file version to write (0.14.0)", .type = VALUE_FILE_VERSION,
     FIELD(version), .given = offsetof(struct run_options, version_given)},
    {"--compression", "SPEC", "lz4, lz4hc, zstd or zstd:LEVEL (default: by version)",
     .type = VALUE_COMPRESSION, FIELD(container)},
    {"--no-symbols", NULL,
     "do not look up the names of functions; without this, no debuginfod server is asked for them "
     "but that of --debuginfod",
     FIELD(no_symbols)},
    {"--symbol-threads", "N", "threads that read an image (one per processor)",
     .type = VALUE_NUMBER, .least = 1, .most = 256, FIELD(resolving.threads)},
    QUIET_ROW(struct run_options, quiet),
    OPTION_HELP_ROW,
    OPTION_VERSION_ROW,
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = look_rows, .base = offsetof(struct run_options, looks)},
    {.rows = resolve_source_rows,
     .base = offsetof(struct run_options, resolving),
     .title = "Names of functions"},
    {.rows = resolve_file_rows, .base = offsetof(struct run_options, resolving)},
    {0},
};

static const struct option_rule rules[] = {
    {"--pid", OPTION_EXCLUDES, "--recover", NULL},
    {"--pid", OPTION_EXCLUDES, "--python-allocators",
     "--python-allocators is for programs that are started here"},
    {"--pid", OPTION_EXCLUDES, "--follow-fork --gpu --env",
     "--follow-fork, --gpu and --env are for programs that are started here"},
    {"--adopt", OPTION_EXCLUDES, "--recover --pid", "--adopt runs nothing"},
    {"--resident-at", OPTION_EXCLUDES, "--no-resident --recover", NULL},
    {"--resident-at", OPTION_EXCLUDES, "--sample",
     "--sample estimates sizes, which cannot be joined with pages: it does not go with "
     "--resident-at"},
    {"--resident-on", OPTION_EXCLUDES, "--no-resident --recover", NULL},
    {"--resident-on", OPTION_EXCLUDES, "--sample",
     "--sample estimates sizes, which cannot be joined with pages: it does not go with "
     "--resident-on"},
    {"--report=junit", OPTION_NEEDS, "--fail-if",
     "--report junit has the outcome of each --fail-if: give one"},
    {"--repeat", OPTION_NEEDS, "--output", NULL},
    {"--base", OPTION_NEEDS, "--repeat", NULL},
    {"--repeat", OPTION_EXCLUDES, "--pid --recover --adopt --listen --open --report=html", NULL},
    {"--repeat", OPTION_EXCLUDES, "--follow-fork",
     "several runs are compared by the trace of the program's own process: --repeat does not go "
     "with --follow-fork"},
    {"--figures", OPTION_EXCLUDES, "--listen --resident-at --resident-on",
     "--figures keep no events: they do not go with --listen, --resident-at and --resident-on"},
    {"--recover", OPTION_EXCLUDES, "--listen --port --protocol --no-exit",
     "--recover runs nothing that a server could watch"},
    {0},
};

/* Without a base there is no change. */
/* Expressions about what children leave: these need a separate trace of each. */
static const struct budget *leaks_of_children(const struct run_options *o)
{
    return o->follow_fork && !o->this_process ? budgets_of_leaks(&o->fail_if) : NULL;
}

static bool check_fail_if(const struct run_options *o, struct err *e)
{
    const struct budget *leaks = leaks_of_children(o);
    if (leaks && o->min_lifetime > 0)
        return err_set(e, ERR_USAGE,
                       "--fail-if: '%.200s' needs a separate trace of each child: leave out "
                       "--min-lifetime, or give --this-process",
                       leaks->text),
               false;
    for (size_t i = 0; i < o->fail_if.list.len && !o->base; i++) {
        if (o->fail_if.list.at[i].needs_base)
            return err_set(e, ERR_USAGE,
                           "--fail-if: '%.200s' asks for a change: --repeat N --base RUNS compares "
                           "runs",
                           o->fail_if.list.at[i].text),
                   false;
    }
    return true;
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct run_options *o = ctx;
    const char *runs_nothing = o->pid       ? "--pid"
                               : o->recover ? "--recover"
                               : o->adopt   ? "--adopt"
                                            : NULL;
    if (n == 0 && !runs_nothing)
        err_set(e, ERR_USAGE, "which program?");
    else if (n > 0 && runs_nothing)
        err_set(e, ERR_USAGE, "%s runs nothing: unexpected argument '%s'", runs_nothing,
                arguments[0]);
    else if (o->output && !*o->output)
        err_set(e, ERR_USAGE, "the output has no name");
    else if ((o->report == RUN_HTML || o->open) && !html_available())
        err_set(e, ERR_USAGE,
                "this program was built without the page that --open and --report html need; "
                "`make web` builds it when node and npm are there");
    else if (o->toggle && o->toggle == o->looks.signal)
        err_set(e, ERR_USAGE, "--toggle and --resident-on need different signals");
    else if (check_fail_if(o, e) &&
             (!o->figures || save_check_figures(o->version, &o->container, e) == 0)) {
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
    const struct command_line line = {.options = groups,
                                      .usage = usage,
                                      .footer = footer,
                                      .rules = rules,
                                      .in_order = true,
                                      .rest = take_rest};
    status = command_line_parse(&line, o, argc, argv);
    o->resolving.quiet = o->quiet;
    if (status < 0 && o->listen)
        status = take_environment_of_clients(o);
    if (o->min_lifetime < 0)
        o->min_lifetime = leaks_of_children(o) ? 0 : 1;
    if (o->when_full == RUN_FULL_UNSAID)
        o->when_full = o->buffer ? RUN_FULL_WAIT : RUN_FULL_STOP;
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
