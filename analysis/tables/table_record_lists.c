/* Tables of GPU zones, locks and samples: rows made while the trace is read. */

#include "analysis/tables/table_cells.h"

/* NULL for an unknown time. */
static struct cell time_cell(int64_t time)
{
    return time < 0 ? cell_none() : cell_integer(time);
}

static struct cell local_thread_cell(const struct table_records *r, uint16_t number)
{
    const struct trace_threads *threads = &r->t->threads;
    return number < threads->list.len ? cell_nonzero(threads->list.at[number].id) : cell_none();
}

/* ---- GPU zones */

TAKE_EACH(put_gpu_context, struct table_records *r, gpu_context, c)
{
    struct cell cells[TABLE_GPU_CONTEXTS_WIDTH];
    r->open_gpu_zones.len = 0;
    cells[GPU_CONTEXT_ID] = cell_count(++r->gpu_contexts);
    cells[GPU_CONTEXT_NAME] = table_text_cell(r, c->name);
    cells[GPU_CONTEXT_TYPE] = cell_count(c->type);
    cells[GPU_CONTEXT_THREAD] = cell_nonzero(c->thread);
    cells[GPU_CONTEXT_ZONES] = cell_count(c->zones);
    return table_put_row(r, TABLE_OF_GPU_CONTEXTS, cells, e);
}

TAKE_EACH(begin_gpu_zone, struct table_records *r, gpu_zone_begin, z)
{
    struct open_gpu_row row = {.begin = *z, .id = ++r->gpu_zones};
    return vec_push(&r->open_gpu_zones, row) ? 0 : err_no_memory(e, "nested GPU zones");
}

TAKE_EACH(end_gpu_zone, struct table_records *r, gpu_zone_end, end)
{
    struct cell cells[TABLE_GPU_ZONES_WIDTH];
    size_t depth = --r->open_gpu_zones.len; /* not empty: the reader checks the order of records */
    const struct open_gpu_row *z = &r->open_gpu_zones.at[depth];
    cells[GPU_ZONE_ID] = cell_count(z->id);
    cells[GPU_ZONE_CONTEXT] = cell_count(r->gpu_contexts);
    cells[GPU_ZONE_THREAD] = local_thread_cell(r, z->begin.thread);
    cells[GPU_ZONE_PARENT] = depth ? cell_count(z[-1].id) : cell_none();
    cells[GPU_ZONE_DEPTH] = cell_count(depth);
    cells[GPU_ZONE_LOCATION] = table_location_cell(r, z->begin.srcloc);
    cells[GPU_ZONE_CPU_START] = cell_integer(z->begin.cpu_start);
    cells[GPU_ZONE_CPU_END] = time_cell(end->cpu_end);
    cells[GPU_ZONE_GPU_START] = time_cell(z->begin.gpu_start);
    cells[GPU_ZONE_GPU_END] = time_cell(end->gpu_end);
    cells[GPU_ZONE_CALLSTACK] = cell_nonzero(z->begin.callstack);
    return table_put_row(r, TABLE_OF_GPU_ZONES, cells, e);
}

/* ---- locks */

TAKE_EACH(put_lock, struct table_records *r, lock, l)
{
    struct cell cells[TABLE_LOCKS_WIDTH];
    r->lock_threads.len = 0;
    cells[LOCK_ID] = cell_count(++r->locks);
    cells[LOCK_NAME] = table_text_cell(r, l->custom_name);
    cells[LOCK_LOCATION] = table_location_cell(r, l->srcloc);
    cells[LOCK_SHARED] = cell_bool(l->type != 0);
    cells[LOCK_ANNOUNCED] = l->time_announce ? time_cell(l->time_announce) : cell_none();
    cells[LOCK_TERMINATED] = l->time_terminate ? time_cell(l->time_terminate) : cell_none();
    return table_put_row(r, TABLE_OF_LOCKS, cells, e);
}

TAKE_EACH(add_lock_thread, struct table_records *r, id, t)
{
    return vec_push(&r->lock_threads, t->id) ? 0 : err_no_memory(e, "threads of a lock");
}

TAKE_EACH(put_lock_event, struct table_records *r, lock_event, v)
{
    struct cell cells[TABLE_LOCK_EVENTS_WIDTH];
    bool known = v->thread < r->lock_threads.len;
    cells[LOCK_EVENT_LOCK] = cell_count(r->locks);
    cells[LOCK_EVENT_TIME] = cell_integer(v->time);
    cells[LOCK_EVENT_THREAD] = known ? cell_count(r->lock_threads.at[v->thread]) : cell_none();
    cells[LOCK_EVENT_EVENT] = cell_count(v->event);
    cells[LOCK_EVENT_LOCATION] = table_location_cell(r, v->srcloc);
    return table_put_row(r, TABLE_OF_LOCK_EVENTS, cells, e);
}

/* ---- samples */

TAKE_EACH(put_sample, struct table_records *r, sample, s)
{
    struct cell cells[TABLE_SAMPLES_WIDTH];
    cells[SAMPLE_THREAD] = cell_count(r->thread);
    cells[SAMPLE_TIME] = cell_integer(s->time);
    cells[SAMPLE_CALLSTACK] = cell_nonzero(s->callstack);
    return table_put_row(r, TABLE_OF_SAMPLES, cells, e);
}

#define LOCKS (TABLE_BIT(LOCKS) | TABLE_BIT(LOCK_EVENTS))
#define GPU (TABLE_BIT(GPU_CONTEXTS) | TABLE_BIT(GPU_ZONES))

const struct table_taker table_list_takers[REC_TYPE_COUNT] = {
    [REC_LOCK] = {put_lock, LOCKS},
    [REC_LOCK_THREAD] = {add_lock_thread, LOCKS},
    [REC_LOCK_EVENT] = {put_lock_event, LOCKS},
    [REC_SAMPLE] = {put_sample, TABLE_BIT(SAMPLES)},
    [REC_GPU_CONTEXT] = {put_gpu_context, GPU},
    [REC_GPU_ZONE_BEGIN] = {begin_gpu_zone, GPU},
    [REC_GPU_ZONE_END] = {end_gpu_zone, GPU},
};
