/* Zones of threads and fibers. */

#include <inttypes.h>
#include <stdio.h>

#include "trace/ingest/ingest_internal.h"

int ingest_zone_begin(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t thread;
    int16_t srcloc;
    int64_t time = ingest_part_time(in, ev->time);
    if (ingest_location_number(in, ev->zone.srcloc, ev->zone.payload, &srcloc, e) != 0 ||
        ingest_thread(in, ev->thread, &thread, e) != 0)
        return -1;
    ingest_time(in, time);
    return zones_begin(&in->trace->zones, thread, time, srcloc, ev->callstack, e);
}

int ingest_zone_end(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t thread;
    bool found;
    int64_t time = ingest_part_time(in, ev->time);
    if (ingest_thread(in, ev->thread, &thread, e) != 0 ||
        zones_end(&in->trace->zones, thread, time, &found, e) != 0)
        return -1;
    if (found)
        ingest_time(in, time);
    return 0;
}

static int ingest_zone_value(struct ingest *in, uint16_t thread, uint64_t value, struct err *e)
{
    char text[64];
    if (in->zone_values_in_hex)
        snprintf(text, sizeof text, "%" PRIu64 " [0x%" PRIx64 "]", value, value);
    else
        snprintf(text, sizeof text, "%" PRIu64, value);
    return zones_add_text(&in->trace->zones, thread, view_of(text), e);
}

/* A note without an open zone is dropped, so it does not list its thread. */
int ingest_zone_note(struct ingest *in, const struct event *ev, struct err *e)
{
    struct zones *z = &in->trace->zones;
    uint16_t thread;
    if (trace_thread_number(in->trace, ev->thread, &thread, e) != 0)
        return -1;
    switch (ev->kind) {
    case EVENT_ZONE_TEXT:
        return zones_add_text(z, thread, ingest_text(ev->text), e);
    case EVENT_ZONE_NAME:
        return zones_set_name(z, thread, ingest_text(ev->text), e);
    case EVENT_ZONE_COLOR:
        return zones_set_color(z, thread, ingest_color((uint32_t)ev->number), e);
    default:
        return ingest_zone_value(in, thread, ev->number, e);
    }
}

int ingest_zone_validation(struct ingest *in, const struct event *ev, struct err *e)
{
    uint16_t thread;
    if (ingest_thread(in, ev->thread, &thread, e) != 0)
        return -1;
    return zones_validate(&in->trace->zones, thread, (uint32_t)ev->number, e);
}
