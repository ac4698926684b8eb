/* The parameters of each tool and the request it makes. */

#include <stdlib.h>
#include <string.h>

#include "mcp/tool.h"
#include "mcp/tool_params.h"
#include "mcp/trace_files.h"

#define KEEP_RELATED 20u
#define PEAKS_SHOWN 20u
#define PEAKS_MOST 4096
#define FOUND_MOST 100000 /* blocks kept between pages */

const char *const report_lists[] = {"rows", "pools", "faults", NULL};

static const char *const groupings[] = {"site", "function", "callstack", "pool", "thread",
                                        "zone", "frame",    "type",      NULL};
static const char *const sorts[] = {"size",      "count", "live",     "peak", "at-peak",
                                    "temporary", "name",  "resident", NULL};
static const char *const metrics[] = {"bytes",      "count",    "live",
                                      "live-count", "at-peak",  "at-peak-count",
                                      "temporary",  "resident", NULL};
static const char *const tree_groupings[] = {"function", "line",   "file", "image",
                                             "module",   "thread", "type", NULL};
static const char *const directions[] = {"top-down", "bottom-up", NULL};
static const char *const diff_metrics[] = {"bytes", "count", "live", "peak", NULL};
static const char *const diff_groupings[] = {"site", "callstack", "type", NULL};

/* What every request `o` of a tool begins with, and the rules for sites of those that have them. */
#define ASKED(c) .struct_size = sizeof o, .selection = &(c)->selection
#define RULES(c)                                                                                   \
    .skip = (c)->skip.at, .skip_count = (c)->skip.len, .no_skip = (c)->no_skip.at,                 \
    .no_skip_count = (c)->no_skip.len

/* ---- traces */

static const struct param folder_params[] = {
    {"folder", PARAM_TEXT, .what = "where to look (the server's folder)"},
    {0},
};

/* ---- info */

static int ask_info(struct tool_call *c, struct tidetrace_result **r, struct tidetrace_error *error)
{
    return tidetrace_overview(c->trace, r, error);
}

/* ---- report and peak */

static const struct param report_params[] = {
    {"by", PARAM_CHOICE, .what = "rows (site)", .choices = groupings},
    {"sort", PARAM_CHOICE, .what = "order (size)", .choices = sorts},
    {"min_bytes", PARAM_INTEGER, .what = "least bytes of a row", .most = WHOLE_MAX},
    {"min_count", PARAM_INTEGER, .what = "least allocations of a row", .most = WHOLE_MAX},
    {"list", PARAM_CHOICE, .what = "list in pages (rows)", .choices = report_lists},
    {0},
};

static int ask_report(struct tool_call *c, struct tidetrace_result **r,
                      struct tidetrace_error *error)
{
    struct tidetrace_report_options o = {
        ASKED(c),
        .by = params_choice(&c->tool->params, c->arguments, "by"),
        .sort = params_choice(&c->tool->params, c->arguments, "sort"),
        .min_bytes = (uint64_t)params_integer(c->arguments, "min_bytes", 0),
        .min_count = (uint64_t)params_integer(c->arguments, "min_count", 0),
        RULES(c)};
    return tidetrace_report(c->trace, &o, r, error);
}

/* Of the lists only the one with rows. */
static int add_report(struct tool_call *c, json_t *document, struct err *e)
{
    const char *list = params_text(c->arguments, "list");
    bool rows = !list || strcmp(list, "rows") == 0;
    (void)e;
    if (!rows || json_object_get(document, "groups"))
        (void)json_object_del(document, "sites");
    if (!rows)
        (void)json_object_del(document, "groups");
    return 0;
}

static const struct param peak_params[] = {
    {"which", PARAM_INTEGER, .what = "which peak: 1 is the highest (1)", .least = 1,
     .most = PEAKS_MOST},
    {0},
};

static int wrong(struct tidetrace_error *error, const char *text)
{
    error->code = TIDETRACE_USAGE;
    memcpy(error->text, text, strlen(text) + 1);
    return TIDETRACE_USAGE;
}

static int ask_peak(struct tool_call *c, struct tidetrace_result **r, struct tidetrace_error *error)
{
    static const size_t size = sizeof(struct tidetrace_peak);
    struct tidetrace_peak *peaks = calloc(PEAKS_MOST, size);
    size_t which = (size_t)params_integer(c->arguments, "which", 1);
    size_t n = 0;
    if (!peaks)
        return wrong(error, "out of memory for peaks");
    int code = tidetrace_peaks(c->trace, &c->selection, peaks, size, PEAKS_MOST, &n, error);
    if (code == TIDETRACE_OK && n && which > n)
        code = wrong(error, "there are not so many peaks");
    if (code == TIDETRACE_OK) {
        struct tidetrace_info info = {.struct_size = sizeof info};
        code = tidetrace_get_info(c->trace, &info, error);
        if (n || !(c->selection.flags & TIDETRACE_SELECT_AT))
            c->selection.at = n ? peaks[which - 1].time : info.duration;
        c->selection.flags |= TIDETRACE_SELECT_AT;
    }
    free(peaks);
    return code == TIDETRACE_OK ? ask_report(c, r, error) : code;
}

/* The highest peaks, and a report of one of them. */
static int add_peak(struct tool_call *c, json_t *document, struct err *e)
{
    struct tidetrace_peak peaks[PEAKS_SHOWN];
    struct tidetrace_error error;
    size_t n;
    struct tidetrace_selection s = c->selection;
    if (params_has(json_object_get(c->arguments, "only"), "at_ns"))
        s.at = params_integer(json_object_get(c->arguments, "only"), "at_ns", 0);
    else
        s.flags &= ~(uint32_t)TIDETRACE_SELECT_AT;
    if (tidetrace_peaks(c->trace, &s, peaks, sizeof *peaks, PEAKS_SHOWN, &n, &error) !=
        TIDETRACE_OK)
        return err_set(e, ERR_INPUT, "%s", error.text);
    json_t *list = json_array();
    bool ok = true;
    for (size_t i = 0; i < n && i < PEAKS_SHOWN; i++)
        ok = json_array_append_new(
                 list, json_pack("{s:I, s:I, s:I}", "time_ns", (json_int_t)peaks[i].time, "bytes",
                                 (json_int_t)peaks[i].bytes, "rise", (json_int_t)peaks[i].rise)) ==
                 0 &&
             ok;
    ok = json_object_set_new(document, "peaks", list) == 0 && ok;
    ok = json_object_set_new(document, "peak_count", json_integer((json_int_t)n)) == 0 && ok;
    return ok ? add_report(c, document, e) : err_no_memory(e, "an answer");
}

/* ---- tree */

static const struct param tree_params[] = {
    {"direction", PARAM_CHOICE,
     .what = "from outermost callers, or from functions that allocate (top-down)",
     .choices = directions},
    {"by", PARAM_CHOICE, .what = "what a node is (function)", .choices = tree_groupings},
    {"metric", PARAM_CHOICE, .what = "what decides the order (bytes)", .choices = metrics},
    {"depth", PARAM_INTEGER, .what = "levels to show, 0 for all (0)", .most = 1000000},
    {"min_share", PARAM_NUMBER, .what = "least share of the whole, from 0 to 1 (0.01)", .most = 1},
    {"inlines", PARAM_BOOLEAN, .what = "with inlined functions (true)"},
    {"all_frames", PARAM_BOOLEAN, .what = "with the allocator's and Tracy's own (false)"},
    {0},
};

static int ask_tree(struct tool_call *c, struct tidetrace_result **r, struct tidetrace_error *error)
{
    const struct param_lists *lists = &c->tool->params;
    struct tidetrace_tree_options o = {ASKED(c),
                                       .by = params_choice(lists, c->arguments, "by"),
                                       .metric = params_choice(lists, c->arguments, "metric"),
                                       .depth = (uint32_t)params_integer(c->arguments, "depth", 0),
                                       .min_share = params_number(c->arguments, "min_share", 0.01),
                                       RULES(c)};
    if (params_choice(lists, c->arguments, "direction"))
        o.flags |= TIDETRACE_TREE_BOTTOM_UP;
    if (!params_boolean(c->arguments, "inlines", true))
        o.flags |= TIDETRACE_TREE_NO_INLINES;
    if (params_boolean(c->arguments, "all_frames", false))
        o.flags |= TIDETRACE_TREE_ALL_FRAMES;
    return tidetrace_tree(c->trace, &o, r, error);
}

/* ---- find */

static const struct param find_params[] = {
    {"address", PARAM_ADDRESS, .what = "such as \"0x7f0012345678\"", .required = true},
    {"length", PARAM_INTEGER, .what = "of a range from there on, in bytes (1)", .least = 1,
     .most = WHOLE_MAX},
    {0},
};

/* `at` is the time of the request; events before and after it are searched, too. */
static int ask_find(struct tool_call *c, struct tidetrace_result **r, struct tidetrace_error *error)
{
    struct tidetrace_find_options o = {ASKED(c), .low = params_address(c->arguments, "address"),
                                       .time = c->selection.at, .limit = FOUND_MOST};
    uint64_t more = (uint64_t)params_integer(c->arguments, "length", 1) - 1;
    o.high = more > UINT64_MAX - o.low ? UINT64_MAX : o.low + more;
    if (c->selection.flags & TIDETRACE_SELECT_AT) {
        o.flags = TIDETRACE_FIND_TIME;
        c->selection.flags &= ~(uint32_t)TIDETRACE_SELECT_AT;
    }
    return tidetrace_find(c->trace, &o, r, error);
}

/* ---- leaks */

static const struct param leak_params[] = {
    {"suppressions", PARAM_TEXT, .what = "known leaks, as LeakSanitizer's lines \"leak:PATTERN\""},
    {0},
};

static int ask_leaks(struct tool_call *c, struct tidetrace_result **r,
                     struct tidetrace_error *error)
{
    const struct tidetrace_leak_options o = {
        ASKED(c), .suppressions = params_text(c->arguments, "suppressions"), RULES(c)};
    return tidetrace_leaks(c->trace, &o, r, error);
}

/* ---- resident */

static const struct param resident_params[] = {
    {"look", PARAM_INTEGER, .what = "which look, from 1 (the most resident)", .least = 1,
     .most = INT32_MAX},
    {0},
};

static int ask_resident(struct tool_call *c, struct tidetrace_result **r,
                        struct tidetrace_error *error)
{
    const struct tidetrace_resident_options o = {
        ASKED(c), .look = (uint64_t)params_integer(c->arguments, "look", 0), RULES(c)};
    return tidetrace_resident(c->trace, &o, r, error);
}

/* ---- growth, patterns, faults, histograms */

static const struct param growth_params[] = {
    {"from_ns", PARAM_INTEGER, .what = "the earlier time (the beginning)", .least = -TIMES_MAX,
     .most = TIMES_MAX},
    {"to_ns", PARAM_INTEGER, .what = "the later time (the end)", .least = -TIMES_MAX,
     .most = TIMES_MAX},
    {0},
};

static int ask_growth(struct tool_call *c, struct tidetrace_result **r,
                      struct tidetrace_error *error)
{
    const struct tidetrace_growth_options o = {
        ASKED(c), .from = params_integer(c->arguments, "from_ns", -1),
        .to = params_integer(c->arguments, "to_ns", INT64_MAX), RULES(c)};
    return tidetrace_growth(c->trace, &o, r, error);
}

static int ask_patterns(struct tool_call *c, struct tidetrace_result **r,
                        struct tidetrace_error *error)
{
    const struct tidetrace_site_options o = {ASKED(c), RULES(c)};
    return tidetrace_patterns(c->trace, &o, r, error);
}

static int ask_faults(struct tool_call *c, struct tidetrace_result **r,
                      struct tidetrace_error *error)
{
    const struct tidetrace_site_options o = {ASKED(c), RULES(c)};
    return tidetrace_faults(c->trace, &o, r, error);
}

static int ask_histograms(struct tool_call *c, struct tidetrace_result **r,
                          struct tidetrace_error *error)
{
    return tidetrace_histograms(c->trace, &c->selection, r, error);
}

/* ---- related: rows are plots, then messages; the tool pages through one of them */

static const char *const related_lists[] = {"plots", "messages", NULL};

static const struct param related_params[] = {
    {"window_ns", PARAM_INTEGER,
     .what = "how long after a message use may rise (1/200 of the time)", .least = 1,
     .most = TIMES_MAX},
    {"list", PARAM_CHOICE, .what = "list in pages (plots)", .choices = related_lists},
    {0},
};

static int ask_related(struct tool_call *c, struct tidetrace_result **r,
                       struct tidetrace_error *error)
{
    const struct tidetrace_related_options o = {
        ASKED(c), .window = params_integer(c->arguments, "window_ns", 0)};
    return tidetrace_related(c->trace, &o, r, error);
}

static json_t *make_related(struct tool_call *c, struct tidetrace_result *r, const struct page *p,
                            struct err *e)
{
    struct tidetrace_related_head head = {.struct_size = sizeof head};
    (void)tidetrace_related_head(r, &head, NULL); /* cannot fail on this tool's result */
    uint32_t list = params_has(c->arguments, "list")
                        ? params_choice(&c->tool->params, c->arguments, "list")
                        : 0;
    const uint64_t ends[] = {0, head.plots, head.plots + head.messages};
    uint32_t other = 1 - list;
    json_t *document = page_make_part(p, r, related_lists[list], ends[list], ends[list + 1], e);
    if (!document || page_add(document, r, related_lists[other], ends[other], ends[other + 1],
                              KEEP_RELATED, e) == 0)
        return document;
    json_decref(document);
    return NULL;
}

/* ---- timeline, map: charts as numbers, small enough for one answer */

static const struct param timeline_params[] = {
    {"buckets", PARAM_INTEGER, .what = "pieces of time, of each pool (12)", .least = 1,
     .most = 400},
    {"together", PARAM_BOOLEAN, .what = "all pools as one (false)"},
    {0},
};

/* The range is the window; blocks in use there may have been allocated before it. */
static int ask_timeline(struct tool_call *c, struct tidetrace_result **r,
                        struct tidetrace_error *error)
{
    struct tidetrace_timeline_options o = {
        ASKED(c), .buckets = (uint32_t)params_integer(c->arguments, "buckets", 12),
        .begin = c->selection.begin, .end = c->selection.end};
    if (c->selection.flags & TIDETRACE_SELECT_RANGE)
        o.flags |= TIDETRACE_TIMELINE_WINDOW;
    if (params_boolean(c->arguments, "together", false))
        o.flags |= TIDETRACE_TIMELINE_TOGETHER;
    c->selection.flags &= ~(uint32_t)TIDETRACE_SELECT_RANGE;
    return tidetrace_timeline(c->trace, &o, r, error);
}

static const struct param map_params[] = {
    {"samples", PARAM_INTEGER, .what = "times to look at (8)", .least = 1, .most = 200},
    {"lines", PARAM_INTEGER, .what = "lines of 16 cells of each pool's map, 0 for none (0)",
     .most = 64},
    {0},
};

static int ask_map(struct tool_call *c, struct tidetrace_result **r, struct tidetrace_error *error)
{
    uint32_t lines = (uint32_t)params_integer(c->arguments, "lines", 0);
    const struct tidetrace_map_options o = {
        ASKED(c), .columns = lines ? 16 : 0, .lines = lines,
        .samples = (uint32_t)params_integer(c->arguments, "samples", 8)};
    return tidetrace_map(c->trace, &o, r, error);
}

/* ---- diff */

static const struct param diff_params[] = {
    {"base", PARAM_TEXT, .what = "the trace to compare with", .required = true},
    {"by", PARAM_CHOICE, .what = "rows (site)", .choices = diff_groupings},
    {"metric", PARAM_CHOICE, .what = "what must differ (bytes)", .choices = diff_metrics},
    {"fail_if", PARAM_REGEXES,
     .what = "what should be false of the new figures (\"leaked>0\") or of their change "
             "(\"peak>+5%\")"},
    {0},
};

static int ask_diff(struct tool_call *c, struct tidetrace_result **r, struct tidetrace_error *error)
{
    struct param_texts fail_if = params_texts(c->arguments, "fail_if");
    const struct tidetrace_diff_options o = {
        ASKED(c),
        .by = params_choice(&c->tool->params, c->arguments, "by"),
        .metric = params_choice(&c->tool->params, c->arguments, "metric"),
        RULES(c),
        .fail_if = fail_if.at,
        .fail_if_count = fail_if.len};
    return tidetrace_diff(c->base, c->trace, &o, r, error);
}

/* ---- verify */

static const struct param verify_params[] = {
    {"allocations", PARAM_INTEGER, .what = "how many are expected", .most = WHOLE_MAX},
    {"within", PARAM_NUMBER, .what = "by what factor it may differ (10)", .least = 1,
     .most = 1000000000},
    {"callstacks_percent", PARAM_NUMBER, .what = "of allocations with a call stack", .most = 100},
    {"symbols_percent", PARAM_NUMBER, .what = "of frames with a name", .most = 100},
    {"samples", PARAM_BOOLEAN, .what = "there are samples"},
    {"context_switches", PARAM_BOOLEAN, .what = "there are some"},
    {"expect", PARAM_REGEXES,
     .what = "what is true of the figures: \"peak<512M\", \"count(site=~\\\"parse\\\")>0\""},
    {0},
};

static int ask_verify(struct tool_call *c, struct tidetrace_result **r,
                      struct tidetrace_error *error)
{
    const json_t *a = c->arguments;
    struct param_texts expect = params_texts(a, "expect");
    struct tidetrace_verify_options o = {
        .struct_size = sizeof o,
        .allocations = (uint64_t)params_integer(a, "allocations", 0),
        .within = params_number(a, "within", 0),
        .callstacks_percent = params_number(a, "callstacks_percent", 0),
        .symbols_percent = params_number(a, "symbols_percent", 0),
        .expect = expect.at,
        .expect_count = expect.len,
        .selection = &c->selection};
    if (params_has(a, "allocations"))
        o.flags |= TIDETRACE_VERIFY_ALLOCATIONS;
    if (params_has(a, "callstacks_percent"))
        o.flags |= TIDETRACE_VERIFY_CALLSTACKS;
    if (params_has(a, "symbols_percent"))
        o.flags |= TIDETRACE_VERIFY_SYMBOLS;
    if (params_boolean(a, "samples", false))
        o.flags |= TIDETRACE_VERIFY_SAMPLES;
    if (params_boolean(a, "context_switches", false))
        o.flags |= TIDETRACE_VERIFY_CONTEXT_SWITCHES;
    return tidetrace_verify(c->trace, &o, r, error);
}

/* ---- the table */

const struct tool tool_table[] = {
    {.name = "traces",
     .what = "The .tracy files of a folder and of those below it, the newest first.",
     .params = {{folder_params, page_params, bytes_params}},
     .list = trace_files_list},
    {.name = "info",
     .what = "Program, host, versions, duration, pools, names of a trace, how much of each kind, "
             "whether it is complete.",
     .params = {{trace_params, bytes_params}},
     .ask = ask_info},
    {.name = "verify",
     .what = "Whether memory data is really in a trace, and expressions on its figures are true. "
             "Ask this first: a stripped trace looks like one without allocations.",
     .params = {{trace_params, verify_params, first_selection_params, bytes_params}},
     .ask = ask_verify},
    {.name = "report",
     .what = "Memory by site or something else: count, bytes, live at the end, own peak, share of "
             "the pool's peak, temporary blocks; pools; faults.",
     .params = {{trace_params, report_params, skip_params, selection_params, page_params,
                 bytes_params}},
     .rows = "sites",
     .ask = ask_report,
     .add = add_report},
    {.name = "peak",
     .what = "When memory use was highest, and what was live then; also at any lower peak; with "
             "only.at_ns: until then.",
     .params = {{trace_params, peak_params, report_params, skip_params, selection_params,
                 page_params, bytes_params}},
     .rows = "sites",
     .ask = ask_peak,
     .add = add_peak},
    {.name = "leaks",
     .what = "What is never freed, by site: growing (rate, significance), held, or allocated once "
             "at the start.",
     .params = {{trace_params, leak_params, skip_params, selection_params, page_params,
                 bytes_params}},
     .rows = "leaks",
     .ask = ask_leaks},
    {.name = "resident",
     .what = "What sites have in memory, what keeps half-empty pages, findings.",
     .params = {{trace_params, resident_params, skip_params, selection_params, page_params,
                 bytes_params}},
     .rows = "sites",
     .ask = ask_resident},
    {.name = "growth",
     .what = "Which sites hold more at one time than at another, or less, most grown first.",
     .params = {{trace_params, growth_params, skip_params, selection_params, page_params,
                 bytes_params}},
     .rows = "sites",
     .ask = ask_growth},
    {.name = "patterns",
     .what = "By site: growth by copying, runs of temporary blocks, large blocks that never grew, "
             "what glibc's malloc adds.",
     .params = {{trace_params, skip_params, selection_params, page_params, bytes_params}},
     .rows = "sites",
     .ask = ask_patterns},
    {.name = "histograms",
     .what = "Sizes and lifetimes of blocks; how many were freed on another thread or right after "
             "a larger one came.",
     .params = {{trace_params, selection_params, bytes_params}},
     .ask = ask_histograms},
    {.name = "faults",
     .what = "Frees of unknown blocks and addresses allocated twice, with both sides' call stacks.",
     .params = {{trace_params, skip_params, selection_params, page_params, bytes_params}},
     .rows = "faults",
     .ask = ask_faults},
    {.name = "related",
     .what = "Which plots and messages moved with the use of each pool, and how likely by chance, "
             "the surest first.",
     .params = {{trace_params, related_params, selection_params, page_params, bytes_params}},
     .rows = "plots",
     .plots = true,
     .ask = ask_related,
     .make = make_related},
    {.name = "timeline",
     .what = "Use over time, by pool, with peaks, from only.begin_ns to only.end_ns.",
     .params = {{trace_params, timeline_params, selection_params, bytes_params}},
     .ask = ask_timeline},
    {.name = "map",
     .what = "How scattered the live blocks of each pool were over time, and where they lie at "
             "the end or at only.at_ns.",
     .params = {{trace_params, map_params, selection_params, bytes_params}},
     .ask = ask_map},
    {.name = "tree",
     .what = "Which callers allocated how much with all that they called: nodes depth first, each "
             "with its parent's id.",
     .params = {{trace_params, tree_params, skip_params, selection_params, page_params,
                 bytes_params}},
     .rows = "nodes",
     .ask = ask_tree},
    {.name = "find",
     .what = "Which allocations (the newest 100,000; found counts all) covered an address or a "
             "range, with both call stacks; with only.at_ns: then, before and after.",
     .params = {{trace_params, find_params, selection_params, page_params, bytes_params}},
     .rows = "allocations",
     .ask = ask_find},
    {.name = "diff",
     .what = "What changed from `base` to `trace`: pools; sites that are new, grown, shrunk or "
             "gone; `unsure` ones have no names.",
     .params = {{trace_params, diff_params, skip_params, selection_params, page_params,
                 bytes_params}},
     .rows = "rows",
     .compares = true,
     .ask = ask_diff},
    {.name = NULL},
};
