/* Plots: of the program, of the system's load and power. */

#include "trace/ingest_internal.h"

int ingest_plot_event(struct ingest *in, const struct event *ev, struct err *e)
{
    (void)e;
    if (ev->kind == EVENT_PLOT)
        ingest_time(in, ingest_part_time(in, ev->time));
    return 0;
}
