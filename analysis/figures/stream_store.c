/* Counts a loaded store by passing its pools on like the records of a file. */

#include "analysis/figures/stream_figures.h"

#define BATCH 512u /* events */

static int refuse(struct stream_figures *f, struct err *e)
{
    f->unsuited = true;
    return err_set(e, ERR_INPUT, "events that cannot be counted in one pass");
}

/* -1 if an event has a thread that is not in the trace. */
static int fill(struct rec_memory_event *out, const struct memory_alloc *a,
                const struct memory_free *f, size_t n, size_t threads)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t thread_alloc = memory_alloc_thread(&a[i]);
        uint16_t thread_free = memory_free_thread(&f[i]);
        if (thread_alloc >= threads || thread_free >= threads)
            return -1;
        out[i] = (struct rec_memory_event){.ptr = a[i].ptr,
                                           .size = memory_alloc_size(&a[i]),
                                           .time_alloc = a[i].time,
                                           .time_free = memory_free_time(&a[i], &f[i]),
                                           .callstack_alloc = a[i].callstack,
                                           .thread_alloc = thread_alloc,
                                           .thread_free = thread_free};
    }
    return 0;
}

static int put_run(struct stream_figures *f, const struct record_sink *to,
                   const struct memory_alloc *a, const struct memory_free *frees, size_t n,
                   struct err *e)
{
    struct rec_memory_event batch[BATCH];
    for (size_t i = 0; i < n; i += BATCH) {
        size_t run = n - i < BATCH ? n - i : BATCH;
        if (fill(batch, a + i, frees + i, run, f->trace->threads.list.len) != 0)
            return refuse(f, e);
        if (record_put(to, REC_MEMORY_EVENT, batch, run, e) != 0)
            return -1;
    }
    return 0;
}

static int put_events(struct stream_figures *f, const struct record_sink *to, struct pool *p,
                      struct err *e)
{
    struct column_reader allocs, frees;
    size_t n, m;
    int status = 0;
    column_reader_init(&allocs, &p->allocs);
    column_reader_init(&frees, &p->frees);
    for (uint64_t done = 0; done < p->allocs.len && status == 0; done += n) {
        const struct memory_alloc *a = column_reader_next(&allocs, &n, e);
        const struct memory_free *b = a ? column_reader_next(&frees, &m, e) : NULL;
        status = b ? put_run(f, to, a, b, n, e) : -1;
    }
    column_reader_release(&allocs);
    column_reader_release(&frees);
    return status;
}

int stream_figures_store(struct stream_figures *f, const struct selection *s, struct err *e)
{
    const struct memory *m = &f->trace->memory;
    const struct record_sink to = stream_figures_sink(f);
    f->of_store = true;
    for (size_t i = 0; i < m->pools.len; i++) {
        struct pool *p = m->pools.at[i];
        const struct rec_pool head = {.key = p->key, .events = p->allocs.len};
        const struct rec_pool_end end = {.name = p->key};
        if (s->pool_of[i] == UINT32_MAX)
            continue;
        if (record_put(&to, REC_POOL, &head, 1, e) != 0 || put_events(f, &to, p, e) != 0 ||
            record_put(&to, REC_POOL_END, &end, 1, e) != 0)
            return -1;
    }
    stream_figures_end(f);
    return 0;
}
