/* tidemark export: a trace for the tools of others. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/export_stacks.h"
#include "cli/export_tables.h"
#include "cli/options/options.h"
#include "cli/options/question.h"

static const char usage[] =
    "usage: tidemark export FILE --format FORMAT -o OUT [OPTIONS]\n"
    "\n"
    "Writes what is in a trace in a form that other tools read. FILE - is standard input, OUT - "
    "is\n"
    "standard output. FORMAT is one of\n"
    "\n"
    "What each call stack allocated:\n"
    "   folded      a line for each call stack, for flamegraph.pl and inferno\n"
    "   pprof       a profile for pprof (.pb.gz)\n"
    "   speedscope  a profile for speedscope (.json)\n"
    "All of it as tables; the manual has their columns:\n"
    "   sqlite      a database with indices and views\n"
    "   parquet     a folder OUT with a file for each table; so are the next two\n"
    "   tsv         tabs between columns, as PostgreSQL's COPY reads them\n"
    "   ndjson      a line of JSON for each row\n"
    "What happened over time:\n"
    "   chrome      zones, messages, plots and the use of pools, for Perfetto and "
    "chrome://tracing\n"
    "\n"
    "      --format FORMAT see above\n"
    "  -o, --output OUT    the file or folder to write (-)\n"
    "  -f, --force         replace files that exist\n"
    "      --table NAME    parquet, tsv, ndjson: this table only; may be given several times. "
    "With\n"
    "                      a single one OUT is a file\n"
    "      --metric WHAT   folded, speedscope: bytes or count (bytes)\n"
    "      --of WHICH      folded, speedscope: of total, live, peak or temporary allocations\n"
    "                      (folded: total; speedscope: a profile for each)\n"
    "      --all-frames    folded, pprof, speedscope: Tracy's own functions at the inner end of\n"
    "                      call stacks, too\n"
    "      --points N      tables, chrome: cut the time into N parts and give the lowest, highest\n"
    "                      and last use of each pool in each; 0: give all "
    "(10000)\n" RESOLVE_REQUEST_USAGE "  -h, --help          this text\n"
    "\n" SELECTION_USAGE
    "Rows of zones, messages, plots and frames are all there whatever is selected.\n"
    "\n"
    "live: not freed at the end; peak: live at the pool's peak; temporary: freed by the\n"
    "very next memory event of the same thread in that pool.\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 output exists or cannot be written.\n";

enum export_format {
    FORMAT_FOLDED,
    FORMAT_PPROF,
    FORMAT_SPEEDSCOPE,
    FORMAT_SQLITE,
    FORMAT_PARQUET,
    FORMAT_TSV,
    FORMAT_NDJSON,
    FORMAT_CHROME,
    FORMAT_COUNT
};

/* Which options mean something to a format. */
static const struct {
    const char *name;
    bool measures; /* --metric, --of */
    bool stacks;   /* --all-frames */
    bool tables;   /* --table */
    bool points;   /* --points */
    bool binary;   /* nothing for a terminal */
} formats[FORMAT_COUNT] = {
    [FORMAT_FOLDED] = {"folded", .measures = true, .stacks = true},
    [FORMAT_PPROF] = {"pprof", .stacks = true, .binary = true},
    [FORMAT_SPEEDSCOPE] = {"speedscope", .measures = true, .stacks = true},
    [FORMAT_SQLITE] = {"sqlite", .points = true, .binary = true},
    [FORMAT_PARQUET] = {"parquet", .tables = true, .points = true, .binary = true},
    [FORMAT_TSV] = {"tsv", .tables = true, .points = true},
    [FORMAT_NDJSON] = {"ndjson", .tables = true, .points = true},
    [FORMAT_CHROME] = {"chrome", .points = true},
};

struct export_command {
    struct question question; /* which trace, which allocations */
    struct export_input input;
    const char *output;
    bool force;
    enum export_format format; /* FORMAT_COUNT: not given */
    bool measures_given, of_given, points_given;
    unsigned tables;
    struct export_stacks stacks;
    struct export_tables columns;
    uint64_t points;
};

enum {
    OPTION_FORMAT = 256,
    OPTION_TABLE,
    OPTION_METRIC,
    OPTION_OF,
    OPTION_ALL_FRAMES,
    OPTION_POINTS,
};

static const struct option long_options[] = {
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, 'f'},
    {"table", required_argument, NULL, OPTION_TABLE},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"of", required_argument, NULL, OPTION_OF},
    {"all-frames", no_argument, NULL, OPTION_ALL_FRAMES},
    {"points", required_argument, NULL, OPTION_POINTS},
    SELECTION_LONG_OPTIONS,
    RESOLVE_REQUEST_LONG_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* ---- arguments */

static bool parse_format(struct export_command *c, const char *value, struct err *e)
{
    char names[128] = "";
    for (unsigned i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(value, formats[i].name) == 0) {
            c->format = (enum export_format)i;
            return true;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", formats[i].name);
    }
    return refuse_value(e, "--format", names, value);
}

static bool parse_table(struct export_command *c, const char *value, struct err *e)
{
    char names[400] = "";
    enum table_id id;
    if (table_find(value, &id)) {
        c->tables += !c->columns.wanted[id];
        c->columns.wanted[id] = true;
        return true;
    }
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
                 table_get((enum table_id)i)->name);
    }
    return refuse_value(e, "--table", names, value);
}

static bool parse_metric(struct export_command *c, const char *value, struct err *e)
{
    c->measures_given = true;
    c->stacks.options.count = strcmp(value, "count") == 0;
    return c->stacks.options.count || strcmp(value, "bytes") == 0 ||
           refuse_value(e, "--metric", "bytes or count", value);
}

static bool parse_of(struct export_command *c, const char *value, struct err *e)
{
    c->measures_given = c->of_given = true;
    return profile_of_parse(value, &c->stacks.options.of) ||
           refuse_value(e, "--of", "total, live, peak or temporary", value);
}

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct export_command *c = ctx;
    switch (option) {
    case OPTION_FORMAT:
        return parse_format(c, value, e);
    case 'o':
        c->output = value;
        return true;
    case 'f':
        c->force = true;
        return true;
    case OPTION_TABLE:
        return parse_table(c, value, e);
    case OPTION_METRIC:
        return parse_metric(c, value, e);
    case OPTION_OF:
        return parse_of(c, value, e);
    case OPTION_ALL_FRAMES:
        c->stacks.all_frames = true;
        return true;
    case OPTION_POINTS:
        c->points_given = true;
        return option_u64(value, "--points", 0, 1000000000, &c->points, e);
    default:
        return question_take(&c->question, option, value, e);
    }
}

/* False when an option was given that means nothing to the format. */
static bool check_options(const struct export_command *c, struct err *e)
{
    enum export_format f = c->format;
    const char *option = c->measures_given && !formats[f].measures    ? "--metric and --of"
                         : c->stacks.all_frames && !formats[f].stacks ? "--all-frames"
                         : c->tables && !formats[f].tables            ? "--table"
                         : c->points_given && !formats[f].points      ? "--points"
                                                                      : NULL;
    if (!option)
        return true;
    err_set(e, ERR_USAGE, "%s: not with --format %s", option, formats[f].name);
    return false;
}

static bool check_output(const struct export_command *c, struct err *e)
{
    if (strcmp(c->output, "-") != 0)
        return true;
    if (c->format == FORMAT_SQLITE)
        err_set(e, ERR_USAGE, "a database needs a file: -o");
    else if (formats[c->format].tables && c->tables != 1)
        err_set(e, ERR_USAGE, "tables need a folder: -o; a single one (--table) needs none");
    else if (formats[c->format].binary && isatty(STDOUT_FILENO))
        err_set(e, ERR_USAGE, "%s is nothing for a terminal: -o", formats[c->format].name);
    else
        return true;
    return false;
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct export_command *c = ctx;
    if (!option_one_trace(n, arguments, &c->question.trace, e))
        return false;
    if (c->format == FORMAT_COUNT) {
        err_set(e, ERR_USAGE, "which --format?");
        return false;
    }
    return check_options(c, e) && check_output(c, e);
}

/* ---- the work */

static int write_to(struct export_command *c, FILE *out, struct err *e)
{
    struct export_stacks stacks = c->stacks;
    if (c->format == FORMAT_CHROME)
        return export_chrome(&c->input, c->points, out, e);
    stacks.input = &c->input;
    stacks.format = c->format == FORMAT_FOLDED  ? STACKS_FOLDED
                    : c->format == FORMAT_PPROF ? STACKS_PPROF
                                                : STACKS_SPEEDSCOPE;
    for (unsigned i = 0; i < PROFILE_OF_COUNT; i++)
        stacks.options.wanted[i] = !c->of_given || stacks.options.of == i;
    return export_stacks(&stacks, out, e);
}

/* Into a file that appears when it is whole. */
static int write_file(struct export_command *c, struct err *e)
{
    struct outfile o;
    if (strcmp(c->output, "-") == 0)
        return write_to(c, stdout, e);
    if (outfile_open(&o, c->output, c->force, e) != 0)
        return -1;
    FILE *out = outfile_stream(&o, e);
    int status = out ? write_to(c, out, e) : -1;
    if (out && fclose(out) != 0 && status == 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", c->output);
    if (status == 0)
        return outfile_commit(&o, e);
    outfile_abort(&o);
    return -1;
}

static int write_tables(struct export_command *c, struct err *e)
{
    struct export_tables x = c->columns;
    x.input = &c->input;
    x.output = c->output;
    x.force = c->force;
    x.points = c->points;
    if (c->format == FORMAT_SQLITE)
        return export_sqlite(&x, e);
    x.single = c->tables == 1;
    x.format = c->format == FORMAT_TSV      ? TABLE_FILE_TSV
               : c->format == FORMAT_NDJSON ? TABLE_FILE_NDJSON
                                            : TABLE_FILE_PARQUET;
    for (unsigned i = 0; i < TABLE_COUNT; i++)
        x.wanted[i] |= c->tables == 0;
    return export_table_files(&x, e);
}

static int run(struct export_command *c, struct err *e)
{
    struct resolver resolver = RESOLVER_NONE;
    c->input = (struct export_input){c->question.trace, c->question.selection, &c->question.resolve,
                                     &resolver};
    /* The helper starts before anything else is open. */
    int status = resolve_request_start(&c->question.resolve, &resolver, e);
    if (status == 0)
        status = formats[c->format].tables || c->format == FORMAT_SQLITE ? write_tables(c, e)
                                                                         : write_file(c, e);
    resolver_release(&resolver);
    return status;
}

int cmd_export(int argc, char **argv)
{
    const struct command_line line = {.letters = "o:fh",
                                      .names = long_options,
                                      .usage = usage,
                                      .hint = "usage: tidemark export FILE --format FORMAT -o OUT "
                                              "[OPTIONS]; try 'tidemark export --help'\n",
                                      .take = parse_option,
                                      .rest = parse_rest};
    struct export_command c = {.format = FORMAT_COUNT, .output = "-", .points = TABLES_POINTS};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0 && run(&c, &e) != 0) {
        print_error(&e);
        status = err_exit_status(&e);
    }
    resolve_request_release(&c.question.resolve);
    return status < 0 ? 0 : status;
}
