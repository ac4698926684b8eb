/* Frame marks, frame images, sections. */

#include "trace/ingest_internal.h"

int ingest_frame_event(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    if (ev->kind == EVENT_FRAME_MARK || ev->kind == EVENT_FRAME_START ||
        ev->kind == EVENT_FRAME_END)
        ingest_time(in, ingest_part_time(in, ev->time));
    return 0;
}

int ingest_section_event(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    (void)in;
    (void)ev;
    return 0;
}
