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
    {"--grown", "[A:B]",
     "which sites hold more at B than at A, or less (from the middle of the time from the "
     "first event to the highest use, to that)",
     .type = VALUE_RANGE, FIELD(from), .second = offsetof(struct leak_question, to),
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

/* ---- all answers, of one pass where they need the steps */

struct answers {
    const struct leak_question *q;
    const struct skiplist *skip;
    struct selection selection;
    struct suppressions suppress;
    struct leaks leaks;
    struct growth growth;
    struct patterns patterns;
    struct histograms histograms;
};

static int begin_leaks(struct answers *a, struct selection_pass *p, struct err *e)
{
    a->suppress.all_leaks = a->q->all_leaks;
    if (a->q->suppressions && read_suppressions(&a->suppress, a->q->suppressions, e) != 0)
        return -1;
    return leaks_begin(p, &a->leaks, &a->selection, a->skip, &a->suppress, e);
}

static int write_leaks(struct answers *a, FILE *out, struct err *e)
{
    return leaks_write(&a->leaks, &a->selection, &a->suppress, &a->q->report, out, e);
}

static int begin_growth(struct answers *a, struct selection_pass *p, struct err *e)
{
    int64_t last = selection_end(&a->selection);
    int64_t from = a->q->from == INT64_MIN ? -1 : a->q->from;
    int64_t to = a->q->to < last ? a->q->to : last;
    char end[FORMAT_SIZE];
    if (a->q->from == a->q->to)
        return peaks_growth_span(&a->selection, &from, &to, e) == 0
                   ? growth_begin(p, &a->growth, &a->selection, a->skip, from, to, e)
                   : -1;
    if (to <= from)
        return err_set(e, ERR_USAGE,
                       "nothing of --grown is seen: what is selected ends at %s already",
                       format_duration(end, to));
    return growth_begin(p, &a->growth, &a->selection, a->skip, from, to, e);
}

static int write_growth(struct answers *a, FILE *out, struct err *e)
{
    return growth_write(&a->growth, &a->selection, &a->q->report, out, e);
}

static int begin_histograms(struct answers *a, struct selection_pass *p, struct err *e)
{
    return histograms_begin(p, &a->histograms, &a->selection, e);
}

static int write_histograms(struct answers *a, FILE *out, struct err *e)
{
    return histograms_write(&a->histograms, &a->selection, a->q->report.format, out, e);
}

static int begin_patterns(struct answers *a, struct selection_pass *p, struct err *e)
{
    return patterns_begin(p, &a->patterns, &a->selection, a->skip, e);
}

static int write_patterns(struct answers *a, FILE *out, struct err *e)
{
    return patterns_write(&a->patterns, &a->selection, &a->q->report, out, e);
}

static int write_faults(struct answers *a, FILE *out, struct err *e)
{
    struct faults f;
    if (faults_build(&f, &a->selection, a->skip, e) != 0)
        return -1;
    int status = faults_write(&f, &a->selection, &a->q->report, out, e);
    faults_release(&f);
    return status;
}

static int write_resident(struct answers *a, FILE *out, struct err *e)
{
    const struct leak_question *q = a->q;
    struct selection *s = &a->selection;
    struct resident r;
    const struct page_look *look = resident_find_look(s->trace, q->look, e);
    if (!look || resident_build(&r, s, a->skip, look, e) != 0)
        return -1;
    int status = resident_write(&r, s, &q->report, out, e);
    resident_release(&r);
    return status;
}

/* In the order of the output. */
static const struct answer {
    size_t asked; /* offset of a bool in struct leak_question */
    int (*begin)(struct answers *a, struct selection_pass *p, struct err *e); /* NULL: no pass */
    int (*write)(struct answers *a, FILE *out, struct err *e);
} kinds[] = {
    {offsetof(struct leak_question, leaks), begin_leaks, write_leaks},
    {offsetof(struct leak_question, grown), begin_growth, write_growth},
    {offsetof(struct leak_question, histograms), begin_histograms, write_histograms},
    {offsetof(struct leak_question, patterns), begin_patterns, write_patterns},
    {offsetof(struct leak_question, resident), NULL, write_resident},
    {offsetof(struct leak_question, faults), NULL, write_faults},
};

#define KINDS (sizeof kinds / sizeof *kinds)

static bool is_asked(const struct leak_question *q, size_t kind)
{
    return *(const bool *)((const char *)q + kinds[kind].asked);
}

unsigned leak_question_count(const struct leak_question *q)
{
    unsigned n = 0;
    for (size_t i = 0; i < KINDS; i++)
        n += is_asked(q, i);
    return n;
}

static int pass(struct answers *a, struct err *e)
{
    struct selection_pass passes[KINDS];
    size_t n = 0;
    int status = 0;
    for (size_t i = 0; i < KINDS && status == 0; i++) {
        if (!is_asked(a->q, i) || !kinds[i].begin)
            continue;
        status = kinds[i].begin(a, &passes[n], e);
        n += status == 0;
    }
    return n ? selection_answer(&a->selection, passes, n, status, e) : status;
}

static int write_text(const char *text, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    buf_puts(&d.buf, text);
    return document_end(&d, e);
}

/* Several documents in JSON are elements of one. */
static int write_all(struct answers *a, FILE *out, struct err *e)
{
    bool several = leak_question_count(a->q) > 1;
    bool json = several && a->q->report.format == REPORT_JSON;
    const char *before = json ? "{\"schema\": \"tidemark.answers/1\",\n \"answers\": [\n" : "";
    int status = 0;
    for (size_t i = 0; i < KINDS && status == 0; i++) {
        if (!is_asked(a->q, i))
            continue;
        status = write_text(before, out, e);
        if (status == 0)
            status = kinds[i].write(a, out, e);
        before = json ? ",\n" : "\n";
    }
    return status == 0 && json ? write_text("]}\n", out, e) : status;
}

int leak_question_answer(const struct leak_question *q, const struct selection_options *only,
                         const struct skiplist *skip, struct trace *t, FILE *out, struct err *e)
{
    struct answers a = {.q = q, .skip = skip};
    if (selection_init(&a.selection, t, only, e) != 0)
        return -1;
    int status = pass(&a, e);
    if (status == 0)
        status = write_all(&a, out, e);
    leaks_release(&a.leaks);
    growth_release(&a.growth);
    patterns_release(&a.patterns);
    suppressions_release(&a.suppress);
    selection_release(&a.selection);
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
