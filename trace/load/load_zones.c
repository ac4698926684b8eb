#include "trace/load/load_zones.h"

/* The store has the thread: its record was loaded before. */
static void begin_thread(struct zone_loader *l, const struct trace *t, const struct rec_thread *r)
{
    const uint64_t *number = map_find(&t->threads.numbers, r->id);
    l->thread = number ? (uint16_t)*number : 0;
    l->open.len = 0;
}

/* The store orders locations by their keys; zones need a map from the file's numbers. */
static int put_expands(struct zone_loader *l, const struct trace *t, const struct rec_id *r,
                       size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t *at = map_find(&t->location_numbers, r[i].id);
        int16_t number = at && *at < LOCATIONS_MAX ? (int16_t)(*at + 1) : LOCATION_NONE;
        if (!vec_push(&l->locations, number))
            return err_no_memory(e, "zones");
    }
    return 0;
}

static int16_t location_of(const struct zone_loader *l, int16_t srcloc)
{
    if (srcloc < 0)
        return srcloc;
    return (size_t)srcloc < l->locations.len ? l->locations.at[srcloc] : LOCATION_NONE;
}

static int put_begins(struct zone_loader *l, struct trace *t, const struct rec_zone_begin *r,
                      size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct zone_begin begin = {.start = r[i].start, .srcloc = location_of(l, r[i].srcloc)};
        struct load_zone zone = {.start = r[i].start, .children = r[i].n};
        if (zones_put(&t->zones, l->thread, &begin, r[i].n, &zone.index, e) != 0)
            return -1;
        if (!vec_push(&l->open, zone))
            return err_no_memory(e, "zones");
    }
    return 0;
}

static int put_ends(struct zone_loader *l, struct trace *t, const struct rec_zone_end *r, size_t n,
                    struct err *e)
{
    for (size_t i = 0; i < n && l->open.len; i++) {
        const struct load_zone *zone = &l->open.at[--l->open.len];
        if (r[i].end != -1 && zones_put_end(&t->zones, l->thread, zone->index, zone->start,
                                            r[i].end, zone->children, e) != 0)
            return -1;
    }
    return 0;
}

static uint32_t text_of(const struct trace *t, const struct rec_string_ref *r)
{
    if (r->flags == STRING_REF_INDEX)
        return (uint32_t)r->value + 1;
    return r->flags == STRING_REF_POINTER ? strings_at_pointer(&t->strings, r->value) : 0;
}

static int put_payloads(struct trace *t, const struct rec_source_location *r, size_t n,
                        struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct trace_location_payload payload = {.name = text_of(t, &r[i].name),
                                                 .function = text_of(t, &r[i].function),
                                                 .file = text_of(t, &r[i].file),
                                                 .line = r[i].line,
                                                 .color = r[i].color};
        if (!vec_push(&t->location_payloads, payload))
            return err_no_memory(e, "zones");
    }
    return 0;
}

static int put_frames(struct trace *t, const struct rec_frame *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (frame_sets_mark(&t->frame_sets, 0, r[i].start, e) != 0)
            return -1;
    }
    return 0;
}

int zone_loader_put(struct zone_loader *l, struct trace *t, enum record_type type, const void *recs,
                    size_t n, struct err *e)
{
    switch (type) {
    case REC_FRAME_SET:
        l->base_set = ((const struct rec_frame_set *)recs)->name == 0;
        return 0;
    case REC_FRAME:
        return l->base_set ? put_frames(t, recs, n, e) : 0;
    case REC_SOURCE_LOCATION_PAYLOAD:
        return put_payloads(t, recs, n, e);
    case REC_SOURCE_LOCATION_EXPAND:
        return put_expands(l, t, recs, n, e);
    case REC_THREAD:
        begin_thread(l, t, recs);
        return 0;
    case REC_ZONE_BEGIN:
        return put_begins(l, t, recs, n, e);
    case REC_ZONE_END:
        return put_ends(l, t, recs, n, e);
    default:
        return 0;
    }
}

void zone_loader_release(struct zone_loader *l)
{
    vec_release(&l->open);
    vec_release(&l->locations);
}
