#include "trace/store/gpu_contexts.h"

#include <stdlib.h>
#include <string.h>

#include "trace/store/zones.h"

static const struct pack_layout zone_layout = {
    .element = sizeof(struct gpu_zone),
    .count = 5,
    .fields = {{0, 8, PACK_STEP},    /* cpu_start */
               {8, 4, PACK_OFFSET},  /* call stack */
               {12, 2, PACK_OFFSET}, /* location */
               {14, 2, PACK_OFFSET}, /* thread */
               {16, 2, PACK_STEP}},  /* query */
};

static const struct pack_layout end_layout = {
    .element = sizeof(struct gpu_zone_end),
    .count = 2,
    .fields = {{0, 8, PACK_OFFSET}, {8, 4, PACK_OFFSET}},
};

static const struct pack_layout stamp_layout = {
    .element = sizeof(uint64_t),
    .count = 1,
    .fields = {{0, 8, PACK_OFFSET}},
};

static int no_room(struct err *e)
{
    return err_no_memory(e, "GPU zones");
}

void gpu_init(struct gpu *g, struct spool *spool)
{
    *g = (struct gpu){.spool = spool};
}

static void thread_free(struct gpu_thread *th)
{
    column_release(&th->zones);
    column_release(&th->ends);
    column_release(&th->starts);
    column_release(&th->stops);
    vec_release(&th->stack);
    free(th);
}

static void context_free(struct gpu_context *c)
{
    for (size_t i = 0; i < c->threads.len; i++)
        thread_free(c->threads.at[i]);
    vec_release(&c->threads);
    map_release(&c->thread_numbers);
    vec_release(&c->pending);
    vec_release(&c->unused);
    for (size_t i = 0; c->queries && i <= UINT16_MAX / GPU_QUERY_PAGE; i++)
        free(c->queries[i]);
    free(c->queries);
    vec_release(&c->notes);
    map_release(&c->note_numbers);
    vec_release(&c->note_names);
    map_release(&c->note_name_numbers);
    map_release(&c->note_ids);
    free(c);
}

void gpu_release(struct gpu *g)
{
    for (size_t i = 0; i < g->contexts.len; i++)
        context_free(g->contexts.at[i]);
    vec_release(&g->contexts);
    map_release(&g->location_counts);
    *g = (struct gpu){0};
}

struct gpu_context *gpu_context_at(const struct gpu *g, uint8_t number)
{
    uint32_t at = g->current[number];
    return at ? g->contexts.at[at - 1] : NULL;
}

struct gpu_context *gpu_announce(struct gpu *g, uint8_t number, const struct gpu_context *announced,
                                 struct err *e)
{
    struct gpu_context *known = gpu_context_at(g, number);
    if (known && known->announced_gpu == announced->announced_gpu &&
        known->announced_cpu == announced->announced_cpu && known->thread == announced->thread &&
        known->type == announced->type)
        return known;
    struct gpu_context *c = malloc(sizeof *c);
    if (!c || !vec_push(&g->contexts, c)) {
        free(c);
        no_room(e);
        return NULL;
    }
    *c = *announced;
    g->current[number] = (uint32_t)g->contexts.len;
    return c;
}

static int thread_of(struct gpu *g, struct gpu_context *c, uint16_t number, uint32_t *index,
                     struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&c->thread_numbers, number, &fresh);
    if (!at)
        return no_room(e);
    if (fresh) {
        *at = c->threads.len;
        struct gpu_thread *th = calloc(1, sizeof *th);
        if (!th || !vec_push(&c->threads, th)) {
            free(th);
            return no_room(e);
        }
        th->number = number;
        column_init(&th->zones, g->spool, &zone_layout, false);
        column_init(&th->ends, g->spool, &end_layout, true);
        column_init(&th->starts, g->spool, &stamp_layout, true);
        column_init(&th->stops, g->spool, &stamp_layout, true);
    }
    *index = (uint32_t)*at;
    return 0;
}

/* ---- zones that wait for GPU times or their end */

static int pending_add(struct gpu_context *c, const struct gpu_pending *p, uint32_t *index,
                       struct err *e)
{
    if (c->unused.len) {
        *index = c->unused.at[--c->unused.len];
        c->pending.at[*index] = *p;
        return 0;
    }
    *index = (uint32_t)c->pending.len;
    /* Reserve room for returning the entry now: that must not fail. */
    return vec_push(&c->pending, *p) && vec_reserve(&c->unused, c->pending.len) ? 0 : no_room(e);
}

static void pending_drop(struct gpu_context *c, uint32_t index)
{
    if (--c->pending.at[index].uses == 0)
        c->unused.at[c->unused.len++] = index;
}

static uint32_t *query_slot(struct gpu_context *c, uint16_t query, struct err *e)
{
    if (!c->queries && !(c->queries = calloc(UINT16_MAX / GPU_QUERY_PAGE + 1, sizeof *c->queries)))
        goto fail;
    uint32_t **page = &c->queries[query / GPU_QUERY_PAGE];
    if (!*page && !(*page = calloc(GPU_QUERY_PAGE, sizeof **page)))
        goto fail;
    return *page + query % GPU_QUERY_PAGE;
fail:
    no_room(e);
    return NULL;
}

/*
 * Makes the query measure this zone; a zone that still waits under its number will never get its
 * time.
 */
static int expect_time(struct gpu_context *c, uint16_t query, uint32_t pending, struct err *e)
{
    uint32_t *slot = query_slot(c, query, e);
    if (!slot)
        return -1;
    c->pending.at[pending].uses++;
    if (*slot)
        pending_drop(c, *slot - 1);
    *slot = pending + 1;
    return 0;
}

/* ---- events */

static int append_zone(struct gpu_thread *th, const struct gpu_zone *zone, struct err *e)
{
    struct column *columns[] = {&th->zones, &th->ends, &th->starts, &th->stops};
    const size_t sizes[] = {sizeof *zone, sizeof(struct gpu_zone_end), sizeof(uint64_t),
                            sizeof(uint64_t)};
    for (int i = 0; i < 4; i++) {
        void *room = column_append(columns[i], e);
        if (!room) {
            while (i-- > 0)
                column_drop_last(columns[i]); /* keep the columns in step */
            return -1;
        }
        memset(room, 0, sizes[i]);
        if (i == 0)
            memcpy(room, zone, sizeof *zone);
    }
    return 0;
}

/*
 * Counts a child zone inside the `depth` outermost open ones. Beyond the depth limit, it counts as
 * a child of the deepest zone that may have children.
 */
static void count_child(struct gpu *g, struct gpu_thread *th, size_t depth)
{
    if (depth >= ZONE_DEPTH_MAX)
        depth = ZONE_DEPTH_MAX - 1;
    if (depth == 0)
        th->roots++;
    else
        g->parents += th->stack.at[depth - 1].children++ == 0;
}

int gpu_zone_begin(struct gpu *g, struct gpu_context *c, const struct gpu_zone *zone, struct err *e)
{
    uint32_t thread = 0, index = 0;
    if (thread_of(g, c, zone->thread, &thread, e) != 0)
        return -1;
    struct gpu_thread *th = c->threads.at[thread];
    struct gpu_pending p = {.zone = th->zones.len,
                            .cpu_start = zone->cpu_start,
                            .gpu_start = -1,
                            .thread = thread,
                            .callstack = zone->callstack,
                            .location = zone->location,
                            .query = zone->query,
                            .uses = 1,
                            .open = true};
    /* A zone in the columns must also be on the stack, even after a failure. */
    if (!vec_reserve(&th->stack, th->stack.len + 1))
        return no_room(e);
    if (pending_add(c, &p, &index, e) != 0 || append_zone(th, zone, e) != 0)
        return -1;
    g->deep += th->stack.len >= ZONE_DEPTH_MAX;
    count_child(g, th, th->stack.len);
    th->stack.at[th->stack.len++] = (struct gpu_open){.pending = index};
    return expect_time(c, zone->query, index, e);
}

int gpu_zone_end(struct gpu *g, struct gpu_context *c, uint16_t thread, uint16_t query,
                 int64_t time, bool *found, struct err *e)
{
    (void)g;
    const uint64_t *at = map_find(&c->thread_numbers, thread);
    struct gpu_thread *th = at ? c->threads.at[*at] : NULL;
    *found = th && th->stack.len;
    if (!*found)
        return 0;
    struct gpu_open open = th->stack.at[--th->stack.len];
    struct gpu_pending *p = &c->pending.at[open.pending];
    struct gpu_zone_end end = {.cpu_end = gpu_distance(p->cpu_start, time),
                               .children = open.children};
    p->open = false;
    if (column_patch(&th->ends, p->zone, &end, e) != 0 ||
        expect_time(c, query, open.pending, e) != 0)
        return -1;
    pending_drop(c, open.pending);
    return 0;
}

static int count_location(struct gpu *g, int16_t location, struct err *e)
{
    uint64_t *count = map_add(&g->location_counts, (uint16_t)location, NULL);
    if (!count)
        return no_room(e);
    ++*count;
    return 0;
}

int gpu_query_time(struct gpu *g, struct gpu_context *c, uint16_t query, int64_t time, bool *found,
                   struct err *e)
{
    uint32_t *slot = query_slot(c, query, e);
    if (!slot)
        return -1;
    *found = *slot != 0;
    if (!*found)
        return 0;
    uint32_t index = *slot - 1;
    struct gpu_pending *p = &c->pending.at[index];
    struct gpu_thread *th = c->threads.at[p->thread];
    /* Events from before this part are moved to its beginning. */
    if (p->carried && time < 0)
        time = 0;
    uint64_t stamp = gpu_distance(p->cpu_start, time);
    /* A start before the trace's beginning counts as none, as in the official server. */
    bool is_start = p->gpu_start < 0;
    if (column_patch(is_start ? &th->starts : &th->stops, p->zone, &stamp, e) != 0)
        return -1;
    if (is_start) {
        p->gpu_start = time;
        c->zones++;
    } else if (count_location(g, p->location, e) != 0) {
        return -1;
    }
    *slot = 0;
    pending_drop(c, index);
    return 0;
}

int gpu_name_note(struct gpu_context *c, int64_t id, uint32_t name, struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&c->note_name_numbers, (uint64_t)id, &fresh);
    if (!at)
        return no_room(e);
    if (fresh) {
        *at = c->note_names.len;
        if (!vec_push(&c->note_names, (struct gpu_note_name){.id = id}))
            return no_room(e);
    }
    c->note_names.at[*at].name = name;
    return 0;
}

int gpu_set_note(struct gpu_context *c, uint16_t query, int64_t id, double value, struct err *e)
{
    bool fresh;
    uint64_t *number = map_add(&c->note_ids, (uint64_t)id, &fresh);
    if (!number)
        return no_room(e);
    if (fresh)
        *number = c->note_ids.count - 1;
    uint64_t *at = map_add(&c->note_numbers, *number << 16 | query, &fresh);
    if (!at)
        return no_room(e);
    if (fresh) {
        *at = c->notes.len;
        if (!vec_push(&c->notes, (struct gpu_note){.id = id, .query = query}))
            return no_room(e);
    }
    c->notes.at[*at].value = value;
    return 0;
}

int gpu_settle(struct gpu *g, struct err *e)
{
    for (size_t i = 0; i < g->contexts.len; i++) {
        const struct gpu_context *c = g->contexts.at[i];
        for (size_t k = 0; k < c->threads.len; k++) {
            struct gpu_thread *th = c->threads.at[k];
            for (size_t d = 0; d < th->stack.len; d++) {
                struct gpu_zone_end end = {.children = th->stack.at[d].children};
                uint64_t zone = c->pending.at[th->stack.at[d].pending].zone;
                if (column_patch(&th->ends, zone, &end, e) != 0)
                    return -1;
            }
        }
    }
    return 0;
}

/* ---- the next part of a capture */

/* Carries a zone of the previous part over to the beginning of this one. */
static int carry_zone(struct gpu_context *c, struct gpu_pending *p, uint32_t children,
                      struct err *e)
{
    struct gpu_thread *th = c->threads.at[p->thread];
    const struct gpu_zone zone = {.callstack = p->callstack,
                                  .location = p->location,
                                  .thread = th->number,
                                  .query = p->query};
    const struct gpu_zone_end end = {.cpu_end = p->open ? 0 : gpu_distance(0, 0),
                                     .children = children};
    const uint64_t start = gpu_distance(0, 0);
    p->zone = th->zones.len;
    p->cpu_start = 0;
    p->carried = true;
    if (append_zone(th, &zone, e) != 0 || column_patch(&th->ends, p->zone, &end, e) != 0)
        return -1;
    if (p->gpu_start < 0)
        return 0;
    p->gpu_start = 0;
    c->zones++;
    return column_patch(&th->starts, p->zone, &start, e);
}

static void clear_threads(struct gpu_context *c)
{
    for (size_t i = 0; i < c->threads.len; i++) {
        struct gpu_thread *th = c->threads.at[i];
        column_clear(&th->zones);
        column_clear(&th->ends);
        column_clear(&th->starts);
        column_clear(&th->stops);
        th->roots = 0;
    }
}

/* First the zones that only wait for GPU times, then the open ones: a zone before its child. */
static int carry_zones(struct gpu *g, struct gpu_context *c, struct err *e)
{
    for (size_t i = 0; i < c->pending.len; i++) {
        struct gpu_pending *p = &c->pending.at[i];
        if (p->uses == 0 || p->open)
            continue;
        c->threads.at[p->thread]->roots++;
        if (carry_zone(c, p, 0, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < c->threads.len; i++) {
        struct gpu_thread *th = c->threads.at[i];
        for (size_t d = 0; d < th->stack.len; d++) {
            th->stack.at[d].children = 0;
            count_child(g, th, d);
        }
        for (size_t d = 0; d < th->stack.len; d++) {
            const struct gpu_open *open = &th->stack.at[d];
            if (carry_zone(c, &c->pending.at[open->pending], open->children, e) != 0)
                return -1;
        }
    }
    return 0;
}

/* Drops threads without zones. */
static int drop_threads(struct gpu_context *c, struct err *e)
{
    uint32_t *places = malloc((c->threads.len + 1) * sizeof *places);
    uint32_t kept = 0;
    if (!places)
        return no_room(e);
    map_release(&c->thread_numbers);
    for (size_t i = 0; i < c->threads.len; i++) {
        struct gpu_thread *th = c->threads.at[i];
        places[i] = kept;
        if (th->zones.len > 0)
            c->threads.at[kept++] = th;
        else
            thread_free(th);
    }
    c->threads.len = kept;
    for (size_t i = 0; i < c->pending.len; i++)
        c->pending.at[i].thread = c->pending.at[i].uses ? places[c->pending.at[i].thread] : 0;
    free(places);
    for (uint32_t i = 0; i < kept; i++) {
        uint64_t *at = map_add(&c->thread_numbers, c->threads.at[i]->number, NULL);
        if (!at)
            return no_room(e);
        *at = i;
    }
    return 0;
}

/* Keeps the annotations of zones that continue. */
static int carry_notes(struct gpu_context *c, struct err *e)
{
    struct map queries = {0};
    int status = 0;
    size_t n = c->notes.len;
    for (size_t i = 0; i < c->pending.len && status == 0; i++) {
        if (c->pending.at[i].uses && !map_add(&queries, c->pending.at[i].query, NULL))
            status = no_room(e);
    }
    map_release(&c->note_numbers);
    c->notes.len = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        struct gpu_note note = c->notes.at[i];
        if (map_find(&queries, note.query))
            status = gpu_set_note(c, note.query, note.id, note.value, e);
    }
    map_release(&queries);
    return status;
}

int gpu_carry(struct gpu *g, struct err *e)
{
    map_release(&g->location_counts);
    g->parents = g->deep = 0;
    for (size_t i = 0; i < g->contexts.len; i++) {
        struct gpu_context *c = g->contexts.at[i];
        c->zones = 0;
        clear_threads(c);
        if (carry_zones(g, c, e) != 0 || drop_threads(c, e) != 0 || carry_notes(c, e) != 0)
            return -1;
    }
    return 0;
}

int gpu_restore_thread(struct gpu *g, struct gpu_context *c, uint16_t number, uint32_t *index,
                       struct err *e)
{
    return thread_of(g, c, number, index, e);
}

int gpu_restore_query(struct gpu_context *c, uint16_t query, uint32_t pending, struct err *e)
{
    uint32_t *slot = query_slot(c, query, e);
    if (!slot)
        return -1;
    *slot = pending;
    return 0;
}
