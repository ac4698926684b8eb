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

static int put_gpu_context(struct table_records *r, const struct rec_gpu_context *c, struct err *e)
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

static int begin_gpu_zone(struct table_records *r, const struct rec_gpu_zone_begin *z,
                          struct err *e)
{
    struct open_gpu_row row = {.begin = *z, .id = ++r->gpu_zones};
    return vec_push(&r->open_gpu_zones, row) ? 0 : err_no_memory(e, "nested GPU zones");
}

static int end_gpu_zone(struct table_records *r, const struct rec_gpu_zone_end *end, struct err *e)
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

static int put_lock(struct table_records *r, const struct rec_lock *l, struct err *e)
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

static int add_lock_threads(struct table_records *r, const struct rec_id *ids, size_t n,
                            struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!vec_push(&r->lock_threads, ids[i].id))
            return err_no_memory(e, "threads of a lock");
    }
    return 0;
}

static int put_lock_events(struct table_records *r, const struct rec_lock_event *v, size_t n,
                           struct err *e)
{
    struct cell cells[TABLE_LOCK_EVENTS_WIDTH];
    for (size_t i = 0; i < n; i++) {
        bool known = v[i].thread < r->lock_threads.len;
        cells[LOCK_EVENT_LOCK] = cell_count(r->locks);
        cells[LOCK_EVENT_TIME] = cell_integer(v[i].time);
        cells[LOCK_EVENT_THREAD] =
            known ? cell_count(r->lock_threads.at[v[i].thread]) : cell_none();
        cells[LOCK_EVENT_EVENT] = cell_count(v[i].event);
        cells[LOCK_EVENT_LOCATION] = table_location_cell(r, v[i].srcloc);
        if (table_put_row(r, TABLE_OF_LOCK_EVENTS, cells, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- samples */

static int put_samples(struct table_records *r, const struct rec_sample *s, size_t n, struct err *e)
{
    struct cell cells[TABLE_SAMPLES_WIDTH];
    for (size_t i = 0; i < n; i++) {
        cells[SAMPLE_THREAD] = cell_count(r->thread);
        cells[SAMPLE_TIME] = cell_integer(s[i].time);
        cells[SAMPLE_CALLSTACK] = cell_nonzero(s[i].callstack);
        if (table_put_row(r, TABLE_OF_SAMPLES, cells, e) != 0)
            return -1;
    }
    return 0;
}

int table_put_list_record(struct table_records *r, enum record_type type, const void *recs,
                          size_t n, struct err *e)
{
    switch (type) {
    case REC_GPU_CONTEXT:
        return put_gpu_context(r, recs, e);
    case REC_GPU_ZONE_BEGIN:
        return begin_gpu_zone(r, recs, e);
    case REC_GPU_ZONE_END:
        return end_gpu_zone(r, recs, e);
    case REC_LOCK:
        return put_lock(r, recs, e);
    case REC_LOCK_THREAD:
        return add_lock_threads(r, recs, n, e);
    case REC_LOCK_EVENT:
        return put_lock_events(r, recs, n, e);
    case REC_SAMPLE:
        return put_samples(r, recs, n, e);
    default:
        return 0;
    }
}
