/* Zones and messages of threads. */

#include "trace/ingest_internal.h"

int ingest_zone_event(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    if (ev->kind == EVENT_ZONE_BEGIN || ev->kind == EVENT_ZONE_END)
        ingest_time(in, ingest_part_time(in, ev->time));
    return 0;
}

int ingest_message_event(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    if (ev->kind == EVENT_MESSAGE)
        ingest_time(in, ingest_part_time(in, ev->time));
    return 0;
}
