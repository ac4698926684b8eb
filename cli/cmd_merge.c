/*
 * tidemark merge, and the drop-in for tracy-merge: one trace of several.
 * Options, words and exit status when called by the official name: merge/src/merge.cpp @ v0.14.0.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/outfile.h"
#include "base/tempfile.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options/options.h"
#include "report/write/progress.h"
#include "report/write/official_units.h"
#include "server/capture/stored_summary.h"
#include "trace/load/load_beside.h"
#include "trace/merge/merge.h"

static const char usage[] =
    "usage: tidemark merge [OPTIONS] OUTPUT INPUT...\n"
    "       tracy-merge [OPTIONS] -o OUTPUT INPUT...\n"
    "\n"
    "Makes one trace of several, with everything that they hold. Threads get the names of their\n"
    "programs, and so do pools, plots, locks and whatever else would have the same name.\n"
    "An INPUT may be - for standard input.\n";

static const char footer[] =
    "Exit status: 0 done; 1 an input has figures only; 2 usage; 3 an input is no trace or damaged, "
    "or the traces do not fit\n"
    "into one; 4 OUTPUT exists or cannot be written. As tracy-merge: 0 or 1.\n";

struct input {
    const char *path;
    int fd;
    off_t begin;
    uint64_t size, read; /* bytes of the file, and of those what this reading has read */
    struct merging *of;
    bool beside; /* this reading is only of frame images */
};

struct merging {
    bool drop_in;
    bool force;
    const char *output;
    struct merge_options options;
    struct trace_writer_options writer;
    VEC(struct merge_input_options) inputs;
    VEC(struct input) files;
    VEC(const char *) offsets;
    struct interrupt interrupt;
    bool quiet;
    uint64_t size; /* of all inputs */
    uint64_t done; /* read of all inputs in this pass: they are read by turns */
    struct progress progress;
};

/* ---- arguments */

static bool take_offset(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    return vec_push(&((struct merging *)ctx)->offsets, value) ||
           (err_no_memory(e, "offsets"), false);
}

#define FIELD(NAME) OPTION_FIELD(struct merging, NAME)

static const struct option_row rows[] = {
    {"--output", "FILE", "the output, instead of the first argument", .letter = 'o', FIELD(output)},
    {"--force", NULL, "replace OUTPUT if it exists", .letter = 'f', FIELD(force)},
    {"--offset", "N=TIME",
     "input N (1 is the first) begins TIME after input 1, for example 2=1.5s or 3=-200ms; given "
     "once for each such input",
     .take = take_offset},
    {"--align", "HOW",
     "inputs without an offset: {}; epoch: by the clock of the day, which traces hold in seconds; "
     "begin: all begin together",
     "epoch", .type = VALUE_WORD, .words = "epoch or begin", FIELD(options.align_begin)},
    {"--trace-version", "V", "file version to write (default: the newest of the inputs')",
     .type = VALUE_LAYOUT, FIELD(options.target)},
    {"--compression", "C", "lz4, lz4hc, zstd or zstd:LEVEL", .type = VALUE_COMPRESSION,
     FIELD(writer.container)},
    QUIET_ROW(struct merging, quiet),
    OPTION_HELP_ROW,
    OPTION_VERSION_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};

/* "N=TIME", when it is known how many inputs there are. */
static bool parse_offset(struct merging *g, const char *text, struct err *e)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (end == text || text[0] < '0' || text[0] > '9' || *end != '=' || n < 1 ||
        n > g->inputs.len) {
        err_set(e, ERR_USAGE, "--offset takes N=TIME with an input from 1 to %zu, not '%s'",
                g->inputs.len, text);
        return false;
    }
    struct merge_input_options *in = &g->inputs.at[n - 1];
    in->has_offset = true;
    return option_time(end + 1, "--offset", &in->offset, e);
}

static int add_input(struct merging *g, const char *path, struct err *e)
{
    for (size_t i = 0; strcmp(path, "-") == 0 && i < g->files.len; i++) {
        if (strcmp(g->files.at[i].path, "-") == 0)
            return err_set(e, ERR_USAGE, "standard input can be read once only");
    }
    if (!vec_push(&g->inputs, (struct merge_input_options){.name = path}) ||
        !vec_push(&g->files, (struct input){.path = path, .fd = -1}))
        return err_no_memory(e, "names of inputs");
    return 0;
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct merging *g = ctx;
    if (!g->output && !g->drop_in && n > 0) {
        g->output = *arguments++;
        n--;
    }
    if (!g->output || n == 0) {
        err_set(e, ERR_USAGE, "%s",
                !g->output
                    ? (g->drop_in ? "Error: Output file is required (-o)" : "an output is needed")
                    : (g->drop_in ? "Error: At least one input file is required"
                                  : "an input is needed"));
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (add_input(g, arguments[i], e) != 0)
            return false;
    }
    for (size_t i = 0; i < g->offsets.len; i++) {
        if (!parse_offset(g, g->offsets.at[i], e))
            return false;
    }
    g->options.inputs = g->inputs.at;
    g->options.n = g->inputs.len;
    return true;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct merging *g, int argc, char **argv)
{
    const struct command_line line = {
        .options = groups,
        .usage = usage,
        .footer = footer,
        .hint = "usage: tidemark merge [-f] [--offset N=TIME] [--align epoch|begin] "
                "[--trace-version V]\n"
                "                      [--compression C] OUTPUT INPUT...\n"
                "       tracy-merge -o OUTPUT [-f] INPUT...\nTry 'tidemark merge --help'.\n",
        .version = g->drop_in ? "tracy-merge, tidemark" : NULL,
        .nameless_errors = g->drop_in,
        .refused = g->drop_in ? 1 : 2,
        .help_refused = g->drop_in,
        .rest = parse_rest};
    return command_line_parse(&line, g, argc, argv);
}

/* ---- the work */

static int progress(void *ctx, uint64_t file_bytes, struct err *e)
{
    struct input *in = ctx;
    struct merging *g = in->of;
    if (interrupt_came(&g->interrupt))
        return err_set(e, ERR_OUTPUT, "interrupted");
    if (in->beside)
        return 0;
    g->done += file_bytes - in->read;
    in->read = file_bytes;
    progress_show(&g->progress, g->done);
    return 0;
}

/* For struct merge_source. */
static int read_input(void *ctx, size_t input, unsigned pass, const struct record_sink *sink,
                      const bool *wanted, struct trace_info *info, struct err *e)
{
    struct merging *g = ctx;
    struct input *in = &g->files.at[input];
    const struct trace_read_options options = {
        .wanted = wanted, .progress = progress, .progress_ctx = in};
    if (pass == 0 && g->drop_in && strcmp(g->output, "/dev/stdout") != 0)
        printf("Reading: %s\n", in->path);
    if (lseek(in->fd, in->begin, SEEK_SET) < 0)
        return err_errno(e, ERR_INPUT, "cannot read %s again", in->path);
    in->beside = pass > 0 && wanted;
    in->read = in->beside ? in->read : 0;
    if (pass > 0 && !g->progress.before) {
        progress_again(&g->progress);
        g->progress.before = "writing: ";
        g->done = 0;
    }
    int status = trace_read(in->fd, in->path, sink, &options, info, e);
    in->beside = false;
    if (status == 0 && pass == 0 && info->behind[0]) {
        progress_clear(&g->progress);
        print_behind(in->path, info->behind);
    }
    return status;
}

/* Inputs are read twice: what cannot be goes to a temporary file. */
static int open_input(struct input *in, struct err *e)
{
    struct stat st;
    bool standard_input = strcmp(in->path, "-") == 0;
    in->fd = standard_input ? dup(STDIN_FILENO) : open(in->path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", in->path);
    in->begin = lseek(in->fd, 0, SEEK_CUR);
    if (in->begin < 0 || fstat(in->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int copy = tempfile_copy(in->fd, tempfile_dir(NULL), e);
        close(in->fd);
        in->fd = copy;
        in->begin = 0;
        if (copy < 0)
            return err_prefix(e, "%s", in->path);
        if (fstat(copy, &st) != 0)
            return err_errno(e, ERR_INPUT, "cannot read %s", in->path);
    }
    in->size = (uint64_t)st.st_size;
    return 0;
}

static int write_trace(struct merging *g, int fd, struct merge_outcome *o,
                       struct trace_write_stats *stats, struct err *e)
{
    struct trace_writer *w;
    const struct merge_source source = {.ctx = g, .read = read_input};
    if (trace_writer_open(&w, fd, &g->writer, e) != 0)
        return -1;
    g->progress = progress_begin(g->size, g->quiet || g->drop_in);
    int status = merge_traces(&source, &g->options, w, o, e);
    progress_clear(&g->progress);
    if (status == 0)
        status = trace_writer_finish(w, stats, e);
    trace_writer_free(w);
    return status;
}

/* Notes name files: what is in those names reaches a terminal escaped, line by line. */
static void say_notes(struct merge_outcome *o)
{
    for (const char *line = buf_str(&o->notes); *line;) {
        size_t len = strcspn(line, "\n");
        struct buf text = {0};
        format_terminal(&text, (struct view){line, len});
        fprintf(stderr, "tidemark: %s\n", buf_str(&text));
        buf_release(&text);
        line += len + (line[len] == '\n');
    }
}

static void report(const struct merging *g, struct merge_outcome *o,
                   const struct trace_write_stats *stats, FILE *to)
{
    char size[FORMAT_SIZE], version[FILE_VERSION_TEXT_SIZE];
    double ratio = 100.0 * (double)stats->file_bytes / (double)stats->inner_bytes;
    file_version_text(o->layout->version, version);
    (g->drop_in ? official_bytes : format_bytes)(size, stats->file_bytes);
    say_notes(o);
    if (o->losses.len > 0)
        fprintf(stderr, "tidemark: version %s cannot hold: %s\n", version, buf_str(&o->losses));
    if (g->drop_in) {
        fprintf(to,
                "\nMerging %zu trace(s)...\n  Total zones: %" PRIu64 "\n  Total messages: %" PRIu64
                "\n  Total threads: %" PRIu64 "\nWriting: %s\nDone. Output size: %s (%.2f%% "
                "ratio)\n",
                g->options.n, o->zones, o->messages, o->threads, g->output, size, ratio);
        return;
    }
    fprintf(to,
            "%zu traces -> %s (%s) {%s, %.2f%%}  %" PRIu64 " zones, %" PRIu64 " GPU zones, %" PRIu64
            " messages, %" PRIu64 " memory events, %" PRIu64 " threads, %" PRIu64 " pools\n",
            g->options.n, g->output, version, size, ratio, o->zones, o->gpu_zones, o->messages,
            o->memory_events, o->threads, o->pools);
}

static int merge_files(struct merging *g, struct err *e)
{
    struct outfile out;
    struct merge_outcome o = {0};
    struct trace_write_stats stats;
    if (outfile_open(&out, g->output, g->force, e) != 0)
        return -1;
    bool direct = out.direct;
    int status = write_trace(g, out.fd, &o, &stats, e);
    if (status == 0)
        status = outfile_commit(&out, e);
    for (size_t i = 0; i < g->files.len && status == 0 && !g->drop_in; i++)
        status = stored_pages_keep(g->files.at[i].path, -1, false, false, e);
    if (status == 0)
        report(g, &o, &stats, direct ? stderr : stdout);
    outfile_abort(&out);
    buf_release(&o.notes);
    buf_release(&o.losses);
    return status;
}

static int merge_run(struct merging *g, struct err *e)
{
    int status = 0;
    for (size_t i = 0; i < g->files.len && !g->drop_in; i++) {
        if (trace_has_only_figures(g->files.at[i].path))
            return err_set(e, ERR_CHECK, "%s: figures only, no events: they cannot be merged",
                           g->files.at[i].path);
    }
    for (size_t i = 0; i < g->files.len && status == 0; i++)
        status = open_input(&g->files.at[i], e);
    if (status != 0)
        return -1;
    for (size_t i = 0; i < g->files.len; i++) {
        g->files.at[i].of = g;
        g->size += g->files.at[i].size;
    }
    interrupt_hold(&g->interrupt);
    return merge_files(g, e);
}

static void release(struct merging *g)
{
    for (size_t i = 0; i < g->files.len; i++) {
        if (g->files.at[i].fd >= 0)
            close(g->files.at[i].fd);
    }
    vec_release(&g->files);
    vec_release(&g->inputs);
    vec_release(&g->offsets);
    interrupt_release(&g->interrupt);
}

/* The official tool looks before it reads. */
static bool refuses_output(const struct merging *g)
{
    struct stat st;
    if (!g->drop_in || g->force || stat(g->output, &st) != 0)
        return false;
    fprintf(stderr, "Error: Output file already exists: %s\nUse -f to overwrite\n", g->output);
    return true;
}

static int merge_main(int argc, char **argv, bool drop_in)
{
    struct merging g = {.drop_in = drop_in, .writer = trace_writer_options_default()};
    struct err e = {0};
    int status = parse_arguments(&g, argc, argv);
    if (status < 0) {
        status = refuses_output(&g) ? 1 : 0;
        if (status == 0 && merge_run(&g, &e) != 0) {
            print_error(&e);
            status = drop_in ? 1 : err_exit_status(&e);
        }
    }
    release(&g);
    return status;
}

int cmd_merge(int argc, char **argv)
{
    return merge_main(argc, argv, false);
}

int cmd_merge_drop_in(int argc, char **argv)
{
    return merge_main(argc, argv, true);
}
