/* GPU contexts with their zones and annotations. */

#include "trace/save/save_internal.h"

#include <stdlib.h>

int save_gpu_zone_stats(struct saver *s)
{
    const struct map *counts = &s->t->gpu.location_counts;
    if (put_count(s, REC_GPU_ZONE_STATS, counts->count) != 0)
        return -1;
    /* Ordered by location, so that equal captures give equal files. */
    for (uint32_t i = 0, left = (uint32_t)counts->count; left; i++) {
        const uint64_t *n = map_find(counts, (uint16_t)i);
        struct rec_zone_stat stat = {.srcloc = (int16_t)(uint16_t)i, .n = n ? *n : 0};
        if (n && put(s, REC_GPU_ZONE_STAT, &stat) != 0)
            return -1;
        left -= n != NULL;
    }
    return 0;
}

/* ---- zones */

/* A zone whose children are being put. */
struct open_zone {
    uint32_t children; /* children still to come */
    struct rec_gpu_zone_end end;
};

struct zone_saver {
    struct saver *s;
    VEC(struct open_zone) stack;
};

/* Ends the zones that have no more children. */
static int put_ends(struct zone_saver *z)
{
    while (z->stack.len && z->stack.at[z->stack.len - 1].children == 0) {
        if (put(z->s, REC_GPU_ZONE_END, &z->stack.at[--z->stack.len].end) != 0)
            return -1;
    }
    return 0;
}

static int put_zone(struct zone_saver *z, const struct gpu_zone *zone,
                    const struct gpu_zone_end *end, uint64_t start, uint64_t stop)
{
    struct rec_gpu_zone_begin begin = {.cpu_start = zone->cpu_start,
                                       .gpu_start = gpu_time_at(zone->cpu_start, start),
                                       .srcloc = zone->location,
                                       .callstack = zone->callstack,
                                       .thread = z->s->thread_places[zone->thread],
                                       .n = end->children};
    struct open_zone open = {.children = end->children,
                             .end = {.cpu_end = gpu_time_at(zone->cpu_start, end->cpu_end),
                                     .gpu_end = gpu_time_at(zone->cpu_start, stop),
                                     .query_id = zone->query}};
    if (z->stack.len)
        z->stack.at[z->stack.len - 1].children--;
    if (!vec_push(&z->stack, open))
        return err_no_memory(z->s->e, "saving");
    if (put(z->s, REC_GPU_ZONE_BEGIN, &begin) != 0)
        return -1;
    return put_ends(z);
}

/* The columns advance together: equal lengths, equal chunks. */
struct zone_readers {
    struct column_reader zones, ends, starts, stops;
};

static int put_zones(struct zone_saver *z, struct zone_readers *r, uint64_t count)
{
    size_t n, m;
    for (uint64_t done = 0; done < count; done += n) {
        const struct gpu_zone *zones = column_reader_next(&r->zones, &n, z->s->e);
        const struct gpu_zone_end *ends = zones ? column_reader_next(&r->ends, &m, z->s->e) : NULL;
        const uint64_t *starts = ends ? column_reader_next(&r->starts, &m, z->s->e) : NULL;
        const uint64_t *stops = starts ? column_reader_next(&r->stops, &m, z->s->e) : NULL;
        if (!stops)
            return -1;
        for (size_t i = 0; i < n; i++) {
            if (put_zone(z, &zones[i], &ends[i], starts[i], stops[i]) != 0)
                return -1;
        }
    }
    return 0;
}

static int save_gpu_thread(struct saver *s, struct gpu_thread *th)
{
    struct rec_gpu_thread head = {.id = s->t->threads.list.at[th->number].id, .n = th->roots};
    if (put(s, REC_GPU_THREAD, &head) != 0)
        return -1;
    struct zone_saver z = {.s = s};
    struct zone_readers r;
    column_reader_init(&r.zones, &th->zones);
    column_reader_init(&r.ends, &th->ends);
    column_reader_init(&r.starts, &th->starts);
    column_reader_init(&r.stops, &th->stops);
    int status = put_zones(&z, &r, th->zones.len);
    column_reader_release(&r.zones);
    column_reader_release(&r.ends);
    column_reader_release(&r.starts);
    column_reader_release(&r.stops);
    vec_release(&z.stack);
    return status;
}

/* ---- annotations */

static int compare_notes(const void *a, const void *b)
{
    const struct gpu_note *x = a;
    const struct gpu_note *y = b;
    if (x->query != y->query)
        return x->query < y->query ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int save_notes(struct saver *s, struct gpu_context *c)
{
    size_t n = c->notes.len;
    uint64_t queries = 0;
    if (n) {
        qsort(c->notes.at, n, sizeof c->notes.at[0], compare_notes);
        map_release(&c->note_numbers); /* sorting moved the notes */
    }
    for (size_t i = 0; i < n; i++)
        queries += i == 0 || c->notes.at[i].query != c->notes.at[i - 1].query;
    if (put_count(s, REC_GPU_NOTE_QUERIES, queries) != 0)
        return -1;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && c->notes.at[end].query == c->notes.at[i].query; end++)
            ;
        struct rec_gpu_note_query head = {.query_id = c->notes.at[i].query, .n = end - i};
        if (put(s, REC_GPU_NOTE_QUERY, &head) != 0)
            return -1;
        for (size_t k = i; k < end; k++) {
            struct rec_gpu_note note = {.id = c->notes.at[k].id, .value = c->notes.at[k].value};
            if (put(s, REC_GPU_NOTE, &note) != 0)
                return -1;
        }
    }
    return 0;
}

static int save_context(struct saver *s, struct gpu_context *c)
{
    struct rec_gpu_context r = {.thread = c->thread,
                                .calibration = c->calibrated,
                                .zones = c->zones,
                                .period = c->period,
                                .type = c->type,
                                .name = c->name,
                                .overflow = c->overflow};
    if (put(s, REC_GPU_CONTEXT, &r) != 0 ||
        put_count(s, REC_GPU_NOTE_NAMES, c->note_names.len) != 0)
        return -1;
    for (size_t i = 0; i < c->note_names.len; i++) {
        struct rec_gpu_note_name name = {.id = c->note_names.at[i].id,
                                         .name = c->note_names.at[i].name};
        if (put(s, REC_GPU_NOTE_NAME, &name) != 0)
            return -1;
    }
    if (put_count(s, REC_GPU_THREADS, c->threads.len) != 0)
        return -1;
    for (size_t i = 0; i < c->threads.len; i++) {
        if (save_gpu_thread(s, c->threads.at[i]) != 0)
            return -1;
    }
    return save_notes(s, c);
}

int save_gpu(struct saver *s)
{
    struct gpu *g = &s->t->gpu;
    struct rec_threads head = {.child_lists = g->parents, .n = g->contexts.len};
    for (size_t i = 0; i < g->contexts.len; i++)
        head.zones += g->contexts.at[i]->zones;
    if (gpu_settle(g, s->e) != 0 || put(s, REC_GPU_CONTEXTS, &head) != 0)
        return -1;
    for (size_t i = 0; i < g->contexts.len; i++) {
        if (save_context(s, g->contexts.at[i]) != 0)
            return -1;
    }
    return 0;
}
