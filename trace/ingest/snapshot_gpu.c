/* GPU contexts of a snapshot, with their zones that are open or wait for GPU times. */

#include <stdlib.h>

#include "trace/ingest/store_snapshot.h"

#define CONTEXTS_MAX ((size_t)1 << 20)
#define QUERIES_MAX (UINT16_MAX + 1u)
#define USES_MAX 3 /* the stack, and the queries of both ends */

static void snapshot_thread(struct snapshot *s, struct gpu_context *c, struct gpu_thread *th)
{
    SNAPSHOT_EACH(s, &th->stack, i, UINT32_MAX)
    {
        snapshot_u32(s, &th->stack.at[i].pending);
        snapshot_index(s, th->stack.at[i].pending, c->pending.len, "an open GPU zone");
    }
}

static void snapshot_pending(struct snapshot *s, struct trace *t, struct gpu_pending *p)
{
    bool started = p->gpu_start >= 0;
    snapshot_bool(s, &started);
    snapshot_u32(s, &p->thread);
    snapshot_callstack_id(s, t, &p->callstack);
    snapshot_location(s, t, &p->location);
    snapshot_u16(s, &p->query);
    snapshot_bool(s, &p->carried);
    if (s->loading)
        p->gpu_start = started ? 0 : -1;
}

/* The queries whose zones wait for a GPU time. */
static void save_queries(struct snapshot *s, struct gpu_context *c)
{
    for (uint32_t q = 0; c->queries && q < QUERIES_MAX; q++) {
        const uint32_t *page = c->queries[q / GPU_QUERY_PAGE];
        if (!page || !page[q % GPU_QUERY_PAGE])
            continue;
        uint32_t query = q, pending = page[q % GPU_QUERY_PAGE];
        snapshot_u32(s, &query);
        snapshot_u32(s, &pending);
    }
    uint32_t end = UINT32_MAX;
    snapshot_u32(s, &end);
}

static void load_queries(struct snapshot *s, struct gpu_context *c)
{
    while (!s->failed) {
        uint32_t query = 0, pending = 0;
        snapshot_u32(s, &query);
        if (query == UINT32_MAX)
            return;
        snapshot_u32(s, &pending);
        snapshot_index(s, query, QUERIES_MAX, "a GPU query");
        if (pending == 0 || pending > c->pending.len)
            snapshot_refuse(s, "a GPU query");
        if (!s->failed && gpu_restore_query(c, (uint16_t)query, pending, s->e) != 0)
            s->failed = true;
    }
}

/* Derives the open zones, and the uses of each, from the stacks and queries. */
static void count_uses(struct snapshot *s, struct gpu_context *c)
{
    for (size_t i = 0; i < c->threads.len && !s->failed; i++) {
        const struct gpu_thread *th = c->threads.at[i];
        for (size_t d = 0; d < th->stack.len && !s->failed; d++) {
            struct gpu_pending *p = &c->pending.at[th->stack.at[d].pending];
            if (p->open || p->thread != i)
                snapshot_refuse(s, "an open GPU zone");
            p->open = true;
            p->uses++;
        }
    }
    for (uint32_t q = 0; c->queries && q < QUERIES_MAX && !s->failed; q++) {
        const uint32_t *page = c->queries[q / GPU_QUERY_PAGE];
        uint32_t pending = page ? page[q % GPU_QUERY_PAGE] : 0;
        if (pending && ++c->pending.at[pending - 1].uses > USES_MAX)
            snapshot_refuse(s, "a GPU query");
    }
    if (!vec_reserve(&c->unused, c->pending.len + 1))
        snapshot_no_memory(s);
    for (size_t i = 0; i < c->pending.len && !s->failed; i++) {
        if (c->pending.at[i].uses == 0)
            c->unused.at[c->unused.len++] = (uint32_t)i;
        else
            snapshot_index(s, c->pending.at[i].thread, c->threads.len, "a GPU zone's thread");
    }
}

static void snapshot_annotations(struct snapshot *s, struct trace *t, struct gpu_context *c)
{
    SNAPSHOT_EACH(s, &c->note_names, i, UINT32_MAX)
    {
        snapshot_i64(s, &c->note_names.at[i].id);
        snapshot_string(s, t, &c->note_names.at[i].name);
    }
    snapshot_map_into(s, &c->note_name_numbers, c->note_names.len, "an annotation");
    SNAPSHOT_EACH(s, &c->notes, i, UINT32_MAX)
    {
        snapshot_i64(s, &c->notes.at[i].id);
        snapshot_f64(s, &c->notes.at[i].value);
        snapshot_u16(s, &c->notes.at[i].query);
    }
    snapshot_map(s, &c->note_ids, 0, UINT32_MAX, "an annotation");
    snapshot_map_into(s, &c->note_numbers, c->notes.len, "an annotation");
}

static void snapshot_clock(struct snapshot *s, struct trace *t, struct gpu_context *c)
{
    snapshot_u64(s, &c->thread);
    snapshot_f32(s, &c->period);
    snapshot_u8(s, &c->type);
    snapshot_bool(s, &c->calibrated);
    snapshot_string(s, t, &c->name);
    snapshot_u64(s, &c->overflow);
    snapshot_u64(s, &c->wraps);
    snapshot_i64(s, &c->last_gpu_time);
    snapshot_i64(s, &c->difference);
    snapshot_i64(s, &c->calibrated_gpu);
    snapshot_i64(s, &c->calibrated_cpu);
    snapshot_f64(s, &c->calibration);
    snapshot_i64(s, &c->announced_gpu);
    snapshot_i64(s, &c->announced_cpu);
}

static void snapshot_context(struct snapshot *s, struct trace *t, struct gpu_context *c)
{
    snapshot_clock(s, t, c);
    SNAPSHOT_EACH(s, &c->pending, i, UINT32_MAX - 1)
    snapshot_pending(s, t, &c->pending.at[i]);
    size_t n = snapshot_count(s, c->threads.len, THREADS_MAX);
    for (size_t i = 0; i < n && !s->failed; i++) {
        uint16_t number = s->loading ? 0 : c->threads.at[i]->number;
        uint32_t index = (uint32_t)i;
        snapshot_thread_number(s, t, &number);
        if (s->loading && !s->failed)
            s->failed = gpu_restore_thread(&t->gpu, c, number, &index, s->e) != 0;
        if (!s->failed && index != i)
            snapshot_refuse(s, "a GPU thread");
        if (!s->failed)
            snapshot_thread(s, c, c->threads.at[i]);
    }
    if (s->loading) {
        load_queries(s, c);
        count_uses(s, c);
    } else {
        save_queries(s, c);
    }
    snapshot_annotations(s, t, c);
}

void snapshot_gpu(struct snapshot *s, struct trace *t)
{
    struct gpu *g = &t->gpu;
    size_t n = snapshot_count(s, g->contexts.len, CONTEXTS_MAX);
    for (size_t i = 0; i < n && !s->failed; i++) {
        struct gpu_context *c = s->loading ? calloc(1, sizeof *c) : g->contexts.at[i];
        if (!c || (s->loading && !vec_push(&g->contexts, c))) {
            free(c);
            snapshot_no_memory(s);
            return;
        }
        snapshot_context(s, t, c);
    }
    for (size_t i = 0; i < sizeof g->current / sizeof g->current[0]; i++) {
        snapshot_u32(s, &g->current[i]);
        snapshot_index(s, g->current[i], g->contexts.len + 1, "a GPU context");
    }
    if (s->loading && !s->failed)
        s->failed = gpu_carry(g, s->e) != 0;
}
