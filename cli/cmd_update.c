/*
 * tidemark update, and the drop-in for tracy-update: rewrites a trace, stripped, recompressed or in
 * another file version, in one pass and bounded memory.
 * What it prints and how it exits when called by the official name: update/src/update.cpp @
 * v0.14.0.
 */

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "base/format.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "trace/convert.h"
#include "trace/reader.h"
#include "trace/strip.h"
#include "trace/writer.h"

static const char usage[] =
    "usage: tidemark update [OPTIONS] INPUT OUTPUT\n"
    "\n"
    "Rewrites a trace: strips what is not wanted, compresses it anew, converts it to the file\n"
    "version of an older or newer Tracy. INPUT may be - for standard input. OUTPUT is replaced\n"
    "when the new one is whole; it may be INPUT itself.\n"
    "\n"
    "  -4                   compress with LZ4\n"
    "  -h                   compress with LZ4 HC\n"
    "  -e                   compress with LZ4 extreme (very slow)\n"
    "  -z LEVEL             compress with zstd at a level, -131072 to 22 (without any of these\n"
    "                       options: zstd, tuned for memory events)\n"
    "  -j STREAMS           compression streams, 1 to 255; -1: one per processor\n"
    "  -s FLAGS             strip: l locks, m messages, p plots, M memory, i frame images,\n"
    "                       c context switches, s samples, C symbol code, S source files\n"
    "      --trace-version V  file version to write (default: that of INPUT)\n"
    "  -f                   replace OUTPUT if it exists (always done)\n"
    "      --help           this text\n"
    "  -V, --version        the version\n"
    "\n"
    "Exit status: 0 done; 2 usage; 3 INPUT is no trace or damaged; 4 OUTPUT cannot be written.\n";

struct update {
    const char *input;
    const char *output;
    bool drop_in; /* called by the official tool's name: its exit codes */
    const char *strip;
    struct convert_options convert;
    struct trace_writer_options writer;
    /* while it runs */
    int in;
    uint64_t in_size; /* 0 when not known */
    bool terminal;    /* stderr is one */
    bool shown;       /* a progress line stands there */
    uint64_t begin;   /* ns */
    uint64_t next_show;
    sigset_t held; /* signals kept back so that the temporary file can be removed first */
    bool holding;
    sigset_t mask_before;
};

enum { OPTION_HELP = 256, OPTION_TRACE_VERSION };

static const struct option long_options[] = {
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, 'V'},
    {"trace-version", required_argument, NULL, OPTION_TRACE_VERSION},
    {NULL, 0, NULL, 0},
};

/* ---- arguments */

static bool parse_number(const char *text, long least, long most, long *out)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < least || n > most)
        return false;
    *out = n;
    return true;
}

static bool parse_level(struct update *u, const char *text, struct err *e)
{
    long level;
    if (!parse_number(text, ZSTD_minCLevel(), ZSTD_maxCLevel(), &level)) {
        err_set(e, ERR_USAGE, "Available Zstd compression levels range: %d - %d", ZSTD_minCLevel(),
                ZSTD_maxCLevel());
        return false;
    }
    u->writer.container.method = METHOD_ZSTD;
    u->writer.container.level = (int)level;
    return true;
}

static bool parse_streams(struct update *u, const char *text, struct err *e)
{
    long streams;
    if (!parse_number(text, -1, 255, &streams)) {
        err_set(e, ERR_USAGE, "-j takes a number of streams up to 255, or -1, not '%s'", text);
        return false;
    }
    if (streams <= 0)
        streams = sysconf(_SC_NPROCESSORS_ONLN);
    u->writer.container.streams = streams < 1 ? 1 : streams > 255 ? 255 : (unsigned)streams;
    return true;
}

static bool parse_option(struct update *u, int option, const char *value, struct err *e)
{
    struct strip probe;
    struct record_sink nowhere = {0};
    uint32_t version;
    switch (option) {
    case '4':
        u->writer.container.method = METHOD_LZ4;
        return true;
    case 'h':
        u->writer.container.method = METHOD_LZ4_HC;
        return true;
    case 'e':
        u->writer.container.method = METHOD_LZ4_EXTREME;
        return true;
    case 'z':
        return parse_level(u, value, e);
    case 'j':
        return parse_streams(u, value, e);
    case 's':
        strip_init(&probe, &nowhere);
        u->strip = value;
        return strip_add(&probe, value, e) == 0;
    case 'f':
        return true;
    case OPTION_TRACE_VERSION:
        if (file_version_parse(value, &version, e) != 0)
            return false;
        u->convert.target = file_layout_find(version);
        return true;
    default:
        err_set(e, ERR_USAGE, "%s", "");
        return false;
    }
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct update *u, int argc, char **argv)
{
    struct err e = {0};
    int option;
    while ((option = getopt_long(argc, argv, "4hez:j:s:fV", long_options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            fputs(usage, stdout);
            return 0;
        }
        if (option == 'V') {
            printf("tidemark %s\n", TIDEMARK_VERSION);
            return 0;
        }
        if (!parse_option(u, option, optarg, &e))
            goto bad;
    }
    if (argc == optind + 2) {
        u->input = argv[optind];
        u->output = argv[optind + 1];
        return -1;
    }
    err_set(&e, ERR_USAGE, "an input and an output are needed");
bad:
    if (e.text[0])
        fprintf(stderr, "%s: %s\n", argv[0], e.text);
    fputs("usage: update [-4|-h|-e|-z LEVEL] [-j STREAMS] [-s FLAGS] [--trace-version V] INPUT "
          "OUTPUT\n`tidemark update --help` tells more.\n",
          stderr);
    return u->drop_in ? 1 : 2;
}

/* ---- while it runs */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};

/*
 * Interrupted, the process must not leave its temporary file behind: the signals are held back and
 * looked for between blocks. Not on a pipe, where reading could wait for ever.
 */
static void hold_signals(struct update *u)
{
    struct stat st;
    if (fstat(u->in, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    u->in_size = (uint64_t)st.st_size;
    sigemptyset(&u->held);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        /* nohup and shells in the background ignore some: those stay ignored */
        struct sigaction now;
        if (sigaction(endings[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&u->held, endings[i]);
    }
    u->holding = sigprocmask(SIG_BLOCK, &u->held, &u->mask_before) == 0;
}

static bool interrupted(const struct update *u)
{
    sigset_t pending;
    if (!u->holding || sigpending(&pending) != 0)
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (sigismember(&u->held, endings[i]) == 1 && sigismember(&pending, endings[i]) == 1)
            return true;
    }
    return false;
}

static int progress(void *ctx, uint64_t file_bytes, struct err *e)
{
    struct update *u = ctx;
    if (interrupted(u))
        return err_set(e, ERR_OUTPUT, "interrupted");
    uint64_t now = now_ns();
    if (!u->terminal || u->in_size == 0 || now < u->next_show)
        return 0;
    char percent[FORMAT_SIZE];
    fprintf(stderr, "\r\033[K%s", format_percent(percent, file_bytes, u->in_size));
    u->next_show = now + 200000000u;
    u->shown = true;
    return 0;
}

/* ---- the work */

struct outcome {
    struct trace_info info;
    struct trace_write_stats stats;
    struct buf losses;
};

static int copy_trace(struct update *u, struct trace_writer *w, struct outcome *o, struct err *e)
{
    struct strip strip;
    struct convert *convert;
    bool wanted[REC_TYPE_COUNT];
    struct record_sink to_writer = trace_writer_sink(w);
    if (convert_open(&convert, &to_writer, &u->convert, e) != 0)
        return -1;
    struct record_sink to_convert = convert_sink(convert);
    strip_init(&strip, &to_convert);
    struct record_sink to_strip = strip_sink(&strip);
    memset(wanted, true, sizeof wanted);
    int status = u->strip ? strip_add(&strip, u->strip, e) : 0;
    strip_unwanted(&strip, wanted);
    const struct trace_read_options options = {
        .wanted = wanted, .progress = progress, .progress_ctx = u};
    if (status == 0)
        status = trace_read(u->in, u->input, &to_strip, &options, &o->info, e);
    if (status == 0)
        status = trace_writer_finish(w, &o->stats, e);
    convert_losses(convert, &o->losses);
    convert_free(convert);
    return status;
}

static int write_trace(struct update *u, int fd, struct outcome *o, struct err *e)
{
    struct trace_writer *w;
    if (trace_writer_open(&w, fd, &u->writer, e) != 0)
        return -1;
    int status = copy_trace(u, w, o, e);
    trace_writer_free(w);
    if (u->shown)
        fputs("\r\033[K", stderr);
    return status;
}

/* As the official tool reports, except that "load" is everything but compressing and writing. */
static void report(const struct update *u, struct outcome *o, FILE *to)
{
    char from[FILE_VERSION_TEXT_SIZE], target[FILE_VERSION_TEXT_SIZE];
    char in_bytes[FORMAT_SIZE], out_bytes[FORMAT_SIZE], load[FORMAT_SIZE], save[FORMAT_SIZE];
    const struct file_layout *layout = u->convert.target ? u->convert.target : o->info.layout;
    uint64_t in = o->info.container.file_bytes, out = o->stats.file_bytes;
    int64_t save_ns = (int64_t)o->stats.compress_ns;
    int64_t load_ns = (int64_t)(now_ns() - u->begin) - save_ns;
    file_version_text(layout->version, target);
    for (unsigned i = 0; i < o->info.warning_count; i++)
        fprintf(stderr, "tidemark: %s: %s\n", u->input, o->info.warnings[i]);
    if (o->losses.len > 0)
        fprintf(stderr, "tidemark: version %s cannot hold: %s\n", target, buf_str(&o->losses));
    fprintf(to, "%s (%s) {%s} -> %s (%s) {%s, %.2f%%}  %s load, %s save, %.2f%% change\n", u->input,
            file_version_text(o->info.version, from), format_bytes(in_bytes, in), u->output, target,
            format_bytes(out_bytes, out), 100.0 * (double)out / (double)o->stats.inner_bytes,
            format_duration(load, load_ns > 0 ? load_ns : 0), format_duration(save, save_ns),
            100.0 * (double)out / (double)in);
}

static int update_file(struct update *u, struct err *e)
{
    struct outfile out;
    struct outcome o = {0};
    if (outfile_open(&out, u->output, true, e) != 0)
        return -1;
    bool to_file = out.temporary != NULL;
    int status = write_trace(u, out.fd, &o, e);
    if (status == 0)
        status = outfile_commit(&out, e);
    if (status == 0)
        report(u, &o, to_file ? stdout : stderr);
    outfile_abort(&out);
    buf_release(&o.losses);
    return status;
}

static int update_run(struct update *u, struct err *e)
{
    bool standard_input = strcmp(u->input, "-") == 0;
    u->begin = now_ns();
    u->next_show = u->begin + 1000000000u;
    u->terminal = isatty(STDERR_FILENO) == 1;
    u->in = standard_input ? STDIN_FILENO : open(u->input, O_RDONLY | O_CLOEXEC);
    if (u->in < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", u->input);
    hold_signals(u);
    int status = update_file(u, e);
    if (!standard_input)
        close(u->in);
    if (u->holding)
        sigprocmask(SIG_SETMASK, &u->mask_before, NULL);
    return status;
}

static int update_main(int argc, char **argv, bool drop_in)
{
    struct update u = {.drop_in = drop_in, .writer = trace_writer_options_default()};
    struct err e = {0};
    int status = parse_arguments(&u, argc, argv);
    if (status >= 0)
        return status;
    if (update_run(&u, &e) == 0)
        return 0;
    print_error(&e);
    return drop_in ? 1 : err_exit_status(&e);
}

int cmd_update(int argc, char **argv)
{
    return update_main(argc, argv, false);
}

int cmd_update_drop_in(int argc, char **argv)
{
    return update_main(argc, argv, true);
}
