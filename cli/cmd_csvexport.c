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
#include "report/write/progress.h"
#include "report/memory_csv.h"
#include "report/official_csv.h"
#include "report/report.h"
#include "trace/file/reader.h"
#include "trace/load/load.h"
#include "trace/load/load_beside.h"

static const char usage[] =
    "usage: tidemark csvexport [OPTIONS] FILE\n"
    "\n"
    "Prints what is in a trace as CSV: without a mode, figures of the zones of each source\n"
    "location. FILE - is standard input.\n";

static const char footer[] =
    "Exit status: 0 done; 1 the trace has figures only, no events; 2 usage; 3 unreadable trace;\n"
    "4 output cannot be written.\n";

enum mode { MODE_OFFICIAL, MODE_MEMORY, MODE_MEMORY_SITES, MODE_CALLSTACKS };

struct csvexport {
    enum mode mode;
    int argc;
    char **argv;
    bool drop_in; /* called by the official name: use its exit codes */
    const char *trace;
    const char *separator;
    const char *compat;
    bool unwrap, gpu, messages;
    bool quiet;
    struct csv_release release;
    struct export_options options;
};

/* ---- arguments */

static bool is_number(const char *text)
{
    return text[0] && strspn(text, "0123456789") == strlen(text);
}

/*
 * The percentile. Its value may be attached to the option. A number in the next argument is one,
 * too, as in the official help, unless it is the last argument, which is the trace. With the
 * official names, any value is accepted and clamped, as in the official tool.
 */
static bool take_percent(void *ctx, const char *option, const char *value, struct err *e)
{
    struct csvexport *c = ctx;
    uint64_t n = 90;
    if (!value && optind + 1 < c->argc && is_number(c->argv[optind]))
        value = c->argv[optind++];
    if (value && c->drop_in) {
        long forced = strtol(value, NULL, 10);
        n = forced < 1 ? 1 : forced > 99 ? 99 : (uint64_t)forced;
    } else if (value && !option_u64(value, option, 1, 99, &n, e)) {
        return false;
    }
    c->options.percent = (int)n;
    return true;
}

static bool take_compat(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct csvexport *c = ctx;
    c->compat = value;
    return csv_release_parse(value, &c->release, e) == 0;
}

#define FIELD(NAME) OPTION_FIELD(struct csvexport, NAME)

static const struct option_row official_rows[] = {
    {"--unwrap", NULL, "a row for each zone of the processors", .letter = 'u', FIELD(unwrap)},
    {"--plot", NULL, "with -u: the points of all plots, too", .letter = 'p', FIELD(options.plots)},
    {"--gpu", NULL, "a row for each GPU zone", .letter = 'g', FIELD(gpu)},
    {"--messages", NULL, "a row for each message", .letter = 'm', FIELD(messages)},
    {"--filter", "TEXT", "only zones whose name contains TEXT", .letter = 'f',
     FIELD(options.filter.part)},
    {"--case", NULL, "match TEXT case-sensitively", .letter = 'c',
     FIELD(options.filter.case_sensitive)},
    {"--self", NULL, "times without those of the zones inside", .letter = 'e', FIELD(options.self)},
    {"--truncated_mean", "[=N]", "the N-th percentile (90) of each row, and the mean up to it",
     .letter = 't', .take = take_percent},
    {"--sep", "TEXT", "column separator (,)", .letter = 's', FIELD(separator)},
    {"--compat", "TAG", "columns and options of an official release, v0.9.0 to v0.14.0",
     .take = take_compat},
    OPTION_HELP_ROW,
    OPTION_VERSION_ROW,
    {0},
};

#define MODE(MODE) .type = VALUE_SET, .least = (MODE), FIELD(mode)

static const struct option_row mode_rows[] = {
    {"--memory", NULL, "a row for each memory event, with the numbers of its call stacks",
     MODE(MODE_MEMORY)},
    {"--memory-sites", NULL, "a row for each allocation site", MODE(MODE_MEMORY_SITES)},
    {"--callstacks", NULL, "a row for each function of each call stack", MODE(MODE_CALLSTACKS)},
    QUIET_ROW(struct csvexport, quiet),
    {0},
};

static const struct option_group groups[] = {
    {.rows = official_rows},
    {.rows = mode_rows,
     .title = "Nothing is quoted in these modes, as in the official tool. Further modes, quoted "
              "where\nneeded, without other options"},
    {0},
};

static const struct option_rule rules[] = {
    {"--memory --memory-sites --callstacks", OPTION_ONE_OF, NULL,
     "one of --memory, --memory-sites and --callstacks"},
    {"--memory --memory-sites --callstacks", OPTION_EXCLUDES,
     "--unwrap --plot --gpu --messages --filter --case --self --truncated_mean --sep --compat",
     "--memory, --memory-sites and --callstacks take no other options"},
    {0},
};

/* A release rejects options that it does not have. */
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

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct csvexport *c = ctx;
    if (n != 1) {
        err_set(e, ERR_USAGE, n == 0 ? "which trace?" : "one trace at a time");
        return false;
    }
    c->trace = arguments[0];
    if (check_release(c, e) != 0)
        return false;
    choose_kind(c);
    return true;
}

/* Returns -1 to continue, else the exit status. */
static int parse_arguments(struct csvexport *c, int argc, char **argv)
{
    const struct command_line line = {
        .options = groups,
        .usage = usage,
        .footer = footer,
        .rules = rules,
        .hint = "usage: csvexport [OPTIONS] FILE; try 'tidemark csvexport --help'\n",
        .usage_to = c->drop_in ? stderr : stdout,
        .refused = c->drop_in ? 1 : 2,
        .rest = parse_rest};
    c->argc = argc;
    c->argv = argv;
    return command_line_parse(&line, c, argc, argv);
}

/* ---- the work */

/* Rows that go to a terminal would be mixed with the progress; the official tool shows none. */
static bool is_quiet(const struct csvexport *c)
{
    return c->quiet || c->drop_in || isatty(STDOUT_FILENO) == 1;
}

static int read_trace(const struct csvexport *c, const struct record_sink *sink, const bool *wanted,
                      enum record_type until, struct err *e)
{
    struct progress progress = progress_of_file(c->trace, is_quiet(c));
    struct trace_read_options options = {
        .wanted = wanted, .until = until, .progress = progress_read, .progress_ctx = &progress};
    struct trace_info info;
    if (strcmp(c->trace, "-") == 0)
        return trace_read(STDIN_FILENO, "standard input", sink, &options, &info, e);
    int fd = open(c->trace, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", c->trace);
    int status = trace_read(fd, c->trace, sink, &options, &info, e);
    progress_clear(&progress);
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
    if (c->options.plots && !c->drop_in && trace_has_only_figures(c->trace))
        fprintf(stderr, "tidemark: %s: figures only, no events: no plots of memory pools\n",
                c->trace);
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
    if (trace_has_only_figures(c->trace))
        return memory_refuse("--memory-sites prints their figures", e);
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
    int status = summary_load(&stream, t, c->trace, &options, NULL, NULL, e);
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

/* Exports that need the trace in the store. */
static int export_loaded(const struct csvexport *c, struct err *e)
{
    struct trace t;
    struct progress progress = progress_of_file(c->trace, is_quiet(c));
    if (trace_init(&t, NULL, e) != 0)
        return -1;
    progress_watch(&progress, &t);
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
        fprintf(stderr, "Could not open file %s\n", c.trace); /* the message of the official tool */
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
