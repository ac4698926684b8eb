/* Lines of a dump: GPU contexts, identified by their position in the order by content. */

#include "analysis/dump/dump_lines.h"

int dump_gpu_context(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    uint64_t number = d->gpu_context++;
    d->zones.len = 0;
    d->rank = number < d->t.gpu_ranks.len ? d->t.gpu_ranks.at[number] : UINT32_MAX;
    if (!dump_wants(d, DUMP_GPU_CONTEXTS))
        return 0;
    dump_begin(d, DUMP_GPU_CONTEXTS, d->rank, 0, 0);
    dump_number(d, "context", d->rank);
    dump_fields_gpu_context(&d->t, &d->line, recs);
    return dump_end(d, e);
}

int dump_gpu_note_name(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_gpu_note_name *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_GPU_NOTE_NAMES, d->rank, dump_signed(r[i].id), 0);
        dump_number(d, "context", d->rank);
        dump_integer(d, "note", r[i].id);
        dump_string_field(d, "name", r[i].name);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_gpu_thread(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n, (void)e;
    d->owner = ((const struct rec_gpu_thread *)recs)->id;
    return 0;
}

int dump_gpu_zone_begin(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    struct dump_open_zone zone = {.ordinal = d->ordinal++};
    zone.begin.gpu = *(const struct rec_gpu_zone_begin *)recs;
    return vec_push(&d->zones, zone) ? 0 : err_no_memory(e, "the dump");
}

int dump_gpu_zone_end(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_gpu_zone_end *end = recs;
    if (d->zones.len == 0)
        return 0;
    const struct dump_open_zone *zone = &d->zones.at[--d->zones.len];
    const struct rec_gpu_zone_begin *begin = &zone->begin.gpu;
    dump_begin(d, DUMP_GPU_ZONES, d->rank, d->owner, zone->ordinal);
    dump_number(d, "context", d->rank);
    dump_number(d, "list", d->owner);
    dump_number(d, "depth", d->zones.len);
    dump_integer(d, "cpu_start", begin->cpu_start);
    dump_end_time(d, "cpu_end", end->cpu_end);
    dump_integer(d, "gpu_start", begin->gpu_start);
    dump_end_time(d, "gpu_end", end->gpu_end);
    if (begin->thread < d->t.local_threads.len)
        dump_number(d, "thread", d->t.local_threads.at[begin->thread]);
    if (d->t.layout->gpu_notes)
        dump_number(d, "query", end->query_id);
    dump_location_fields(d, begin->srcloc);
    dump_callstack_field(d, "callstack", begin->callstack);
    return dump_end(d, e);
}

int dump_gpu_note_query(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n, (void)e;
    d->query = ((const struct rec_gpu_note_query *)recs)->query_id;
    return 0;
}

int dump_gpu_note(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_gpu_note *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_GPU_NOTES, d->rank, d->query, dump_signed(r[i].id));
        dump_number(d, "context", d->rank);
        dump_number(d, "query", d->query);
        dump_integer(d, "note", r[i].id);
        dump_real(d, "value", r[i].value);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}
