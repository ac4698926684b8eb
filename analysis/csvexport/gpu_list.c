#include "analysis/csvexport/gpu_list.h"

#include <stdlib.h>

#define SPOOL_BUDGET ((size_t)8 << 20)

static const struct pack_layout zone_layout = {
    .element = sizeof(struct gpu_zone),
    .count = 4,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_STEP}, {16, 8, PACK_OFFSET}, {24, 8, PACK_OFFSET}},
};

int gpu_list_init(struct gpu_list *l, struct zone_groups *groups, const char *dir, struct err *e)
{
    *l = (struct gpu_list){.groups = groups};
    if (spool_init(&l->spool, dir, SPOOL_BUDGET, e) != 0)
        return -1;
    column_init(&l->zones, &l->spool, &zone_layout, false);
    l->seen = calloc(ZONE_GROUPS_MAX, sizeof *l->seen);
    return l->seen ? 0 : err_no_memory(e, "GPU zones");
}

void gpu_list_release(struct gpu_list *l)
{
    if (l->zones.spool) {
        column_release(&l->zones);
        spool_release(&l->spool);
    }
    vec_release(&l->open);
    vec_release(&l->segments);
    hash_order_release(&l->order);
    map_release(&l->threads);
    vec_release(&l->locations);
    free(l->seen);
    *l = (struct gpu_list){0};
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct gpu_location *)a)->number;
    uint64_t y = ((const struct gpu_location *)b)->number;
    return x < y ? -1 : x > y;
}

/* The next thread of the context: its zones get their positions, its locations are listed. */
static int take_segment(struct gpu_list *l, size_t i, uint64_t *next, struct err *e)
{
    struct gpu_segment *s = &l->segments.at[i];
    bool last = i + 1 == l->segments.len;
    uint64_t end = last ? l->count : s[1].first;
    size_t locations_end = last ? l->locations.len : s[1].locations;
    struct gpu_location *locations = l->locations.at;
    s->moved = *next;
    *next += end - s->first;
    if (locations_end > s->locations)
        qsort(locations + s->locations, locations_end - s->locations, sizeof *locations, by_number);
    for (size_t k = s->locations; k < locations_end; k++) {
        if (zone_groups_list(l->groups, locations[k].srcloc, e) != 0)
            return -1;
    }
    return 0;
}

static int end_context(struct gpu_list *l, struct err *e)
{
    uint64_t next = l->context < l->segments.len ? l->segments.at[l->context].first : 0;
    size_t iter = 0;
    uint64_t id;
    while (hash_order_next(&l->order, &iter, &id)) {
        if (take_segment(l, (size_t)*map_find(&l->threads, id), &next, e) != 0)
            return -1;
    }
    l->context = l->segments.len;
    l->base += l->locations.len;
    l->locations.len = 0;
    hash_order_release(&l->order);
    map_release(&l->threads);
    return 0;
}

int gpu_list_context(struct gpu_list *l, struct err *e)
{
    return end_context(l, e) == 0 ? hash_order_init(&l->order, 0, e) : -1;
}

int gpu_list_thread(struct gpu_list *l, const struct rec_gpu_thread *r, struct err *e)
{
    bool fresh;
    if (r->n == 0)
        return 0;
    uint64_t *at = map_add(&l->threads, r->id, &fresh);
    if (!at)
        return err_no_memory(e, "threads of GPU zones");
    if (!fresh)
        return err_set(e, ERR_INPUT, "a GPU context that has the same thread twice");
    *at = l->segments.len;
    if (!vec_push(&l->segments, (struct gpu_segment){l->count, l->count, l->locations.len}))
        return err_no_memory(e, "threads of GPU zones");
    return hash_order_add(&l->order, r->id, NULL, e);
}

int gpu_list_begin(struct gpu_list *l, const struct rec_gpu_zone_begin *r, struct err *e)
{
    struct open_gpu_zone zone = {l->count++, r->gpu_start, r->srcloc};
    return vec_push(&l->open, zone) ? 0 : err_no_memory(e, "nested GPU zones");
}

/*
 * The first zone of a location in a thread ends after those inside it, even if they have the same
 * location.
 */
static int note_location(struct gpu_list *l, const struct open_gpu_zone *zone, struct err *e)
{
    size_t *seen = &l->seen[(uint16_t)zone->srcloc];
    size_t begin = l->segments.at[l->segments.len - 1].locations;
    if (*seen > l->base + begin) {
        struct gpu_location *at = &l->locations.at[*seen - 1 - l->base];
        if (zone->number < at->number)
            at->number = zone->number;
        return 0;
    }
    if (!vec_push(&l->locations, (struct gpu_location){zone->number, zone->srcloc}))
        return err_no_memory(e, "GPU zones");
    *seen = l->base + l->locations.len;
    return 0;
}

int gpu_list_end(struct gpu_list *l, const struct rec_gpu_zone_end *r, struct err *e)
{
    struct open_gpu_zone zone = l->open.at[--l->open.len];
    int64_t span = r->gpu_end - zone.start;
    if (r->gpu_end < 0 || span <= 0)
        return 0;
    if (note_location(l, &zone, e) != 0)
        return -1;
    struct gpu_zone *row = column_append(&l->zones, e);
    if (!row)
        return -1;
    *row = (struct gpu_zone){zone.number, zone.start, span, (uint16_t)zone.srcloc};
    return 0;
}

int gpu_list_finish(struct gpu_list *l, const struct names *names, const struct name_filter *filter,
                    struct zone_list *rows, struct err *e)
{
    size_t segment = 0;
    if (end_context(l, e) != 0)
        return -1;
    int status = 0;
    struct column_walk w = column_walk(&l->zones);
    for (const struct gpu_zone *zone; (zone = column_walk_next(&w, &status, e));) {
        int16_t srcloc = (int16_t)zone->srcloc;
        const struct gpu_segment *s = l->segments.at;
        while (segment + 1 < l->segments.len && s[segment + 1].first <= zone->number)
            segment++;
        if (!zone_groups_takes(l->groups, srcloc, names, filter))
            continue;
        struct zone_row row = {.start = zone->start, .span = zone->span};
        status = zone_list_add(rows, zone_groups_rank_of(l->groups, srcloc),
                               zone->number - s[segment].first + s[segment].moved, &row, e);
    }
    return status;
}
