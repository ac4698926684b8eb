/*
 * The command table. The program is also called by the names of the tools that it replaces
 * (tracy-capture, capture, …): then argv[0] picks the command and its drop-in behaviour.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/nearest.h"

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
    const char *task; /* heading of the list, before the first command of a task; else NULL */
};

static const struct command commands[] = {
    {"run", cmd_run, "run an unmodified program and trace its memory", "record"},
    {"capture", cmd_capture, "record one client to a trace and print its memory summary", NULL},
    {"daemon", cmd_daemon, "record every client that announces itself, each to a trace", NULL},
    {"ctl", cmd_ctl, "list and control what a daemon records", NULL},
    {"recover", cmd_recover, "make a trace of the journal of a capture that was killed", NULL},
    {"report", cmd_report, "print the memory summary of a trace: by site, call stack, pool, …",
     "read a trace"},
    {"tree", cmd_tree, "print the call-stack tree of a trace's allocations, top-down or bottom-up",
     NULL},
    {"top", cmd_top, "walk through that tree on a terminal, of a trace or a running client", NULL},
    {"view", cmd_view, "open the report page of a trace in a browser", NULL},
    {"find", cmd_find, "find the allocations that covered an address, and when", NULL},
    {"annotate", cmd_annotate, "print a function's machine code with what its calls allocated",
     NULL},
    {"map", cmd_map, "draw addresses, ages and fragmentation of live blocks", NULL},
    {"timeline", cmd_timeline, "draw memory use over time", NULL},
    {"diff", cmd_diff, "print what changed between two traces, or between runs", NULL},
    {"baseline", cmd_baseline, "keep the figures of runs of a branch, to compare later ones with",
     NULL},
    {"info", cmd_info, "print what is in a trace", NULL},
    {"verify", cmd_verify, "check that memory data is really there; exit status 0 or 1", NULL},
    {"dump", cmd_dump, "print everything in a trace in a form that can be compared", NULL},
    {"update", cmd_update, "strip, convert or recompress a trace", "make other files of traces"},
    {"merge", cmd_merge, "make one trace of several", NULL},
    {"import", cmd_import, "make a trace of a Chrome trace or a recording of heaptrack", NULL},
    {"export", cmd_export, "write a trace for other tools: pprof, speedscope, flame graphs, …",
     NULL},
    {"csvexport", cmd_csvexport, "print zones, messages, plots or memory of a trace as CSV", NULL},
    {"push", cmd_push, "add traces to the tables of a fleet: ClickHouse, or Parquet by day", NULL},
    {"symbols", cmd_symbols, "find names for the call stack frames of a trace",
     "find names of functions"},
    {"symbolize", cmd_symbolize, "print what is at addresses of an image, inlined calls included",
     NULL},
    {"modules", cmd_modules, "print what a process has mapped where", NULL},
    {"mcp", cmd_mcp, "answer agents' questions about traces (Model Context Protocol)",
     "agents, tests and help"},
    {"replay", cmd_replay, "play a recorded client to a server", NULL},
    {"selftest", cmd_selftest, "capture a client of known counts, and try what this machine allows",
     NULL},
    {"help", cmd_help, "print this list", NULL},
    {"version", cmd_version, "print the version", NULL},
};

/* Names of official tools and the command that replaces each. */
static const struct command drop_ins[] = {
    {"tracy-capture", cmd_capture_drop_in, NULL, NULL},
    {"capture", cmd_capture_drop_in, NULL, NULL},
    {"capture-release", cmd_capture_drop_in, NULL, NULL},
    {"iree-tracy-capture", cmd_capture_drop_in, NULL, NULL},
    {"tracy-capture-daemon", cmd_daemon_drop_in, NULL, NULL},
    {"capture-daemon", cmd_daemon_drop_in, NULL, NULL},
    {"tracy-update", cmd_update_drop_in, NULL, NULL},
    {"update", cmd_update_drop_in, NULL, NULL},
    {"tracy-merge", cmd_merge_drop_in, NULL, NULL},
    {"tracy-csvexport", cmd_csvexport_drop_in, NULL, NULL},
    {"csvexport", cmd_csvexport_drop_in, NULL, NULL},
    {"iree-tracy-csvexport", cmd_csvexport_drop_in, NULL, NULL},
    {"tracy-import-chrome", cmd_import_drop_in, NULL, NULL},
    {"import-chrome", cmd_import_drop_in, NULL, NULL},
};

#define LENGTH(A) (sizeof(A) / sizeof(A)[0])

static const struct command *find_command(const struct command *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

static void print_usage(FILE *to)
{
    fprintf(to, "usage: tidemark COMMAND [OPTIONS] …\n"
                "       tidemark TRACE [OPTIONS]      as tidemark report TRACE\n\n"
                "Records programs, with or without a Tracy client, and reports where their memory "
                "went.\n\n");
    for (size_t i = 0; i < LENGTH(commands); i++)
        fprintf(to, "%s%s%s   %-10s %s\n", i && commands[i].task ? "\n" : "",
                commands[i].task ? commands[i].task : "", commands[i].task ? "\n" : "",
                commands[i].name, commands[i].what);
    fprintf(to, "\nTry 'tidemark COMMAND --help' and 'man tidemark-COMMAND'.\n");
}

/* With --complete: prints the names for completion in shells. */
static int cmd_help(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
        for (size_t i = 0; i < LENGTH(commands); i++)
            printf("%s\t%s\n", commands[i].name, commands[i].what);
    } else {
        print_usage(stdout);
    }
    return 0;
}

/* Whether `tidemark ARGUMENT` is about a file. Names of commands have no '.' and no '/'. */
static bool names_file(const char *argument)
{
    return argument[0] != '-' && (strpbrk(argument, "./") || access(argument, F_OK) == 0);
}

static int unknown_command(const char *name)
{
    const struct command *best = NULL;
    unsigned least = NEAREST_MAX;
    for (size_t i = 0; i < LENGTH(commands); i++) {
        unsigned distance = nearest_distance(commands[i].name, name);
        if (distance < least && nearest_is_close(distance, strlen(name))) {
            least = distance;
            best = &commands[i];
        }
    }
    fprintf(stderr, "tidemark: no command '%s'; ", name);
    if (best)
        fprintf(stderr, "did you mean '%s'? ", best->name);
    fprintf(stderr, "`tidemark help` lists them\n");
    return 2;
}

static int cmd_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("tidemark %s\n", TIDEMARK_VERSION);
    return 0;
}

/* An error while writing is a failure of the command. */
static int close_stdout(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tidemark: cannot write to standard output\n");
        return status ? status : 4;
    }
    return status;
}

/*
 * If the caller closed a standard stream, a file or socket could get its number, and messages would
 * be written into it. So /dev/null is opened in its place, in a mode in which reading or writing
 * fails like on the closed stream.
 */
static void hold_standard_streams(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", modes[fd]); /* takes the lowest free number, this one */
    }
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = argc > 0 ? (slash ? slash + 1 : argv[0]) : "tidemark";
    const struct command *c = find_command(drop_ins, LENGTH(drop_ins), name);
    if (c)
        return close_stdout(c->run(argc, argv));
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return close_stdout(cmd_help(0, NULL));
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return close_stdout(cmd_version(0, NULL));
    c = find_command(commands, LENGTH(commands), argv[1]);
    if (!c && names_file(argv[1])) {
        char report[] = "report";
        argv[0] = report;
        return close_stdout(cmd_report(argc, argv));
    }
    if (!c)
        return unknown_command(argv[1]);
    return close_stdout(c->run(argc - 1, argv + 1));
}
