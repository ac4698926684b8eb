#include "analysis/tables/memory_rows.h"

#include <inttypes.h>
#include <stdio.h>

#include "trace/file/record_takers.h"

void memory_rows_init(struct memory_rows *m, memory_row_put *put, void *ctx)
{
    *m = (struct memory_rows){.put = put, .ctx = ctx};
    names_init(&m->names);
}

void memory_rows_release(struct memory_rows *m)
{
    names_release(&m->names);
}

TAKE_EACH(begin_pool, struct memory_rows *m, pool, r)
{
    snprintf(m->pool_room, sizeof m->pool_room, "pool 0x%" PRIx64, r->key);
    m->pool = r->key == 0                      ? view_of("default")
              : names_knows(&m->names, r->key) ? names_pointer(&m->names, r->key)
                                               : view_of(m->pool_room);
    return 0;
}

TAKE_EACH(put_event, struct memory_rows *m, memory_event, r)
{
    const struct names *names = &m->names;
    struct memory_row row = {.pool = m->pool,
                             .address = r->ptr,
                             .size = r->size,
                             .alloc_time = r->time_alloc,
                             .free_time = r->time_free,
                             .alloc_thread = names->threads.at[r->thread_alloc],
                             .alloc_thread_name = names_thread(names, r->thread_alloc),
                             .alloc_callstack = r->callstack_alloc};
    if (is_freed(row.free_time)) {
        row.free_thread = names->threads.at[r->thread_free];
        row.free_thread_name = names_thread(names, r->thread_free);
        row.free_callstack = r->callstack_free;
    }
    return m->put(m->ctx, &row, e);
}

static const record_takers takers = {
    [REC_POOL] = begin_pool,
    [REC_MEMORY_EVENT] = put_event,
};

void memory_rows_wanted(bool wanted[REC_TYPE_COUNT])
{
    names_wanted(wanted);
    records_wanted(takers, wanted);
}

static int put_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct memory_rows *m = ctx;
    return takers[type] ? takers[type](m, recs, n, e) : names_put(&m->names, type, recs, n, e);
}

struct record_sink memory_rows_sink(struct memory_rows *m)
{
    return (struct record_sink){m, put_record};
}
