#include "cli/options/question.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/questions/budgets.h"
#include "analysis/questions/message_range.h"
#include "base/format.h"
#include "base/memory_bound.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "report/write/progress.h"
#include "server/capture/stored_summary.h"
#include "trace/load/load.h"

/* "A:B", "A:", ":B" or "A" alone. */
static bool take_size(void *selection, const char *option, const char *value, struct err *e)
{
    struct selection_options *o = selection;
    const char *colon = strchr(value, ':');
    char least[64];
    size_t n = colon ? (size_t)(colon - value) : strlen(value);
    if (n >= sizeof least)
        return refuse_value(e, option, "a range such as 1K:2M", value);
    memcpy(least, value, n);
    least[n] = 0;
    const char *most = colon ? colon + 1 : least;
    o->has_size = true;
    o->size_min = 0;
    o->size_max = UINT64_MAX;
    if ((n && format_parse_bytes(option, least, &o->size_min, e) != 0) ||
        (*most && format_parse_bytes(option, most, &o->size_max, e) != 0))
        return false;
    return o->size_min <= o->size_max ||
           refuse_value(e, option, "a range whose end is not below its begin", value);
}

/* ---- rows */

static bool take_picture(void *ctx, const char *option, const char *value, struct err *e)
{
    struct question *q = ctx;
    q->picture = picture_format_parse(value);
    (void)option;
    (void)e;
    return q->picture || report_format_parse(value, &q->format);
}

#define FIELD(NAME) OPTION_FIELD(struct question, NAME)
#define GIVEN(NAME) .given = offsetof(struct question, selection.NAME)

const struct option_row question_selection_rows[] = {
    {"--pool", "NAME", "of this pool", FIELD(selection.pool)},
    {"--thread", "NAME", "allocated by the threads of this name or id", FIELD(selection.thread)},
    {"--range", "A:B",
     "allocated from A until before B; events from B on are ignored (ns since the trace began, "
     "or with a unit: 1.5s:2m)",
     .type = VALUE_RANGE, FIELD(selection.begin),
     .second = offsetof(struct question, selection.end), GIVEN(has_range)},
    {"--at", "T", "live at this time", .type = VALUE_TIME, FIELD(selection.at), GIVEN(has_at)},
    {"--size", "A:B", "of A to B bytes; either may be left out, and end in K, M, G",
     .take = take_size, FIELD(selection)},
    {"--match", "REGEX",
     "with a function, file or image in the call stack that matches (as in Perl)",
     FIELD(selection.match)},
    {"--frame", "N",
     "allocated within frame N, numbered as in the profiler, usually from 0; later events are "
     "ignored",
     .type = VALUE_NUMBER, FIELD(selection.frame), GIVEN(has_frame)},
    {"--zone", "NAME", "allocated within a zone of this name on the same thread",
     FIELD(selection.zone)},
    {0},
};

const struct option_row question_between_rows[] = {
    {"--between", "M N",
     "as --range, from the first message that fits M until the next one that fits N: a part of "
     "its text, or /REGEX/",
     .type = VALUE_PAIR, FIELD(selection.from_message),
     .second = offsetof(struct question, selection.to_message)},
    {0},
};

const struct option_row question_resolve_rows[] = {
    {"--resolve", NULL,
     "find names for frames that have none, as `tidemark symbols` does; its options about images "
     "and debug files are known here, too",
     FIELD(resolve.wanted)},
    {"--runtime-frames", "show|hide",
     "{} the frames of a runtime (node, Java) around the functions that it runs, and its stubs "
     "(show)",
     .type = VALUE_WORD, .words = "show or hide", FIELD(resolve.hide_runtime)},
    {0},
};

const struct option_row question_format_rows[] = {
    {"--format", "F", "{} (text)", .type = VALUE_WORD, .words = "text, json or csv", FIELD(format)},
    {0},
};

const struct option_row question_picture_rows[] = {
    {"--format", "F", "{} (text)", .words = "text, json, csv, svg or png", .take = take_picture},
    {0},
};

const struct option_row question_output_rows[] = {
    {"--output", "FILE", "write to FILE instead of standard output", .letter = 'o', FIELD(output)},
    {"--force", NULL, "replace FILE when it exists", .letter = 'f', FIELD(force)},
    QUIET_ROW(struct question, quiet),
    OPTION_HELP_ROW,
    {0},
};

bool question_check_picture(const struct question *q, struct err *e)
{
    if (q->picture != PICTURE_PNG || q->output || !isatty(STDOUT_FILENO))
        return true;
    err_set(e, ERR_USAGE, "png is nothing for a terminal: -o");
    return false;
}

static int load_question(const struct question *q, void *ctx, struct trace *t, struct err *e)
{
    const struct trace_load_options more = {.zones = q->zones || q->selection.zone,
                                            .frames = q->zones || q->selection.has_frame,
                                            .kernel = q->kernel};
    if (q->load)
        return q->load(ctx, t, e);
    /* The names behind a trace have none of the rest. */
    bool names = !more.zones && !more.frames && !more.kernel;
    int left = names && q->steps != STEPS_STORED
                   ? stored_names_load(t, q->trace, q->steps == STEPS_IN_TURN, e)
                   : 0;
    return left ? left < 0 ? -1 : 0 : trace_load_with(t, q->trace, &more, NULL, NULL, e);
}

/* Whatever the question is, objects of a runtime with a separate heap have no part in its answer.
 */
static void print_heap(const struct trace *t)
{
    struct view heap = trace_fact(t, "runtime_heap", 0);
    struct buf text = {0};
    if (!heap.p)
        return;
    format_terminal(&text, heap);
    fprintf(stderr, "tidemark: objects in the heap of %s were not recorded\n", buf_str(&text));
    buf_release(&text);
}

static int load_and_answer(const struct question *q, struct resolver *r, question_answer *answer,
                           void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct progress progress = progress_of_file(q->trace, q->quiet);
    progress_watch(&progress, t);
    int status = load_question(q, ctx, t, e);
    if (status == 0)
        print_behind(q->trace, t->behind);
    if (status == 0 && !q->says_heap)
        print_heap(t);
    if (status == 0)
        status = resolve_request_names(&q->resolve, r, t, e);
    if (status == 0)
        status = answer(ctx, t, out, e);
    progress_unwatch(t);
    return status;
}

/* Opens the file first: a file that may not be replaced ends it before the trace is read. */
static int answer_into_file(const struct question *q, struct resolver *r, question_answer *answer,
                            void *ctx, struct trace *t, struct err *e)
{
    struct outfile o;
    if (outfile_open(&o, q->output, q->force, e) != 0)
        return -1;
    FILE *out = outfile_stream(&o, e);
    int status = out ? load_and_answer(q, r, answer, ctx, t, out, e) : -1;
    /* A failed check is an answer, too, but a refusal writes nothing. */
    bool answered = out && ftello(out) != 0 && status != 0 && e->code == ERR_CHECK;
    if (out && fclose(out) != 0 && (status == 0 || answered)) {
        answered = false;
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", q->output);
    }
    if (status == 0)
        return outfile_commit(&o, e);
    if (answered) {
        struct err failed = *e;
        if (outfile_commit(&o, e) == 0)
            *e = failed;
        return -1;
    }
    outfile_abort(&o);
    return -1;
}

void question_print_doubts(const struct summary_check *checks, size_t n)
{
    struct err doubt;
    for (size_t i = 0; i < n; i++) {
        if (budgets_doubt(&checks[i], &doubt))
            print_error(&doubt);
    }
}

int question_find_range(struct selection_options *o, const char *path, struct err *e)
{
    struct message_range range;
    struct buf text = {0};
    char at[FORMAT_SIZE];
    if (!o->from_message)
        return 0;
    if (o->has_range)
        return err_set(e, ERR_USAGE, "--range and --between are two ranges: give one");
    if (strcmp(path, "-") == 0)
        return err_set(e, ERR_USAGE,
                       "--between reads the trace twice: standard input is none for it");
    if (message_range_find(path, o->from_message, o->to_message, &range, e) != 0)
        return -1;
    if (range.begin >= range.end)
        return err_set(e, ERR_USAGE, "%.200s: '%.100s' and '%.100s' are at one time", path,
                       o->from_message, o->to_message);
    if (range.starts > 1) {
        format_terminal(&text, view_of(o->from_message));
        fprintf(stderr,
                "tidemark: %s: %" PRIu64
                " messages fit '%s': the range begins at the first one, %s\n",
                path, range.starts, buf_str(&text), format_duration(at, range.begin));
        buf_release(&text);
    }
    o->has_range = true;
    o->begin = range.begin;
    o->end = range.end;
    return 0;
}

int question_run(struct question *q, question_answer *answer, void *ctx)
{
    struct resolver resolver = RESOLVER_NONE;
    struct err e = {0};
    struct trace t;
    const struct trace_options store = {.resident_budget = memory_bound_share(q->memory)};
    /* Start the helper before anything else is opened. */
    int status = q->reads_images && !q->resolve.wanted
                     ? resolver_init(&resolver, &q->resolve.options, &e)
                     : resolve_request_start(&q->resolve, &resolver, &e);
    q->resolver = q->reads_images || q->resolve.wanted ? &resolver : NULL;
    memory_bound_set(q->memory);
    if (status == 0)
        status = question_find_range(&q->selection, q->trace, &e);
    if (status == 0 && (status = trace_init(&t, &store, &e)) == 0) {
        status = q->output ? answer_into_file(q, &resolver, answer, ctx, &t, &e)
                           : load_and_answer(q, &resolver, answer, ctx, &t, stdout, &e);
        if (q->unload)
            q->unload(ctx);
        trace_release(&t);
    }
    resolver_release(&resolver);
    resolve_request_release(&q->resolve);
    if (status == 0)
        return 0;
    memory_bound_explain(q->memory, &e);
    return print_error(&e);
}
