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
#include "naming/symbols_advice.h"
#include "server/capture/stored_summary.h"
#include "trace/load/load_beside.h"

#define TEXT_LIMIT 50

static const char usage[] =
    "usage: tidemark report FILE [OPTIONS]\n"
    "\n"
    "Prints where the memory of a traced program went: totals per pool, then one row per\n"
    "allocation site, the innermost function that is neither Tracy's client nor an allocator.\n"
    "FILE - is standard input.\n";

static const char footer[] =
    "size: bytes of all allocations; live: bytes not freed at the end; peak: the row's own\n"
    "highest use; at-peak: its share at the pool's peak; temporary: blocks that the very next\n"
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
    bool limit_given, sort_given;
    bool html;
    bool why_site;
    size_t page_size;        /* 0: the default */
    enum review_form review; /* instead of the report's format */
    struct page_source page; /* html */
    struct summary_options summary;
    struct summary_selection selection;
    struct report_options report;
    struct skiplist skip;
    struct budgets fail_if;
    struct buf advice;
};

static bool take_format(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct report_command *c = ctx;
    c->html = strcmp(value, "html") == 0;
    c->review = review_form_parse(value);
    c->report.format = REPORT_TEXT;
    if (c->html)
        return page_source_available(e);
    return c->review || report_format_parse(value, &c->report.format);
}

static bool take_page_size(void *ctx, const char *option, const char *value, struct err *e)
{
    uint64_t bytes;
    if (format_parse_bytes(option, value, &bytes, e) != 0)
        return false;
    ((struct report_command *)ctx)->page_size = (size_t)bytes;
    return (bytes >= PAGE_SIZE_MIN && bytes <= PAGE_SIZE_MAX) ||
           refuse_value(e, option, "500000 bytes to 64000000", value);
}

static bool take_by(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    (void)e;
    struct report_command *c = ctx;
    bool samples = strcmp(value, "sample") == 0;
    c->samples.asked |= samples;
    return samples || grouping_parse(value, &c->summary.by);
}

#define FIELD(NAME) OPTION_FIELD(struct report_command, NAME)

static const struct option_row option_rows[] = {
    {"--by", "WHAT",
     "rows by {}; type: of the elements, where the allocator's functions show it; zone: the "
     "innermost when it was allocated; sample: call stack samples instead of allocations, by "
     "thread and function (site)",
     .words = "site, function, callstack, type, pool, thread, zone, frame or sample",
     .take = take_by},
    {"--sort", "KEY", "{} (size; text by site, function or callstack: at-peak)",
     .words = "size, count, live, peak, at-peak, temporary, resident or name", .type = VALUE_WORD,
     FIELD(selection.sort), .given = offsetof(struct report_command, sort_given)},
    {"--min-size", "N", "leave out rows whose allocations sum up to less; N may end in K, M, G",
     .type = VALUE_BYTES, FIELD(selection.min_size)},
    {"--min-count", "N", "leave out rows with fewer allocations", .type = VALUE_COUNT,
     FIELD(selection.min_count)},
    {"--limit", "N", "rows to print, 0 for all (text: 50, markdown: 10, else all)",
     .type = VALUE_COUNT, FIELD(selection.limit),
     .given = offsetof(struct report_command, limit_given)},
    SKIP_ROWS(struct report_command, skip, "when looking for the site"),
    {"--fail-if", "EXPR",
     "exit with 1 when this is true of the figures, such as 'peak>512M' or "
     "'leaked(pool=\"gpu\")>0'; may be given several times",
     .type = VALUE_EXPRESSION, FIELD(fail_if)},
    {"--stack-traces", NULL,
     "print the call stacks under each row (text; JSON has the largest one)",
     FIELD(report.stack_traces)},
    {"--why-site", NULL,
     "print under each row why its function is the site: what is passed over in its "
     "call stack with most bytes (text, by site or function)",
     FIELD(why_site)},
    {"--recount", NULL,
     "count the memory events, also where the figures of a capture's or run's own summary are "
     "stored with the trace",
     FIELD(recount)},
    {"--page-size", "SIZE",
     "with --format html: the page has at most so many bytes (1200000); a larger one distinguishes "
     "more call stacks and shorter times",
     .take = take_page_size},
    {"--format", "F",
     "{} (text); html is one page for a browser, which chooses and sorts rows itself; markdown is "
     "short, for a comment; junit has the outcome of each --fail-if",
     .words = "text, json, csv, html, markdown or junit", .take = take_format},
    {0},
};

static const struct option_group groups[] = {
    {.rows = option_rows},
    MEMORY_GROUP(struct report_command, question.memory),
    {.rows = leak_rows, .base = offsetof(struct report_command, leaks), .title = "Other questions"},
    {.rows = related_rows, .base = offsetof(struct report_command, related)},
    {.rows = question_resolve_rows,
     .base = offsetof(struct report_command, question),
     .title = "Output"},
    {.rows = question_output_rows, .base = offsetof(struct report_command, question)},
    QUESTION_SELECTION_GROUP(struct report_command),
    {.rows = question_between_rows, .base = offsetof(struct report_command, question)},
    QUESTION_FILE_GROUPS(struct report_command),
    {0},
};

static const struct option_row positional[] = {{"trace", FIELD(question.trace)}, {0}};

#define ANSWERS "--leaks --grown --histograms --patterns --faults --resident"
#define ROWS "--sort --min-size --min-count"

static const struct option_rule rules[] = {
    {"--format=html", OPTION_EXCLUDES,
     "--by " ROWS " --limit --stack-traces --peak --suppressions --related --window " ANSWERS,
     "rows are chosen and sorted in the page, which has peaks, leaks and growth of any range: only "
     "--skip and the options that say which allocations go with --format html"},
    {"--format=junit", OPTION_EXCLUDES, "--related " ANSWERS,
     "--format junit reports the outcome of each --fail-if, which checks the summary: it goes with "
     "none of --leaks, --grown, --histograms, --patterns, --faults, --resident and --related"},
    {"--format=junit", OPTION_NEEDS, "--fail-if",
     "--format junit reports the outcome of each --fail-if: give one"},
    {"--by!=sample " ROWS, OPTION_EXCLUDES, "--related " ANSWERS,
     "--by, --sort, --min-size and --min-count are about rows of the summary: they go with none of "
     "--leaks, --grown, --histograms, --patterns, --faults, --resident and --related"},
    {"--fail-if", OPTION_EXCLUDES, "--related " ANSWERS,
     "--fail-if is about the summary: it goes with none of --leaks, --grown, --histograms, "
     "--patterns, --faults, --resident and --related"},
    {"--related", OPTION_EXCLUDES, "--peak " ANSWERS,
     "--related is a separate question: it goes with none of --leaks, --grown, --peak, "
     "--histograms, --patterns, --faults and --resident"},
    {"--by=sample", OPTION_EXCLUDES,
     "--fail-if --format=markdown --format=junit --related --peak --stack-traces " ROWS " " ANSWERS,
     "--by sample goes with --limit, --format text, json and csv, and the options that choose "
     "samples: --thread, --range and --match"},
    {"--by=sample", OPTION_EXCLUDES, "--pool --at --size --frame --zone",
     "--by sample goes with --thread, --range and --match; --pool, --at, --size, --frame and "
     "--zone choose allocations"},
    {"--why-site", OPTION_EXCLUDES, "--related --by=sample " ANSWERS,
     "--why-site is about rows of the summary: it goes with none of --by sample, --leaks, --grown, "
     "--histograms, --patterns, --faults, --resident and --related"},
    {"--window", OPTION_NEEDS, "--related", NULL},
    {"--page-size", OPTION_NEEDS, "--format=html", NULL},
    {"--peak", OPTION_EXCLUDES, ANSWERS,
     "--peak selects what was live then: it goes with none of --leaks, --grown, --histograms, "
     "--patterns, --faults and --resident"},
    {"--suppressions", OPTION_NEEDS, "--leaks", NULL},
    {0},
};

/* The page shows more of a trace than its allocations. */
static int load_page(void *ctx, struct trace *t, struct err *e)
{
    struct report_command *c = ctx;
    page_source_init(&c->page, t);
    if (c->page_size)
        c->page.size = c->page_size;
    int status = page_source_load(&c->page, c->question.trace, &c->question.selection,
                                  c->question.resolve.wanted, e);
    c->summary.stream = page_source_figures(&c->page);
    return status;
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
           c->review != REVIEW_MARKDOWN && !leak_question_count(&c->leaks) &&
           summary_streams(&c->summary);
}

/* 1 when the figures are there without any counting, or 0, or -1 with `e`. */
static int load_stored(struct report_command *c, struct trace *t, struct err *e)
{
    /* Names that are found after that may make one site of two. */
    if (c->recount || c->question.resolve.wanted || !summary_is_stored(&c->summary))
        return 0;
    int found = stored_summary_load(&c->stored, t, c->question.trace, &c->skip, e);
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
    c->stream.by_thread = c->summary.by == GROUP_THREAD;
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

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct report_command *c = ctx;
    (void)n;
    (void)arguments;
    if (c->why_site && (c->html || c->review || c->report.format != REPORT_TEXT ||
                        c->summary.by > GROUP_FUNCTION)) {
        err_set(e, ERR_USAGE,
                "--why-site goes with --format text, and with rows by site or function");
        return false;
    }
    if (c->report.format == REPORT_CSV && leak_question_count(&c->leaks) > 1) {
        err_set(e, ERR_USAGE,
                "--format csv prints one table: it goes with one of --leaks, --grown, "
                "--histograms, --patterns, --faults and --resident");
        return false;
    }
    if (!c->limit_given && c->report.format == REPORT_TEXT)
        c->selection.limit = c->review ? REVIEW_LIMIT : TEXT_LIMIT;
    /* In the order of the sentence above the rows. */
    if (!c->sort_given && c->report.format == REPORT_TEXT && !c->review &&
        c->summary.by <= GROUP_CALLSTACK)
        c->selection.sort = SORT_AT_PEAK;
    c->report.sort = c->selection.sort;
    c->report.advice = &c->advice;
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
    c->summary.all_leaks = c->leaks.all_leaks;
    c->question.zones = c->summary.by == GROUP_ZONE || c->summary.by == GROUP_FRAME;
    if (leak_question_count(&c->leaks) && !c->leaks.resident && !c->leaks.faults)
        /* What all pools together waste needs their steps in one order. */
        c->question.steps = c->leaks.histograms ? STEPS_TOGETHER : STEPS_IN_TURN;
    c->question.says_heap =
        c->leaks.leaks || !(leak_question_count(&c->leaks) || c->related.asked || c->samples.asked);
    if (only_summary(c)) {
        c->question.load = load_stream;
        c->question.unload = unload_stream;
    }
    c->leaks.report = (struct leak_report_options){
        .format = c->review == REVIEW_MARKDOWN ? REPORT_MARKDOWN : c->report.format,
        .limit = c->selection.limit,
        .stack_traces = c->report.stack_traces};
    return true;
}

static int write_to(struct report_command *c, const struct summary *s, struct trace *t, FILE *out,
                    struct err *e)
{
    const struct review review = {.form = c->review,
                                  .only = &c->question.selection,
                                  .skip = &c->skip,
                                  .all_leaks = c->leaks.all_leaks,
                                  .sort = c->selection.sort,
                                  .limit = c->selection.limit};
    if (c->review)
        return review_write(&review, s, t, out, e);
    return c->html ? page_source_write(&c->page, s, &c->skip, out, e)
                   : report_write(s, &c->report, out, e);
}

static int write_summary(struct report_command *c, const struct summary *s, struct trace *t,
                         FILE *out, struct err *e)
{
    struct program_frames program;
    if (!c->why_site)
        return write_to(c, s, t, out, e);
    if (program_frames_init(&program, t, &c->skip, e) != 0)
        return -1;
    c->report.why_site = &program;
    int status = write_to(c, s, t, out, e);
    program_frames_release(&program);
    return status;
}

/* Whether the answer is text with a row for each site, function or call stack. */
static bool has_advice(const struct report_command *c)
{
    return !c->html && !c->review && c->report.format == REPORT_TEXT &&
           c->summary.by <= GROUP_CALLSTACK;
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
    if (c->leaks.resident && trace_load_looks(t, c->question.trace, e) != 0)
        return -1;
    if (leak_question_count(&c->leaks))
        return leak_question_answer(&c->leaks, &c->question.selection, &c->skip, t, out, e);
    if (c->leaks.peak && leak_question_find_peak(&c->leaks, &c->question.selection, t, e) != 0)
        return -1;
    if (!c->summary.stored && trace_load_resident(t, c->question.trace, e) != 0)
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
    question_print_doubts(s.checks.at, s.checks.len);
    if (!c->html && summary_check_sort(&s, c->selection.sort, e) != 0) {
        summary_release(&s);
        return -1;
    }
    if (has_advice(c))
        symbols_advice(&c->advice, &s, c->question.trace);
    if (!c->html) {
        summary_select(&s.sites, &c->selection);
        summary_select(&s.groups, &c->selection);
    }
    int status = write_summary(c, &s, t, out, e);
    summary_release(&s);
    if (status == 0 && verdict.code) {
        *e = verdict;
        status = -1;
    }
    return status;
}

int cmd_report(int argc, char **argv)
{
    const struct command_line line = {.options = groups,
                                      .usage = usage,
                                      .footer = footer,
                                      .positional = positional,
                                      .rules = rules,
                                      .rest = parse_rest};
    struct report_command c = {0};
    c.summary.skip = &c.skip;
    int status = command_line_parse(&line, &c, argc, argv);
    c.skip.names_alone =
        budgets_select_sites((struct budget_list){c.fail_if.list.at, c.fail_if.list.len});
    if (status < 0)
        status = question_run(&c.question, answer, &c);
    skiplist_release(&c.skip);
    budgets_release(&c.fail_if);
    buf_release(&c.advice);
    return status;
}
