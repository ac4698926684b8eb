/* Lines of a dump: events, and their call stacks. */

#include <stdio.h>

#include "analysis/dump/dump_lines.h"
#include "trace/store/callstacks.h"

static void local_thread_field(struct dump *d, const char *name, uint16_t number)
{
    if (number < d->t.local_threads.len)
        dump_number(d, name, d->t.local_threads.at[number]);
}

/* ---- locks */

void dump_lock(struct dump *d, const void *rec)
{
    const struct rec_lock *r = rec;
    d->lock = *r;
    d->lock_threads.len = 0;
    if (!dump_wants(d, DUMP_LOCKS))
        return;
    dump_begin(d, DUMP_LOCKS, 0, r->id, 0);
    dump_number(d, "lock", r->id);
    dump_string_field(d, "custom_name", r->custom_name);
    dump_number(d, "type", r->type);
    dump_number(d, "valid", r->valid);
    dump_integer(d, "announced", r->time_announce);
    dump_integer(d, "terminated", r->time_terminate);
    dump_location_fields(d, r->srcloc);
}

void dump_lock_thread(struct dump *d, const void *rec)
{
    const struct rec_id *r = rec;
    if (!vec_push(&d->lock_threads, r->id))
        dump_no_room(d);
}

void dump_lock_event(struct dump *d, const void *rec)
{
    const struct rec_lock_event *r = rec;
    dump_begin(d, DUMP_LOCK_EVENTS, 0, d->lock.id, dump_signed(r->time));
    dump_number(d, "lock", d->lock.id);
    dump_integer(d, "time", r->time);
    if (r->thread < d->lock_threads.len)
        dump_number(d, "thread", d->lock_threads.at[r->thread]);
    dump_number(d, "event", r->event);
    dump_location_fields(d, r->srcloc);
}

/* ---- threads */

void dump_thread(struct dump *d, const void *rec)
{
    const struct rec_thread *r = rec;
    d->owner = r->id;
    d->zones.len = 0;
    if (!dump_wants(d, DUMP_THREADS))
        return;
    dump_begin(d, DUMP_THREADS, 0, r->id, 0);
    dump_number(d, "thread", r->id);
    dump_number(d, "fiber", r->is_fiber);
    if (d->t.layout->group_hint)
        dump_integer(d, "group", r->group_hint);
    dump_number(d, "kernel_samples", r->kernel_samples);
}

void dump_zone_begin(struct dump *d, const void *rec)
{
    struct dump_open_zone zone = {.ordinal = d->ordinal++};
    zone.begin.cpu = *(const struct rec_zone_begin *)rec;
    if (!vec_push(&d->zones, zone))
        dump_no_room(d);
}

static void extra_fields(struct dump *d, uint32_t number)
{
    const struct rec_zone_extra *extra = number ? dump_extras_get(&d->t.extras, number) : NULL;
    if (!extra)
        return;
    dump_string_field(d, "zone_name", extra->name);
    if (extra->color != 0)
        dump_address(d, "zone_color", extra->color);
    dump_string_field(d, "text", extra->text);
    dump_callstack_field(d, "callstack", extra->callstack);
}

/* A thread's zones are in the file in order of start, outer ones first. */
void dump_zone_end(struct dump *d, const void *rec)
{
    if (d->zones.len == 0)
        return;
    const struct dump_open_zone *zone = &d->zones.at[--d->zones.len];
    dump_begin(d, DUMP_ZONES, 0, d->owner, zone->ordinal);
    dump_number(d, "thread", d->owner);
    dump_number(d, "depth", d->zones.len);
    dump_integer(d, "start", zone->begin.cpu.start);
    dump_end_time(d, "end", ((const struct rec_zone_end *)rec)->end);
    dump_location_fields(d, zone->begin.cpu.srcloc);
    extra_fields(d, zone->begin.cpu.extra);
}

static void sample_line(struct dump *d, enum dump_section section, const struct rec_sample *r)
{
    dump_begin(d, section, 0, d->owner, dump_signed(r->time));
    dump_number(d, "thread", d->owner);
    dump_integer(d, "time", r->time);
    dump_callstack_field(d, "callstack", r->callstack);
}

void dump_switch_sample(struct dump *d, const void *rec)
{
    sample_line(d, DUMP_SWITCH_SAMPLES, rec);
}

void dump_sample(struct dump *d, const void *rec)
{
    sample_line(d, DUMP_SAMPLES, rec);
}

/* ---- plots */

void dump_plot(struct dump *d, const void *rec)
{
    const struct rec_plot *r = rec;
    dump_group_pointer(d, "plot", r->name);
    if (!dump_wants(d, DUMP_PLOTS))
        return;
    dump_begin(d, DUMP_PLOTS, d->rank, r->name, 0);
    dump_group_fields(d);
    dump_address(d, "pointer", r->name);
    dump_number(d, "type", r->type);
    dump_number(d, "format", r->format);
    dump_number(d, "steps", r->show_steps);
    dump_number(d, "fill", r->fill);
    if (r->color != 0)
        dump_address(d, "color", r->color);
    dump_real(d, "min", r->min);
    dump_real(d, "max", r->max);
    dump_real(d, "sum", r->sum);
}

void dump_plot_point(struct dump *d, const void *rec)
{
    const struct rec_plot_point *r = rec;
    dump_begin(d, DUMP_PLOT_POINTS, d->rank, d->owner, dump_signed(r->time));
    dump_group_fields(d);
    dump_integer(d, "time", r->time);
    dump_real(d, "value", r->value);
}

/* ---- memory */

void dump_pool(struct dump *d, const void *rec)
{
    const struct rec_pool *r = rec;
    dump_group_pointer(d, "pool", r->key);
    if (r->key == 0)
        d->o->format->text(&d->group, view_of("pool"), view_of("default"));
    d->o->format->address(&d->group, view_of("key"), r->key);
}

static void free_fields(struct dump *d, const struct rec_memory_event *r)
{
    if (!is_freed(r->time_free))
        return;
    dump_integer(d, "free_time", r->time_free);
    local_thread_field(d, "free_thread", r->thread_free);
    dump_callstack_field(d, "free_callstack", r->callstack_free);
}

void dump_memory_event(struct dump *d, const void *rec)
{
    const struct rec_memory_event *r = rec;
    dump_begin(d, DUMP_MEMORY, d->rank, d->owner, dump_signed(r->time_alloc));
    dump_group_fields(d);
    dump_integer(d, "time", r->time_alloc);
    dump_address(d, "address", r->ptr);
    dump_number(d, "size", r->size);
    local_thread_field(d, "thread", r->thread_alloc);
    dump_callstack_field(d, "callstack", r->callstack_alloc);
    free_fields(d, r);
}

void dump_pool_end(struct dump *d, const void *rec)
{
    const struct rec_pool_end *r = rec;
    dump_begin(d, DUMP_POOLS, d->rank, d->owner, 0);
    dump_group_fields(d);
    if (r->name != d->owner)
        dump_address(d, "name_pointer", r->name);
    dump_address(d, "low", r->low);
    dump_address(d, "high", r->high);
    dump_number(d, "usage", r->usage);
}

/* ---- call stacks */

#define FRAME_TEXT_SIZE 32

static struct view frame_text(const struct dump *d, uint64_t frame, char out[FRAME_TEXT_SIZE])
{
    char hash[DUMP_HASH_SIZE];
    if (frame & FRAME_ID_CUSTOM)
        snprintf(out, FRAME_TEXT_SIZE, "custom:%s",
                 dump_hash_text(dump_custom_frame(&d->t, frame), hash));
    else
        snprintf(out, FRAME_TEXT_SIZE, "0x%llx", (unsigned long long)frame_address(frame));
    return view_of(out);
}

void dump_callstack(struct dump *d, const void *rec)
{
    const struct rec_callstack *r = rec;
    uint64_t number = d->ordinal++;
    if (number >= d->t.callstacks.len)
        return;
    char text[FRAME_TEXT_SIZE];
    dump_begin(d, DUMP_CALLSTACKS, 0, d->t.callstacks.at[number], 0);
    dump_field_hash(&d->t, &d->line, "callstack", d->t.callstacks.at[number]);
    d->o->format->list_begin(&d->line, view_of("frames"));
    for (unsigned i = 0; i < r->len; i++)
        d->o->format->list_word(&d->line, frame_text(d, r->frames[i], text), i == 0);
    d->o->format->list_end(&d->line);
}

void dump_callstack_frame(struct dump *d, const void *rec)
{
    const struct rec_callstack_frame *r = rec;
    char text[FRAME_TEXT_SIZE];
    bool custom = r->frame & FRAME_ID_CUSTOM;
    uint64_t order = custom ? dump_custom_frame(&d->t, r->frame) : frame_address(r->frame);
    for (unsigned i = 0; i < r->n; i++) {
        dump_begin(d, DUMP_CALLSTACK_FRAMES, custom, order, i);
        d->o->format->word(&d->line, view_of("frame"), frame_text(d, r->frame, text));
        if (r->n > 1)
            dump_number(d, "level", i);
        dump_string_field(d, "function", r->inlines[i].function);
        dump_string_field(d, "file", r->inlines[i].file);
        dump_number(d, "line", r->inlines[i].line);
        dump_address(d, "symbol", r->inlines[i].symbol);
        dump_string_field(d, "image", r->image);
    }
}

/* ---- processors */

void dump_context_switch_thread(struct dump *d, const void *rec)
{
    d->owner = ((const struct rec_id_count *)rec)->id;
}

void dump_context_switch(struct dump *d, const void *rec)
{
    const struct rec_context_switch *r = rec;
    dump_begin(d, DUMP_CONTEXT_SWITCHES, 0, d->owner, dump_signed(r->start));
    dump_number(d, "thread", d->owner);
    dump_integer(d, "wakeup", r->wakeup);
    dump_integer(d, "start", r->start);
    dump_end_time(d, "end", r->end);
    dump_number(d, "cpu", r->cpu);
    if (d->t.layout->wakeup_cpu)
        dump_number(d, "wakeup_cpu", r->wakeup_cpu);
    dump_integer(d, "reason", r->reason);
    dump_integer(d, "state", r->state);
    dump_number(d, "other_thread", r->thread);
}

void dump_cpu_switch_list(struct dump *d, const void *rec)
{
    (void)rec;
    d->owner = d->cpu_list++;
}

void dump_cpu_switch(struct dump *d, const void *rec)
{
    const struct rec_cpu_switch *r = rec;
    dump_begin(d, DUMP_CPU_SWITCHES, 0, d->owner, dump_signed(r->start));
    dump_number(d, "cpu", d->owner);
    dump_integer(d, "start", r->start);
    dump_end_time(d, "end", r->end);
    if (r->thread < d->t.external_threads.len)
        dump_number(d, "thread", d->t.external_threads.at[r->thread]);
}

void dump_hw_sample(struct dump *d, const void *rec)
{
    d->owner = ((const struct rec_id *)rec)->id;
    d->hw_list = 0;
}

void dump_hw_sample_list(struct dump *d, const void *rec)
{
    (void)rec;
    d->hw_list++;
}

void dump_hw_sample_time(struct dump *d, const void *rec)
{
    static const char *const kinds[] = {"none",         "cycles",       "retired",
                                        "cache-refs",   "cache-misses", "branches-retired",
                                        "branch-misses"};
    const struct rec_time *r = rec;
    dump_begin(d, DUMP_HW_SAMPLES, (uint32_t)d->hw_list, d->owner, dump_signed(r->time));
    dump_address(d, "address", d->owner);
    d->o->format->word(&d->line, view_of("kind"), view_of(kinds[d->hw_list % 7]));
    dump_integer(d, "time", r->time);
}
