/* Zones with their extras and counts, thread by thread. */

#include "base/vec.h"
#include "trace/save/save_internal.h"

/* ---- counts by source location */

static int put_zone_stat(struct saver *s, int16_t srcloc)
{
    struct rec_zone_stat stat = {srcloc, zones_ended(&s->t->zones, srcloc)};
    return put(s, REC_ZONE_STAT, &stat);
}

/* Every source location has an entry: official programs look up all locations of zones. */
int save_zone_stats(struct saver *s)
{
    const struct trace *t = s->t;
    size_t located = t->locations.len < LOCATIONS_MAX ? t->locations.len : LOCATIONS_MAX;
    size_t payloads = t->location_payloads.len;
    bool none = located >= t->location_limit || payloads >= t->location_limit;
    if (put_count(s, REC_ZONE_STATS, located + payloads + none) != 0)
        return -1;
    for (size_t i = 0; i < located; i++) {
        if (put_zone_stat(s, (int16_t)(i + 1)) != 0)
            return -1;
    }
    for (size_t i = 0; i < payloads; i++) {
        if (put_zone_stat(s, (int16_t)(-1 - (int)i)) != 0)
            return -1;
    }
    return none ? put_zone_stat(s, LOCATION_NONE) : 0;
}

/* ---- extras */

int save_zone_extras(struct saver *s)
{
    struct column *extras = &s->t->zones.extras;
    if (put_count(s, REC_ZONE_EXTRAS, extras->len) != 0)
        return -1;
    struct column_walk w = column_walk(extras);
    int status = 0;
    for (const struct zone_extra *x; (x = column_walk_next(&w, &status, s->e));) {
        struct rec_zone_extra rec = {x->callstack, x->text, x->name, x->color};
        status = put(s, REC_ZONE_EXTRA, &rec);
    }
    return status;
}

/* ---- zones */

/* A zone whose children are being put. */
struct parent {
    uint32_t left; /* children to come */
    int64_t end;
};

struct timeline {
    struct saver *s;
    VEC(struct parent) open;
};

static int put_end(struct timeline *l, int64_t end)
{
    struct rec_zone_end rec = {end};
    return put(l->s, REC_ZONE_END, &rec);
}

/* Ends the parents whose last child is now complete. */
static int zone_done(struct timeline *l)
{
    while (l->open.len) {
        struct parent *p = &l->open.at[l->open.len - 1];
        if (--p->left > 0)
            return 0;
        l->open.len--;
        if (put_end(l, p->end) != 0)
            return -1;
    }
    return 0;
}

static int put_zone(struct timeline *l, const struct zone_begin *begin, const struct zone_end *end)
{
    struct rec_zone_begin rec = {
        .srcloc = begin->srcloc, .start = begin->start, .extra = end->extra, .n = end->children};
    if (put(l->s, REC_ZONE_BEGIN, &rec) != 0)
        return -1;
    if (end->children == 0)
        return put_end(l, zone_end_time(begin, end)) != 0 ? -1 : zone_done(l);
    struct parent p = {end->children, zone_end_time(begin, end)};
    return vec_push(&l->open, p) ? 0 : err_no_memory(l->s->e, "saving");
}

int save_thread_zones(struct saver *s, uint16_t thread)
{
    struct zone_thread *t = zones_of(&s->t->zones, thread);
    if (!t)
        return 0;
    struct timeline l = {.s = s};
    struct column_walk begins = column_walk(&t->begins), ends = column_walk(&t->ends);
    int status = 0;
    for (struct column_two zone; (zone = column_walk_two(&begins, &ends, &status, s->e)).first;)
        status = put_zone(&l, zone.first, zone.second);
    vec_release(&l.open);
    return status;
}
