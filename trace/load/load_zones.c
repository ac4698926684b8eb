#include "trace/load/load_zones.h"

#include "trace/file/record_takers.h"

/* The store has the thread: its record was loaded before. */
TAKE_EACH(begin_thread, struct zone_loader *l, thread, r)
{
    const uint64_t *number = map_find(&l->t->threads.numbers, r->id);
    l->thread = number ? (uint16_t)*number : 0;
    l->open.len = 0;
    return 0;
}

/* The store orders locations by their keys; zones need a map from the file's numbers. */
TAKE_EACH(put_expand, struct zone_loader *l, id, r)
{
    const uint64_t *at = map_find(&l->t->location_numbers, r->id);
    int16_t number = at && *at < LOCATIONS_MAX ? (int16_t)(*at + 1) : LOCATION_NONE;
    return vec_push(&l->locations, number) ? 0 : err_no_memory(e, "zones");
}

static int16_t location_of(const struct zone_loader *l, int16_t srcloc)
{
    if (srcloc < 0)
        return srcloc;
    return (size_t)srcloc < l->locations.len ? l->locations.at[srcloc] : LOCATION_NONE;
}

TAKE_EACH(put_begin, struct zone_loader *l, zone_begin, r)
{
    struct zone_begin begin = {.start = r->start, .srcloc = location_of(l, r->srcloc)};
    struct load_zone zone = {.start = r->start, .children = r->n};
    if (zones_put(&l->t->zones, l->thread, &begin, r->n, &zone.index, e) != 0)
        return -1;
    return vec_push(&l->open, zone) ? 0 : err_no_memory(e, "zones");
}

TAKE_EACH(put_end, struct zone_loader *l, zone_end, r)
{
    if (l->open.len == 0)
        return 0;
    const struct load_zone *zone = &l->open.at[--l->open.len];
    return r->end == -1 ? 0
                        : zones_put_end(&l->t->zones, l->thread, zone->index, zone->start, r->end,
                                        zone->children, e);
}

static uint32_t text_of(const struct trace *t, const struct rec_string_ref *r)
{
    if (r->flags == STRING_REF_INDEX)
        return (uint32_t)r->value + 1;
    return r->flags == STRING_REF_POINTER ? strings_at_pointer(&t->strings, r->value) : 0;
}

TAKE_EACH(put_payload, struct zone_loader *l, source_location, r)
{
    struct trace_location_payload payload = {.name = text_of(l->t, &r->name),
                                             .function = text_of(l->t, &r->function),
                                             .file = text_of(l->t, &r->file),
                                             .line = r->line,
                                             .color = r->color};
    return vec_push(&l->t->location_payloads, payload) ? 0 : err_no_memory(e, "zones");
}

TAKE_EACH(begin_frame_set, struct zone_loader *l, frame_set, r)
{
    l->base_set = r->name == 0;
    return 0;
}

TAKE_EACH(put_frame, struct zone_loader *l, frame, r)
{
    return l->base_set ? frame_sets_mark(&l->t->frame_sets, 0, r->start, e) : 0;
}

int zone_loader_put(struct zone_loader *l, enum record_type type, const void *recs, size_t n,
                    struct err *e)
{
    static const record_takers takers = {
        [REC_FRAME_SET] = begin_frame_set,
        [REC_FRAME] = put_frame,
        [REC_SOURCE_LOCATION_EXPAND] = put_expand,
        [REC_SOURCE_LOCATION_PAYLOAD] = put_payload,
        [REC_THREAD] = begin_thread,
        [REC_ZONE_BEGIN] = put_begin,
        [REC_ZONE_END] = put_end,
    };
    return records_take(takers, l, type, recs, n, e);
}

void zone_loader_release(struct zone_loader *l)
{
    vec_release(&l->open);
    vec_release(&l->locations);
}
