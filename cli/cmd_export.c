/* tidemark export: a trace for the tools of others. */

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/stack_profile.h"
#include "analysis/summary.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/stack_formats.h"
#include "trace/load.h"

static const char usage[] =
    "usage: tidemark export FILE --format FORMAT -o OUT [OPTIONS]\n"
    "\n"
    "Writes what is in a trace in a form that other tools read. FILE - is standard input, OUT - "
    "is\n"
    "standard output.\n"
    "\n"
    "      --format FORMAT  one of these:\n"
    "\n"
    "What each call stack allocated:\n"
    "   folded      a line for each call stack, for flamegraph.pl and inferno\n"
    "   pprof       a profile for pprof (.pb.gz)\n"
    "   speedscope  a profile for speedscope (.json)\n"
    "\n"
    "  -o, --output OUT     the file to write (-)\n"
    "  -f, --force          replace OUT when it exists\n"
    "      --metric WHAT    folded, speedscope: bytes or count (bytes)\n"
    "      --of WHICH       folded, speedscope: of total, live, peak or temporary allocations\n"
    "                       (folded: total; speedscope: a profile for each)\n"
    "      --all-frames     folded, pprof, speedscope: Tracy's own functions at the inner end of\n"
    "                       call stacks, too\n"
    "  -h, --help           this text\n"
    "\n"
    "live: not freed at the end; peak: live when the pool stood highest; temporary: freed by the\n"
    "very next memory event of the same thread in that pool.\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 output exists or cannot be written.\n";

enum export_format { FORMAT_FOLDED, FORMAT_PPROF, FORMAT_SPEEDSCOPE, FORMAT_COUNT };

static const struct {
    const char *name;
    bool measures; /* --metric and --of mean something */
    bool binary;   /* nothing for a terminal */
} formats[FORMAT_COUNT] = {
    [FORMAT_FOLDED] = {"folded", true, false},
    [FORMAT_PPROF] = {"pprof", false, true},
    [FORMAT_SPEEDSCOPE] = {"speedscope", true, false},
};

struct export_command {
    const char *trace;
    const char *output;
    bool force;
    enum export_format format; /* FORMAT_COUNT: not given */
    bool metric_given, of_given;
    bool all_frames;
    struct stack_format_options stacks;
};

enum { OPTION_FORMAT = 256, OPTION_METRIC, OPTION_OF, OPTION_ALL_FRAMES };

static const struct option long_options[] = {
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, 'f'},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"of", required_argument, NULL, OPTION_OF},
    {"all-frames", no_argument, NULL, OPTION_ALL_FRAMES},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* ---- arguments */

static int parse_format(struct export_command *c, const char *value, struct err *e)
{
    char names[128] = "";
    for (unsigned i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(value, formats[i].name) == 0) {
            c->format = (enum export_format)i;
            return 0;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", formats[i].name);
    }
    return err_set(e, ERR_USAGE, "--format is one of %s, not '%s'", names, value);
}

static int parse_option(struct export_command *c, int option, const char *value, struct err *e)
{
    switch (option) {
    case OPTION_FORMAT:
        return parse_format(c, value, e);
    case 'o':
        c->output = value;
        return 0;
    case 'f':
        c->force = true;
        return 0;
    case OPTION_METRIC:
        c->metric_given = true;
        c->stacks.count = strcmp(value, "count") == 0;
        if (!c->stacks.count && strcmp(value, "bytes") != 0)
            return err_set(e, ERR_USAGE, "--metric is bytes or count, not '%s'", value);
        return 0;
    case OPTION_ALL_FRAMES:
        c->all_frames = true;
        return 0;
    case OPTION_OF:
        c->of_given = true;
        return profile_of_parse(value, &c->stacks.of)
                   ? 0
                   : err_set(e, ERR_USAGE, "--of is total, live, peak or temporary, not '%s'",
                             value);
    default:
        return err_set(e, ERR_USAGE, "%s", "");
    }
}

static int check_arguments(struct export_command *c, struct err *e)
{
    if (c->format == FORMAT_COUNT)
        return err_set(e, ERR_USAGE, "which --format?");
    if ((c->metric_given || c->of_given) && !formats[c->format].measures)
        return err_set(e, ERR_USAGE, "%s takes neither --metric nor --of: it has all of them",
                       formats[c->format].name);
    for (unsigned i = 0; i < PROFILE_OF_COUNT; i++)
        c->stacks.wanted[i] = !c->of_given || c->stacks.of == i;
    if (strcmp(c->output, "-") == 0 && formats[c->format].binary && isatty(STDOUT_FILENO))
        return err_set(e, ERR_USAGE, "%s is nothing for a terminal: give a file with -o",
                       formats[c->format].name);
    return 0;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct export_command *c, int argc, char **argv)
{
    struct err e = {0};
    int option;
    while ((option = getopt_long(argc, argv, "o:fh", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (parse_option(c, option, optarg, &e) != 0)
            goto bad;
    }
    if (optind == argc)
        err_set(&e, ERR_USAGE, "which trace?");
    else if (optind + 1 < argc)
        err_set(&e, ERR_USAGE, "what is '%s' for?", argv[optind + 1]);
    else if (check_arguments(c, &e) == 0) {
        c->trace = argv[optind];
        return -1;
    }
bad:
    if (e.text[0])
        fprintf(stderr, "export: %s\n", e.text);
    fputs("usage: tidemark export FILE --format FORMAT -o OUT [OPTIONS]; "
          "`tidemark export --help` tells more\n",
          stderr);
    return 2;
}

/* ---- call stacks */

static int write_stacks(const struct export_command *c, const struct profile *p, FILE *out,
                        struct err *e)
{
    switch (c->format) {
    case FORMAT_FOLDED:
        return folded_write(p, &c->stacks, out, e);
    case FORMAT_PPROF:
        return pprof_write(p, out, e);
    default:
        return speedscope_write(p, &c->stacks, out, e);
    }
}

/* Into a file that appears when it is whole. */
static int write_file(const struct export_command *c, const struct profile *p, struct err *e)
{
    struct outfile o;
    if (outfile_open(&o, c->output, c->force, e) != 0)
        return -1;
    int fd = dup(o.fd);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    int status;
    if (!out) {
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", c->output);
        if (fd >= 0)
            close(fd);
    } else {
        status = write_stacks(c, p, out, e);
        if (fclose(out) != 0 && status == 0)
            status = err_errno(e, ERR_OUTPUT, "cannot write %s", c->output);
    }
    if (status == 0)
        return outfile_commit(&o, e);
    outfile_abort(&o);
    return -1;
}

static int export_stacks(const struct export_command *c, struct trace *t, struct err *e)
{
    const struct summary_options options = {.by = GROUP_CALLSTACK};
    struct summary s;
    struct profile p;
    if (trace_load(t, c->trace, NULL, NULL, e) != 0 || summary_build(&s, t, &options, e) != 0)
        return -1;
    int status = profile_build(&p, &s, c->all_frames, e);
    if (status == 0) {
        status =
            strcmp(c->output, "-") == 0 ? write_stacks(c, &p, stdout, e) : write_file(c, &p, e);
        profile_release(&p);
    }
    summary_release(&s);
    return status;
}

int cmd_export(int argc, char **argv)
{
    struct export_command c = {.format = FORMAT_COUNT, .output = "-"};
    struct err e = {0};
    struct trace t;
    int status = parse_arguments(&c, argc, argv);
    if (status >= 0)
        return status;
    status = trace_init(&t, NULL, &e);
    if (status == 0) {
        status = export_stacks(&c, &t, &e);
        trace_release(&t);
    }
    if (status == 0)
        return 0;
    print_error(&e);
    return err_exit_status(&e);
}
