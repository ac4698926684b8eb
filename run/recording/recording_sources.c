/* Frames of interpreted functions, which the recording describes itself. */

#include "run/recording/recording_internal.h"

int recording_add_source(struct recording *r, uint64_t number, struct view function,
                         struct view file, uint32_t line, struct err *e)
{
    const struct event_sink *sink = &r->target->in->sink;
    uint64_t frame;
    bool fresh;
    if (sink->custom_frame(sink->ctx, function, file, line, &frame, e) != 0)
        return -1;
    uint64_t *known = map_add(&r->sources, number, &fresh);
    if (!known)
        return err_no_memory(e, "frames");
    if (fresh)
        *known = frame;
    return 0;
}

int recording_source(struct recording *r, uint64_t number, uint64_t *frame, struct err *e)
{
    const struct event_sink *sink = &r->target->in->sink;
    const uint64_t *known = map_find(&r->sources, number);
    if (known) {
        *frame = *known;
        return 0;
    }
    struct view unknown = view_of("[unknown]");
    r->counts.stackless++;
    return sink->custom_frame(sink->ctx, unknown, unknown, 0, frame, e);
}
