/* Threads and fibers, their names and groups. */

#include "trace/ingest/ingest_internal.h"

static inline int list_thread(struct ingest *in, uint16_t number, struct err *e)
{
    return in->trace->threads.list.at[number].listed ? 0 : trace_list_thread(in->trace, number, e);
}

int ingest_use_thread(struct ingest *in, uint16_t number, struct err *e)
{
    const struct trace_thread *th = &in->trace->threads.list.at[number];
    if (th->listed && th->local)
        return 0;
    return trace_list_thread(in->trace, number, e) != 0 ? -1
                                                        : trace_local_thread(in->trace, number, e);
}

int ingest_local_thread(struct ingest *in, uint64_t id, uint16_t *number, struct err *e)
{
    if (trace_thread_number(in->trace, id, number, e) != 0)
        return -1;
    return ingest_use_thread(in, *number, e);
}

int ingest_thread(struct ingest *in, uint64_t id, uint16_t *number, struct err *e)
{
    if (trace_thread_number(in->trace, id, number, e) != 0)
        return -1;
    return list_thread(in, *number, e);
}

static int name_thread(struct ingest *in, uint64_t id, struct view name, struct err *e)
{
    uint16_t number;
    uint32_t text = strings_intern(&in->trace->strings, name, e);
    if (!text || trace_thread_number(in->trace, id, &number, e) != 0)
        return -1;
    struct trace_thread *t = &in->trace->threads.list.at[number];
    if (t->id == id && !t->name)
        t->name = text;
    return 0;
}

int ingest_thread_name(struct ingest *in, const struct event *ev, struct err *e)
{
    return name_thread(in, ev->name.key, ev->name.text, e);
}

/* A fiber that was never entered is not a thread. */
int ingest_fiber_name(struct ingest *in, const struct event *ev, struct err *e)
{
    const uint64_t *id = map_find(&in->fibers, ev->name.key);
    return id ? name_thread(in, *id, ev->name.text, e) : 0;
}

int ingest_group_hint(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t number;
    if (trace_thread_number(in->trace, ev->thread, &number, e) != 0)
        return -1;
    struct trace_thread *t = &in->trace->threads.list.at[number];
    if (t->id == ev->thread)
        t->group_hint = ev->fiber.group_hint;
    return 0;
}

/*
 * The first enter makes the fiber a thread, before the thread that it runs on:
 * server/TracyWorker.cpp ProcessFiberEnter @ v0.9.1 … v0.14.0. Later events carry the fiber's id
 * already.
 */
int ingest_fiber_enter(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t fiber, thread;
    bool fresh;
    uint64_t *id = map_add(&in->fibers, ev->fiber.fiber, &fresh);
    if (!id)
        return err_no_memory(e, "fibers");
    *id = ev->thread;
    if (ingest_thread(in, ev->thread, &fiber, e) != 0)
        return -1;
    struct trace_thread *t = &in->trace->threads.list.at[fiber];
    if (fresh && t->id == ev->thread)
        t->group_hint = ev->fiber.group_hint;
    if (ingest_local_thread(in, ev->fiber.thread, &thread, e) != 0)
        return -1;
    return ingest_fiber_switch(in, ev, e);
}

int ingest_fiber_leave(struct ingest *in, const struct event *ev, struct err *e)
{
    in->fiber_leaves += ev->thread == ev->fiber.thread; /* no fiber was running */
    return ingest_fiber_switch(in, ev, e);
}
