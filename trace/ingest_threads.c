/* Threads and fibers: their names and groups. */

#include "trace/ingest_internal.h"

static int ingest_thread_name(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t number;
    uint32_t text = strings_intern(&in->trace->strings, ev->name.text, e);
    if (!text || trace_thread_number(in->trace, ev->name.key, &number, e) != 0)
        return -1;
    struct trace_thread *t = &in->trace->threads.list.at[number];
    if (t->id == ev->name.key && !t->name)
        t->name = text;
    return 0;
}

static int ingest_group_hint(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t number;
    if (trace_thread_number(in->trace, ev->thread, &number, e) != 0)
        return -1;
    in->trace->threads.list.at[number].group_hint = ev->fiber.group_hint;
    return 0;
}

int ingest_thread_event(struct ingest *in, const struct event *ev, struct err *e)
{
    switch (ev->kind) {
    case EVENT_THREAD_NAME:
        return ingest_thread_name(in, ev, e);
    case EVENT_THREAD_GROUP_HINT:
        return ingest_group_hint(in, ev, e);
    default:
        return 0;
    }
}
