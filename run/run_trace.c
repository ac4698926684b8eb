#include "run/run_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/figures/summary.h"
#include "base/format.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "base/tempfile.h"
#include "naming/resolve_trace.h"
#include "naming/symbols_advice.h"
#include "server/capture/part_name.h"
#include "server/capture/stored_summary.h"
#include "report/junit.h"
#include "report/markdown.h"
#include "report/processes.h"
#include "report/report.h"
#include "report/write/document.h"
#include "report/write/progress.h"
#include "trace/save/save_file.h"

/* As after a capture; `tidemark report` shows all. */
#define SITES_SHOWN 20
#define REVIEW_SITES 10

extern char **environ;

void run_traces_init(struct run_traces *r, const struct run_options *o)
{
    struct err e = {0};
    *r = (struct run_traces){.options = o, .resolver = RESOLVER_NONE};
    if (o->no_symbols)
        return;
    r->resolver_runs = resolver_init(&r->resolver, &o->resolving, &e) == 0;
    if (!r->resolver_runs)
        print_error(&e);
}

void run_traces_release(struct run_traces *r)
{
    for (size_t i = 0; i < r->processes.len; i++) {
        free((char *)r->processes.at[i].program.p);
        free((char *)r->processes.at[i].trace.p);
    }
    vec_release(&r->processes);
    output_folder_leave(r->folder);
    free(r->elsewhere);
    resolver_release(&r->resolver);
}

/* ---- names */

static void find_names(struct run_traces *r, struct trace *t)
{
    struct resolve_summary names;
    struct buf fact = {0};
    struct err e = {0};
    if (!r->resolver_runs)
        return;
    int status = resolve_trace(&r->resolver, t, FRAME_BETTER, &names, &e);
    if (status == 0) {
        resolve_summary_warn(&names);
        resolve_summary_fact(&names, &fact);
        status = fact.failed ? err_no_memory(&e, "a fact")
                             : trace_add_fact(t, &e, "symbols", "%s", buf_str(&fact));
    }
    if (status != 0)
        print_error(&e);
    buf_release(&fact);
    resolve_summary_release(&names);
}

void run_trace_find_names(void *traces, struct trace *t)
{
    struct run_traces *r = traces;
    struct resolve_summary names;
    struct err e = {0};
    if (!r->resolver_runs)
        return;
    if (resolve_trace(&r->resolver, t, FRAME_BETTER, &names, &e) == 0)
        resolve_summary_release(&names);
    else
        print_error(&e);
}

/* ---- on disk */

char *run_trace_name(const char *output, const char *what)
{
    const char *slash = strrchr(output, '/');
    const char *dot = strrchr(slash ? slash : output, '.');
    size_t stem = dot && dot != output ? (size_t)(dot - output) : strlen(output);
    size_t room = strlen(output) + strlen(what) + 2;
    char *name = malloc(room);
    if (name)
        snprintf(name, room, "%.*s.%s%s", (int)stem, output, what, output + stem);
    return name;
}

/* Whether the report is for the review of a change. */
static bool is_review(const struct run_options *o)
{
    return o->report == RUN_MARKDOWN || o->report == RUN_JUNIT;
}

/*
 * Whether a program reads the report from standard output. A collector that the library started
 * uses standard output for other data.
 */
static bool is_for_programs(const struct run_options *o)
{
    return (o->report == RUN_JSON || o->report == RUN_CSV || is_review(o)) && !o->report_file &&
           !o->adopt;
}

/* Whether the folder of the output was removed, and no other has its name now. */
static bool is_homeless(const struct run_traces *r, const char *path)
{
    if (!r->folder || !output_folder_is_removed(r->folder))
        return false;
    char *folder = outfile_folder(path);
    bool other = folder && access(folder, F_OK) == 0 && !output_folder_is_at(r->folder, folder);
    free(folder);
    return !other;
}

/* Gives a path where temporary files are, for the user only, or `path`. NULL: no memory. */
static const char *find_home(struct run_traces *r, struct trace *t, const char *path, struct err *e)
{
    if (!is_homeless(r, path))
        return path;
    const char *folder = tempfile_dir(NULL), *slash = strrchr(path, '/');
    free(r->elsewhere);
    r->elsewhere = part_name_unused(folder, slash ? slash + 1 : path);
    if (!r->elsewhere)
        err_no_memory(e, "the output's name");
    (void)umask(077);
    return r->elsewhere && spool_set_dir(&t->spool, folder, e) == 0 ? r->elsewhere : NULL;
}

/* Which functions are sites. */
static const struct skiplist *rules_of(const struct run_options *o)
{
    static const struct skiplist names = {.names_alone = true};
    const struct budget_list list = {o->fail_if.list.at, o->fail_if.list.len};
    return budgets_select_sites(list) ? &names : NULL;
}

/*
 * Saves the trace; also makes the summary if `made` is given. Changes *where if the folder of the
 * output was removed.
 */
static int save(struct run_traces *r, struct trace *t, uint32_t version, const char **where,
                bool replace, struct saved_summary *made, struct err *e)
{
    const char *path = find_home(r, t, *where, e);
    if (!path)
        return -1;
    const struct run_options *o = r->options;
    bool own = version == 0 || o->version_given;
    struct trace_write_stats stats;
    struct buf losses = {0}, name = {0};
    char bytes[FORMAT_SIZE], events[FORMAT_SIZE], text[FILE_VERSION_TEXT_SIZE];
    struct save_options options = {.layout = file_layout_find(own ? o->version : version),
                                   .container = o->container,
                                   .replace = replace,
                                   .threaded = true};
    uint64_t count = 0;
    find_names(r, t);
    struct progress progress = {.before = "writing the trace: "};
    progress_watch_events(&progress, t, t->looks.list.len ? 2 : 1, o->quiet);
    if (saved_facts_write(t, e) != 0) {
        progress_unwatch_events(&progress, t);
        return -1;
    }
    for (size_t i = 0; i < t->memory.pools.len; i++)
        count += t->memory.pools.at[i]->totals.allocations + t->memory.pools.at[i]->totals.frees;
    struct saved_summary pages;
    saved_pages_attach(&pages, t, &options);
    if (made)
        saved_summary_attach(made, t, &options);
    if (made)
        made->skip = rules_of(o);
    int status = trace_save_file(t, path, &options, &stats, &losses, e);
    progress_unwatch_events(&progress, t);
    if (status == 0 && !is_for_programs(o)) {
        format_terminal(&name, view_of(path));
        fprintf(stderr, "tidemark: %s: %s, %s\n", buf_str(&name),
                format_counted(events, count, "memory event"),
                format_bytes(bytes, stats.file_bytes));
    }
    if (status == 0 && path != *where)
        fprintf(stderr, "tidemark: the folder was removed: the trace is %s\n", path);
    *where = path;
    if (status == 0 && losses.len)
        fprintf(stderr, "tidemark: version %s cannot hold: %s\n",
                file_version_text(options.layout->version, text), buf_str(&losses));
    buf_release(&losses);
    buf_release(&name);
    return status;
}

int run_trace_save(struct run_traces *r, struct trace *t, uint32_t version, const char *path,
                   struct err *e)
{
    return save(r, t, version, &path, r->options->replace, NULL, e);
}

/*
 * Adds a row to the table: the trace at `path` of `count` processes. The root's row is the first.
 */
static int note_process(struct run_traces *r, const struct summary *s, uint64_t count,
                        const char *path, struct err *e)
{
    const struct trace *t = s->trace;
    struct view name = strings_get(&t->strings, t->facts.program);
    char *program = strndup(name.p ? name.p : "", name.len), *trace = strdup(path);
    struct report_process p = {.pid = t->facts.pid,
                               .count = count,
                               .live_bytes = s->live_bytes + trace_fact_number(t, "left_bytes"),
                               .events = s->allocations + s->frees};
    for (size_t i = 0; i < s->pools.len; i++) {
        uint64_t peak = s->pools.at[i].figures.peak_bytes;
        p.peak_bytes = peak > p.peak_bytes ? peak : p.peak_bytes;
    }
    if (!program || !trace || !vec_push(&r->processes, p)) {
        free(program);
        free(trace);
        return err_no_memory(e, "the table of processes");
    }
    struct report_process *last = &r->processes.at[r->processes.len - 1];
    last->program = view_of(program);
    last->trace = view_of(trace);
    return 0;
}

static int make_summary(const struct run_traces *r, struct saved_summary *made, struct trace *t,
                        struct err *e)
{
    const struct summary_options options = {
        .by = GROUP_SITE, .skip = rules_of(r->options), .callers = true};
    if (!made->made && summary_build(&made->summary, t, &options, e) != 0)
        return -1;
    made->made = true;
    return 0;
}

/* ---- the report */

static int write_form(const struct run_options *o, const struct summary *s,
                      const struct report_options *report, FILE *out, struct err *e)
{
    const struct markdown_options markdown = {.sort = report->sort};
    if (o->report == RUN_MARKDOWN)
        return markdown_write(s, NULL, NULL, &markdown, out, e);
    if (o->report != RUN_JUNIT)
        return report_write(s, report, out, e);
    struct document doc = document_begin(out);
    junit_write(&doc.buf, "tidemark run", s->checks.at, s->checks.len, true);
    return document_end(&doc, e);
}

static int write_into(const struct run_options *o, const struct summary *s,
                      const struct report_options *report, FILE *out, const char *path,
                      struct err *e)
{
    int status = write_form(o, s, report, out, e);
    if (fclose(out) != 0 && status == 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", path);
    return status;
}

static int write_file(const struct run_options *options, const struct summary *s,
                      const struct report_options *report, struct err *e)
{
    const char *path = options->report_file;
    struct outfile o;
    if (outfile_open(&o, path, options->replace, e) != 0)
        return -1;
    FILE *out = outfile_stream(&o, e);
    int status = out ? write_into(options, s, report, out, path, e) : -1;
    if (status == 0)
        status = outfile_commit(&o, e);
    outfile_abort(&o);
    return status;
}

/* `advice`: for text, below the report. */
static int write_report(struct run_traces *r, struct summary *s, const struct buf *advice,
                        struct err *e)
{
    static const enum report_format formats[RUN_NONE + 1] = {
        [RUN_TEXT] = REPORT_TEXT, [RUN_JSON] = REPORT_JSON, [RUN_CSV] = REPORT_CSV};
    const struct run_options *o = r->options;
    if (o->report == RUN_NONE || o->report == RUN_HTML)
        return 0;
    const enum sort_key sort = o->report == RUN_TEXT ? SORT_AT_PEAK : SORT_SIZE;
    const struct report_options report = {.format = formats[o->report],
                                          .sort = sort,
                                          .processes = r->processes.at,
                                          .process_count = r->processes.len,
                                          .advice = advice};
    const struct summary_selection selection = {.sort = sort,
                                                .limit = o->report == RUN_TEXT       ? SITES_SHOWN
                                                         : o->report == RUN_MARKDOWN ? REVIEW_SITES
                                                                                     : 0};
    summary_select(&s->sites, &selection);
    if (o->report_file)
        return write_file(o, s, &report, e);
    if (is_for_programs(o))
        return write_form(o, s, &report, stdout, e);
    if (o->report == RUN_TEXT)
        fprintf(stderr, "\n");
    struct err unread = {0};
    /* The caller may have closed standard error: the trace exists all the same. */
    if (write_form(o, s, &report, stderr, &unread) != 0 && unread.code != ERR_OUTPUT) {
        *e = unread;
        return -1;
    }
    return 0;
}

static int write_advised(struct run_traces *r, struct summary *s, const char *trace, struct err *e)
{
    struct buf advice = {0};
    if (r->options->report == RUN_TEXT)
        symbols_advice(&advice, s, trace);
    int status = write_report(r, s, &advice, e);
    buf_release(&advice);
    return status;
}

/* ---- the page */

/* Runs a program to its end; what it prints goes to standard error. */
static int spawn(const char *path, char *const arguments[], struct err *e)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 0;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return err_no_memory(e, "starting a program");
    int cause = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (cause == 0)
        cause = posix_spawnp(&pid, path, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    errno = cause;
    if (cause != 0)
        return err_errno(e, ERR_OUTPUT, "cannot start %s", arguments[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 ? 0 : err_set(e, ERR_OUTPUT, "%s failed", arguments[0]);
}

/* "x.tracy" → "x.html" */
static char *page_name(const struct run_options *o, const char *trace)
{
    struct buf b = {0};
    if (o->report == RUN_HTML && o->report_file)
        return strdup(o->report_file);
    size_t len = strlen(trace);
    if (len > 6 && strcmp(trace + len - 6, ".tracy") == 0)
        len -= 6;
    buf_put(&b, trace, len);
    buf_puts(&b, ".html");
    char *name = strdup(buf_str(&b));
    buf_release(&b);
    return name;
}

/* The page has more than the summary: another run of this program makes it from the file. */
static int make_page(const struct run_options *o, const char *trace, struct err *e)
{
    char *page = page_name(o, trace);
    if (!page)
        return err_no_memory(e, "the page");
    char *const arguments[] = {(char *)"tidemark",
                               (char *)"report",
                               (char *)"--format",
                               (char *)"html",
                               (char *)"-o",
                               page,
                               (char *)trace,
                               o->replace ? (char *)"-f" : NULL,
                               NULL};
    int status = spawn("/proc/self/exe", arguments, e);
    if (status == 0) {
        struct buf name = {0};
        format_terminal(&name, view_of(page));
        fprintf(stderr, "tidemark: %s: the page\n", buf_str(&name));
        buf_release(&name);
    }
    if (status == 0 && o->open) {
        char *const browser[] = {(char *)"xdg-open", page, NULL};
        status = spawn("xdg-open", browser, e);
    }
    free(page);
    return status;
}

static uint64_t budget_bit(size_t i)
{
    return UINT64_C(1) << (i < 63 ? i : 63);
}

/* The outcomes of an idle process, which has no figures: those of the children that were checked.
 */
static int check_idle(struct run_traces *r, struct summary *s, struct err *e)
{
    const struct budgets *all = &r->options->fail_if;
    for (size_t i = 0; i < all->list.len; i++) {
        char n[FORMAT_SIZE];
        struct summary_check c = {.name = "fail-if", .expression = all->list.at[i].text};
        c.holds = !(r->broken & budget_bit(i));
        c.unmatched = !(r->matched & budget_bit(i));
        snprintf(c.detail, sizeof c.detail,
                 "%.100s: %s of %s%s; the program itself called none of the functions that are "
                 "watched",
                 c.expression, c.holds ? "not true" : "true",
                 format_counted(n, r->checked, "child process"),
                 c.unmatched ? ", and nothing there matches what it names" : "");
        if (!vec_push(&s->checks, c))
            return err_no_memory(e, "checks");
    }
    return 0;
}

static int check(struct run_traces *r, struct summary *s, struct err *e)
{
    struct err verdict = {0};
    if (r->options->repeat)
        return 0;
    if (s->empty && r->idle && r->checked)
        return check_idle(r, s, e);
    s->all_leaks = r->options->all_leaks;
    if (budgets_check(&r->options->fail_if, s, "fail-if", false, &verdict) == 0)
        return 0;
    if (verdict.code != ERR_CHECK) {
        *e = verdict;
        return -1;
    }
    r->exceeded = true;
    print_error(&verdict);
    return 0;
}

static int check_children(struct run_traces *r, struct summary *s, uint64_t count, struct err *e)
{
    size_t before = s->checks.len;
    if (check(r, s, e) != 0)
        return -1;
    r->checked += count;
    for (size_t i = before; i < s->checks.len; i++) {
        r->broken |= s->checks.at[i].holds ? 0 : budget_bit(i - before);
        r->matched |= s->checks.at[i].unmatched ? 0 : budget_bit(i - before);
    }
    return 0;
}

/* Checks the root process, after its children, and prints what no process has. */
static int check_root(struct run_traces *r, struct summary *s, struct err *e)
{
    size_t before = s->checks.len;
    struct err doubt;
    if (check(r, s, e) != 0)
        return -1;
    for (size_t i = before; i < s->checks.len; i++) {
        if (!(r->matched & budget_bit(i - before)) && budgets_doubt(&s->checks.at[i], &doubt))
            print_error(&doubt);
    }
    return 0;
}

int run_trace_save_children(struct run_traces *r, struct trace *t, uint32_t version, uint64_t count,
                            const char *path, struct err *e)
{
    struct saved_summary made = {0};
    int status = save(r, t, version, &path, r->options->replace, &made, e);
    if (status == 0)
        status = make_summary(r, &made, t, e);
    if (status == 0)
        status = note_process(r, &made.summary, count, path, e);
    if (status == 0 && !r->options->this_process && !made.summary.empty)
        status = check_children(r, &made.summary, count, e);
    saved_summary_release(&made);
    return status;
}

/* If budgets do not cover all processes, and that was not requested: prints it, and they fail. */
static void check_cover(struct run_traces *r, struct summary *s)
{
    struct summary_check c = {.name = "covers-process-tree", .expression = "covers-process-tree"};
    char n[FORMAT_SIZE];
    uint64_t uncovered = r->options->this_process ? 0 : r->uncovered;
    if ((!uncovered && !r->replaced) || r->options->fail_if.list.len == 0)
        return;
    if (r->replaced)
        snprintf(c.detail, sizeof c.detail, "the program itself was not recorded to its end");
    else
        snprintf(c.detail, sizeof c.detail, "%s not recorded",
                 format_counted(n, uncovered, "child process"));
    fprintf(stderr, "tidemark: --fail-if covers less than the process tree: %s%s\n", c.detail,
            r->replaced ? "" : "; --this-process checks the program's own process alone");
    r->exceeded = true;
    if (s)
        (void)vec_push(&s->checks, c); /* the line above is printed in any case */
}

static bool needs_summary(const struct run_traces *r)
{
    const struct run_options *o = r->options;
    return o->fail_if.list.len || r->processes.len ||
           (o->report != RUN_NONE && o->report != RUN_HTML);
}

/* Text and JSON reports contain the table. */
static void list_processes(const struct run_traces *r)
{
    struct buf text = {0};
    const struct report_options report = {.processes = r->processes.at,
                                          .process_count = r->processes.len};
    processes_text(&text, &report);
    if (r->processes.len)
        fprintf(stderr, "\n%s", buf_str(&text));
    buf_release(&text);
}

static int report(struct run_traces *r, struct trace *t, struct saved_summary *made,
                  const char *path, struct err *e)
{
    if (make_summary(r, made, t, e) != 0 || check_root(r, &made->summary, e) != 0)
        return -1;
    check_cover(r, &made->summary);
    if (r->processes.len || r->options->report == RUN_JSON) {
        if (note_process(r, &made->summary, 1, path, e) != 0)
            return -1;
        struct report_process root = r->processes.at[r->processes.len - 1];
        memmove(&r->processes.at[1], r->processes.at,
                (r->processes.len - 1) * sizeof *r->processes.at);
        r->processes.at[0] = root;
    }
    if (r->options->report != RUN_TEXT && r->options->report != RUN_JSON)
        list_processes(r);
    return write_advised(r, &made->summary, path, e);
}

/* An empty trace has the same report as any other; no file is made of it. */
static int report_nothing(struct run_traces *r, const char *why, struct err *e)
{
    struct saved_summary made = {0};
    struct trace t;
    if (trace_init(&t, NULL, e) != 0)
        return -1;
    int status = trace_add_fact(&t, e, "nothing_recorded", "%s", why);
    if (status == 0)
        status = make_summary(r, &made, &t, e);
    if (status == 0 && is_review(r->options))
        status = check(r, &made.summary, e);
    if (status == 0) {
        check_cover(r, &made.summary);
        status = write_report(r, &made.summary, NULL, e);
    }
    saved_summary_release(&made);
    trace_release(&t);
    return status;
}

int run_trace_finish_nothing(struct run_traces *r, const char *why, struct err *e)
{
    const struct run_options *o = r->options;
    int status = 0;
    fprintf(stderr, "tidemark: nothing was recorded: %s\n", why);
    if (o->report == RUN_JSON || o->report == RUN_CSV || is_review(o))
        status = report_nothing(r, why, e);
    else
        check_cover(r, NULL);
    if (o->report != RUN_JSON)
        list_processes(r);
    return status;
}

int run_trace_finish(struct run_traces *r, struct trace *t, uint32_t version, const char *path,
                     bool replace, struct err *e)
{
    const struct run_options *o = r->options;
    struct saved_summary made = {0};
    bool summed = needs_summary(r);
    int status = save(r, t, version, &path, replace, summed ? &made : NULL, e);
    if (status == 0 && summed)
        status = report(r, t, &made, path, e);
    saved_summary_release(&made);
    if (status == 0 && (o->report == RUN_HTML || o->open))
        status = make_page(o, path, e);
    return status;
}
