#include "analysis/questions/message_range.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "analysis/names/names.h"
#include "base/buf.h"
#include "base/format.h"
#include "base/pattern.h"
#include "trace/file/reader.h"

#define EXAMPLES 3u       /* messages listed in an error */
#define EXAMPLE_BYTES 80u /* shown of each */

struct expression {
    struct view part;
    struct pattern *regex; /* instead of `part`; NULL: none */
};

struct finder {
    struct names names;
    struct expression from, to;
    struct message_range range;
    bool ended;
    uint64_t messages;
    struct buf examples;
};

static int expression_init(struct expression *x, const char *text, struct err *e)
{
    size_t len = strlen(text);
    *x = (struct expression){.part = view_of(text)};
    if (len == 0)
        return err_set(e, ERR_USAGE, "--between: a message's text is empty");
    if (len < 3 || text[0] != '/' || text[len - 1] != '/')
        return 0;
    x->regex = pattern_new(text + 1, len - 2, e);
    return x->regex ? 0 : e ? err_prefix(e, "--between: '%.200s'", text) : -1;
}

static bool fits(struct expression *x, struct view text)
{
    if (x->regex)
        return pattern_matches(x->regex, text.p, text.len);
    return text.len >= x->part.len && memmem(text.p, text.len, x->part.p, x->part.len);
}

static void add_example(struct finder *f, struct view text)
{
    if (f->messages > EXAMPLES)
        return;
    text.len = text.len < EXAMPLE_BYTES ? text.len : EXAMPLE_BYTES;
    buf_puts(&f->examples, f->messages == 1 ? "'" : ", '");
    buf_put(&f->examples, text.p, text.len);
    buf_puts(&f->examples, "'");
}

static void take_message(struct finder *f, const struct rec_message *m)
{
    struct view text = names_ref(&f->names, &m->text);
    f->messages++;
    add_example(f, text);
    bool starts = fits(&f->from, text);
    if (starts && f->range.starts == 0)
        f->range.begin = m->time;
    else if (!f->ended && f->range.starts && m->time >= f->range.begin && fits(&f->to, text)) {
        f->range.end = m->time;
        f->ended = true;
    }
    f->range.starts += starts;
}

static int put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct finder *f = ctx;
    const struct rec_message *messages = recs;
    for (size_t i = 0; type == REC_MESSAGE && i < n; i++)
        take_message(f, &messages[i]);
    if (f->examples.failed)
        return err_no_memory(e, "messages");
    return names_put(&f->names, type, recs, n, e);
}

static int read_messages(struct finder *f, const char *path, struct err *e)
{
    const struct record_sink sink = {f, put};
    bool wanted[REC_TYPE_COUNT] = {false};
    names_wanted(wanted);
    wanted[REC_MESSAGE] = true;
    const struct trace_read_options options = {.wanted = wanted, .until = REC_ZONE_EXTRAS};
    struct trace_info info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    int status = trace_read(fd, path, &sink, &options, &info, e);
    close(fd);
    return status;
}

/* The error: which of the two has no match, and which messages exist. */
static int none_fits(struct finder *f, const char *path, const char *from, const char *to,
                     struct err *e)
{
    char at[FORMAT_SIZE];
    char n[FORMAT_SIZE];
    if (f->range.starts)
        return err_set(e, ERR_USAGE,
                       "%.200s: no message after %s, where '%.100s' is, fits '%.100s'", path,
                       format_duration(at, f->range.begin), from, to);
    if (f->messages == 0)
        return err_set(e, ERR_USAGE, "%.200s: the trace has no messages", path);
    return err_set(e, ERR_USAGE, "%.200s: none of %s fits '%.100s'; the first are %s", path,
                   format_counted(n, f->messages, "message"), from, buf_str(&f->examples));
}

int message_range_find(const char *path, const char *from, const char *to,
                       struct message_range *range, struct err *e)
{
    struct finder f = {0};
    names_init(&f.names);
    int status = expression_init(&f.from, from, e);
    if (status == 0)
        status = expression_init(&f.to, to, e);
    if (status == 0)
        status = read_messages(&f, path, e);
    if (status == 0 && !f.ended)
        status = none_fits(&f, path, from, to, e);
    if (status == 0)
        *range = f.range;
    names_release(&f.names);
    pattern_free(f.from.regex);
    pattern_free(f.to.regex);
    buf_release(&f.examples);
    return status;
}
