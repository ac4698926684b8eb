/*
 * tidemark import, and the drop-in for tracy-import-chrome: a file of another tool becomes a trace.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/summary.h"
#include "base/format.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "import/import.h"
#include "report/write/progress.h"
#include "server/capture/stored_summary.h"
#include "trace/save/save_file.h"

static const char usage[] =
    "usage: tidemark import [OPTIONS] FILE OUT\n"
    "\n"
    "Makes a trace of a Chrome trace (JSON), of a recording of heaptrack or of a snapshot of "
    "PyTorch's\n"
    "CUDA memory (pickle or JSON), plain or compressed with gzip or zstd.\n";

static const char footer[] =
    "Exit status: 0 done; 2 usage; 3 FILE cannot be read to its end; 4 OUT exists or cannot be\n"
    "written.\n";

static const char drop_in_usage[] =
    "tracy-import-chrome " TIDEMARK_VERSION " (tidemark)\n\n"
    "Usage: import-chrome input.json output.tracy\n\nTry 'tidemark import --help'.\n";

struct importing {
    const char *input;
    const char *output;
    enum import_format format; /* IMPORT_UNKNOWN: detect */
    bool replace;
    bool drop_in;
    bool quiet; /* no progress lines */
    uint32_t version;
    struct container_options container;
    char *dir; /* of the output: for temporary files */
};

/* ---- arguments */

#define FIELD(NAME) OPTION_FIELD(struct importing, NAME)

static const struct option_row rows[] = {
    {"--force", NULL, "replace OUT if it exists", .letter = 'f', FIELD(replace)},
    {"--format", "FORMAT", "{} (default: what FILE looks like)", .type = VALUE_WORD,
     .words = "chrome, heaptrack or torch", .least = IMPORT_CHROME, FIELD(format)},
    {"--trace-version", "V", "file version to write (0.14.0)", .type = VALUE_FILE_VERSION,
     FIELD(version)},
    {"--compression", "SPEC", "lz4, lz4hc, zstd or zstd:LEVEL (default: by version)",
     .type = VALUE_COMPRESSION, FIELD(container)},
    QUIET_ROW(struct importing, quiet),
    OPTION_HELP_ROW,
    OPTION_VERSION_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct importing *m = ctx;
    if (n != 2) {
        if (!m->drop_in)
            err_set(e, ERR_USAGE, "%s",
                    n < 2 ? "a file to read and one to write are needed" : "too many files");
        return false;
    }
    m->input = arguments[0];
    m->output = arguments[1];
    return true;
}

/* Returns -1 to continue, else the exit status. */
static int parse_arguments(struct importing *m, int argc, char **argv)
{
    const struct command_line line = {
        .options = groups,
        .usage = usage,
        .footer = footer,
        .hint = m->drop_in
                    ? drop_in_usage
                    : "usage: tidemark import [OPTIONS] FILE OUT\nTry 'tidemark import --help'.\n",
        .hint_to = m->drop_in ? stdout : stderr,
        .refused = m->drop_in ? 1 : 2,
        .help_refused = m->drop_in,
        .rest = parse_rest};
    return command_line_parse(&line, m, argc, argv);
}

/* ---- the work */

/* Progress messages of the official tool, on one line: import-chrome.cpp @ v0.14.0. */
static void say(const struct importing *m, const char *words)
{
    if (m->drop_in) {
        fputs(words, stdout);
        fflush(stdout);
    }
}

static int choose_dir(struct importing *m, struct err *e)
{
    if (strncmp(m->output, "/dev/", 5) == 0)
        return 0;
    m->dir = outfile_folder(m->output);
    return m->dir ? 0 : err_no_memory(e, "options");
}

/* Fails early instead of after reading a long file. Leaves nothing behind. */
static int check_output(const struct importing *m, struct err *e)
{
    struct outfile probe;
    if (outfile_open(&probe, m->output, m->replace, e) != 0)
        return -1;
    outfile_abort(&probe);
    return 0;
}

/* Names the trace as the official importer does. */
static int name_trace(const struct importing *m, struct trace *t, struct err *e)
{
    t->facts.capture_name = strings_intern(&t->strings, view_of(m->output), e);
    if (!t->facts.program)
        t->facts.program = strings_intern(&t->strings, view_of(m->input), e);
    return t->facts.capture_name && t->facts.program ? 0 : -1;
}

static int read_events(const struct importing *m, struct import_source *s, struct ingest *in,
                       struct import_counts *counts, struct err *e)
{
    struct view head;
    enum import_format format = m->format;
    if (import_source_peek(s, &head, e) != 0)
        return -1;
    if (format == IMPORT_UNKNOWN)
        format = m->drop_in ? IMPORT_CHROME : import_detect(head);
    switch (format) {
    case IMPORT_CHROME:
        return import_chrome(s, in, m->dir, counts, e);
    case IMPORT_HEAPTRACK:
        return import_heaptrack(s, in, counts, e);
    case IMPORT_TORCH:
        return import_torch(s, in, counts, e);
    default:
        return err_set(e, ERR_INPUT,
                       "neither a Chrome trace, a recording of heaptrack nor a snapshot of "
                       "PyTorch's memory");
    }
}

static void report_count(uint64_t n, const char *what, const char **between)
{
    if (n == 0)
        return;
    printf("%s%" PRIu64 " %s", *between, n, what);
    *between = ", ";
}

static void report(const struct importing *m, const struct trace *t,
                   const struct import_counts *counts, const struct trace_write_stats *stats)
{
    char bytes[FORMAT_SIZE], time[FORMAT_SIZE], number[FORMAT_SIZE];
    char version[FILE_VERSION_TEXT_SIZE];
    const char *between = "";
    report_count(counts->zones, "zones", &between);
    report_count(counts->messages, "messages", &between);
    report_count(counts->frames, "frames", &between);
    report_count(counts->plot_values, "values of plots", &between);
    report_count(counts->allocations, "allocations", &between);
    report_count(counts->frees, "frees", &between);
    printf("%s in %s\n", *between ? "" : "no events", format_duration(time, t->facts.last_time));
    if (counts->early)
        printf("%s of %s allocated before the history began\n",
               format_counted(number, counts->early, "block"),
               format_bytes(bytes, counts->early_bytes));
    printf("Trace size %s, version %s\n", format_bytes(bytes, stats->file_bytes),
           file_version_text(m->version, version));
}

static void report_oddities(const struct importing *m, const struct ingest *in,
                            const struct import_counts *counts, struct buf *losses)
{
    char version[FILE_VERSION_TEXT_SIZE];
    for (enum import_note n = 0; n < NOTE_COUNT; n++) {
        if (counts->notes[n])
            fprintf(stderr, "tidemark: %" PRIu64 " %s\n", counts->notes[n], import_note_text(n));
    }
    if (in->time_overflow)
        fprintf(stderr, "tidemark: %" PRIu64 " times beyond the 37 hours that a trace can hold\n",
                in->time_overflow);
    if (in->trace->location_overflow)
        fprintf(stderr, "tidemark: %" PRIu64 " zones without a name: a trace has room for %u\n",
                in->trace->location_overflow, LOCATIONS_MAX);
    if (losses->len)
        fprintf(stderr, "tidemark: version %s cannot hold: %s\n",
                file_version_text(m->version, version), buf_str(losses));
}

static int make_trace(const struct importing *m, struct import_source *s, struct trace *t,
                      struct err *e)
{
    struct ingest in;
    struct import_counts counts = {0};
    struct trace_write_stats stats;
    struct buf losses = {0};
    struct save_options options = {
        .layout = file_layout_find(m->version), .container = m->container, .replace = m->replace};
    struct saved_summary figures = {0};
    if (!m->drop_in)
        saved_summary_attach(&figures, t, &options);
    figures.only_to_store = true;
    if (ingest_init(&in, t, e) != 0)
        return -1;
    say(m, "\33[2KParsing...\r");
    struct progress progress = progress_of_file(m->input, m->quiet || m->drop_in);
    s->reading = progress_add;
    s->reading_ctx = &progress;
    int status = read_events(m, s, &in, &counts, e);
    progress_clear(&progress);
    s->reading = NULL;
    if (status != 0)
        err_prefix(e, "%s", m->input);
    say(m, "\33[2KProcessing...\r");
    if (status == 0 && counts.allocations)
        status = summary_write_facts(t, e);
    if (status == 0)
        status = name_trace(m, t, e);
    if (status == 0) {
        say(m, "\33[2KSaving...\r");
        progress_watch_events(&progress, t, 1, m->quiet || m->drop_in);
        status = trace_save_file(t, m->output, &options, &stats, &losses, e);
        progress_unwatch_events(&progress, t);
        saved_summary_release(&figures);
    }
    if (status == 0) {
        say(m, "\33[2KCleanup...\n");
        if (!m->drop_in)
            report(m, t, &counts, &stats);
        report_oddities(m, &in, &counts, &losses);
    }
    buf_release(&losses);
    ingest_release(&in);
    return status;
}

static int import_run(struct importing *m, struct err *e)
{
    struct import_source s;
    struct trace t;
    say(m, "Loading...\r");
    if (import_source_open(&s, m->input, e) != 0)
        return -1;
    int status = check_output(m, e);
    if (status == 0)
        status = choose_dir(m, e);
    if (status == 0) {
        const struct trace_options options = {.spool_dir = m->dir};
        status = trace_init(&t, &options, e);
        if (status == 0) {
            status = make_trace(m, &s, &t, e);
            trace_release(&t);
        }
    }
    import_source_close(&s);
    return status;
}

static int import_main(int argc, char **argv, bool drop_in)
{
    struct importing m = {.drop_in = drop_in,
                          .replace = drop_in,
                          .version = FILE_VERSION(0, 14, 0),
                          .container = container_options_default()};
    struct err e = {0};
    int status = parse_arguments(&m, argc, argv);
    if (status < 0) {
        status = import_run(&m, &e) == 0 ? 0 : drop_in ? 1 : err_exit_status(&e);
        if (status != 0)
            print_error(&e);
    }
    free(m.dir);
    return status;
}

int cmd_import(int argc, char **argv)
{
    return import_main(argc, argv, false);
}

int cmd_import_drop_in(int argc, char **argv)
{
    return import_main(argc, argv, true);
}
