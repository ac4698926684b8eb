/* tidemark baseline: keeps the figures of runs of each branch, to compare later ones with. */

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "cli/baseline_folder.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/run_input.h"

static const char usage[] =
    "usage: tidemark baseline FOLDER RUN... [OPTIONS]\n"
    "       tidemark baseline FOLDER\n"
    "\n"
    "Adds the figures of runs to those of a branch, without their traces, and removes the\n"
    "oldest. A RUN is a trace. `tidemark diff FOLDER/BRANCH -- NEW...` compares with them.\n"
    "Without a RUN: lists the branches.\n";

static const char footer[] =
    "Exit status: 0 done; 1 a trace has no memory data; 2 usage; 3 unreadable trace; 4 the folder\n"
    "cannot be written.\n";

struct baseline_command {
    const char *folder;
    char **runs;
    size_t run_count;
    const char *branch;
    uint64_t keep;
    double max_age;
    struct skiplist skip;
    bool quiet;
};

#define FIELD(NAME) OPTION_FIELD(struct baseline_command, NAME)

static const struct option_row rows[] = {
    {"--branch", "NAME", "whose runs they are", "main", FIELD(branch)},
    {"--keep", "N", "runs of the branch to keep, the newest, 0 for all", "20", .type = VALUE_NUMBER,
     FIELD(keep)},
    {"--max-age", "SEC", "remove runs of the branch that were added longer ago",
     .type = VALUE_SECONDS, FIELD(max_age)},
    SKIP_ROWS(struct baseline_command, skip, "when looking for the site"),
    QUIET_ROW(struct baseline_command, quiet),
    OPTION_HELP_ROW,
    {0},
};

static const struct option_group groups[] = {{.rows = rows}, {0}};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct baseline_command *c = ctx;
    if (n == 0)
        err_set(e, ERR_USAGE, "which folder?");
    else if (!*c->branch)
        err_set(e, ERR_USAGE, "the branch has no name");
    else if (c->max_age < 0)
        err_set(e, ERR_USAGE, "--max-age is not negative");
    if (e->code)
        return false;
    c->folder = arguments[0];
    c->runs = arguments + 1;
    c->run_count = (size_t)(n - 1);
    return true;
}

/* ---- adding */

static int add_runs(const struct baseline_command *c, const char *folder, struct err *e)
{
    const struct run_input_options options = {.skip = &c->skip, .quiet = c->quiet};
    struct run_inputs runs = {0};
    int status = 0;
    for (size_t i = 0; i < c->run_count && status == 0; i++)
        status = run_inputs_add(&runs, c->runs[i], &options, e);
    if (status == 0)
        status = run_inputs_check(&runs, e);
    /* A run without data would pull the baseline down. */
    for (size_t i = 0; i < runs.list.len && status == 0; i++) {
        const struct run_figures *f = &runs.list.at[i];
        if (f->summary.empty)
            status = err_set(e, ERR_CHECK, "%.200s: %.*s", f->name, (int)f->summary.verdict.len,
                             (const char *)f->summary.verdict.data);
    }
    for (size_t i = 0; i < runs.list.len && status == 0; i++)
        status = baseline_add(folder, &runs.list.at[i], e);
    run_inputs_release(&runs);
    return status;
}

static int add(const struct baseline_command *c, struct err *e)
{
    uint64_t left = 0, removed = 0;
    char n[FORMAT_SIZE];
    struct buf name = {0};
    char *folder = baseline_branch_folder(c->folder, c->branch, e);
    int status = folder ? add_runs(c, folder, e) : -1;
    if (status == 0)
        status = baseline_retain(folder, c->keep, c->max_age, &left, &removed, e);
    if (status == 0) {
        format_terminal(&name, view_of(folder));
        printf("%s: %s", buf_str(&name), format_counted(n, left, "run"));
        printf(removed ? ", %s removed\n" : "\n", format_count(n, removed));
    }
    buf_release(&name);
    free(folder);
    return status;
}

/* ---- listing */

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

/* The runs of a subfolder; 0 if it is none. */
static uint64_t count_runs(const char *folder, const char *subfolder)
{
    uint64_t left = 0, removed;
    struct err ignored = {0};
    struct buf path = {0};
    buf_printf(&path, "%s/%s", folder, subfolder);
    if (!path.failed && baseline_retain(buf_str(&path), 0, 0, &left, &removed, &ignored) != 0)
        left = 0;
    buf_release(&path);
    return left;
}

static int list(const struct baseline_command *c, struct err *e)
{
    struct dirent **names;
    char n[FORMAT_SIZE];
    int count = scandir(c->folder, &names, is_visible, alphasort);
    if (count < 0)
        return err_errno(e, ERR_INPUT, "cannot read %s", c->folder);
    for (int i = 0; i < count; i++) {
        struct buf name = {0};
        char *branch = baseline_branch_name(names[i]->d_name);
        uint64_t runs = count_runs(c->folder, names[i]->d_name);
        format_terminal(&name, view_of(branch ? branch : names[i]->d_name));
        if (runs)
            printf("%s: %s\n", buf_str(&name), format_counted(n, runs, "run"));
        buf_release(&name);
        free(branch);
        free(names[i]);
    }
    free(names);
    return 0;
}

int cmd_baseline(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = take_rest};
    struct baseline_command c = {0};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0) {
        status = (c.run_count ? add(&c, &e) : list(&c, &e)) == 0 ? 0 : print_error(&e);
    }
    skiplist_release(&c.skip);
    return status;
}
