/* tidemark export: a trace for the tools of others. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory_bound.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/export_stacks.h"
#include "cli/export_tables.h"
#include "cli/options/options.h"
#include "cli/options/question.h"

static const char usage[] =
    "usage: tidemark export FILE --format FORMAT -o OUT [OPTIONS]\n"
    "\n"
    "Writes what is in a trace in a form that other tools read. FILE - is standard input, OUT -\n"
    "is standard output. FORMAT is one of\n"
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
    "chrome://tracing\n";

static const char footer[] =
    "Rows of zones, messages, plots and frames are all there whatever is selected.\n"
    "live: not freed at the end; peak: live at the pool's peak; temporary: freed by the\n"
    "very next memory event of the same thread in that pool.\n"
    "Exit status: 0 done; 1 the trace has figures only, no events; 2 usage; 3 unreadable trace;\n"
    "4 output exists or cannot be written.\n";

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

static int write_pprof(const struct profile *p, const struct stack_format_options *options,
                       FILE *out, struct err *e)
{
    (void)options;
    return pprof_write(p, out, e);
}

static const struct {
    const char *name;
    stack_writer *stacks; /* of a format for the allocations of each call stack */
    bool tables;          /* a file for each table, in `file` */
    enum table_file_format file;
    bool binary; /* nothing for a terminal */
} formats[FORMAT_COUNT] = {
    [FORMAT_FOLDED] = {.name = "folded", .stacks = folded_write},
    [FORMAT_PPROF] = {.name = "pprof", .stacks = write_pprof, .binary = true},
    [FORMAT_SPEEDSCOPE] = {.name = "speedscope", .stacks = speedscope_write},
    [FORMAT_SQLITE] = {.name = "sqlite", .binary = true},
    [FORMAT_PARQUET] = {.name = "parquet",
                        .tables = true,
                        .file = TABLE_FILE_PARQUET,
                        .binary = true},
    [FORMAT_TSV] = {.name = "tsv", .tables = true, .file = TABLE_FILE_TSV},
    [FORMAT_NDJSON] = {.name = "ndjson", .tables = true, .file = TABLE_FILE_NDJSON},
    [FORMAT_CHROME] = {.name = "chrome"},
};

struct export_command {
    struct question question; /* which trace, which allocations */
    struct export_input input;
    const char *output;
    bool force;
    enum export_format format; /* FORMAT_COUNT: not given */
    bool of_given;
    unsigned tables;
    struct export_stacks stacks;
    struct export_tables columns;
    uint64_t points;
};

/* ---- arguments */

static bool take_table(void *ctx, const char *option, const char *value, struct err *e)
{
    struct export_command *c = ctx;
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
    return refuse_value(e, option, names, value);
}

#define FIELD(NAME) OPTION_FIELD(struct export_command, NAME)

static const struct option_row rows[] = {
    {"--format", "FORMAT", "see above", .type = VALUE_WORD,
     .words = "folded, pprof, speedscope, sqlite, parquet, tsv, ndjson, chrome", FIELD(format)},
    {"--output", "OUT", "the file or folder to write (-)", .letter = 'o', FIELD(output)},
    {"--force", NULL, "replace files that exist", .letter = 'f', FIELD(force)},
    {"--table", "NAME",
     "parquet, tsv, ndjson: this table only; may be given several times. With a single one OUT is "
     "a file",
     .take = take_table},
    {"--metric", "WHAT", "folded, speedscope: {}", "bytes", .type = VALUE_WORD,
     .words = "bytes or count", FIELD(stacks.options.count)},
    {"--of", "WHICH",
     "folded, speedscope: of {} allocations (folded: total; speedscope: a profile for each)",
     .type = VALUE_WORD, .words = "total, live, peak or temporary", FIELD(stacks.options.of),
     .given = offsetof(struct export_command, of_given)},
    {"--all-frames", NULL,
     "folded, pprof, speedscope: Tracy's own functions at the inner end of call stacks, too",
     FIELD(stacks.all_frames)},
    {"--points", "N",
     "tables, chrome: cut the time into N parts and give the lowest, highest and last use of each "
     "pool in each; 0: give all (10000)",
     .type = VALUE_NUMBER, .most = 1000000000, FIELD(points)},
    {0},
};

static const struct option_row help_rows[] = {
    QUIET_ROW(struct export_command, question.quiet), OPTION_HELP_ROW, {0}};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_resolve_rows, .base = offsetof(struct export_command, question)},
    MEMORY_GROUP(struct export_command, question.memory),
    {.rows = help_rows},
    QUESTION_SELECTION_GROUP(struct export_command),
    QUESTION_FILE_GROUPS(struct export_command),
    {0},
};

static const struct option_rule rules[] = {
    {"--metric --of", OPTION_NEEDS, "--format=folded --format=speedscope", NULL},
    {"--all-frames", OPTION_NEEDS, "--format=folded --format=pprof --format=speedscope", NULL},
    {"--table", OPTION_NEEDS, "--format=parquet --format=tsv --format=ndjson", NULL},
    {"--points", OPTION_NEEDS,
     "--format=sqlite --format=parquet --format=tsv --format=ndjson --format=chrome", NULL},
    {0},
};

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
    return check_output(c, e);
}

/* ---- the work */

static int write_to(struct export_command *c, FILE *out, struct err *e)
{
    struct export_stacks stacks = c->stacks;
    if (c->format == FORMAT_CHROME)
        return export_chrome(&c->input, c->points, out, e);
    stacks.input = &c->input;
    stacks.write = formats[c->format].stacks;
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
    x.format = formats[c->format].file;
    for (unsigned i = 0; i < TABLE_COUNT; i++)
        x.wanted[i] |= c->tables == 0;
    return export_table_files(&x, e);
}

/* Rows that go to a terminal would be mixed with the progress line. */
static bool is_quiet(const struct export_command *c)
{
    return c->question.quiet || (strcmp(c->output, "-") == 0 && isatty(STDOUT_FILENO) == 1);
}

static int run(struct export_command *c, struct err *e)
{
    struct resolver resolver = RESOLVER_NONE;
    c->input = (struct export_input){c->question.trace,
                                     c->question.selection,
                                     &c->question.resolve,
                                     &resolver,
                                     memory_bound_share(c->question.memory),
                                     is_quiet(c),
                                     {0}};
    /* The helper starts before anything else is open. */
    int status = resolve_request_start(&c->question.resolve, &resolver, e);
    memory_bound_set(c->question.memory);
    if (status == 0)
        status = formats[c->format].tables || c->format == FORMAT_SQLITE ? write_tables(c, e)
                                                                         : write_file(c, e);
    resolver_release(&resolver);
    return status;
}

int cmd_export(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rules = rules, .rest = parse_rest};
    struct export_command c = {.format = FORMAT_COUNT, .output = "-", .points = TABLES_POINTS};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0 && run(&c, &e) != 0) {
        memory_bound_explain(c.question.memory, &e);
        status = print_error(&e);
    }
    resolve_request_release(&c.question.resolve);
    return status < 0 ? 0 : status;
}
