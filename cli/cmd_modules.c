/* tidemark modules: the mappings of a process, for `symbols --modules` on another host. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "symbols/place/process_modules.h"

static const char usage[] =
    "usage: tidemark modules PID [-o OUTPUT]\n"
    "\n"
    "Prints the images of a process: where which part of which file is mapped, and the files'\n"
    "build ids. A trace that was recorded on another host, or by another tool, has no such table;\n"
    "`tidemark symbols --modules` takes it.\n";

static const char footer[] =
    "Exit status: 0 done; 2 usage; 3 there is no such process, or it is not ours to look at;\n"
    "4 OUTPUT exists or cannot be written.\n";

struct modules_command {
    pid_t pid;
    const char *output;
    bool force;
    FILE *to;
};

#define FIELD(NAME) OPTION_FIELD(struct modules_command, NAME)

static const struct option_row rows[] = {
    {"--output", "OUTPUT", "write it here", .letter = 'o', FIELD(output)},
    {"--force", NULL, "replace OUTPUT if it exists", .letter = 'f', FIELD(force)},
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct modules_command *c = ctx;
    uint64_t pid;
    if (n != 1) {
        err_set(e, ERR_USAGE, "one process id is needed");
        return false;
    }
    if (!option_u64(arguments[0], "PID", 1, INT32_MAX, &pid, e))
        return false;
    c->pid = (pid_t)pid;
    return true;
}

static int put(void *ctx, const struct module *m, struct err *e)
{
    const struct modules_command *c = ctx;
    char id[2 * BUILD_ID_MAX + 1];
    (void)e;
    build_id_text(&m->build_id, id);
    fprintf(c->to, "%" PRIx64 "-%" PRIx64 " %" PRIx64 " %s %s\n", m->start, m->end, m->offset, id,
            m->path);
    return 0;
}

static int print(struct modules_command *c, struct err *e)
{
    char date[FORMAT_SIZE];
    fprintf(c->to, "# tidemark modules of process %d at %s\n", (int)c->pid,
            format_date(date, (uint64_t)time(NULL)));
    return process_modules(c->pid, put, c, e);
}

static int write_file(struct modules_command *c, struct err *e)
{
    struct outfile o;
    if (outfile_open(&o, c->output, c->force, e) != 0)
        return -1;
    c->to = outfile_stream(&o, e);
    int status = c->to ? print(c, e) : -1;
    if (c->to && fclose(c->to) != 0 && status == 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", c->output);
    if (status == 0)
        status = outfile_commit(&o, e);
    outfile_abort(&o);
    return status;
}

int cmd_modules(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = parse_rest};
    struct modules_command c = {.to = stdout};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status >= 0)
        return status;
    return (c.output ? write_file(&c, &e) : print(&c, &e)) == 0 ? 0 : print_error(&e);
}
