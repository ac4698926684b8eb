/* Context switches, wakeups, threads of other processes. */

#include "trace/ingest/ingest_internal.h"

#include <inttypes.h>

int ingest_switch(struct ingest *in, const struct event *ev, struct err *e)
{
    struct sched_switch sw = {.time = ingest_part_time(in, ev->time),
                              .old_thread = ev->sched.old_thread,
                              .new_thread = ev->sched.new_thread,
                              .cpu = ev->sched.cpu,
                              .reason = (int8_t)ev->sched.reason,
                              .state = (int8_t)ev->sched.state};
    ingest_time(in, sw.time);
    return sched_switch(&in->trace->sched, &sw, e);
}

int ingest_wakeup(struct ingest *in, const struct event *ev, struct err *e)
{
    int64_t time = ingest_part_time(in, ev->time);
    ingest_time(in, time);
    return sched_wakeup(&in->trace->sched, time, (uint32_t)ev->thread, ev->sched.has_cpu,
                        ev->sched.cpu, e);
}

/* Answers for threads that no switch named are dropped: nothing refers to them. */
int ingest_external_name(struct ingest *in, const struct event *ev, struct err *e)
{
    struct sched_name *name = sched_name(&in->trace->sched, ev->name.key);
    if (!name)
        return 0;
    uint32_t text = strings_intern(&in->trace->strings, ev->name.text, e);
    uint32_t *at = ev->kind == EVENT_EXTERNAL_NAME ? &name->program : &name->thread;
    if (*at == 0)
        *at = text;
    return text ? 0 : -1;
}

int ingest_fiber_switch(struct ingest *in, const struct event *ev, struct err *e)
{
    struct sched *s = &in->trace->sched;
    int64_t time = ingest_part_time(in, ev->time);
    ingest_time(in, time);
    if (ev->kind == EVENT_FIBER_LEAVE) {
        sched_fiber_leave(s, time, ev->fiber.thread);
        return 0;
    }
    uint16_t number;
    if (trace_thread_number(in->trace, ev->fiber.thread, &number, e) != 0)
        return -1;
    return sched_fiber_enter(s, time, ev->thread, ev->fiber.thread, number, e);
}

int ingest_tid_to_pid(struct ingest *in, const struct event *ev, struct err *e)
{
    return sched_tid_to_pid(&in->trace->sched, ev->pair.key, ev->pair.value, e);
}

/*
 * Readers drop a thread with one of its two names missing: fill in the official server's
 * placeholder.
 */
static int finish_names(struct trace *t, struct err *e)
{
    for (size_t i = 0; i < t->sched.names.len; i++) {
        struct sched_name *name = &t->sched.names.at[i];
        if (!name->program == !name->thread)
            continue;
        uint32_t unknown = strings_intern(&t->strings, view_of("???"), e);
        if (!unknown)
            return -1;
        *(name->program ? &name->thread : &name->program) = unknown;
    }
    return 0;
}

int ingest_sched_finish(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    if (finish_names(t, e) != 0)
        return -1;
    if (t->sched.overflow &&
        trace_add_fact(t, e, "overflow.switch_threads", "%" PRIu64, t->sched.overflow) != 0)
        return -1;
    if (t->sched.disorder &&
        trace_add_fact(t, e, "lost_switches", "%" PRIu64, t->sched.disorder) != 0)
        return -1;
    return 0;
}
