/* Call stack samples and hardware samples. */

#include "trace/ingest_internal.h"

int ingest_sample_event(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    (void)in;
    (void)ev;
    return 0;
}
