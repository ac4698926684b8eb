/* Frame marks, frame images, sections. */

#include "trace/ingest/ingest_internal.h"

#include <inttypes.h>

int ingest_frame_end(struct ingest *in, const struct event *ev, struct err *e)
{
    int64_t time = ingest_part_time(in, ev->time);
    bool known;
    if (frame_sets_end(&in->trace->frame_sets, ev->frame_mark.name, time, &known, e) != 0)
        return -1;
    if (known)
        ingest_time(in, time);
    return 0;
}

int ingest_frame_mark(struct ingest *in, const struct event *ev, struct err *e)
{
    struct frame_sets *f = &in->trace->frame_sets;
    int64_t time = ingest_part_time(in, ev->time);
    ingest_time(in, time);
    switch (ev->kind) {
    case EVENT_FRAME_START:
        return frame_sets_start(f, ev->frame_mark.name, time, e);
    case EVENT_FRAME_VSYNC:
        return frame_sets_vsync(f, ev->frame_mark.name, time, e);
    default:
        return frame_sets_mark(f, ev->frame_mark.name, time, e);
    }
}

/* The client counts frames from its start; the base set begins with the connection. */
int ingest_frame_image(struct ingest *in, const struct event *ev, struct err *e)
{
    const struct trace_facts *facts = &in->trace->facts;
    struct frame_images *images = &in->trace->frame_images;
    int64_t index = (int64_t)(ev->image.frame - facts->frame_offset + 1 - (uint64_t)images->before);
    if (facts->on_demand && index <= 1)
        return 0; /* a frame from before the connection */
    if (index <= 0) {
        images->no_frame++;
        return 0;
    }
    const struct frame_image_data data = {
        .w = ev->image.w, .h = ev->image.h, .flip = ev->image.flip, .blocks = ev->image.bytes.p};
    return frame_images_add(images, index, &data, e);
}

int ingest_frame_name(struct ingest *in, const struct event *ev, struct err *e)
{
    struct strings *strings = &in->trace->strings;
    uint32_t text = strings_intern(strings, ev->name.text, e);
    if (!text || strings_bind(strings, ev->name.key, text, e) != 0)
        return -1;
    uint32_t base = strings_at_pointer(strings, 0);
    return frame_sets_name(&in->trace->frame_sets, ev->name.key, text, base, e);
}

/* v0.14.0 clients lose the text of a category set up before the connection. */
int ingest_section_setup(struct ingest *in, const struct event *ev, struct err *e)
{
    uint32_t text = 0;
    if (ev->section.text.p && !(text = strings_intern(&in->trace->strings, ev->section.text, e)))
        return -1;
    return sections_describe(&in->trace->sections, ev->section.category, text, e);
}

int ingest_section_enter(struct ingest *in, const struct event *ev, struct err *e)
{
    int64_t time = ingest_part_time(in, ev->time);
    uint32_t text = strings_intern(&in->trace->strings, ev->section.text, e);
    if (!text)
        return -1;
    ingest_time(in, time);
    return sections_enter(&in->trace->sections, ev->section.id, ev->section.category, text, time,
                          e);
}

int ingest_section_leave(struct ingest *in, const struct event *ev, struct err *e)
{
    int64_t time = ingest_part_time(in, ev->time);
    ingest_time(in, time);
    return sections_leave(&in->trace->sections, ev->section.id, time, e);
}

int ingest_finish_frames(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    /* An on-demand client may have begun its frame before the connection. */
    uint64_t frames = t->frame_sets.misfits + (t->facts.on_demand ? 0 : t->frame_sets.lone_ends);
    uint64_t images = t->frame_images.twice + t->frame_images.no_frame;
    if (frames && trace_add_fact(t, e, "frame_faults", "%" PRIu64, frames) != 0)
        return -1;
    if (images && trace_add_fact(t, e, "frame_image_faults", "%" PRIu64, images) != 0)
        return -1;
    if (!t->sections.misfits)
        return 0;
    return trace_add_fact(t, e, "section_faults", "%" PRIu64, t->sections.misfits);
}
