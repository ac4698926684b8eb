/* Context switches, wakeups, threads of other processes. */

#include "trace/ingest_internal.h"

int ingest_sched_event(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    (void)in;
    (void)ev;
    return 0;
}
