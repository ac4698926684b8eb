/* Lines of a dump: GPU contexts, identified by their position in the order by content. */

#include "analysis/dump/dump_lines.h"

void dump_gpu_context(struct dump *d, const void *rec)
{
    uint64_t number = d->gpu_context++;
    d->zones.len = 0;
    d->rank = number < d->t.gpu_ranks.len ? d->t.gpu_ranks.at[number] : UINT32_MAX;
    if (!dump_wants(d, DUMP_GPU_CONTEXTS))
        return;
    dump_begin(d, DUMP_GPU_CONTEXTS, d->rank, 0, 0);
    dump_number(d, "context", d->rank);
    dump_fields_gpu_context(&d->t, &d->line, rec);
}

void dump_gpu_note_name(struct dump *d, const void *rec)
{
    const struct rec_gpu_note_name *r = rec;
    dump_begin(d, DUMP_GPU_NOTE_NAMES, d->rank, dump_signed(r->id), 0);
    dump_number(d, "context", d->rank);
    dump_integer(d, "note", r->id);
    dump_string_field(d, "name", r->name);
}

void dump_gpu_thread(struct dump *d, const void *rec)
{
    d->owner = ((const struct rec_gpu_thread *)rec)->id;
}

void dump_gpu_zone_begin(struct dump *d, const void *rec)
{
    struct dump_open_zone zone = {.ordinal = d->ordinal++};
    zone.begin.gpu = *(const struct rec_gpu_zone_begin *)rec;
    if (!vec_push(&d->zones, zone))
        dump_no_room(d);
}

void dump_gpu_zone_end(struct dump *d, const void *rec)
{
    const struct rec_gpu_zone_end *end = rec;
    if (d->zones.len == 0)
        return;
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
}

void dump_gpu_note_query(struct dump *d, const void *rec)
{
    d->query = ((const struct rec_gpu_note_query *)rec)->query_id;
}

void dump_gpu_note(struct dump *d, const void *rec)
{
    const struct rec_gpu_note *r = rec;
    dump_begin(d, DUMP_GPU_NOTES, d->rank, d->query, dump_signed(r->id));
    dump_number(d, "context", d->rank);
    dump_number(d, "query", d->query);
    dump_integer(d, "note", r->id);
    dump_real(d, "value", r->value);
}
