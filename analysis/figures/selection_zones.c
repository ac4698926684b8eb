/* The times in which zones of a name were open, by thread. */

#include <stdlib.h>

#include "analysis/figures/selection_parts.h"
#include "analysis/names/zone_names.h"

/* Zones come in order of start, so one that overlaps the newest span extends it. */
static int add_span(struct zone_spans *spans, int64_t begin, int64_t end, struct err *e)
{
    struct zone_span *newest = spans->list.len ? &spans->list.at[spans->list.len - 1] : NULL;
    if (newest && begin <= newest->end) {
        newest->end = end > newest->end ? end : newest->end;
        return 0;
    }
    struct zone_span span = {begin, end};
    return vec_push(&spans->list, span) ? 0 : err_no_memory(e, "zones");
}

static int read_thread(struct selection *s, struct zone_thread *z, struct zone_spans *spans,
                       struct err *e)
{
    struct column_walk begins = column_walk(&z->begins), ends = column_walk(&z->ends);
    int status = 0;
    for (struct column_two zone; (zone = column_walk_two(&begins, &ends, &status, e)).first;) {
        const struct zone_begin *b = zone.first;
        int64_t last = zone_end_time(b, zone.second);
        if (view_equal(zone_name(s->trace, b->srcloc), view_of(s->options.zone)))
            status = add_span(spans, b->start, last == -1 ? INT64_MAX : last, e);
    }
    return status;
}

int selection_find_zones(struct selection *s, struct err *e)
{
    bool any = false;
    s->zones = calloc(s->thread_count + 1, sizeof *s->zones);
    if (!s->zones)
        return err_no_memory(e, "zones");
    for (size_t i = 0; i < s->thread_count; i++) {
        struct zone_thread *z = zones_of(&s->trace->zones, (uint16_t)i);
        if (z && read_thread(s, z, &s->zones[i], e) != 0)
            return -1;
        any |= s->zones[i].list.len != 0;
    }
    return any ? 0
               : err_set(e, ERR_USAGE, "no zone is called '%s' on a thread with memory events",
                         s->options.zone);
}
