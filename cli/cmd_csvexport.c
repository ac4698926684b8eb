/*
 * tidemark csvexport, and the drop-in for tracy-csvexport: zones, GPU zones, messages, plots and
 * memory of a trace as CSV.
 * Options, output and exit codes when called by the official name: csvexport/src/csvexport.cpp @
 * v0.14.0.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/csvexport/export.h"
#include "analysis/figures/stream_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/tables/memory_rows.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "report/memory_csv.h"
#include "report/official_csv.h"
#include "report/report.h"
#include "trace/file/reader.h"
#include "trace/load/load.h"

static const char usage[] =
    "usage: tidemark csvexport [OPTIONS] FILE\n"
    "\n"
    "Prints what is in a trace as CSV: without a mode, figures of the zones of each source\n"
    "location. FILE - is standard input.\n"
    "\n"
    "  -u, --unwrap         a row for each zone of the processors\n"
    "  -p, --plot           with -u: the points of all plots, too\n"
    "  -g, --gpu            a row for each GPU zone\n"
    "  -m, --messages       a row for each message\n"
    "  -f, --filter TEXT    only zones whose name contains TEXT\n"
    "  -c, --case           match TEXT case-sensitively\n"
    "  -e, --self           times without those of the zones inside\n"
    "  -t, --truncated_mean[=N]  the N-th percentile (90) of each row, and the mean up to it\n"
    "  -s, --sep TEXT       column separator (,)\n"
    "      --compat TAG     columns and options of an official release, v0.9.0 to v0.14.0\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n"
    "\n"
    "Nothing is quoted in these modes, as in the official tool. Further modes, quoted where\n"
    "needed, without other options:\n"
    "      --memory         a row for each memory event, with the numbers of its call stacks\n"
    "      --memory-sites   a row for each allocation site\n"
    "      --callstacks     a row for each function of each call stack\n"
    "\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 output cannot be written.\n";

enum mode { MODE_OFFICIAL, MODE_MEMORY, MODE_MEMORY_SITES, MODE_CALLSTACKS };

struct csvexport {
    enum mode mode;
    bool official; /* options of the official modes were given */
    int argc;
    char **argv;
    bool drop_in; /* the official tool's: its exit codes */
    const char *trace;
    const char *separator;
    const char *compat;
    bool unwrap, gpu, messages;
    struct csv_release release;
    struct export_options options;
};

enum { OPTION_COMPAT = 256, OPTION_MEMORY, OPTION_MEMORY_SITES, OPTION_CALLSTACKS };

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"filter", required_argument, NULL, 'f'},
    {"sep", required_argument, NULL, 's'},
    {"case", no_argument, NULL, 'c'},
    {"self", no_argument, NULL, 'e'},
    {"unwrap", no_argument, NULL, 'u'},
    {"gpu", no_argument, NULL, 'g'},
    {"messages", no_argument, NULL, 'm'},
    {"plot", no_argument, NULL, 'p'},
    {"truncated_mean", optional_argument, NULL, 't'},
    {"compat", required_argument, NULL, OPTION_COMPAT},
    {"memory", no_argument, NULL, OPTION_MEMORY},
    {"memory-sites", no_argument, NULL, OPTION_MEMORY_SITES},
    {"callstacks", no_argument, NULL, OPTION_CALLSTACKS},
    {NULL, 0, NULL, 0},
};

/* ---- arguments */

static bool is_number(const char *text)
{
    return text[0] && strspn(text, "0123456789") == strlen(text);
}

/*
 * The percentile. Its value may be glued to the option; a number in the next argument is
 * one, too, as in the official help, unless it is the last argument, which is the trace. Like the
 * official tool, its names take anything and force it into the range.
 */
static int parse_percent(struct csvexport *c, const char *value, struct err *e)
{
    uint64_t n = 90;
    if (!value && optind + 1 < c->argc && is_number(c->argv[optind]))
        value = c->argv[optind++];
    if (value && c->drop_in) {
        long forced = strtol(value, NULL, 10);
        n = forced < 1 ? 1 : forced > 99 ? 99 : (uint64_t)forced;
    } else if (value && !option_u64(value, "--truncated_mean", 1, 99, &n, e)) {
        return -1;
    }
    c->options.percent = (int)n;
    return 0;
}

static int parse_official(struct csvexport *c, int option, const char *value, struct err *e)
{
    c->official = true;
    switch (option) {
    case 'f':
        c->options.filter.part = value;
        return 0;
    case 's':
        c->separator = value;
        return 0;
    case 'c':
        c->options.filter.case_sensitive = true;
        return 0;
    case 'e':
        c->options.self = true;
        return 0;
    case 'u':
        c->unwrap = true;
        return 0;
    case 'g':
        c->gpu = true;
        return 0;
    case 'm':
        c->messages = true;
        return 0;
    case 'p':
        c->options.plots = true;
        return 0;
    case 't':
        return parse_percent(c, value, e);
    case OPTION_COMPAT:
        c->compat = value;
        return csv_release_parse(value, &c->release, e);
    default:
        return -1;
    }
}

static int parse_mode_option(struct csvexport *c, int option, const char *value, struct err *e)
{
    enum mode mode = option == OPTION_MEMORY         ? MODE_MEMORY
                     : option == OPTION_MEMORY_SITES ? MODE_MEMORY_SITES
                     : option == OPTION_CALLSTACKS   ? MODE_CALLSTACKS
                                                     : MODE_OFFICIAL;
    if (mode == MODE_OFFICIAL)
        return parse_official(c, option, value, e);
    if (c->mode != MODE_OFFICIAL && c->mode != mode)
        return err_set(e, ERR_USAGE, "one of --memory, --memory-sites and --callstacks");
    c->mode = mode;
    return 0;
}

static int check_mode(const struct csvexport *c, struct err *e)
{
    if (c->mode == MODE_OFFICIAL || !c->official)
        return 0;
    return err_set(e, ERR_USAGE, "--memory, --memory-sites and --callstacks take no other options");
}

/* A release refuses what it does not know yet. */
static int check_release(const struct csvexport *c, struct err *e)
{
    const struct csv_release *r = &c->release;
    const char *option = c->messages && !r->messages                 ? "-m"
                         : c->gpu && !r->gpu                         ? "-g"
                         : c->options.plots && !r->gpu               ? "-p"
                         : c->options.percent > 0 && !r->percentiles ? "--truncated_mean"
                                                                     : NULL;
    if (!option)
        return 0;
    return err_set(e, ERR_USAGE, "the csvexport of %s has no option %s", c->compat, option);
}

static void choose_kind(struct csvexport *c)
{
    c->options.kind = c->messages ? EXPORT_MESSAGES
                      : c->gpu    ? EXPORT_GPU_ZONES
                      : c->unwrap ? EXPORT_ZONES
                                  : EXPORT_ZONE_STATS;
}

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    return parse_mode_option(ctx, option, value, e) == 0;
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct csvexport *c = ctx;
    if (n != 1) {
        err_set(e, ERR_USAGE, n == 0 ? "which trace?" : "one trace at a time");
        return false;
    }
    c->trace = arguments[0];
    if (check_mode(c, e) != 0 || check_release(c, e) != 0)
        return false;
    choose_kind(c);
    return true;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct csvexport *c, int argc, char **argv)
{
    const struct command_line line = {
        .letters = "hf:s:ceugmpt::V",
        .names = long_options,
        .usage = usage,
        .hint = "usage: csvexport [OPTIONS] FILE; try 'tidemark csvexport --help'\n",
        .usage_to = c->drop_in ? stderr : stdout,
        .refused = c->drop_in ? 1 : 2,
        .take = parse_option,
        .rest = parse_rest};
    c->argc = argc;
    c->argv = argv;
    return command_line_parse(&line, c, argc, argv);
}

/* ---- the work */

static int read_trace(const struct csvexport *c, const struct record_sink *sink, const bool *wanted,
                      enum record_type until, struct err *e)
{
    struct trace_read_options options = {.wanted = wanted, .until = until};
    struct trace_info info;
    if (strcmp(c->trace, "-") == 0)
        return trace_read(STDIN_FILENO, "standard input", sink, &options, &info, e);
    int fd = open(c->trace, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", c->trace);
    int status = trace_read(fd, c->trace, sink, &options, &info, e);
    close(fd);
    return status;
}

static int read_export(const struct csvexport *c, struct export *x, struct err *e)
{
    bool wanted[REC_TYPE_COUNT];
    struct record_sink sink = export_sink(x);
    export_wanted(x, wanted);
    return read_trace(c, &sink, wanted, export_until(x), e) == 0 ? export_finish(x, e) : -1;
}

static int export_official(const struct csvexport *c, struct err *e)
{
    struct official_csv csv = {.out = stdout,
                               .release = c->release,
                               .kind = c->options.kind,
                               .self = c->options.self,
                               .percentiles = c->options.percent > 0,
                               .terminal = isatty(STDOUT_FILENO) == 1,
                               .separator = view_of(c->separator)};
    struct export_rows rows = official_csv_rows(&csv);
    struct export *x = export_open(&c->options, &rows, e);
    int status = x ? read_export(c, x, e) : -1;
    if (status == 0)
        status = official_csv_finish(&csv, e);
    export_free(x);
    official_csv_release(&csv);
    return status;
}

static int export_memory(const struct csvexport *c, struct err *e)
{
    struct memory_csv csv = {.out = stdout};
    struct memory_rows rows;
    bool wanted[REC_TYPE_COUNT];
    memory_rows_init(&rows, memory_csv_row, &csv);
    struct record_sink sink = memory_rows_sink(&rows);
    memory_rows_wanted(wanted);
    int status = memory_csv_begin(&csv, e);
    if (status == 0)
        status = read_trace(c, &sink, wanted, REC_CALLSTACKS, e);
    if (status == 0)
        status = memory_csv_finish(&csv, e);
    memory_rows_release(&rows);
    memory_csv_release(&csv);
    return status;
}

static int write_sites(const struct csvexport *c, struct trace *t, struct err *e)
{
    struct summary_options options = {.by = GROUP_SITE};
    const struct summary_selection all = {.sort = SORT_SIZE};
    const struct report_options form = {.format = REPORT_CSV};
    struct stream_figures stream;
    struct summary s;
    stream_figures_init(&stream, t);
    int status = stream_figures_load(&stream, c->trace, NULL, NULL, e);
    options.stream = stream.counted ? &stream : NULL;
    if (status == 0)
        status = summary_build(&s, t, &options, e);
    stream_figures_release(&stream);
    if (status != 0)
        return -1;
    summary_select(&s.sites, &all);
    status = report_write(&s, &form, stdout, e);
    summary_release(&s);
    return status;
}

static int write_callstacks(const struct csvexport *c, struct trace *t, struct err *e)
{
    struct memory_csv csv = {.out = stdout};
    int status = trace_load_names(t, c->trace, e);
    if (status == 0)
        status = memory_csv_callstacks(&csv, t, e);
    if (status == 0)
        status = memory_csv_finish(&csv, e);
    memory_csv_release(&csv);
    return status;
}

/* What needs the trace in the store. */
static int export_loaded(const struct csvexport *c, struct err *e)
{
    struct trace t;
    if (trace_init(&t, NULL, e) != 0)
        return -1;
    int status = c->mode == MODE_MEMORY_SITES ? write_sites(c, &t, e) : write_callstacks(c, &t, e);
    trace_release(&t);
    return status;
}

static int run(const struct csvexport *c, struct err *e)
{
    switch (c->mode) {
    case MODE_OFFICIAL:
        return export_official(c, e);
    case MODE_MEMORY:
        return export_memory(c, e);
    case MODE_MEMORY_SITES:
    case MODE_CALLSTACKS:
        return export_loaded(c, e);
    }
    return 0;
}

static int csvexport_main(int argc, char **argv, bool drop_in)
{
    struct csvexport c = {.drop_in = drop_in, .separator = ",", .release = csv_release_newest()};
    struct err e = {0};
    int status = parse_arguments(&c, argc, argv);
    if (status >= 0)
        return status;
    if (drop_in && strcmp(c.trace, "-") != 0 && access(c.trace, R_OK) != 0) {
        fprintf(stderr, "Could not open file %s\n", c.trace); /* the official words */
        return 1;
    }
    if (run(&c, &e) == 0)
        return 0;
    print_error(&e);
    return drop_in ? 1 : err_exit_status(&e);
}

int cmd_csvexport(int argc, char **argv)
{
    return csvexport_main(argc, argv, false);
}

int cmd_csvexport_drop_in(int argc, char **argv)
{
    return csvexport_main(argc, argv, true);
}
