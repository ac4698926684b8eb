#ifndef TIDEMARK_TEST_TRACE_SAMPLE_H
#define TIDEMARK_TEST_TRACE_SAMPLE_H

/*
 * Made-up records for the tests of trace/: any record type with random or extreme values, and whole
 * traces in which every list of a layout is filled and every index points somewhere.
 */

#include <string.h>

#include "trace/file/file_version.h"
#include "trace/file/grammar.h"
#include "trace/file/record.h"

#define SAMPLE_STRINGS 40
#define SAMPLE_THREADS 9
#define SAMPLE_EXPANDS 12
#define SAMPLE_PAYLOADS 7
#define SAMPLE_EXTRAS 5
#define SAMPLE_CALLSTACKS 33
#define SAMPLE_IMAGES 3

struct sample {
    const struct file_layout *layout;
    uint64_t state;
    bool wild;     /* indices may have any value that fits their field */
    bool extremes; /* fields hold their least or largest value */
    bool brief;    /* texts and blobs are short */
    uint64_t ids;
    uint64_t lock_threads;
    size_t depth; /* of the grammar's stack */
    int64_t clock;
    uint8_t text[70000];
    uint64_t frames[70000];
    struct rec_inline_frame inlines[256];
};

static inline uint64_t sample_next(struct sample *s)
{
    s->state ^= s->state << 13;
    s->state ^= s->state >> 7;
    s->state ^= s->state << 17;
    return s->state;
}

static inline void sample_init(struct sample *s, const struct file_layout *layout, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    s->layout = layout;
    s->state = seed * 2654435761u + 88172645463325252u;
    for (unsigned i = 0; i < 20; i++)
        sample_next(s);
    for (size_t i = 0; i < sizeof s->text; i++)
        s->text[i] = (uint8_t)(sample_next(s) >> 20);
    for (size_t i = 0; i < sizeof s->frames / sizeof s->frames[0]; i++)
        s->frames[i] = sample_next(s);
}

/* A number of so many bits. */
static inline uint64_t sample_bits(struct sample *s, unsigned bits)
{
    uint64_t max = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t r = sample_next(s);
    if (s->extremes)
        return r >> 40 & 1 ? max : 0;
    return r & max;
}

static inline uint64_t sample_below(struct sample *s, uint64_t n)
{
    return (sample_next(s) >> 11) % n;
}

/* A time: of 48 signed bits when wild, else a growing one. */
static inline int64_t sample_time(struct sample *s)
{
    if (s->wild)
        return (int64_t)(sample_bits(s, 48) << 16) >> 16;
    s->clock += (int64_t)sample_below(s, 1000);
    return s->clock;
}

/* An index: below `n` unless wild, then any of `bits` bits. */
static inline uint64_t sample_index(struct sample *s, uint64_t n, unsigned bits)
{
    return s->wild ? sample_bits(s, bits) : sample_below(s, n);
}

static inline uint32_t sample_sidx(struct sample *s)
{
    return (uint32_t)sample_index(s, SAMPLE_STRINGS + 1, 24);
}

static inline uint32_t sample_callstack(struct sample *s)
{
    return (uint32_t)sample_index(s, SAMPLE_CALLSTACKS + 1, 24);
}

static inline int16_t sample_srcloc(struct sample *s)
{
    if (s->wild)
        return (int16_t)sample_bits(s, 16);
    return (int16_t)((int)sample_below(s, SAMPLE_EXPANDS + SAMPLE_PAYLOADS) - SAMPLE_PAYLOADS);
}

static inline struct rec_string_ref sample_ref(struct sample *s)
{
    static const uint8_t flags[] = {0, STRING_REF_POINTER, STRING_REF_INDEX};
    if (s->wild)
        return (struct rec_string_ref){sample_bits(s, 64), (uint8_t)sample_bits(s, 8)};
    struct rec_string_ref r = {sample_below(s, SAMPLE_STRINGS), flags[sample_below(s, 3)]};
    return r;
}

static inline struct view sample_view(struct sample *s, size_t len)
{
    if (s->brief && len > 12)
        len = 12;
    size_t at = sample_below(s, sizeof s->text - len + 1);
    return (struct view){(const char *)s->text + at, len};
}

/* How many records a count announces: the tables have their sizes, other lists a few. */
static inline uint64_t sample_count(struct sample *s, enum record_type type)
{
    if (s->wild)
        return sample_bits(s, 64);
    switch (type) {
    case REC_STRINGS:
        return SAMPLE_STRINGS;
    case REC_LOCAL_THREADS:
    case REC_EXTERNAL_THREADS:
        return SAMPLE_THREADS;
    case REC_SOURCE_LOCATION_EXPANDS:
        return SAMPLE_EXPANDS;
    case REC_SOURCE_LOCATION_PAYLOADS:
        return SAMPLE_PAYLOADS;
    case REC_ZONE_EXTRAS:
        return SAMPLE_EXTRAS;
    case REC_CALLSTACKS:
        return SAMPLE_CALLSTACKS;
    case REC_FRAME_IMAGES:
        return SAMPLE_IMAGES;
    case REC_ZONE_STATS:
    case REC_GPU_ZONE_STATS:
        return SAMPLE_EXPANDS - 1 + SAMPLE_PAYLOADS;
    case REC_ZONE_BEGIN:
    case REC_GPU_ZONE_BEGIN:
        return s->depth > 24 ? 0 : sample_below(s, 3);
    case REC_CPU_SWITCH_LIST:
        return sample_below(s, 20) / 18;
    default:
        return 1 + sample_below(s, 6);
    }
}

#define SAMPLE_REC(STRUCT) struct rec_##STRUCT *r = (struct rec_##STRUCT *)rec

static inline void sample_header(struct sample *s, void *rec)
{
    SAMPLE_REC(header);
    r->version = s->layout->version;
    r->delay = s->layout->delay ? (int64_t)sample_bits(s, 64) : 0;
    r->resolution = (int64_t)sample_bits(s, 64);
    r->timer_mul = 0.25 * (double)sample_bits(s, 40);
    r->last_time = (int64_t)sample_bits(s, 47);
    r->frame_offset = sample_bits(s, 64);
    r->pid = sample_bits(s, 64);
    r->sampling_period = (int64_t)sample_bits(s, 64);
    r->cpu_arch = (uint8_t)sample_bits(s, 8);
    r->cpu_id = (uint32_t)sample_bits(s, 32);
    memcpy(r->cpu_manufacturer, "GenuineIntel", 12);
    r->on_demand = s->layout->on_demand ? (uint8_t)sample_bits(s, 1) : r->frame_offset != 0;
    r->capture_name = sample_view(s, sample_below(s, 1024));
    r->capture_program = sample_view(s, sample_below(s, 1024));
    r->capture_time = sample_bits(s, 64);
    r->executable_time = sample_bits(s, 64);
    r->host_info = sample_view(s, s->extremes ? 1023 : 0);
}

static inline void sample_location(struct sample *s, enum record_type type, void *rec)
{
    SAMPLE_REC(source_location);
    r->pointer = type == REC_SOURCE_LOCATION ? sample_bits(s, 64) : 0;
    r->name = sample_ref(s);
    r->function = sample_ref(s);
    r->file = sample_ref(s);
    r->line = (uint32_t)sample_bits(s, 32);
    r->color = (uint32_t)sample_bits(s, 32);
}

static inline void sample_lock(struct sample *s, void *rec)
{
    SAMPLE_REC(lock);
    r->id = (uint32_t)sample_bits(s, 32);
    r->custom_name = sample_sidx(s);
    r->srcloc = sample_srcloc(s);
    r->type = (uint8_t)sample_bits(s, 1);
    r->valid = (uint8_t)sample_bits(s, 1);
    r->time_announce = sample_time(s);
    r->time_terminate = (int64_t)sample_bits(s, 64);
    r->n = s->lock_threads = s->wild ? sample_bits(s, 64) : 1 + sample_below(s, 64);
}

static inline void sample_message(struct sample *s, void *rec)
{
    SAMPLE_REC(message);
    r->key = s->wild ? sample_bits(s, 64) : ++s->ids;
    r->time = sample_time(s);
    r->text = sample_ref(s);
    r->color = (uint32_t)sample_bits(s, 32);
    r->callstack = sample_callstack(s);
    r->source = s->layout->message_meta ? (uint8_t)sample_bits(s, 1) : 0;
    r->severity = s->layout->message_meta ? (uint8_t)sample_below(s, 6) : 2;
}

static inline void sample_thread(struct sample *s, void *rec)
{
    SAMPLE_REC(thread);
    r->id = sample_bits(s, 64);
    r->zones = sample_bits(s, 64);
    r->kernel_samples = sample_bits(s, 64);
    r->is_fiber = (uint8_t)sample_bits(s, 8);
    r->group_hint = s->layout->group_hint ? (int32_t)sample_bits(s, 32) : 0;
    r->n = (uint32_t)(s->wild ? sample_bits(s, 32) : sample_below(s, 6));
    s->clock = 0;
}

static inline void sample_gpu_context(struct sample *s, void *rec)
{
    SAMPLE_REC(gpu_context);
    r->thread = sample_bits(s, 64);
    r->calibration = (uint8_t)sample_bits(s, 1);
    r->zones = sample_bits(s, 64);
    r->period = 1.5F;
    r->type = (uint8_t)(s->wild ? sample_bits(s, 8) : sample_below(s, 11));
    r->name = sample_sidx(s);
    r->overflow = sample_bits(s, 64);
}

static inline void sample_gpu_zone(struct sample *s, void *rec)
{
    SAMPLE_REC(gpu_zone_begin);
    r->cpu_start = sample_time(s);
    r->gpu_start = sample_time(s);
    r->srcloc = sample_srcloc(s);
    r->callstack = sample_callstack(s);
    r->thread = (uint16_t)sample_index(s, SAMPLE_THREADS, 16);
    r->n = sample_count(s, REC_GPU_ZONE_BEGIN);
}

static inline void sample_plot(struct sample *s, void *rec)
{
    SAMPLE_REC(plot);
    r->type = (uint8_t)(s->wild ? sample_bits(s, 8) : sample_below(s, 2) * 3);
    r->format = (uint8_t)(s->wild ? sample_bits(s, 8) : sample_below(s, 4));
    r->show_steps = (uint8_t)sample_bits(s, 1);
    r->fill = (uint8_t)sample_bits(s, 1);
    r->color = (uint32_t)sample_bits(s, 32);
    r->name = sample_bits(s, 64);
    r->min = -1e300;
    r->max = 1e300;
    r->sum = 0.1;
    r->n = s->wild ? sample_bits(s, 64) : sample_below(s, 30);
    s->clock = 0;
}

static inline void sample_memory_event(struct sample *s, void *rec)
{
    SAMPLE_REC(memory_event);
    r->ptr = sample_bits(s, 64);
    r->size = sample_bits(s, 47);
    r->time_alloc = s->wild ? (int64_t)sample_bits(s, 47) : sample_time(s);
    bool freed = sample_below(s, 3) != 0;
    r->time_free = freed ? r->time_alloc + (int64_t)sample_below(s, 5000) : -1;
    if (r->time_free >= INT64_C(1) << 47)
        r->time_free = r->time_alloc;
    r->callstack_alloc = sample_callstack(s);
    r->callstack_free = sample_callstack(s);
    r->thread_alloc = (uint16_t)sample_index(s, SAMPLE_THREADS, 16);
    r->thread_free = (uint16_t)sample_index(s, SAMPLE_THREADS, 16);
}

static inline void sample_callstack_rec(struct sample *s, void *rec)
{
    SAMPLE_REC(callstack);
    r->len = (uint16_t)(s->wild ? sample_bits(s, 16) : 1 + sample_below(s, s->brief ? 4 : 60));
    r->frames = s->frames + sample_below(s, 1000);
}

static inline void sample_callstack_frame(struct sample *s, void *rec)
{
    SAMPLE_REC(callstack_frame);
    r->frame = sample_bits(s, 64);
    r->image = sample_sidx(s);
    r->n = (uint8_t)(s->wild ? sample_bits(s, 8) : 1 + sample_below(s, 5));
    r->inlines = s->inlines;
    for (unsigned i = 0; i < r->n; i++) {
        s->inlines[i].function = sample_sidx(s);
        s->inlines[i].file = sample_sidx(s);
        s->inlines[i].line = (uint32_t)sample_bits(s, 32);
        s->inlines[i].symbol = sample_bits(s, 64);
    }
}

static inline void sample_frame_image(struct sample *s, void *rec)
{
    SAMPLE_REC(frame_image);
    r->w = (uint16_t)(4 * (1 + sample_below(s, s->brief ? 1 : 60)));
    r->h = (uint16_t)(4 * (1 + sample_below(s, s->brief ? 1 : 60)));
    r->flip = (uint8_t)sample_bits(s, 1);
    r->bytes = sample_view(s, (size_t)r->w * r->h / 2);
}

static inline void sample_context_switch(struct sample *s, void *rec)
{
    SAMPLE_REC(context_switch);
    r->wakeup = sample_time(s);
    r->start = sample_time(s);
    r->end = sample_time(s);
    r->cpu = (uint8_t)sample_bits(s, 8);
    r->reason = (int8_t)sample_bits(s, 8);
    r->state = (int8_t)sample_bits(s, 8);
    r->thread = sample_bits(s, 64);
    r->wakeup_cpu = s->layout->wakeup_cpu ? (uint8_t)sample_bits(s, 8) : r->cpu;
}

static inline void sample_symbol(struct sample *s, void *rec)
{
    SAMPLE_REC(symbol);
    r->address = sample_bits(s, 64);
    r->name = sample_sidx(s);
    r->file = sample_sidx(s);
    r->line = (uint32_t)sample_bits(s, 32);
    r->image = sample_sidx(s);
    r->call_file = sample_sidx(s);
    r->call_line = (uint32_t)sample_bits(s, 32);
    r->is_inline = (uint8_t)sample_bits(s, 1);
    r->size = (uint32_t)sample_bits(s, 24);
}

/* The small ones. */
static inline void sample_simple(struct sample *s, enum record_type type, void *rec)
{
    switch (type) {
    case REC_PACKAGE:
    case REC_DIE:
    case REC_CORE: {
        SAMPLE_REC(topology_node);
        r->id = (uint32_t)sample_bits(s, 32);
        r->n = sample_count(s, type);
        break;
    }
    case REC_CPU:
        ((struct rec_topology_node *)rec)->id = (uint32_t)sample_bits(s, 32);
        break;
    case REC_CRASH: {
        SAMPLE_REC(crash);
        *r = (struct rec_crash){sample_bits(s, 64), (int64_t)sample_bits(s, 64), sample_bits(s, 64),
                                sample_callstack(s)};
        break;
    }
    case REC_FRAME_SET: {
        SAMPLE_REC(frame_set);
        r->name = sample_bits(s, 64);
        r->continuous = (uint8_t)sample_bits(s, 1);
        r->n = sample_count(s, type);
        break;
    }
    case REC_SECTION_LIST: {
        SAMPLE_REC(section_list);
        r->category =
            s->layout->sections == SECTIONS_BY_CATEGORY ? (uint16_t)sample_bits(s, 16) : 0;
        r->n = sample_count(s, type);
        break;
    }
    case REC_SECTION: {
        SAMPLE_REC(section);
        r->start = sample_time(s);
        r->end = sample_time(s);
        r->text = sample_sidx(s);
        break;
    }
    case REC_SECTION_CATEGORY: {
        SAMPLE_REC(section_category);
        r->category = (uint16_t)sample_bits(s, 16);
        r->description = sample_sidx(s);
        break;
    }
    case REC_STRING: {
        SAMPLE_REC(string);
        r->key = sample_bits(s, 64);
        r->text = sample_view(s, s->wild ? sample_bits(s, 16) : sample_below(s, 90));
        break;
    }
    case REC_EXTERNAL_NAME: {
        SAMPLE_REC(external_name);
        *r = (struct rec_external_name){sample_bits(s, 64), sample_bits(s, 64), sample_bits(s, 64)};
        break;
    }
    case REC_ZONE_STAT:
    case REC_GPU_ZONE_STAT: {
        SAMPLE_REC(zone_stat);
        r->srcloc = sample_srcloc(s);
        r->n = sample_bits(s, 64);
        break;
    }
    case REC_LOCK_EVENT: {
        SAMPLE_REC(lock_event);
        r->time = sample_time(s);
        r->srcloc = sample_srcloc(s);
        r->thread = (uint8_t)sample_index(s, s->lock_threads ? s->lock_threads : 1, 8);
        r->event = (uint8_t)sample_below(s, 6);
        break;
    }
    case REC_ZONE_EXTRA: {
        SAMPLE_REC(zone_extra);
        *r = (struct rec_zone_extra){sample_callstack(s), sample_sidx(s), sample_sidx(s),
                                     (uint32_t)sample_bits(s, 24)};
        break;
    }
    case REC_THREADS:
    case REC_GPU_CONTEXTS: {
        SAMPLE_REC(threads);
        *r = (struct rec_threads){sample_bits(s, 64), sample_bits(s, 64), sample_count(s, type)};
        break;
    }
    case REC_ZONE_BEGIN: {
        SAMPLE_REC(zone_begin);
        r->srcloc = sample_srcloc(s);
        r->start = sample_time(s);
        r->extra = (uint32_t)sample_index(s, SAMPLE_EXTRAS, 32);
        r->n = (uint32_t)sample_count(s, type);
        break;
    }
    case REC_ZONE_END:
        ((struct rec_zone_end *)rec)->end = sample_below(s, 9) ? sample_time(s) : -1;
        break;
    case REC_SWITCH_SAMPLE:
    case REC_SAMPLE: {
        SAMPLE_REC(sample);
        r->time = sample_time(s);
        r->callstack = sample_callstack(s);
        break;
    }
    case REC_GPU_NOTE_NAME: {
        SAMPLE_REC(gpu_note_name);
        r->id = (int64_t)sample_bits(s, 64);
        r->name = sample_sidx(s);
        break;
    }
    case REC_GPU_ZONE_END: {
        SAMPLE_REC(gpu_zone_end);
        r->cpu_end = sample_time(s);
        r->gpu_end = sample_time(s);
        r->query_id = s->layout->gpu_notes ? (uint16_t)sample_bits(s, 16) : 0;
        break;
    }
    case REC_GPU_NOTE_QUERY: {
        SAMPLE_REC(gpu_note_query);
        r->query_id = (uint16_t)sample_bits(s, 16);
        r->n = sample_count(s, type);
        break;
    }
    case REC_GPU_NOTE: {
        SAMPLE_REC(gpu_note);
        r->id = (int64_t)sample_bits(s, 64);
        r->value = 0.5 * (double)sample_bits(s, 50);
        break;
    }
    case REC_PLOT_POINT: {
        SAMPLE_REC(plot_point);
        r->time = sample_time(s);
        r->value = 0.125 * (double)sample_bits(s, 50);
        break;
    }
    case REC_POOLS: {
        SAMPLE_REC(pools);
        *r = (struct rec_pools){sample_count(s, type), sample_bits(s, 64)};
        break;
    }
    case REC_POOL: {
        SAMPLE_REC(pool);
        *r = (struct rec_pool){sample_bits(s, 64),
                               s->wild ? sample_bits(s, 64) : sample_below(s, 50),
                               sample_bits(s, 64), sample_bits(s, 64)};
        s->clock = 0;
        break;
    }
    case REC_POOL_END: {
        SAMPLE_REC(pool_end);
        *r = (struct rec_pool_end){sample_bits(s, 64), sample_bits(s, 64), sample_bits(s, 64),
                                   sample_bits(s, 64)};
        break;
    }
    case REC_APP_INFO:
        *(struct rec_string_ref *)rec = sample_ref(s);
        break;
    case REC_FRAME_IMAGE_DICT:
        ((struct rec_blob *)rec)->bytes = sample_view(s, sample_bits(s, 12));
        break;
    case REC_CPU_SWITCH: {
        SAMPLE_REC(cpu_switch);
        r->start = sample_time(s);
        r->end = sample_time(s);
        r->thread = (uint16_t)sample_index(s, SAMPLE_THREADS, 16);
        break;
    }
    case REC_CPU_THREAD: {
        SAMPLE_REC(cpu_thread);
        *r = (struct rec_cpu_thread){sample_bits(s, 64), (int64_t)sample_bits(s, 64),
                                     (uint32_t)sample_bits(s, 32), (uint32_t)sample_bits(s, 32)};
        break;
    }
    case REC_SYMBOLS: {
        SAMPLE_REC(symbols);
        *r = (struct rec_symbols){sample_bits(s, 64), sample_bits(s, 64), sample_count(s, type)};
        break;
    }
    case REC_SYMBOL_CODE: {
        SAMPLE_REC(symbol_code);
        r->address = sample_bits(s, 64);
        r->bytes = sample_view(s, sample_bits(s, 16));
        break;
    }
    case REC_HW_SAMPLE_TIME:
        ((struct rec_time *)rec)->time = sample_time(s);
        break;
    case REC_SOURCE_FILE: {
        SAMPLE_REC(source_file);
        r->path = sample_view(s, sample_bits(s, 8));
        r->bytes = sample_view(s, sample_bits(s, 16));
        break;
    }
    default:
        /* All other types are one or two plain numbers. */
        if (record_size(type) == sizeof(struct rec_count))
            ((struct rec_count *)rec)->n = sample_count(s, type);
        else
            *(struct rec_pair *)rec = (struct rec_pair){sample_bits(s, 64), sample_count(s, type)};
    }
}

static inline void sample_frame(struct sample *s, bool continuous, void *rec)
{
    SAMPLE_REC(frame);
    r->start = sample_time(s);
    r->end = continuous ? -1 : sample_time(s);
    r->image =
        s->wild ? (int32_t)sample_bits(s, 32) : (int32_t)sample_below(s, SAMPLE_IMAGES + 1) - 1;
}

/* Fills `rec`, whose bytes are all cleared first (so that two of them can be compared whole). */
static inline void sample_record(struct sample *s, enum record_type type, void *rec)
{
    memset(rec, 0, record_size(type));
    switch (type) {
    case REC_HEADER:
        sample_header(s, rec);
        break;
    case REC_SOURCE_LOCATION:
    case REC_SOURCE_LOCATION_PAYLOAD:
        sample_location(s, type, rec);
        break;
    case REC_LOCK:
        sample_lock(s, rec);
        break;
    case REC_MESSAGE:
        sample_message(s, rec);
        break;
    case REC_THREAD:
        sample_thread(s, rec);
        break;
    case REC_GPU_CONTEXT:
        sample_gpu_context(s, rec);
        break;
    case REC_GPU_ZONE_BEGIN:
        sample_gpu_zone(s, rec);
        break;
    case REC_PLOT:
        sample_plot(s, rec);
        break;
    case REC_MEMORY_EVENT:
        sample_memory_event(s, rec);
        break;
    case REC_CALLSTACK:
        sample_callstack_rec(s, rec);
        break;
    case REC_CALLSTACK_FRAME:
        sample_callstack_frame(s, rec);
        break;
    case REC_FRAME_IMAGE:
        sample_frame_image(s, rec);
        break;
    case REC_CONTEXT_SWITCH:
        sample_context_switch(s, rec);
        break;
    case REC_SYMBOL:
        sample_symbol(s, rec);
        break;
    case REC_LOCAL_THREAD:
    case REC_EXTERNAL_THREAD:
    case REC_LOCK_THREAD:
    case REC_THREAD_MESSAGE:
    case REC_SOURCE_LOCATION_EXPAND:
    case REC_HW_SAMPLE:
        ((struct rec_id *)rec)->id = sample_bits(s, 64);
        break;
    default:
        sample_simple(s, type, rec);
    }
}

/*
 * A whole trace of the sample's layout into `sink`, every list with something in it. Records come
 * one by one. Returns what the sink returned.
 */
static inline int sample_trace(struct sample *s, const struct record_sink *sink, struct err *e)
{
    struct grammar g = {0};
    union {
        uint64_t align;
        uint8_t bytes[256];
    } rec;
    bool continuous = false;
    int status = grammar_start(&g, s->layout, e);
    for (struct grammar_slot *slot; status == 0 && (slot = grammar_next(&g));) {
        enum record_type type = slot->type;
        slot->left--;
        s->depth = g.stack.len;
        if (type == REC_FRAME) {
            memset(&rec, 0, sizeof rec);
            sample_frame(s, continuous, &rec);
        } else {
            sample_record(s, type, &rec);
        }
        if (type == REC_FRAME_SET)
            continuous = ((struct rec_frame_set *)&rec)->continuous != 0;
        status = record_put(sink, type, &rec, 1, e);
        if (status == 0 && !grammar_is_leaf(type))
            status = grammar_enter(&g, type, &rec, e);
    }
    grammar_release(&g);
    return status;
}

#endif
