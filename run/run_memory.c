#include "run/run_memory.h"

#include <stdlib.h>

#include "base/monotonic.h"
#include "proc/memory_plots.h"
#include "proc/page_reader.h"

#define LOOK_PAUSE 50 /* 2 %: see run_memory_has_grown */

/* See run_memory_has_grown. */
#define GROWN 1.2
#define GROWN_LITTLE 1.01
#define GROWN_LEAST (32.0 * 1048576)

/* Shares of the cgroup's limit: see run_memory_nears_limit. */
#define NEAR 0.9
#define FAR 0.8

static struct run_memory *open_process(pid_t pid)
{
    struct run_memory *m = calloc(1, sizeof *m);
    if (m)
        (void)process_memory_open(&m->process, pid);
    return m;
}

int run_memory_read(struct run_memory **memory, bool pss, pid_t pid, struct run_record *to,
                    struct err *e)
{
    struct memory_reading reading;
    if (!*memory && !(*memory = open_process(pid)))
        return err_no_memory(e, "plots of memory");
    if (pss)
        process_memory_pss(&(*memory)->process, &reading);
    else
        process_memory_read(&(*memory)->process, &reading);
    (*memory)->before = (*memory)->rss;
    if (reading.known & UINT32_C(1) << MEMORY_RSS_ANON)
        (*memory)->rss = reading.value[MEMORY_RSS_ANON] + reading.value[MEMORY_RSS_FILE] +
                         reading.value[MEMORY_RSS_SHMEM];
    bool limited = reading.known & UINT32_C(1) << MEMORY_CGROUP_LIMIT;
    if (reading.known & UINT32_C(1) << MEMORY_CGROUP_USE) {
        (*memory)->use = reading.value[MEMORY_CGROUP_USE];
        (*memory)->limit = limited ? reading.value[MEMORY_CGROUP_LIMIT] : 0;
    }
    int64_t begin = (int64_t)to->target.begin;
    if (begin < 0 || reading.time < begin)
        return 0;
    return memory_plots_add(&reading, reading.time - begin, &(*memory)->named, &to->ingest.sink, e);
}

void run_memory_free(struct run_memory *m)
{
    if (m) {
        process_memory_close(&m->process);
        page_looks_release(&m->looks);
    }
    free(m);
}

bool run_memory_has_grown(const struct run_memory *m)
{
    bool stopped = m->rss <= m->before && monotonic_ns() >= m->next;
    return m->rss >= GROWN_LEAST && m->rss >= m->looked * (stopped ? GROWN_LITTLE : GROWN);
}

bool run_memory_nears_limit(struct run_memory *m)
{
    bool before = m->near;
    if (m->limit <= 0 || m->use < FAR * m->limit)
        m->near = false;
    else if (m->use >= NEAR * m->limit)
        m->near = true;
    return m->near && !before;
}

int run_memory_look(struct run_memory **memory, enum look_reason reason, pid_t pid, struct err *e)
{
    struct page_look look;
    if (!*memory && !(*memory = open_process(pid)))
        return err_no_memory(e, "a look at the pages");
    int64_t used = memory_rounds_used();
    if (reason == LOOK_AT_PEAK)
        (*memory)->looked = (*memory)->rss;
    if (page_look_read(&look, (*memory)->process.folder, e) != 0)
        return -1;
    (*memory)->next = monotonic_ns() + LOOK_PAUSE * (memory_rounds_used() - used);
    look.reason = reason;
    struct page_looks *looks = &(*memory)->looks;
    bool all = reason == LOOK_AT_TIME || reason == LOOK_ASKED;
    for (size_t i = 0; i < looks->list.len && !all; i++) {
        if (looks->list.at[i].reason == reason) {
            page_look_release(&looks->list.at[i]);
            looks->list.at[i] = look;
            return 0;
        }
    }
    if (vec_push(&looks->list, look))
        return 0;
    page_look_release(&look);
    return err_no_memory(e, "a look at the pages");
}

int run_memory_finish(struct run_memory *m, struct run_record *to, struct err *e)
{
    int64_t begin = (int64_t)to->target.begin;
    for (size_t i = 0; i < m->looks.list.len; i++) {
        struct page_look *l = &m->looks.list.at[i];
        if (begin < 0 || l->begin < begin)
            continue;
        struct page_look moved = *l;
        moved.begin -= begin;
        moved.end -= begin;
        if (!vec_push(&to->trace.looks.list, moved))
            return err_no_memory(e, "looks at the pages");
        *l = (struct page_look){0};
    }
    page_looks_sort(&to->trace.looks);
    return 0;
}

static void move_looks(struct trace *from, int64_t (*time)(const void *, int64_t), const void *ctx,
                       struct trace *to)
{
    for (size_t i = 0; i < from->looks.list.len; i++) {
        struct page_look *l = &from->looks.list.at[i];
        l->begin = time(ctx, l->begin);
        l->end = time(ctx, l->end);
        l->end = l->end < l->begin ? l->begin : l->end;
    }
    page_looks_release(&to->looks);
    to->looks = from->looks;
    from->looks = (struct page_looks){0};
}

int run_memory_copy(struct trace *from, int64_t (*time)(const void *, int64_t), const void *ctx,
                    struct ingest *in, struct err *e)
{
    const struct event_sink *sink = &in->sink;
    struct plots *p = &from->plots;
    struct column_reader reader;
    uint32_t named = 0;
    size_t n = 0;
    int status = 0;
    column_reader_init(&reader, &p->points);
    for (uint64_t done = 0; done < p->points.len && status == 0; done += n) {
        const struct plot_point *points = column_reader_next(&reader, &n, e);
        if (!points)
            status = -1;
        for (size_t i = 0; i < n && status == 0; i++) {
            uint64_t key = p->list.at[points[i].plot].name - MEMORY_PLOT_KEY(0);
            struct memory_reading one = {.known = UINT32_C(1) << (key / 16 % MEMORY_VALUES)};
            if (key >= MEMORY_PLOT_KEY(MEMORY_VALUES) - MEMORY_PLOT_KEY(0))
                continue;
            one.value[key / 16] = points[i].value;
            status = memory_plots_add(&one, time(ctx, points[i].time), &named, sink, e);
        }
    }
    column_reader_release(&reader);
    move_looks(from, time, ctx, in->trace);
    return status;
}
