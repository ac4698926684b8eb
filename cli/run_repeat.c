#include "cli/run_repeat.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/print_error.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "run/launch.h"
#include "run/run_program.h"
#include "run/run_trace.h"

#define EXIT_NO_REPORT 4

struct repeat {
    struct run_options *options;
    VEC(char *) traces;
    VEC(char *) texts; /* arguments of `tidemark diff` */
};

/* ---- the runs */

static int name_traces(struct repeat *r, struct err *e)
{
    const struct run_options *o = r->options;
    for (uint64_t i = 1; i <= o->repeat; i++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRIu64, i);
        char *name = run_trace_name(o->output, number);
        if (!name || !vec_push(&r->traces, name)) {
            free(name);
            return err_no_memory(e, "names of traces");
        }
        if (!o->replace && file_is_there(name))
            return err_set(e, ERR_OUTPUT, "%.200s exists; -f replaces it", name);
    }
    if (o->base && access(o->base, R_OK) != 0) /* known before the runs, which may take long */
        return err_errno(e, ERR_INPUT, "cannot open %.200s", o->base);
    return 0;
}

/* In the child: budgets and the report are about all runs. */
static _Noreturn void record_and_exit(struct run_options *o, char *trace)
{
    o->output = trace;
    o->report = RUN_NONE;
    o->report_file = NULL;
    int status = run_program(o);
    fflush(NULL);
    _exit(status);
}

/* Records one run in a child process. Returns its exit status. */
static int run_once(struct repeat *r, char *trace, bool *asked, struct err *e)
{
    struct launch l;
    if (launch_init(&l, e) != 0)
        return -1;
    fflush(NULL);
    l.pid = fork();
    if (l.pid == 0) {
        launch_release(&l);
        record_and_exit(r->options, trace);
    }
    if (l.pid < 0) {
        err_errno(e, ERR_OUTPUT, "cannot start a run");
        launch_release(&l);
        return -1;
    }
    while (!l.ended) {
        struct pollfd news = {.fd = l.signals, .events = POLLIN};
        (void)poll(&news, 1, -1);
        launch_take_signals(&l);
    }
    *asked = l.asked;
    launch_release(&l);
    return launch_exit_status(&l);
}

/* 0 if all runs ended well; else the exit status. */
static int run_all(struct repeat *r)
{
    for (size_t i = 0; i < r->traces.len; i++) {
        struct err e = {0};
        bool asked = false;
        int status = run_once(r, r->traces.at[i], &asked, &e);
        if (status < 0)
            return print_error(&e);
        if (status == 0 && !asked)
            continue;
        fprintf(stderr, "tidemark: run %zu of %zu ended with exit status %d%s: no report of runs\n",
                i + 1, r->traces.len, status, asked ? " after a request to end" : "");
        return status ? status : EXIT_NO_REPORT;
    }
    return 0;
}

/* ---- the report */

/* The copy is owned by r->texts. A file must not look like an option. */
static bool add(struct repeat *r, const char *text, bool is_file)
{
    struct buf b = {0};
    buf_printf(&b, "%s%s", is_file && *text == '-' ? "./" : "", text);
    char *copy = b.failed ? NULL : strdup(buf_str(&b));
    buf_release(&b);
    if (copy && vec_push(&r->texts, copy))
        return true;
    free(copy);
    return false;
}

static bool add_options(struct repeat *r)
{
    static const char *const formats[] = {
        [RUN_TEXT] = "text",         [RUN_JSON] = "json",   [RUN_CSV] = "csv",  [RUN_HTML] = "text",
        [RUN_MARKDOWN] = "markdown", [RUN_JUNIT] = "junit", [RUN_NONE] = "text"};
    const struct run_options *o = r->options;
    bool ok = add(r, "run", false) && add(r, "--format", false) &&
              add(r, formats[o->report], false) && (!o->replace || add(r, "-f", false)) &&
              (!o->all_leaks || add(r, "--no-suppressions", false));
    if (o->report_file && o->report != RUN_NONE)
        ok = ok && add(r, "-o", false) && add(r, o->report_file, true);
    for (size_t i = 0; ok && i < o->fail_if.list.len; i++)
        ok = add(r, "--fail-if", false) && add(r, o->fail_if.list.at[i].text, false);
    return ok;
}

static bool make_texts(struct repeat *r)
{
    bool ok = add_options(r) && (!r->options->base || add(r, r->options->base, true)) &&
              add(r, "--", false);
    for (size_t i = 0; ok && i < r->traces.len; i++)
        ok = add(r, r->traces.at[i], true);
    return ok;
}

/* Where the report goes that is written to standard output from here on. */
static int redirect(const struct run_options *o, struct err *e)
{
    int to = o->report == RUN_NONE   ? open("/dev/null", O_WRONLY | O_CLOEXEC)
             : o->report == RUN_TEXT ? STDERR_FILENO
                                     : STDOUT_FILENO;
    fflush(stdout);
    /* The caller may have closed standard error. */
    if (to == STDERR_FILENO && fcntl(to, F_GETFD) < 0)
        to = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (to >= 0 && (to == STDOUT_FILENO || dup2(to, STDOUT_FILENO) >= 0))
        return 0;
    return err_errno(e, ERR_OUTPUT, "cannot write the report");
}

static int report(struct repeat *r)
{
    struct err e = {0};
    const struct run_options *o = r->options;
    if (o->report == RUN_NONE && o->fail_if.list.len == 0)
        return 0;
    /* A copy, whose order and content the command changes. */
    char **arguments = make_texts(r) ? calloc(r->texts.len + 1, sizeof *arguments) : NULL;
    int status = arguments ? redirect(o, &e) : err_no_memory(&e, "the report");
    if (status == 0) {
        memcpy(arguments, r->texts.at, r->texts.len * sizeof *arguments);
        optind = 0; /* getopt starts again */
        status = cmd_diff_of_run((int)r->texts.len, arguments);
    } else {
        status = print_error(&e);
    }
    free(arguments);
    return status;
}

int run_repeat(struct run_options *options)
{
    struct repeat r = {.options = options};
    struct err e = {0};
    int status = 0;
    if (name_traces(&r, &e) != 0)
        status = print_error(&e);
    if (status == 0)
        status = run_all(&r);
    if (status == 0)
        status = report(&r);
    for (size_t i = 0; i < r.traces.len; i++)
        free(r.traces.at[i]);
    for (size_t i = 0; i < r.texts.len; i++)
        free(r.texts.at[i]);
    vec_release(&r.traces);
    vec_release(&r.texts);
    return status;
}
