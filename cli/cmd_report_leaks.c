#include "cli/cmd_report_leaks.h"

#include <fcntl.h>
#include <unistd.h>

#include "analysis/questions/peaks.h"
#include "base/format.h"
#include "cli/options/options.h"
#include "report/faults_report.h"
#include "report/histograms_report.h"
#include "report/patterns_report.h"
#include "report/resident_report.h"

#define SUPPRESSIONS_MAX (16u << 20)

static bool take_grown(void *ctx, const char *option, const char *value, struct err *e)
{
    struct leak_question *q = ctx;
    return option_range(value, option, &q->from, &q->to, e);
}

static bool take_peak(void *ctx, const char *option, const char *value, struct err *e)
{
    struct leak_question *q = ctx;
    q->which = 1;
    return !value || option_u64(value, option, 1, PEAKS_MAX, &q->which, e);
}

static bool take_resident(void *ctx, const char *option, const char *value, struct err *e)
{
    struct leak_question *q = ctx;
    q->look = 0;
    return !value || option_u64(value, option, 1, LOOKS_MOST, &q->look, e);
}

#define FIELD(NAME) OPTION_FIELD(struct leak_question, NAME)

const struct option_row leak_rows[] = {
    {"--peak", "[=N]",
     "only what was live at the highest point, or at the N-th highest; with --at: until then",
     .take = take_peak, .given = offsetof(struct leak_question, peak)},
    {"--leaks", NULL, "what is never freed: growing, or allocated at the start", FIELD(leaks)},
    {"--suppressions", "FILE", "with --leaks: leave out what LeakSanitizer's file names",
     FIELD(suppressions)},
    {"--no-suppressions", NULL,
     "count as leaked what the C library, the C++ library and the loader keep until the end",
     FIELD(all_leaks)},
    {"--grown", "A:B", "which sites hold more at B than at A, or less", .take = take_grown,
     .given = offsetof(struct leak_question, grown)},
    {"--histograms", NULL,
     "sizes and lifetimes, blocks freed on another thread or after a larger one came, what glibc's "
     "malloc adds",
     FIELD(histograms)},
    {"--patterns", NULL, "sites that grow by copying, make temporary blocks, never grew",
     FIELD(patterns)},
    {"--resident", "[=N]",
     "which live blocks are in memory, and what keeps half-empty pages there: when most was "
     "resident, or at the N-th look",
     .take = take_resident, .given = offsetof(struct leak_question, resident)},
    {"--faults", NULL, "memory faults with both sides' call stacks", FIELD(faults)},
    {0},
};

/* ---- leaks, growth */

static int read_suppressions(struct suppressions *s, const char *path, struct err *e)
{
    struct buf text = {0};
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    while (text.len < SUPPRESSIONS_MAX) {
        uint8_t *room = buf_reserve(&text, 65536);
        got = room ? read(fd, room, 65536) : 0;
        if (got <= 0)
            break;
        text.len += (size_t)got;
    }
    int status;
    if (got < 0)
        status = err_errno(e, ERR_INPUT, "cannot read %s", path);
    else if (text.failed)
        status = err_no_memory(e, "suppressions");
    else if (got > 0)
        status = err_set(e, ERR_INPUT, "%s is too long for a file of suppressions", path);
    else
        status = suppressions_parse(s, (struct view){(const char *)text.data, text.len}, path, e);
    close(fd);
    buf_release(&text);
    return status;
}

static int answer_leaks(const struct leak_question *q, struct selection *s,
                        const struct skiplist *skip, FILE *out, struct err *e)
{
    struct suppressions suppress = {.all_leaks = q->all_leaks};
    struct leaks l;
    int status = q->suppressions ? read_suppressions(&suppress, q->suppressions, e) : 0;
    if (status == 0)
        status = leaks_build(&l, s, skip, &suppress, e);
    if (status == 0) {
        status = leaks_write(&l, s, &suppress, &q->report, out, e);
        leaks_release(&l);
    }
    suppressions_release(&suppress);
    return status;
}

static int answer_growth(const struct leak_question *q, struct selection *s,
                         const struct skiplist *skip, FILE *out, struct err *e)
{
    struct growth g;
    int64_t to = q->to < selection_end(s) ? q->to : selection_end(s);
    int64_t from = q->from == INT64_MIN ? -1 : q->from;
    char end[FORMAT_SIZE];
    if (to <= from)
        return err_set(e, ERR_USAGE,
                       "nothing of --grown is seen: what is selected ends at %s already",
                       format_duration(end, to));
    if (growth_build(&g, s, skip, from, to, e) != 0)
        return -1;
    int status = growth_write(&g, s, &q->report, out, e);
    growth_release(&g);
    return status;
}

static int answer_histograms(const struct leak_question *q, struct selection *s, FILE *out,
                             struct err *e)
{
    struct histograms h;
    if (histograms_build(&h, s, e) != 0)
        return -1;
    return histograms_write(&h, s, q->report.format, out, e);
}

static int answer_patterns(const struct leak_question *q, struct selection *s,
                           const struct skiplist *skip, FILE *out, struct err *e)
{
    struct patterns p;
    if (patterns_build(&p, s, skip, e) != 0)
        return -1;
    int status = patterns_write(&p, s, &q->report, out, e);
    patterns_release(&p);
    return status;
}

static int answer_faults(const struct leak_question *q, struct selection *s,
                         const struct skiplist *skip, FILE *out, struct err *e)
{
    struct faults f;
    if (faults_build(&f, s, skip, e) != 0)
        return -1;
    int status = faults_write(&f, s, &q->report, out, e);
    faults_release(&f);
    return status;
}

static int answer_resident(const struct leak_question *q, struct selection *s,
                           const struct skiplist *skip, FILE *out, struct err *e)
{
    struct resident r;
    const struct page_look *look = resident_highest(s->trace);
    if (!look)
        return err_set(e, ERR_INPUT,
                       "the trace has no look at the pages of its process: `tidemark run` adds one "
                       "when the program exits, to traces compressed with zstd of versions from "
                       "0.11.0 on");
    if (q->look > s->trace->looks.list.len)
        return err_set(e, ERR_USAGE, "there is no look %llu: the trace has %zu",
                       (unsigned long long)q->look, s->trace->looks.list.len);
    if (q->look)
        look = &s->trace->looks.list.at[q->look - 1];
    if (resident_build(&r, s, skip, look, e) != 0)
        return -1;
    int status = resident_write(&r, s, &q->report, out, e);
    resident_release(&r);
    return status;
}

int leak_question_answer(const struct leak_question *q, const struct selection_options *only,
                         const struct skiplist *skip, struct trace *t, FILE *out, struct err *e)
{
    struct selection s;
    if (selection_init(&s, t, only, e) != 0)
        return -1;
    int status = q->leaks      ? answer_leaks(q, &s, skip, out, e)
                 : q->grown    ? answer_growth(q, &s, skip, out, e)
                 : q->patterns ? answer_patterns(q, &s, skip, out, e)
                 : q->faults   ? answer_faults(q, &s, skip, out, e)
                 : q->resident ? answer_resident(q, &s, skip, out, e)
                               : answer_histograms(q, &s, out, e);
    selection_release(&s);
    return status;
}

/* ---- peaks */

int leak_question_find_peak(const struct leak_question *q, struct selection_options *only,
                            struct trace *t, struct err *e)
{
    struct selection s;
    struct peaks p;
    selection_until(only);
    if (selection_init(&s, t, only, e) != 0)
        return -1;
    only->at = selection_end(&s);
    int status = peaks_find(&p, &s, e);
    if (status == 0) {
        if (q->which <= p.list.len)
            only->at = p.list.at[q->which - 1].time;
        else if (p.list.len)
            status =
                err_set(e, ERR_USAGE, "there is no peak %llu: use rises to %zu and falls again",
                        (unsigned long long)q->which, p.list.len);
        peaks_release(&p);
    }
    selection_release(&s);
    only->has_at = status == 0;
    return status;
}
