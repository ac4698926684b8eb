/* tidemark report: the memory summary of a saved trace. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/summary.h"
#include "base/format.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/page_source.h"
#include "cli/resolve_trace.h"
#include "report/html.h"
#include "report/report.h"
#include "trace/load.h"

#define TEXT_LIMIT 50

static const char usage[] =
    "usage: tidemark report FILE [OPTIONS]\n"
    "\n"
    "Prints where the memory of a traced program went: totals per pool, then one row per\n"
    "allocation site, the innermost function that is neither Tracy's client nor an allocator.\n"
    "FILE - is standard input.\n"
    "\n"
    "      --by WHAT       rows by site, function, callstack, pool or thread (site)\n"
    "      --sort KEY      size, count, live, peak, at-peak, temporary or name (size)\n"
    "      --min-size N    leave out rows whose allocations sum up to less; N may end in K, M, G\n"
    "      --min-count N   leave out rows with fewer allocations\n"
    "      --limit N       rows to print, 0 for all (text: 50, else all)\n"
    "      --pool NAME     this pool only\n"
    "      --skip REGEX    pass over functions or files that match when looking for the site\n"
    "                      (POSIX extended; may be given several times)\n"
    "      --stack-traces  print the call stacks under each row (text; JSON has the largest one)\n"
    "      --format F      text, json, csv or html (text); html is one page for a browser, which\n"
    "                      chooses and sorts rows itself: only --pool and --skip go with it\n"
    "  -o, --output FILE   write to FILE instead of standard output\n" RESOLVE_REQUEST_USAGE
    "  -f, --force         replace FILE when it exists\n"
    "  -h, --help          this text\n"
    "\n"
    "size: bytes of all allocations; live: bytes not freed at the end; peak: the row's own "
    "highest\n"
    "use; at-peak: its share when the pool stood highest; temporary: blocks that the very next\n"
    "memory event of the same thread in that pool freed.\n"
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 output exists or cannot be written.\n";

struct report_command {
    const char *trace;
    const char *output;
    bool force;
    bool limit_given;
    bool rows_chosen; /* by an option that the page has no use for */
    bool html;
    struct summary_options summary;
    struct summary_selection selection;
    struct report_options report;
    struct skiplist skip;
    struct resolve_request resolve;
    struct resolver resolver;
};

enum {
    OPTION_BY = 256,
    OPTION_SORT,
    OPTION_MIN_SIZE,
    OPTION_MIN_COUNT,
    OPTION_LIMIT,
    OPTION_POOL,
    OPTION_SKIP,
    OPTION_STACK_TRACES,
    OPTION_FORMAT,
};

static const struct option long_options[] = {
    {"by", required_argument, NULL, OPTION_BY},
    {"sort", required_argument, NULL, OPTION_SORT},
    {"min-size", required_argument, NULL, OPTION_MIN_SIZE},
    {"min-count", required_argument, NULL, OPTION_MIN_COUNT},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"pool", required_argument, NULL, OPTION_POOL},
    {"skip", required_argument, NULL, OPTION_SKIP},
    {"stack-traces", no_argument, NULL, OPTION_STACK_TRACES},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, 'f'},
    RESOLVE_REQUEST_LONG_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool refuse(struct err *e, const char *option, const char *values, const char *value)
{
    err_set(e, ERR_USAGE, "%s is %s, not '%s'", option, values, value);
    return false;
}

static bool parse_format(struct report_command *c, const char *value, struct err *e)
{
    c->html = strcmp(value, "html") == 0;
    if (c->html && !html_available()) {
        err_set(e, ERR_USAGE,
                "this program was built without the page that --format html needs; "
                "`make web` builds it when node and npm are there");
        return false;
    }
    return c->html || report_format_parse(value, &c->report.format) ||
           refuse(e, "--format", "text, json, csv or html", value);
}

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct report_command *c = ctx;
    if (option != 'f' && option != 'o' && option != OPTION_FORMAT && option != OPTION_POOL &&
        option != OPTION_SKIP && option < RESOLVE_OPTION_FIRST)
        c->rows_chosen = true;
    switch (option) {
    case OPTION_BY:
        return grouping_parse(value, &c->summary.by) ||
               refuse(e, "--by", "site, function, callstack, pool or thread", value);
    case OPTION_SORT:
        return sort_key_parse(value, &c->selection.sort) ||
               refuse(e, "--sort", "size, count, live, peak, at-peak, temporary or name", value);
    case OPTION_MIN_SIZE:
        return format_parse_bytes("--min-size", value, &c->selection.min_size, e) == 0;
    case OPTION_MIN_COUNT:
        return format_parse_count("--min-count", value, &c->selection.min_count, e) == 0;
    case OPTION_LIMIT:
        c->limit_given = true;
        return format_parse_count("--limit", value, &c->selection.limit, e) == 0;
    case OPTION_POOL:
        c->summary.pool = value;
        return true;
    case OPTION_SKIP:
        return skiplist_add(&c->skip, value, e) == 0;
    case OPTION_STACK_TRACES:
        c->report.stack_traces = true;
        return true;
    case OPTION_FORMAT:
        return parse_format(c, value, e);
    case 'o':
        c->output = value;
        return true;
    case 'f':
        c->force = true;
        return true;
    default:
        return resolve_request_take(&c->resolve, option, value, e);
    }
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct report_command *c = ctx;
    if (c->html && c->rows_chosen) {
        err_set(e, ERR_USAGE,
                "rows are chosen and sorted in the page: of the options that do so, "
                "only --pool and --skip go with --format html");
        return false;
    }
    if (!c->limit_given && c->report.format == REPORT_TEXT)
        c->selection.limit = TEXT_LIMIT;
    c->report.sort = c->selection.sort;
    if (c->summary.by == GROUP_CALLSTACK)
        c->report.stack_traces = true;
    c->summary.stacks = c->report.stack_traces || c->html;
    if (c->html)
        c->summary.by = GROUP_THREAD;
    return option_one_trace(n, arguments, &c->trace, e);
}

static int write_to(const struct report_command *c, struct page_source *page,
                    const struct summary *s, FILE *out, struct err *e)
{
    return c->html ? page_source_write(page, s, &c->skip, out, e)
                   : report_write(s, &c->report, out, e);
}

/* The report into a file that appears when it is whole. */
static int write_file(const struct report_command *c, struct page_source *page,
                      const struct summary *s, struct err *e)
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
        status = write_to(c, page, s, out, e);
        if (fclose(out) != 0 && status == 0)
            status = err_errno(e, ERR_OUTPUT, "cannot write %s", c->output);
    }
    if (status == 0)
        return outfile_commit(&o, e);
    outfile_abort(&o);
    return -1;
}

static int run(struct report_command *c, struct trace *t, struct err *e)
{
    struct summary s;
    struct page_source page;
    /* The helper starts before anything else is open. */
    if (resolve_request_start(&c->resolve, &c->resolver, e) != 0)
        return -1;
    page_source_init(&page, t);
    int status =
        c->html ? page_source_load(&page, c->trace, e) : trace_load(t, c->trace, NULL, NULL, e);
    if (status == 0)
        status = resolve_request_names(&c->resolve, &c->resolver, t, e);
    if (status == 0)
        status = summary_build(&s, t, &c->summary, e);
    if (status == 0) {
        if (!c->html) {
            summary_select(&s.sites, &c->selection);
            summary_select(&s.groups, &c->selection);
        }
        status = c->output ? write_file(c, &page, &s, e) : write_to(c, &page, &s, stdout, e);
        summary_release(&s);
    }
    page_source_release(&page);
    return status;
}

int cmd_report(int argc, char **argv)
{
    const struct command_line line = {
        .letters = "fho:",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark report FILE [OPTIONS]; `tidemark report --help` tells more\n",
        .take = parse_option,
        .rest = parse_rest};
    struct report_command c = {.resolver = RESOLVER_NONE};
    struct err e = {0};
    struct trace t;
    c.summary.skip = &c.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0) {
        status = trace_init(&t, NULL, &e);
        if (status == 0) {
            status = run(&c, &t, &e);
            trace_release(&t);
        }
        if (status != 0) {
            print_error(&e);
            status = err_exit_status(&e);
        }
    }
    skiplist_release(&c.skip);
    resolver_release(&c.resolver);
    resolve_request_release(&c.resolve);
    return status;
}
