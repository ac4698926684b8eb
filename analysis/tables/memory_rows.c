#include "analysis/tables/memory_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void memory_rows_init(struct memory_rows *m, memory_row_put *put, void *ctx)
{
    *m = (struct memory_rows){.put = put, .ctx = ctx};
    names_init(&m->names);
}

void memory_rows_release(struct memory_rows *m)
{
    names_release(&m->names);
}

void memory_rows_wanted(bool wanted[REC_TYPE_COUNT])
{
    memset(wanted, 0, REC_TYPE_COUNT * sizeof *wanted);
    names_wanted(wanted);
    wanted[REC_POOL] = true;
    wanted[REC_MEMORY_EVENT] = true;
}

static void begin_pool(struct memory_rows *m, uint64_t key)
{
    if (key == 0) {
        m->pool = view_of("default");
    } else if (names_knows(&m->names, key)) {
        m->pool = names_pointer(&m->names, key);
    } else {
        snprintf(m->pool_room, sizeof m->pool_room, "pool 0x%" PRIx64, key);
        m->pool = view_of(m->pool_room);
    }
}

static int put_events(struct memory_rows *m, const struct rec_memory_event *r, size_t n,
                      struct err *e)
{
    const struct names *names = &m->names;
    for (size_t i = 0; i < n; i++) {
        struct memory_row row = {.pool = m->pool,
                                 .address = r[i].ptr,
                                 .size = r[i].size,
                                 .alloc_time = r[i].time_alloc,
                                 .free_time = r[i].time_free,
                                 .alloc_thread = names->threads.at[r[i].thread_alloc],
                                 .alloc_thread_name = names_thread(names, r[i].thread_alloc),
                                 .alloc_callstack = r[i].callstack_alloc};
        if (is_freed(row.free_time)) {
            row.free_thread = names->threads.at[r[i].thread_free];
            row.free_thread_name = names_thread(names, r[i].thread_free);
            row.free_callstack = r[i].callstack_free;
        }
        if (m->put(m->ctx, &row, e) != 0)
            return -1;
    }
    return 0;
}

static int put_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct memory_rows *m = ctx;
    if (type == REC_POOL)
        begin_pool(m, ((const struct rec_pool *)recs)->key);
    if (type == REC_MEMORY_EVENT)
        return put_events(m, recs, n, e);
    return names_put(&m->names, type, recs, n, e);
}

struct record_sink memory_rows_sink(struct memory_rows *m)
{
    return (struct record_sink){m, put_record};
}
