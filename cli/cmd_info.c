/* tidemark info: what is in a trace file. */

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "analysis/overview.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/overview.h"
#include "trace/load.h"

static const char usage[] =
    "usage: tidemark info FILE [OPTIONS]\n"
    "\n"
    "Prints what is in a trace: file version and packing, program and host, how many of each kind\n"
    "of event, how many bytes they take, and how many addresses have names. FILE - is standard\n"
    "input.\n"
    "\n"
    "      --format F  text or json (text)\n"
    "  -h, --help      this text\n"
    "\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace.\n";

enum { OPTION_FORMAT = 256 };

static const struct option long_options[] = {
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(int argc, char **argv, const char **trace, bool *json)
{
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (option != OPTION_FORMAT)
            goto bad;
        *json = strcmp(optarg, "json") == 0;
        if (!*json && strcmp(optarg, "text") != 0) {
            fprintf(stderr, "info: --format is text or json, not '%s'\n", optarg);
            goto bad;
        }
    }
    if (optind + 1 == argc) {
        *trace = argv[optind];
        return -1;
    }
    if (optind == argc)
        fputs("info: which trace?\n", stderr);
    else
        fprintf(stderr, "info: what is '%s' for?\n", argv[optind + 1]);
bad:
    fputs("usage: tidemark info FILE [OPTIONS]; `tidemark info --help` tells more\n", stderr);
    return 2;
}

static int run(const char *path, bool json, struct trace *t, struct err *e)
{
    static const struct summary_options everything = {.by = GROUP_SITE};
    struct trace_counts counts;
    struct trace_info info;
    struct summary s;
    struct overview o;
    if (trace_load(t, path, &counts, &info, e) != 0 || summary_build(&s, t, &everything, e) != 0)
        return -1;
    int status = overview_build(&o, t, &counts, &info, &s, e);
    if (status == 0) {
        status = overview_write(&o, json, stdout, e);
        overview_release(&o);
    }
    summary_release(&s);
    return status;
}

int cmd_info(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    struct err e = {0};
    struct trace t;
    int status = parse_arguments(argc, argv, &path, &json);
    if (status >= 0)
        return status;
    status = trace_init(&t, NULL, &e);
    if (status == 0) {
        status = run(path, json, &t, &e);
        trace_release(&t);
    }
    if (status == 0)
        return 0;
    print_error(&e);
    return err_exit_status(&e);
}
