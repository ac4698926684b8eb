/* The client's facts about its machine and about itself: topology, parameters, crash. */

#include "trace/ingest/ingest_internal.h"

int ingest_crash_report(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t number;
    if (ingest_thread(in, ev->thread, &number, e) != 0)
        return -1;
    in->trace->system.crash = (struct system_crash){.thread = ev->thread,
                                                    .time = ingest_part_time(in, ev->time),
                                                    .text = ev->crash.text,
                                                    .callstack = ev->callstack};
    return 0;
}

int ingest_topology(struct ingest *in, const struct event *ev, struct err *e)
{
    const struct system_cpu cpu = {.package = ev->topology.package,
                                   .die = ev->topology.die,
                                   .core = ev->topology.core,
                                   .cpu = ev->topology.cpu};
    return system_add_cpu(&in->trace->system, &cpu, e);
}
