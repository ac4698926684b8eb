/* A selection in words, for readers of a report. */

#include <inttypes.h>
#include <string.h>

#include "analysis/figures/selection_parts.h"
#include "base/format.h"

static void say_times(struct buf *out, const struct selection_options *o)
{
    char text[FORMAT_SIZE];
    if (o->has_range && o->begin != INT64_MIN)
        buf_printf(out, ", allocated from %s on", format_duration(text, o->begin));
    if (o->has_range && o->end != INT64_MAX)
        buf_printf(out, ", allocated before %s", format_duration(text, o->end));
    if (o->has_at)
        buf_printf(out, ", live at %s", format_duration(text, o->at));
}

static void say_size(struct buf *out, const struct selection_options *o)
{
    char text[FORMAT_SIZE];
    if (!o->has_size)
        return;
    buf_printf(out, ", of %s", format_bytes_exact(text, o->size_min));
    if (o->size_max == UINT64_MAX)
        buf_puts(out, " or more");
    else if (o->size_max != o->size_min)
        buf_printf(out, " to %s", format_bytes_exact(text, o->size_max));
}

void selection_describe(struct buf *out, const struct selection_options *o)
{
    size_t start = out->len;
    if (o->pool)
        buf_printf(out, ", of pool %s", o->pool);
    if (o->thread)
        buf_printf(out, ", by thread %s", o->thread);
    say_times(out, o);
    say_size(out, o);
    if (o->match)
        buf_printf(out, ", with a call stack that matches %s", o->match);
    if (o->has_frame)
        buf_printf(out, ", within frame %" PRIu64, o->frame);
    if (o->zone)
        buf_printf(out, ", within zone %s", o->zone);
    if (out->failed || out->len == start)
        return;
    /* Removes the first comma. */
    memmove(out->data + start, out->data + start + 2, out->len - start - 2);
    out->len -= 2;
}
