/* tidemark dump: everything in a trace as lines that do not depend on the tool that wrote it. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/dump/dump.h"
#include "base/format.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/trace_input.h"
#include "report/dump_format.h"
#include "trace/file/reader.h"
#include "trace/load/load_beside.h"

static const char usage[] =
    "usage: tidemark dump FILE [OPTIONS]\n"
    "\n"
    "Prints everything in a trace as lines, the same whichever tool wrote it and in whatever\n"
    "order it stored things, so that two traces can be compared. FILE - is standard input.\n";

static const char footer[] =
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 OUT exists or cannot be written.\n";

struct dump_command {
    const char *trace;
    const char *output;
    bool force;
    bool quiet;
    bool some_sections;
    bool lines; /* JSON, not text */
    struct dump_options options;
};

/* ---- arguments */

static int unknown_section(struct view name, struct err *e)
{
    struct buf names = {0};
    for (unsigned i = 0; i < DUMP_SECTION_COUNT; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", dump_section_name(i));
    fprintf(stderr, "dump: the sections are %s\n", buf_str(&names));
    buf_release(&names);
    return err_set(e, ERR_USAGE, "there is no section '%.*s'", (int)(name.len < 64 ? name.len : 64),
                   name.p);
}

static bool take_sections(void *ctx, const char *option, const char *list, struct err *e)
{
    (void)option;
    struct dump_command *c = ctx;
    c->some_sections = true;
    for (;;) {
        struct view name = {list, strcspn(list, ",")};
        unsigned i = 0;
        while (i < DUMP_SECTION_COUNT && !view_equal(name, view_of(dump_section_name(i))))
            i++;
        if (i == DUMP_SECTION_COUNT)
            return unknown_section(name, e) == 0;
        c->options.sections[i] = true;
        if (list[name.len] == 0)
            return true;
        list += name.len + 1;
    }
}

#define FIELD(NAME) OPTION_FIELD(struct dump_command, NAME)

static const struct option_row rows[] = {
    {"--section", "NAMES", "only these, separated by commas; may be given several times",
     .take = take_sections},
    {"--limit", "N", "at most N lines of each section", .type = VALUE_NUMBER, FIELD(options.limit)},
    {"--format", "F", "{}", "text", .type = VALUE_WORD, .words = "text or jsonl", FIELD(lines)},
    {"--common", "V", "only what a trace of file version V can hold", .type = VALUE_LAYOUT,
     FIELD(options.common)},
    {"--all", NULL,
     "also what Tidemark itself added: its facts and its messages about memory faults",
     FIELD(options.own)},
    {"--output", "OUT", "write to a file instead of standard output", .letter = 'o', FIELD(output)},
    {"--force", NULL, "replace OUT if it exists", .letter = 'f', FIELD(force)},
    QUIET_ROW(struct dump_command, quiet),
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};
static const struct option_row positional[] = {{"trace", FIELD(trace)}, {0}};

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct dump_command *c = ctx;
    if (!c->some_sections)
        memset(c->options.sections, true, sizeof c->options.sections);
    c->options.format = c->lines ? &dump_format_jsonl : &dump_format_text;
    (void)n;
    (void)arguments;
    (void)e;
    return true;
}

/* ---- input */

/* A trace is read twice, sometimes three times. */
#define PASSES 2u

struct input {
    struct trace_input file;
    unsigned pass;
};

static int input_read(void *ctx, const struct record_sink *sink, const bool *wanted, struct err *e)
{
    struct input *in = ctx;
    struct trace_info info;
    const struct rewrite_source source = trace_input_source(&in->file);
    int status = source.read(source.ctx, in->pass, sink, wanted, &info, e);
    if (status == 0 && in->pass++ == 0)
        print_behind(in->file.path, info.behind);
    return status;
}

/* ---- output */

struct output {
    int fd;
    const char *name;
    struct trace_input *in;
    struct progress progress; /* of lines that are sorted; that of the input is of reading */
};

static int output_write(void *ctx, const void *bytes, size_t n, struct err *e)
{
    const struct output *out = ctx;
    const char *p = bytes;
    if (interrupt_came(&out->in->interrupt))
        return err_set(e, ERR_OUTPUT, "interrupted");
    while (n > 0) {
        ssize_t done = write(out->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_errno(e, ERR_OUTPUT, "cannot write %s", out->name);
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

/* Between reading, and at its end. */
static void show_writing(void *ctx, uint64_t done, uint64_t of)
{
    struct output *out = ctx;
    if (done == 1) {
        progress_clear(&out->progress);
        out->progress = progress_begin(of, out->in->progress.total == 0);
        out->progress.before = "writing: ";
    }
    progress_show(&out->progress, done);
}

static int write_dump(const struct dump_command *c, struct input *in, int fd, const char *name,
                      struct err *e)
{
    struct output out = {.fd = fd, .name = name, .in = &in->file};
    struct dump_source source = {in, input_read};
    struct dump_options options = c->options;
    options.write = output_write;
    options.write_ctx = &out;
    options.writing = show_writing;
    options.writing_ctx = &out;
    int status = dump_run(&source, &options, e);
    trace_input_clear(&in->file);
    progress_clear(&out.progress);
    return status;
}

static int write_file(const struct dump_command *c, struct input *in, struct err *e)
{
    struct outfile file;
    if (outfile_open(&file, c->output, c->force, e) != 0)
        return -1;
    int status = write_dump(c, in, file.fd, c->output, e);
    if (status == 0)
        status = outfile_commit(&file, e);
    outfile_abort(&file);
    return status;
}

/* Lines that go to a terminal would be mixed with those of the progress. */
static int run(const struct dump_command *c, struct err *e)
{
    struct input in = {.pass = 0};
    bool quiet = c->quiet || (!c->output && isatty(STDOUT_FILENO) == 1);
    int status = trace_input_open(&in.file, c->trace, PASSES, quiet, e);
    if (status != 0)
        return -1;
    /* A reader of the lines may never come: then signals keep their default action. */
    if (!c->output)
        interrupt_release(&in.file.interrupt);
    if (trace_has_only_figures(c->trace))
        fprintf(stderr, "tidemark: %s: figures only, no events: `tidemark report` prints them\n",
                c->trace);
    status = c->output ? write_file(c, &in, e)
                       : write_dump(c, &in, STDOUT_FILENO, "to standard output", e);
    trace_input_close(&in.file);
    return status;
}

int cmd_dump(int argc, char **argv)
{
    const struct command_line line = {.options = groups,
                                      .usage = usage,
                                      .footer = footer,
                                      .positional = positional,
                                      .rest = parse_rest};
    struct dump_command c = {.options = {.limit = UINT64_MAX, .format = &dump_format_text}};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status >= 0)
        return status;
    return run(&c, &e) == 0 ? 0 : print_error(&e);
}
