/* Call stack samples and hardware samples. */

#include "trace/ingest/ingest_internal.h"

#include <inttypes.h>

/* A time of 0 means that the client does not know it. */
static int64_t sample_time(struct ingest *in, const struct event *ev)
{
    int64_t time = ev->time ? ingest_part_time(in, ev->time) : 0;
    if (!in->samples_end_nothing)
        ingest_time(in, time);
    return time;
}

int ingest_sample(struct ingest *in, const struct event *ev, struct err *e)
{
    struct trace *t = in->trace;
    int64_t time = sample_time(in, ev);
    uint16_t thread;
    if (ingest_thread(in, ev->thread, &thread, e) != 0)
        return -1;
    if (ev->callstack == 0)
        return 0; /* a sample without frames carries no information */
    return samples_add(&t->samples, thread, time, ev->callstack, ev->kind == EVENT_SWITCH_SAMPLE,
                       &t->callstacks, e);
}

int ingest_hw_sample(struct ingest *in, const struct event *ev, struct err *e)
{
    return samples_add_hw(&in->trace->samples, ev->hw.ip, ev->hw.counter, sample_time(in, ev), e);
}

int ingest_samples_finish(struct ingest *in, struct err *e)
{
    struct trace *t = in->trace;
    if (samples_finish(&t->samples, &t->callstacks, t->spool.dir, e) != 0)
        return -1;
    if (t->samples.hw_overflow == 0)
        return 0;
    return trace_add_fact(t, e, "overflow.hw_addresses", "%" PRIu64, t->samples.hw_overflow);
}
