/*
 * Imports snapshots of PyTorch's CUDA allocator: what torch.cuda.memory._dump_snapshot writes, a
 * pickle, and the same as JSON. A snapshot is a dictionary of "segments" and "device_traces", the
 * history of each device; older ones are the list of segments alone (torch/cuda/_memory_viz.py,
 * `_main`). The file's values are packed first, since the history cannot be replayed before the
 * segments are known, and may come before them.
 */

#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"
#include "import/json_values.h"
#include "import/pickle.h"
#include "import/torch_marks.h"
#include "import/torch_replay.h"

struct torch_import {
    struct torch_reader reader;
    struct torch_events events;
    struct torch_fields root;
    VEC(struct torch_device) devices;
    VEC(struct torch_replay) replays;
    struct torch_marks marks;
    char format[32];
};

static void release(struct torch_import *t)
{
    for (size_t i = 0; i < t->replays.len; i++)
        torch_replay_release(&t->replays.at[i]);
    for (size_t i = 0; i < t->devices.len; i++)
        torch_device_release(&t->devices.at[i]);
    vec_release(&t->replays);
    vec_release(&t->devices);
    torch_marks_release(&t->marks);
    torch_events_release(&t->events);
    torch_reader_release(&t->reader);
}

static struct torch_device *device_of(struct torch_import *t, uint64_t number, struct err *e)
{
    if (number >= TORCH_GPUS_MAX) {
        err_set(e, ERR_INPUT, "it has a device %" PRIu64 "; PyTorch has at most %u", number,
                TORCH_GPUS_MAX);
        return NULL;
    }
    while (t->devices.len <= number) {
        const struct torch_device device = {.number = (unsigned)t->devices.len};
        if (!vec_push(&t->devices, device)) {
            err_no_memory(e, "the snapshot's devices");
            return NULL;
        }
    }
    return &t->devices.at[number];
}

/* ---- reading */

/* Packs the file's values. */
static int read_values(struct torch_import *t, struct import_source *s, uint64_t *root,
                       struct err *e)
{
    struct view head;
    struct pickle p;
    struct json_values j;
    if (import_source_peek(s, &head, e) != 0)
        return -1;
    if (import_starts_json(head)) {
        if (json_values_read(s, &t->reader.arena, &j, e) != 0)
            return -1;
        snprintf(t->format, sizeof t->format, "JSON");
        t->reader.entries_most = j.bytes;
        *root = j.root;
        t->events.counts->notes[NOTE_TRAILING_BYTES] += j.trailing;
    } else {
        if (pickle_read(s, &t->reader.arena, &p, e) != 0)
            return -1;
        snprintf(t->format, sizeof t->format, "pickle protocol %u", p.protocol);
        t->reader.entries_most = p.bytes;
        *root = p.root;
        t->events.counts->notes[NOTE_TRAILING_BYTES] += p.trailing;
    }
    return 0;
}

static int read_file(struct torch_import *t, struct import_source *s, struct err *e)
{
    uint64_t root;
    if (read_values(t, s, &root, e) != 0)
        return -1;
    if (torch_fields_read(&t->reader, root, &t->root, e) < 0)
        return -1;
    if (value_kind(root) == VALUE_LIST)
        t->root.at[TORCH_SEGMENTS] = root;
    if (value_kind(t->root.at[TORCH_SEGMENTS]) != VALUE_LIST &&
        value_kind(t->root.at[TORCH_DEVICE_TRACES]) != VALUE_LIST)
        return err_set(e, ERR_INPUT,
                       "no snapshot of PyTorch's memory: it has neither \"segments\" nor "
                       "\"device_traces\"");
    return 0;
}

static int read_segment(struct torch_import *t, uint64_t dict, struct err *e)
{
    struct torch_fields f;
    uint64_t number;
    int status = torch_fields_read(&t->reader, dict, &f, e);
    if (status < 0)
        return -1;
    if (status > 0) {
        if (!torch_number(&t->reader, &f, TORCH_DEVICE, &number))
            number = 0;
        struct torch_device *d = device_of(t, number, e);
        if (!d)
            return -1;
        status = torch_segment_read(d, &t->reader, &f, e);
        d->has_private = d->has_private || torch_pool_is_private(&t->events, f.at[TORCH_POOL_ID]);
    }
    t->events.counts->notes[NOTE_ENTRIES] += status == 0;
    return status < 0 ? -1 : 0;
}

static int read_segments(struct torch_import *t, struct err *e)
{
    struct value_walk walk = {0};
    uint64_t dict;
    int status = value_walk_begin(&walk, &t->reader.arena, t->root.at[TORCH_SEGMENTS], e);
    while (status == 0 && value_walk_next(&walk, &dict))
        status = read_segment(t, dict, e);
    value_walk_release(&walk);
    for (size_t i = 0; i < t->devices.len; i++)
        t->events.counts->notes[NOTE_ENTRIES] += t->devices.at[i].unusable;
    return status;
}

static int read_histories(struct torch_import *t, struct err *e)
{
    struct value_walk walk = {0};
    uint64_t list, number = 0;
    int status = value_walk_begin(&walk, &t->reader.arena, t->root.at[TORCH_DEVICE_TRACES], e);
    while (status == 0 && value_walk_next(&walk, &list)) {
        struct torch_device *d = device_of(t, number++, e);
        if (d)
            d->history = list;
        else
            status = -1;
    }
    value_walk_release(&walk);
    for (size_t i = 0; i < t->devices.len && status == 0; i++)
        status = torch_device_begin(&t->devices.at[i], &t->reader, e);
    return status;
}

/* ---- replaying */

static void find_base(struct torch_import *t)
{
    if (t->marks.list.len)
        t->events.base = t->marks.list.at[0].time;
    for (size_t i = 0; i < t->devices.len; i++) {
        const struct torch_device *d = &t->devices.at[i];
        if (d->first_time && (!t->events.base || d->first_time < t->events.base))
            t->events.base = d->first_time;
        if (d->last_time / 1000000 > t->events.in->trace->facts.capture_time)
            t->events.in->trace->facts.capture_time = d->last_time / 1000000;
    }
}

/* The device whose next entry is the oldest; NULL at the end. */
static struct torch_replay *oldest(struct torch_import *t)
{
    struct torch_replay *first = NULL;
    for (size_t i = 0; i < t->replays.len; i++) {
        struct torch_replay *p = &t->replays.at[i];
        if (p->more && (!first || p->next.time < first->next.time))
            first = p;
    }
    return first;
}

static int replay(struct torch_import *t, struct err *e)
{
    struct torch_replay *next;
    find_base(t);
    if (!vec_reserve(&t->replays, t->devices.len))
        return err_no_memory(e, "the snapshot's devices");
    for (size_t i = 0; i < t->devices.len; i++) {
        const struct torch_replay empty = {0};
        (void)vec_push(&t->replays, empty);
        if (torch_replay_begin(&t->replays.at[i], &t->events, &t->devices.at[i], e) != 0)
            return -1;
    }
    while ((next = oldest(t)) != NULL) {
        if ((next->next.timed && torch_marks_put(&t->marks, &t->events, next->next.time, e) != 0) ||
            torch_replay_step(next, e) != 0)
            return -1;
    }
    if (torch_marks_put(&t->marks, &t->events, UINT64_MAX, e) != 0)
        return -1;
    for (size_t i = 0; i < t->replays.len; i++) {
        if (value_kind(t->root.at[TORCH_SEGMENTS]) == VALUE_LIST &&
            torch_replay_end(&t->replays.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/* A file may have the members of a snapshot, or be a list, and be something else. */
static int check_entries(const struct torch_import *t, struct err *e)
{
    uint64_t unusable = t->events.counts->notes[NOTE_ENTRIES];
    for (size_t i = 0; i < t->devices.len; i++) {
        if (t->devices.at[i].segments.len || t->devices.at[i].entries)
            return 0;
    }
    return unusable == 0 ? 0
                         : err_set(e, ERR_INPUT,
                                   "no snapshot of PyTorch's memory: none of its %" PRIu64
                                   " entries has an address, a size or an action",
                                   unusable);
}

/* ---- facts */

static int add_device_facts(struct trace *t, const struct torch_device *d, struct err *e)
{
    char size[FORMAT_SIZE], count[FORMAT_SIZE];
    uint64_t early = 0, early_bytes = 0;
    for (size_t i = 0; i < d->early.len; i++) {
        bool block = d->early.at[i].state == STATE_ALLOCATED;
        early += block;
        early_bytes += block ? d->early.at[i].item.size : 0;
    }
    if ((d->entries || early) &&
        trace_add_fact(t, e, "gpu_history",
                       "gpu%u: %" PRIu64 " entries; %s of %s allocated before the first", d->number,
                       d->entries, format_counted(count, early, "block"),
                       format_bytes(size, early_bytes)) != 0)
        return -1;
    if (d->segments.len == 0)
        return 0;
    return trace_add_fact(t, e, "gpu_segments", "%u %zu %" PRIu64 " %" PRIu64 " %" PRIu64,
                          d->number, d->segments.len, d->reserved, d->used, d->free_largest);
}

static int add_facts(struct torch_import *t, struct err *e)
{
    struct trace *trace = t->events.in->trace;
    struct torch_fields settings;
    uint64_t overflowed, most;
    if (torch_fields_read(&t->reader, t->root.at[TORCH_ALLOCATOR_SETTINGS], &settings, e) < 0 ||
        trace_add_fact(trace, e, "imported", "PyTorch memory snapshot, %s", t->format) != 0 ||
        trace_add_fact(trace, e, "containers", "gpu .reserved") != 0)
        return -1;
    struct view config = torch_text(&t->reader, &settings, TORCH_CONFIG);
    if (config.len && trace_add_fact(trace, e, "allocator_settings", "%.*s",
                                     (int)(config.len < 4096 ? config.len : 4096), config.p) != 0)
        return -1;
    if (torch_number(&t->reader, &settings, TORCH_OVERFLOWED, &overflowed) && overflowed) {
        if (!torch_number(&t->reader, &settings, TORCH_MAX_ENTRIES, &most))
            most = 0;
        if (trace_add_fact(trace, e, "history", "cut: max_entries=%" PRIu64 " was reached", most) !=
            0)
            return -1;
    }
    if (!t->events.base && trace_add_fact(trace, e, "times", "%s",
                                          "none; entries are a nanosecond apart, in order") != 0)
        return -1;
    for (size_t i = 0; i < t->devices.len; i++) {
        if (add_device_facts(trace, &t->devices.at[i], e) != 0)
            return -1;
    }
    return 0;
}

static int count_host_entries(struct torch_import *t, struct err *e)
{
    struct value_walk walk = {0};
    uint64_t item;
    int status = value_walk_begin(&walk, &t->reader.arena, t->root.at[TORCH_HOST_TRACES], e);
    while (status == 0 && value_walk_next(&walk, &item))
        t->events.counts->notes[NOTE_HOST_ENTRIES]++;
    value_walk_release(&walk);
    return status;
}

int import_torch(struct import_source *s, struct ingest *in, struct import_counts *counts,
                 struct err *e)
{
    struct torch_import t = {
        .events = {.in = in, .counts = counts, .stacks = {.in = in, .counts = counts}, .time = -1}};
    t.events.reader = &t.reader;
    int status = read_file(&t, s, e);
    if (status == 0)
        status = read_segments(&t, e);
    if (status == 0)
        status = read_histories(&t, e);
    if (status == 0)
        status = torch_marks_read(&t.marks, &t.events, t.root.at[TORCH_ANNOTATIONS], e);
    if (status == 0)
        status = replay(&t, e);
    if (status == 0)
        status = check_entries(&t, e);
    if (status == 0)
        status = add_facts(&t, e);
    if (status == 0)
        status = count_host_entries(&t, e);
    if (status == 0)
        status = ingest_finish(in, e);
    release(&t);
    return status;
}
