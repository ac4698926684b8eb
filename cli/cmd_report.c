/* tidemark report: the memory summary of a saved trace. */

#include <stdio.h>
#include <string.h>

#include "analysis/figures/stream_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/questions/budgets.h"
#include "base/format.h"
#include "cli/cmd_report_leaks.h"
#include "cli/cmd_report_related.h"
#include "cli/cmd_report_review.h"
#include "cli/cmd_report_samples.h"
#include "cli/commands.h"
#include "cli/html_source.h"
#include "cli/options/question.h"
#include "report/html/html.h"
#include "server/capture/stored_summary.h"

#define TEXT_LIMIT 50

static const char usage[] =
    "usage: tidemark report FILE [OPTIONS]\n"
    "\n"
    "Prints where the memory of a traced program went: totals per pool, then one row per\n"
    "allocation site, the innermost function that is neither Tracy's client nor an allocator.\n"
    "FILE - is standard input.\n"
    "\n"
    "      --by WHAT       rows by site, function, callstack, type (of the elements, where the\n"
    "                      allocator's functions show it), pool, thread, zone (the innermost when "
    "it\n"
    "                      was allocated) or frame (site); sample: call stack samples instead of\n"
    "                      allocations, by thread and function\n"
    "      --sort KEY      size, count, live, peak, at-peak, temporary or name (size)\n"
    "      --min-size N    leave out rows whose allocations sum up to less; N may end in K, M, G\n"
    "      --min-count N   leave out rows with fewer allocations\n"
    "      --limit N       rows to print, 0 for all (text: 50, markdown: 10, else all)\n"
    "      --skip REGEX    pass over functions or files that match when looking for the site\n"
    "                      (as Perl has them; may be given several times)\n"
    "      --peak[=N]      only what was live at the highest point, or at the N-th highest; with\n"
    "                      --at: until then\n"
    "      --leaks         what is never freed: growing, or allocated at the start\n"
    "      --suppressions FILE  with --leaks: leave out what LeakSanitizer's file names\n"
    "      --grown A:B     which sites hold more at B than at A, or less\n"
    "      --histograms    sizes and lifetimes, blocks freed on another thread or after a\n"
    "                      larger one came, what glibc's malloc adds\n"
    "      --patterns      sites that grow by copying, make temporary blocks, never grew\n"
    "      --faults        memory faults with both sides' call stacks\n"
    "      --related       which plots and messages moved with memory\n"
    "      --window T      with --related: how long after a message use may rise (0.5 % of all)\n"
    "      --fail-if EXPR  exit with 1 when this is true of the figures, such as 'peak>512M' or\n"
    "                      'leaked(pool=\"gpu\")>0'; may be given several times\n"
    "      --stack-traces  print the call stacks under each row (text; JSON has the largest one)\n"
    "      --memory SIZE   hold at most so much of events, frees to come, names and call stacks\n"
    "                      in memory, and what is beyond it in temporary files; 1M at least\n"
    "      --recount       count the memory events, also where the figures of a capture's or "
    "run's\n"
    "                      own summary are stored with the trace\n"
    "      --format F      text, json, csv, html, markdown or junit (text); html is one page for "
    "a\n"
    "                      browser, which chooses and sorts rows itself; markdown is short, for a\n"
    "                      comment; junit has the outcome of each --fail-if\n"
    "  -o, --output FILE   write to FILE instead of standard output\n" RESOLVE_REQUEST_USAGE
    "  -f, --force         replace FILE when it exists\n"
    "  -h, --help          this text\n"
    "\n" SELECTION_USAGE BETWEEN_USAGE "\n"
    "size: bytes of all allocations; live: bytes not freed at the end; peak: the row's own "
    "highest\n"
    "use; at-peak: its share at the pool's peak; temporary: blocks that the very next\n"
    "memory event of the same thread in that pool freed.\n"
    "Exit status: 0 done; 1 --fail-if holds; 2 usage; 3 unreadable trace; 4 output exists or\n"
    "cannot be written.\n";

struct report_command {
    struct stream_figures stream; /* where the summary can be had so */
    struct stored_figures stored; /* or so: summary.stored */
    bool recount;                 /* it may not */
    struct question question;
    struct leak_question leaks;
    struct related_question related;
    struct sample_question samples;
    bool limit_given;
    bool rows_chosen;    /* by an option that the page has no use for */
    bool summary_shaped; /* by an option that other questions have no use for */
    bool html;
    enum review_form review; /* instead of the report's format */
    struct page_source page; /* html */
    struct summary_options summary;
    struct summary_selection selection;
    struct report_options report;
    struct skiplist skip;
    struct budgets fail_if;
};

enum {
    OPTION_BY = 256,
    OPTION_SORT,
    OPTION_MIN_SIZE,
    OPTION_MIN_COUNT,
    OPTION_LIMIT,
    OPTION_SKIP,
    OPTION_STACK_TRACES,
    OPTION_FAIL_IF,
    OPTION_MEMORY,
    OPTION_RECOUNT,
};

#define MEMORY_LEAST ((uint64_t)1 << 20)

static const struct option long_options[] = {
    {"by", required_argument, NULL, OPTION_BY},
    {"sort", required_argument, NULL, OPTION_SORT},
    {"min-size", required_argument, NULL, OPTION_MIN_SIZE},
    {"min-count", required_argument, NULL, OPTION_MIN_COUNT},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"skip", required_argument, NULL, OPTION_SKIP},
    {"stack-traces", no_argument, NULL, OPTION_STACK_TRACES},
    {"fail-if", required_argument, NULL, OPTION_FAIL_IF},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"recount", no_argument, NULL, OPTION_RECOUNT},
    LEAK_LONG_OPTIONS,
    RELATED_LONG_OPTIONS,
    SELECTION_LONG_OPTIONS,
    BETWEEN_LONG_OPTIONS,
    OUTPUT_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static bool parse_format(struct report_command *c, const char *value, struct err *e)
{
    c->html = strcmp(value, "html") == 0;
    c->review = review_form_parse(value);
    c->report.format = REPORT_TEXT;
    if (c->html && !html_available()) {
        err_set(e, ERR_USAGE,
                "this program was built without the page that --format html needs; "
                "`make web` builds it when node and npm are there");
        return false;
    }
    return c->html || c->review || report_format_parse(value, &c->report.format) ||
           refuse_value(e, "--format", "text, json, csv, html, markdown or junit", value);
}

static bool parse_memory(struct report_command *c, const char *value, struct err *e)
{
    uint64_t bytes;
    if (format_parse_bytes("--memory", value, &bytes, e) != 0)
        return false;
    if (bytes < MEMORY_LEAST || bytes > SIZE_MAX)
        return refuse_value(e, "--memory", "1M at least", value);
    c->question.memory = (size_t)bytes;
    return true;
}

static bool parse_option(void *ctx, int option, const char *value, struct err *e)
{
    struct report_command *c = ctx;
    bool is_question = option >= QUESTION_POOL && option <= QUESTION_FORMAT;
    if (option != 'f' && option != 'o' && !is_question && option != OPTION_SKIP &&
        option != OPTION_FAIL_IF && option != OPTION_MEMORY && option != OPTION_RECOUNT &&
        option < RESOLVE_OPTION_FIRST)
        c->rows_chosen = true;
    c->samples.asked |= option == OPTION_BY && strcmp(value, "sample") == 0;
    if ((option == OPTION_BY && strcmp(value, "sample") != 0) || option == OPTION_SORT ||
        option == OPTION_MIN_SIZE || option == OPTION_MIN_COUNT)
        c->summary_shaped = true;
    switch (option) {
    case OPTION_BY:
        return strcmp(value, "sample") == 0 || grouping_parse(value, &c->summary.by) ||
               refuse_value(e, "--by",
                            "site, function, callstack, type, pool, thread, zone, frame or sample",
                            value);
    case OPTION_SORT:
        return sort_key_parse(value, &c->selection.sort) ||
               refuse_value(e, "--sort", "size, count, live, peak, at-peak, temporary or name",
                            value);
    case OPTION_MIN_SIZE:
        return format_parse_bytes("--min-size", value, &c->selection.min_size, e) == 0;
    case OPTION_MIN_COUNT:
        return format_parse_count("--min-count", value, &c->selection.min_count, e) == 0;
    case OPTION_LIMIT:
        c->limit_given = true;
        return format_parse_count("--limit", value, &c->selection.limit, e) == 0;
    case OPTION_SKIP:
        return skiplist_add(&c->skip, value, e) == 0;
    case OPTION_STACK_TRACES:
        c->report.stack_traces = true;
        return true;
    case OPTION_FAIL_IF:
        return budgets_add(&c->fail_if, "--fail-if", value, true, e);
    case OPTION_MEMORY:
        return parse_memory(c, value, e);
    case OPTION_RECOUNT:
        return c->recount = true;
    case QUESTION_FORMAT:
        return parse_format(c, value, e);
    default:
        if (option >= RELATED_OPTIONS && option < RELATED_OPTIONS_END)
            return related_question_take(&c->related, option, value, e);
        return option >= LEAK_OPTIONS && option < LEAK_OPTIONS_END
                   ? leak_question_take(&c->leaks, option, value, e)
                   : question_take(&c->question, option, value, e);
    }
}

/* The page shows more of a trace than its allocations. */
static int load_page(void *ctx, struct trace *t, struct err *e)
{
    struct report_command *c = ctx;
    page_source_init(&c->page, t);
    return page_source_load(&c->page, c->question.trace, &c->question.selection, e);
}

static int load_related(void *ctx, struct trace *t, struct err *e)
{
    struct report_command *c = ctx;
    return related_question_load(&c->related, c->question.trace, &c->question.selection, t, e);
}

static int load_samples(void *ctx, struct trace *t, struct err *e)
{
    struct report_command *c = ctx;
    return sample_question_load(&c->samples, c->question.trace, &c->question.selection, t, e);
}

/* Nothing is asked but the summary: the events need not be kept. */
static bool only_summary(const struct report_command *c)
{
    return !c->html && !c->related.asked && !c->samples.asked && !c->leaks.peak &&
           c->review != REVIEW_MARKDOWN && !leak_question_is_own(&c->leaks) &&
           summary_streams(&c->summary);
}

/* 1 when the figures are there without any counting, or 0, or -1 with `e`. */
static int load_stored(struct report_command *c, struct trace *t, struct err *e)
{
    /* Names that are found after that may make one site of two. */
    if (c->recount || c->question.resolve.wanted || !summary_is_stored(&c->summary))
        return 0;
    int found =
        stored_summary_load(&c->stored, t, c->question.trace, c->question.memory, &c->skip, e);
    c->summary.stored = found == 1 ? &c->stored : NULL;
    return found;
}

static int load_stream(void *ctx, struct trace *t, struct err *e)
{
    struct report_command *c = ctx;
    int found = load_stored(c, t, e);
    if (found != 0)
        return found < 0 ? -1 : 0;
    stream_figures_init(&c->stream, t);
    if (c->question.memory && stream_figures_bound(&c->stream, c->question.memory, e) != 0)
        return -1;
    if (stream_figures_load(&c->stream, c->question.trace, NULL, NULL, e) != 0)
        return -1;
    c->summary.stream = c->stream.counted ? &c->stream : NULL;
    return 0;
}

static void unload_stream(void *ctx)
{
    struct report_command *c = ctx;
    if (c->summary.stored)
        stored_figures_release(&c->stored);
    else
        stream_figures_release(&c->stream);
}

static void unload_related(void *ctx)
{
    struct report_command *c = ctx;
    related_input_release(&c->related.input);
}

static void unload_samples(void *ctx)
{
    struct report_command *c = ctx;
    sample_input_release(&c->samples.input);
}

static void unload_page(void *ctx)
{
    struct report_command *c = ctx;
    page_source_release(&c->page);
}

static bool review_goes(const struct report_command *c, struct err *e)
{
    if (c->review != REVIEW_JUNIT)
        return true;
    if (leak_question_is_own(&c->leaks) || c->related.asked)
        err_set(e, ERR_USAGE,
                "--format junit reports the outcome of each --fail-if, which checks the summary: "
                "it goes with none of --leaks, --grown, --histograms, --patterns, --faults and "
                "--related");
    else if (c->fail_if.list.len == 0)
        err_set(e, ERR_USAGE, "--format junit reports the outcome of each --fail-if: give one");
    else
        return true;
    return false;
}

/* --by sample is a separate question, about time instead of allocations. */
static bool samples_go(const struct report_command *c, struct err *e)
{
    if (c->fail_if.list.len || c->summary_shaped || c->review || c->related.asked ||
        c->leaks.peak || c->report.stack_traces || leak_question_is_own(&c->leaks)) {
        err_set(e, ERR_USAGE,
                "--by sample goes with --limit, --format text, json and csv, and the options that "
                "choose samples: --thread, --range and --match");
        return false;
    }
    return sample_question_check(&c->question.selection, e);
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct report_command *c = ctx;
    if (c->html && c->rows_chosen) {
        err_set(e, ERR_USAGE,
                "rows are chosen and sorted in the page, which has peaks, leaks and growth of any "
                "range: only --skip and the options that say which allocations go with "
                "--format html");
        return false;
    }
    if (c->review && !review_goes(c, e))
        return false;
    if (!c->limit_given && c->report.format == REPORT_TEXT)
        c->selection.limit = c->review ? REVIEW_LIMIT : TEXT_LIMIT;
    c->report.sort = c->selection.sort;
    if (c->summary.by == GROUP_CALLSTACK)
        c->report.stack_traces = true;
    c->summary.stacks = c->report.stack_traces || c->html;
    c->summary.callers = c->report.format == REPORT_TEXT && !c->report.stack_traces;
    if (c->html) {
        c->summary.by = GROUP_THREAD;
        c->question.load = load_page;
        c->question.unload = unload_page;
    }
    if (c->related.asked) {
        c->question.load = load_related;
        c->question.unload = unload_related;
    }
    if (c->samples.asked) {
        c->question.load = load_samples;
        c->question.unload = unload_samples;
    }
    c->summary.only = &c->question.selection;
    c->question.zones = c->summary.by == GROUP_ZONE || c->summary.by == GROUP_FRAME;
    if (only_summary(c)) {
        c->question.load = load_stream;
        c->question.unload = unload_stream;
    }
    c->leaks.report = (struct leak_report_options){.format = c->report.format,
                                                   .limit = c->selection.limit,
                                                   .stack_traces = c->report.stack_traces,
                                                   .markdown = c->review == REVIEW_MARKDOWN};
    bool own = leak_question_is_own(&c->leaks);
    if ((c->fail_if.list.len || c->summary_shaped) && (own || c->related.asked)) {
        err_set(e, ERR_USAGE,
                "%s the summary: %s with none of --leaks, --grown, --histograms, --patterns, "
                "--faults and --related",
                c->summary_shaped ? "--by, --sort, --min-size and --min-count are about rows of"
                                  : "--fail-if is about",
                c->summary_shaped ? "they go" : "it goes");
        return false;
    }
    if (c->related.asked && (own || c->leaks.peak)) {
        err_set(e, ERR_USAGE,
                "--related is a separate question: it goes with none of --leaks, --grown, "
                "--peak, --histograms, --patterns and --faults");
        return false;
    }
    return (!c->samples.asked || samples_go(c, e)) && related_question_check(&c->related, e) &&
           leak_question_check(&c->leaks, e) &&
           option_one_trace(n, arguments, &c->question.trace, e);
}

static int write_to(struct report_command *c, const struct summary *s, struct trace *t, FILE *out,
                    struct err *e)
{
    const struct review review = {.form = c->review,
                                  .only = &c->question.selection,
                                  .skip = &c->skip,
                                  .sort = c->selection.sort,
                                  .limit = c->selection.limit};
    if (c->review)
        return review_write(&review, s, t, out, e);
    return c->html ? page_source_write(&c->page, s, &c->skip, out, e)
                   : report_write(s, &c->report, out, e);
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct report_command *c = ctx;
    struct summary s;
    if (c->samples.asked)
        return sample_question_answer(&c->samples, &c->question.selection, c->report.format,
                                      c->selection.limit, t, out, e);
    if (c->related.asked)
        return related_question_answer(&c->related, &c->question.selection, &c->leaks.report, t,
                                       out, e);
    if (leak_question_is_own(&c->leaks))
        return leak_question_answer(&c->leaks, &c->question.selection, &c->skip, t, out, e);
    if (c->leaks.peak && leak_question_find_peak(&c->leaks, &c->question.selection, t, e) != 0)
        return -1;
    if (summary_build(&s, t, &c->summary, e) != 0)
        return -1;
    struct err verdict = {0};
    if (budgets_check(&c->fail_if, &s, "fail-if", false, &verdict) != 0 &&
        verdict.code != ERR_CHECK) {
        *e = verdict;
        summary_release(&s);
        return -1;
    }
    if (!c->html) {
        summary_select(&s.sites, &c->selection);
        summary_select(&s.groups, &c->selection);
    }
    int status = write_to(c, &s, t, out, e);
    summary_release(&s);
    if (status == 0 && verdict.code) {
        *e = verdict;
        status = -1;
    }
    return status;
}

int cmd_report(int argc, char **argv)
{
    const struct command_line line = {
        .letters = "fho:",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark report FILE [OPTIONS]; try 'tidemark report --help'\n",
        .take = parse_option,
        .rest = parse_rest};
    struct report_command c = {0};
    c.summary.skip = &c.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0)
        status = question_run(&c.question, answer, &c);
    skiplist_release(&c.skip);
    budgets_release(&c.fail_if);
    return status;
}
