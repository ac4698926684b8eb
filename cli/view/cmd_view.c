/* tidemark view: the report page of a trace, in a browser. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/figures/summary.h"
#include "base/buf.h"
#include "cli/commands.h"
#include "cli/html_source.h"
#include "cli/options/question.h"
#include "cli/view/browser_start.h"
#include "trace/load/load_beside.h"

#define NAME_MAX_BYTES 100

static const char usage[] =
    "usage: tidemark view FILE [OPTIONS]\n"
    "\n"
    "Writes the page of `tidemark report --format html` to a temporary file, prints its path and\n"
    "opens it with xdg-open, if there is a desktop. FILE - is standard input.\n";

static const char footer[] =
    "The page is in a separate folder in $TMPDIR or /tmp, which only you can read; it stays\n"
    "there until you or the system removes it.\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 the page cannot be written.\n";

struct view_command {
    struct question question;
    bool print; /* the path only */
    struct skiplist skip;
    struct page_source page;
};

static const struct option_row rows[] = {
    {"--no-browser", NULL, "print the path of the page only",
     OPTION_FIELD(struct view_command, print)},
    OPTION_HELP_ROW,
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_resolve_rows, .base = offsetof(struct view_command, question)},
    MEMORY_GROUP(struct view_command, question.memory),
    QUESTION_SELECTION_GROUP(struct view_command),
    {.rows = question_between_rows, .base = offsetof(struct view_command, question)},
    QUESTION_FILE_GROUPS(struct view_command),
    {0},
};

static const struct option_row positional[] = {
    {"trace", OPTION_FIELD(struct view_command, question.trace)}, {0}};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    (void)ctx;
    (void)n;
    (void)arguments;
    return page_source_available(e);
}

static int load_page(void *ctx, struct trace *t, struct err *e)
{
    struct view_command *c = ctx;
    page_source_init(&c->page, t);
    return page_source_load(&c->page, c->question.trace, &c->question.selection,
                            c->question.resolve.wanted, e);
}

static void unload_page(void *ctx)
{
    page_source_release(&((struct view_command *)ctx)->page);
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct view_command *c = ctx;
    struct summary s;
    const struct summary_options options = {.only = &c->question.selection,
                                            .skip = &c->skip,
                                            .by = GROUP_THREAD,
                                            .stacks = true,
                                            .stream = page_source_figures(&c->page)};
    if (trace_load_resident(t, c->question.trace, e) != 0 || summary_build(&s, t, &options, e) != 0)
        return -1;
    int status = page_source_write(&c->page, &s, &c->skip, out, e);
    summary_release(&s);
    return status;
}

/* "FOLDER/NAME.html" for the trace "…/NAME.tracy". False if memory is short. */
static bool name_page(struct buf *path, const char *folder, const char *trace)
{
    const char *slash = strrchr(trace, '/');
    const char *name = strcmp(trace, "-") == 0 ? "trace" : slash ? slash + 1 : trace;
    size_t n = strlen(name);
    if (n > strlen(".tracy") && strcmp(name + n - strlen(".tracy"), ".tracy") == 0)
        n -= strlen(".tracy");
    n = n < NAME_MAX_BYTES ? n : NAME_MAX_BYTES;
    buf_printf(path, "%s/%.*s.html", folder, (int)n, name);
    buf_str(path);
    return !path->failed;
}

/* Makes the folder of the page. NULL with `e`; the caller frees it. */
static char *make_folder(struct err *e)
{
    const char *set = getenv("TMPDIR");
    char *base = realpath(set && *set ? set : "/tmp", NULL);
    struct buf path = {0};
    if (!base) {
        err_errno(e, ERR_OUTPUT, "no folder %s for the page (TMPDIR)", set ? set : "/tmp");
        return NULL;
    }
    buf_printf(&path, "%s/tidemark-XXXXXX", base);
    free(base);
    char *folder = path.failed ? NULL : strdup(buf_str(&path));
    buf_release(&path);
    if (!folder) {
        err_no_memory(e, "the page");
    } else if (!mkdtemp(folder)) {
        err_errno(e, ERR_OUTPUT, "cannot make %s", folder);
        free(folder);
        folder = NULL;
    }
    return folder;
}

static int show_page(struct view_command *c, const char *folder)
{
    struct err e = {0};
    struct buf path = {0};
    int status = 4;
    if (!name_page(&path, folder, c->question.trace)) {
        err_no_memory(&e, "the page");
        print_error(&e);
    } else {
        c->question.output = buf_str(&path);
        status = question_run(&c->question, answer, c);
    }
    if (status == 0) {
        printf("%s\n", buf_str(&path));
        if (fflush(stdout) == 0 && !c->print)
            (void)browser_start((char *)path.data); /* the path is printed in any case */
    } else {
        (void)rmdir(folder);
    }
    buf_release(&path);
    return status;
}

int cmd_view(int argc, char **argv)
{
    const struct command_line line = {.options = groups,
                                      .usage = usage,
                                      .footer = footer,
                                      .positional = positional,
                                      .rest = take_rest};
    struct view_command c = {.question = {.load = load_page, .unload = unload_page}};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status >= 0)
        return status;
    struct err e = {0};
    char *folder = make_folder(&e);
    if (folder) {
        status = show_page(&c, folder);
        free(folder);
    } else {
        status = print_error(&e);
    }
    skiplist_release(&c.skip);
    return status;
}
