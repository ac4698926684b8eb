/* tidemark symbols: names for the call stack frames of a saved trace. */

#include <stdio.h>
#include <string.h>

#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/options/resolve_options.h"
#include "cli/trace_input.h"
#include "naming/resolve_book.h"
#include "server/capture/stored_summary.h"

static const char usage[] =
    "usage: tidemark symbols FILE [-o OUTPUT] [OPTIONS]\n"
    "\n"
    "Finds names, source files and lines for the call stack frames of a trace, and the functions\n"
    "that were inlined there, and prints what it found. With -o it writes the trace with them.\n"
    "Debug information is searched in the images, beside them, under /usr/lib/debug, and on\n"
    "debuginfod servers if there are any. FILE - is standard input; OUTPUT is replaced when the\n"
    "new one is whole and may be FILE itself.\n";

static const char footer[] =
    "Exit status: 0 done; 2 usage; 3 FILE is no trace or damaged, or a module table cannot be\n"
    "read; 4 OUTPUT cannot be written.\n";

struct symbols {
    const char *input, *output;
    bool json, quiet;
    enum frame_policy policy;
    struct resolve_options options;
    struct resolver resolver;
    struct resolve_summary summary;
};

#define FIELD(NAME) OPTION_FIELD(struct symbols, NAME)

static const struct option_row rows[] = {
    {"--output", "OUTPUT", "write the trace here", .letter = 'o', FIELD(output)},
    {"--all", NULL, "take what is found in place of any name in the trace", .type = VALUE_SET,
     .least = FRAME_ALL, FIELD(policy)},
    {"--only-unknown", NULL, "name only frames that have no name", .type = VALUE_SET,
     .least = FRAME_UNKNOWN, FIELD(policy)},
    {"--force", .letter = 'f', .type = VALUE_IGNORED}, /* always done, as by update */
    {"--format", "F", "{}", "text", .type = VALUE_WORD, .words = "text or json", FIELD(json)},
    QUIET_ROW(struct symbols, quiet),
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = resolve_trace_rows, .base = offsetof(struct symbols, options), .title = "Images"},
    {.rows = resolve_source_rows, .base = offsetof(struct symbols, options)},
    {.rows = resolve_file_rows, .base = offsetof(struct symbols, options)},
    {.rows = resolve_thread_rows, .base = offsetof(struct symbols, options)},
    {0},
};
static const struct option_row positional[] = {{"trace", FIELD(input)}, {0}};

static int rename_all(void *ctx, struct reframe *r, struct err *e)
{
    struct symbols *s = ctx;
    struct buf fact = {0};
    if (resolve_book(&s->resolver, reframe_book(r), r, s->policy, &s->summary, e) != 0)
        return -1;
    resolve_summary_fact(&s->summary, &fact);
    int status = fact.failed ? err_no_memory(e, "a fact") : 0;
    if (status == 0)
        status = reframe_set_fact(r, buf_str(&fact), e);
    buf_release(&fact);
    return status;
}

/* Without an output, the trace is read once and nothing is written. */
static int look(struct symbols *s, struct trace_input *in, struct err *e)
{
    bool wanted[REC_TYPE_COUNT] = {false};
    struct rewrite_source source = trace_input_source(in);
    struct trace_info info;
    struct reframe *r;
    if (reframe_open(&r, e) != 0)
        return -1;
    reframe_wanted(wanted);
    const struct record_sink sink = reframe_collect_sink(r);
    int status = source.read(source.ctx, 0, &sink, wanted, &info, e);
    if (status == 0)
        status = resolve_book(&s->resolver, reframe_book(r), r, s->policy, &s->summary, e);
    reframe_free(r);
    return status;
}

static int rewrite(struct symbols *s, struct trace_input *in, struct outfile *out, struct err *e)
{
    const struct rewrite_source source = trace_input_source(in);
    const struct rewrite_options options = {.rename = rename_all, .rename_ctx = s};
    struct trace_writer_options writing = trace_writer_options_default();
    struct trace_write_stats stats;
    struct rewrite_outcome outcome = {0};
    struct trace_writer *w;
    writing.threaded = true;
    if (trace_writer_open(&w, out->fd, &writing, e) != 0)
        return -1;
    int status = rewrite_trace(&source, &options, w, &outcome, e);
    if (status == 0)
        status = trace_writer_finish(w, &stats, e);
    trace_writer_free(w);
    trace_input_clear(in);
    for (unsigned i = 0; i < outcome.info.warning_count; i++)
        fprintf(stderr, "tidemark: %s: %s\n", s->input, outcome.info.warnings[i]);
    buf_release(&outcome.losses);
    if (status == 0)
        status = stored_pages_keep(s->input, out->fd, true, true, e);
    return status == 0 ? outfile_commit(out, e) : -1;
}

static int run(struct symbols *s, struct err *e)
{
    struct trace_input in;
    struct outfile out;
    bool direct = false;
    int status;
    /* Starts the helper before anything else is open. */
    if (resolver_init(&s->resolver, &s->options, e) != 0)
        return -1;
    helper_start_early(&s->resolver.helper);
    if (trace_input_open(&in, s->input, s->output ? 2 : 1, s->quiet, e) != 0)
        return -1;
    if (!s->output) {
        status = look(s, &in, e);
    } else {
        status = outfile_open(&out, s->output, true, e);
        if (status == 0) {
            direct = out.direct;
            status = rewrite(s, &in, &out, e);
            outfile_abort(&out);
        }
    }
    trace_input_close(&in);
    if (status != 0)
        return -1;
    FILE *to = direct ? stderr : stdout;
    return s->json ? resolve_summary_json(&s->summary, s->input, to, e)
                   : resolve_summary_print(&s->summary, s->input, to, e);
}

int cmd_symbols(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .positional = positional};
    struct symbols s = {.resolver = RESOLVER_NONE};
    struct err e = {0};
    int status = command_line_parse(&line, &s, argc, argv);
    if (status < 0) {
        status = run(&s, &e) == 0 ? 0 : print_error(&e);
        resolver_release(&s.resolver);
    }
    resolve_summary_release(&s.summary);
    resolve_options_release(&s.options);
    return status;
}
