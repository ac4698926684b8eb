/* Locks and the threads that wait for them. */

#include "trace/ingest/ingest_internal.h"

#include <inttypes.h>

int ingest_lock_announce(struct ingest *in, const struct event *ev, struct err *e)
{
    int16_t location;
    if (ingest_location_number(in, ev->lock.srcloc, NULL, &location, e) != 0)
        return -1;
    return locks_announce(&in->trace->locks, ev->lock.id, ev->lock.type, location,
                          ingest_part_time(in, ev->time), e);
}

static enum lock_event_kind kind_of(const struct event *ev)
{
    bool shared = ev->lock.shared;
    switch (ev->kind) {
    case EVENT_LOCK_WAIT:
        return shared ? LOCK_WAIT_SHARED : LOCK_WAIT;
    case EVENT_LOCK_OBTAIN:
        return shared ? LOCK_OBTAIN_SHARED : LOCK_OBTAIN;
    default:
        return shared ? LOCK_RELEASE_SHARED : LOCK_RELEASE;
    }
}

/* An exclusive release carries no thread: it belongs to the last obtain. */
int ingest_lock_use(struct ingest *in, const struct event *ev, struct err *e)
{
    struct lock *lock = locks_find(&in->trace->locks, ev->lock.id);
    uint16_t number;
    if (!lock)
        return 0;
    uint64_t thread = ev->lock.has_thread ? ev->thread : lock->holder;
    int64_t time = ingest_part_time(in, ev->time);
    ingest_time(in, time);
    if (ingest_thread(in, thread, &number, e) != 0)
        return -1;
    return locks_event(&in->trace->locks, lock, kind_of(ev), thread, time, e);
}

int ingest_lock_mark(struct ingest *in, const struct event *ev, struct err *e)
{
    int16_t location;
    if (ingest_location_number(in, ev->lock.srcloc, NULL, &location, e) != 0)
        return -1;
    return locks_mark(&in->trace->locks, ev->lock.id, ev->thread, location, e);
}

int ingest_lock_name(struct ingest *in, const struct event *ev, struct err *e)
{
    uint32_t text = strings_intern(&in->trace->strings, ev->lock.text, e);
    if (!text)
        return -1;
    locks_name(&in->trace->locks, ev->lock.id, text);
    return 0;
}

int ingest_lock_terminate(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    locks_terminate(&in->trace->locks, ev->lock.id, ingest_part_time(in, ev->time));
    return 0;
}

int ingest_finish_locks(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    uint64_t faults = t->locks.unknown + t->locks.lone_marks;
    if (faults && trace_add_fact(t, e, "lock_faults", "%" PRIu64, faults) != 0)
        return -1;
    if (!t->locks.threads_over)
        return 0;
    return trace_add_fact(t, e, "overflow.lock_threads", "%" PRIu64, t->locks.threads_over);
}
