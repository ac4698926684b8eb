#include "naming/resolve_trace.h"

#include <stdio.h>
#include <string.h>

#include "analysis/names/runtime_frames.h"
#include "base/format.h"
#include "trace/store/frame_name.h"

/* Images whose problems are listed one by one. */
#define WARNINGS_MAX 10u

int resolve_trace(struct resolver *r, struct trace *t, enum frame_policy policy,
                  struct resolve_summary *s, struct err *e)
{
    struct frame_book book = {0};
    *s = (struct resolve_summary){0};
    int status = frame_book_of_trace(&book, t, e);
    r->unfetched = 0;
    if (status == 0)
        status = resolve_book(r, &book, NULL, policy, s, e);
    s->unfetched = r->unfetched;
    memcpy(s->why_unfetched, r->why_unfetched, sizeof s->why_unfetched);
    frame_book_release(&book);
    return status;
}

uint64_t resolve_count_unresolved(const struct trace *t)
{
    const struct callstacks *c = &t->callstacks;
    uint64_t n = 0;
    for (size_t i = 0; i < c->frames.len; i++) {
        const struct frame *f = &c->frames.at[i];
        if (f->n == 0)
            continue;
        struct view text = strings_get(&t->strings, c->inlines.at[f->first + f->n - 1].function);
        n += frame_name_parse(text, (struct view){"", 0}).kind == FRAME_NAME_UNRESOLVED;
    }
    return n;
}

static void warn_image(const struct resolve_image *i)
{
    struct buf b = {0};
    char n[FORMAT_SIZE];
    format_terminal(&b, (struct view){(const char *)i->path.data, i->path.len});
    buf_puts(&b, ": ");
    if (i->problem[0])
        format_terminal(&b, view_of(i->problem));
    else
        buf_printf(&b, "%s with its base unknown",
                   format_counted(n, i->steps[LOCATED_NOT], "frame"));
    fprintf(stderr, "tidemark: no names from %s\n", buf_str(&b));
    buf_release(&b);
}

static void warn_unfetched(const struct resolve_summary *s)
{
    struct buf why = {0};
    char n[FORMAT_SIZE];
    format_terminal(&why, view_of(s->why_unfetched));
    fprintf(stderr, "tidemark: %s: debug information for %s is missing\n", buf_str(&why),
            format_counted(n, s->unfetched, "file"));
    buf_release(&why);
}

void resolve_summary_warn(const struct resolve_summary *s)
{
    size_t told = 0, troubled = 0;
    for (size_t i = 0; i < s->images.len; i++) {
        const struct resolve_image *image = &s->images.at[i];
        if ((!image->problem[0] && !image->steps[LOCATED_NOT]) || image->frames == image->named)
            continue;
        troubled++;
        if (told < WARNINGS_MAX) {
            warn_image(image);
            told++;
        }
    }
    if (troubled > told)
        fprintf(stderr, "tidemark: and from %zu images more\n", troubled - told);
    if (s->unfetched)
        warn_unfetched(s);
}

void resolve_request_release(struct resolve_request *q)
{
    resolve_options_release(&q->options);
}

int resolve_request_start(const struct resolve_request *q, struct resolver *r, struct err *e)
{
    if (!q->wanted)
        return 0;
    if (resolver_init(r, &q->options, e) != 0)
        return -1;
    helper_start_early(&r->helper);
    return 0;
}

int resolve_request_names(const struct resolve_request *q, struct resolver *r, struct trace *t,
                          struct err *e)
{
    struct resolve_summary names;
    char n[FORMAT_SIZE];
    if (!q->wanted)
        return q->hide_runtime ? runtime_frames_hide(t, e) : 0;
    int status = resolve_trace(r, t, FRAME_BETTER, &names, e);
    if (status == 0) {
        resolve_summary_warn(&names);
        fprintf(stderr, "tidemark: %s named", format_count(n, names.named));
        fprintf(stderr, " of %s, ", format_counted(n, names.frames, "frame"));
        fprintf(stderr, "%s before\n", format_count(n, names.named_before));
    }
    resolve_summary_release(&names);
    return status == 0 && q->hide_runtime ? runtime_frames_hide(t, e) : status;
}
