#include "trace/file/codec.h"

#include <stdlib.h>
#include <string.h>

#include "trace/file/codec_field.h"

struct codec_scratch {
    uint8_t sizes[REC_TYPE_COUNT]; /* bytes per record; 0: they vary */
    uint8_t frame_sizes[2];        /* of frame sets with ends, and of continuous ones */
    uint64_t frames[UINT16_MAX + 1];
    struct rec_inline_frame inlines[UINT8_MAX + 1];
};

/* ---- records, in file order */

#define x_sidx x_u24
#define x_delta(x, d, time_field) x_difference(x, d, &c->time, time_field)
#define x_gpu(x, d, time_field) x_difference(x, d, &c->gpu_time, time_field)

/* A field that some layouts lack; reading sets it to OTHERWISE there. */
#define X_SINCE(HAS, KIND, FIELD, OTHERWISE)                                                       \
    do {                                                                                           \
        if (HAS)                                                                                   \
            x_##KIND(x, d, &(FIELD));                                                              \
        else if (is_read(d))                                                                       \
            (FIELD) = (OTHERWISE);                                                                 \
    } while (0)

#define RECORD_CODEC(NAME, STRUCT)                                                                 \
    ALWAYS_INLINE void NAME(struct xfer *x, enum dir d, __attribute__((unused)) struct codec *c,   \
                            struct rec_##STRUCT *r)

#define FIELD(KIND, NAME) x_##KIND(x, d, &r->NAME);
#define FIELD_SINCE(HAS, KIND, NAME, OTHERWISE) X_SINCE(HAS, KIND, r->NAME, OTHERWISE);
#define PLAIN(NAME, FIELDS)                                                                        \
    RECORD_CODEC(x_rec_##NAME, NAME)                                                               \
    {                                                                                              \
        __attribute__((unused)) const struct file_layout *l = c->layout;                           \
        FIELDS                                                                                     \
    }
FIXED_RECORDS(PLAIN, FIELD, FIELD_SINCE)
VARYING_RECORDS(PLAIN, FIELD, FIELD_SINCE)

/* A count before a list whose time deltas start from 0. */
RECORD_CODEC(x_count_of_times, count)
{
    c->time = 0;
    x_rec_count(x, d, c, r);
}

RECORD_CODEC(x_header, header)
{
    const struct file_layout *l = c->layout;
    if (is_read(d))
        r->version = l->version;
    X_SINCE(l->delay, i64, r->delay, 0);
    x_i64(x, d, &r->resolution);
    x_f64(x, d, &r->timer_mul);
    x_i64(x, d, &r->last_time);
    x_u64(x, d, &r->frame_offset);
    x_u64(x, d, &r->pid);
    x_i64(x, d, &r->sampling_period);
    x_u8(x, d, &r->cpu_arch);
    x_u32(x, d, &r->cpu_id);
    for (unsigned i = 0; i < sizeof r->cpu_manufacturer; i++)
        x_i8(x, d, (int8_t *)&r->cpu_manufacturer[i]);
    X_SINCE(l->on_demand, u8, r->on_demand, r->frame_offset != 0);
    x_text64(x, d, &r->capture_name);
    x_text64(x, d, &r->capture_program);
    x_u64(x, d, &r->capture_time);
    x_u64(x, d, &r->executable_time);
    x_text64(x, d, &r->host_info);
}

RECORD_CODEC(x_cpu, topology_node)
{
    x_u32(x, d, &r->id);
    if (is_read(d))
        r->n = 0;
}

RECORD_CODEC(x_frame_set, frame_set)
{
    x_rec_frame_set(x, d, c, r);
    c->time = 0;
    c->continuous = r->continuous != 0;
}

RECORD_CODEC(x_frame, frame)
{
    x_delta(x, d, &r->start);
    if (!c->continuous)
        x_delta(x, d, &r->end);
    else if (is_read(d))
        r->end = -1;
    x_i32(x, d, &r->image);
}

RECORD_CODEC(x_location_payload, source_location)
{
    x_string_ref(x, d, &r->name);
    x_string_ref(x, d, &r->function);
    x_string_ref(x, d, &r->file);
    x_u32(x, d, &r->line);
    x_u32(x, d, &r->color);
    if (is_read(d))
        r->pointer = 0;
}

RECORD_CODEC(x_location, source_location)
{
    uint64_t pointer = r->pointer;
    x_u64(x, d, &pointer);
    x_location_payload(x, d, c, r);
    if (is_read(d))
        r->pointer = pointer;
}

RECORD_CODEC(x_lock, lock)
{
    x_rec_lock(x, d, c, r);
    c->lock_time = (uint64_t)r->time_announce;
}

RECORD_CODEC(x_lock_events, count)
{
    c->time = c->lock_time;
    x_rec_count(x, d, c, r);
}

RECORD_CODEC(x_thread, thread)
{
    x_rec_thread(x, d, c, r);
    c->time = 0;
}

RECORD_CODEC(x_gpu_thread, gpu_thread)
{
    x_rec_gpu_thread(x, d, c, r);
    c->time = 0;
    c->gpu_time = 0;
}

RECORD_CODEC(x_plot, plot)
{
    x_rec_plot(x, d, c, r);
    c->time = 0;
}

RECORD_CODEC(x_pool, pool)
{
    x_rec_pool(x, d, c, r);
    c->time = 0;
}

/*
 * The time of a free in the file. Official servers write a free before time 0 as it is, not
 * relative to the allocation.
 */
static inline int64_t free_time_in_file(int64_t alloc, int64_t after)
{
    if (after >= 0)
        return time_of_free((int64_t)((uint64_t)alloc + (uint64_t)after));
    return after >= alloc ? after : NEVER_FREED;
}

/*
 * The free time of an allocation is relative to the allocation's time; -1 while it is active. A
 * free before the allocation is moved to the allocation's time.
 */
ALWAYS_INLINE void x_free_time(struct xfer *x, enum dir d, struct rec_memory_event *r)
{
    int64_t after = -1;
    if (d == WRITE && is_freed(r->time_free))
        after = r->time_free > r->time_alloc ? r->time_free - r->time_alloc : 0;
    x_i64(x, d, &after);
    if (is_read(d)) {
        r->time_free = free_time_in_file(r->time_alloc, after);
        check_time(x, (uint64_t)r->time_free);
    }
}

RECORD_CODEC(x_memory_event, memory_event)
{
    x_u64(x, d, &r->ptr);
    x_u64(x, d, &r->size);
    x_u24(x, d, &r->callstack_alloc);
    x_u24(x, d, &r->callstack_free);
    x_delta(x, d, &r->time_alloc);
    x_free_time(x, d, r);
    x_u16(x, d, &r->thread_alloc);
    x_u16(x, d, &r->thread_free);
}

/* Frame ids in the file are unaligned: reading copies them. */
RECORD_CODEC(x_callstack, callstack)
{
    x_u16(x, d, &r->len);
    struct view bytes = {(const char *)r->frames, (size_t)r->len * sizeof *r->frames};
    x_bytes(x, d, (uint64_t)r->len * sizeof *r->frames, &bytes);
    if (is_read(d) && bytes.p) {
        memcpy(c->scratch->frames, bytes.p, bytes.len);
        r->frames = c->scratch->frames;
    }
}

ALWAYS_INLINE void x_inline_frame(struct xfer *x, enum dir d, struct rec_inline_frame *f)
{
    x_u24(x, d, &f->function);
    x_u24(x, d, &f->file);
    x_u32(x, d, &f->line);
    x_u64(x, d, &f->symbol);
}

RECORD_CODEC(x_callstack_frame, callstack_frame)
{
    x_u64(x, d, &r->frame);
    x_u8(x, d, &r->n);
    x_u24(x, d, &r->image);
    if (is_read(d))
        r->inlines = c->scratch->inlines;
    for (unsigned i = 0; i < r->n; i++)
        x_inline_frame(x, d, (struct rec_inline_frame *)&r->inlines[i]);
}

RECORD_CODEC(x_app_info, string_ref)
{
    x_string_ref(x, d, r);
}

/* BC1 blocks take half a byte per pixel, at most 2.1 GiB. */
RECORD_CODEC(x_frame_image, frame_image)
{
    x_u16(x, d, &r->w);
    x_u16(x, d, &r->h);
    x_u8(x, d, &r->flip);
    uint64_t len = (uint64_t)r->w * r->h / 2;
    if (d == WRITE)
        x->out_of_range |= len != r->bytes.len;
    x_bytes(x, d, len, &r->bytes);
}

RECORD_CODEC(x_context_switch_thread, id_count)
{
    x_rec_id_count(x, d, c, r);
    c->time = 0;
}

/* ---- instances */

struct record_codec {
    size_t (*size)(const struct codec *c); /* fixed size */
    codec_read_fn *read;
    void (*write)(struct codec *c, uint8_t *bytes, const void *recs, size_t n);
    size_t (*try)(struct codec *c, const uint8_t *bytes, size_t len, void *rec, uint64_t *need);
    void (*put)(struct codec *c, const void *rec, struct out_stream *out); /* varying size */
};

/* Works on a copy of the state, so that it can stay in registers over a whole batch. */
#define FIXED(FN, STRUCT)                                                                          \
    static size_t FN##_size(const struct codec *c)                                                 \
    {                                                                                              \
        struct codec state = *c;                                                                   \
        struct rec_##STRUCT r = {0};                                                               \
        struct xfer x = {0};                                                                       \
        FN(&x, SIZE, &state, &r);                                                                  \
        return x.size;                                                                             \
    }                                                                                              \
    static void FN##_read(struct codec *c, const uint8_t *bytes, void *recs, size_t n)             \
    {                                                                                              \
        struct codec state = *c;                                                                   \
        struct rec_##STRUCT *r = recs;                                                             \
        struct xfer x = {.p = (uint8_t *)bytes};                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            FN(&x, READ, &state, &r[i]);                                                           \
        state.out_of_range |= x.out_of_range;                                                      \
        *c = state;                                                                                \
    }                                                                                              \
    static void FN##_write(struct codec *c, uint8_t *bytes, const void *recs, size_t n)            \
    {                                                                                              \
        struct codec state = *c;                                                                   \
        struct rec_##STRUCT *r = (struct rec_##STRUCT *)recs;                                      \
        struct xfer x = {.p = bytes};                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            FN(&x, WRITE, &state, &r[i]);                                                          \
        state.out_of_range |= x.out_of_range;                                                      \
        *c = state;                                                                                \
    }                                                                                              \
    static const struct record_codec FN##_codec                                                    \
        __attribute__((unused)) = {.size = FN##_size, .read = FN##_read, .write = FN##_write};

#define VARYING(FN, STRUCT)                                                                        \
    static size_t FN##_try(struct codec *c, const uint8_t *bytes, size_t len, void *rec,           \
                           uint64_t *need)                                                         \
    {                                                                                              \
        struct xfer x = {.p = (uint8_t *)bytes, .end = bytes + len};                               \
        FN(&x, TRY, c, rec);                                                                       \
        if (x.lacking) {                                                                           \
            *need = x.lacking > UINT64_MAX - len ? UINT64_MAX : x.lacking + len;                   \
            return 0;                                                                              \
        }                                                                                          \
        return (size_t)(x.p - bytes);                                                              \
    }                                                                                              \
    static void FN##_put(struct codec *c, const void *rec, struct out_stream *out)                 \
    {                                                                                              \
        struct xfer x = {.out = out, .p = out_stream_reserve(out, VARYING_ROOM)};                  \
        FN(&x, WRITE, c, (struct rec_##STRUCT *)rec);                                              \
        c->out_of_range |= x.out_of_range;                                                         \
        out_stream_commit(out, x.p);                                                               \
    }                                                                                              \
    static const struct record_codec FN##_codec = {.try = FN##_try, .put = FN##_put};

#define FIXED_PLAIN(NAME, FIELDS) FIXED(x_rec_##NAME, NAME)
#define VARYING_PLAIN(NAME, FIELDS) VARYING(x_rec_##NAME, NAME)
FIXED_RECORDS(FIXED_PLAIN, FIELD, FIELD_SINCE)
VARYING_RECORDS(VARYING_PLAIN, FIELD, FIELD_SINCE)
FIXED(x_count_of_times, count)
VARYING(x_header, header)
FIXED(x_cpu, topology_node)
FIXED(x_frame_set, frame_set)
FIXED(x_frame, frame)
FIXED(x_location, source_location)
FIXED(x_location_payload, source_location)
FIXED(x_lock, lock)
FIXED(x_lock_events, count)
FIXED(x_thread, thread)
FIXED(x_gpu_thread, gpu_thread)
FIXED(x_plot, plot)
FIXED(x_pool, pool)
FIXED(x_memory_event, memory_event)
VARYING(x_callstack, callstack)
VARYING(x_callstack_frame, callstack_frame)
FIXED(x_app_info, string_ref)
VARYING(x_frame_image, frame_image)
FIXED(x_context_switch_thread, id_count)

/* clang-format off */
#define USES(TYPE, FN) [REC_##TYPE] = &(FN##_codec) /* NOLINT(bugprone-macro-parentheses) */
static const struct record_codec *const codecs[REC_TYPE_COUNT] = {
    USES(HEADER, x_header), USES(PACKAGES, x_rec_count), USES(PACKAGE, x_rec_topology_node),
    USES(DIE, x_rec_topology_node), USES(CORE, x_rec_topology_node), USES(CPU, x_cpu),
    USES(CRASH, x_rec_crash), USES(FRAME_SETS, x_rec_count), USES(FRAME_SET, x_frame_set),
    USES(FRAME, x_frame), USES(SECTION_LISTS, x_rec_count), USES(SECTION_LIST, x_rec_section_list),
    USES(SECTION, x_rec_section), USES(SECTION_CATEGORIES, x_rec_count),
    USES(SECTION_CATEGORY, x_rec_section_category), USES(STRINGS, x_rec_count), USES(STRING, x_rec_string),
    USES(STRING_POINTERS, x_rec_count), USES(STRING_POINTER, x_rec_pair), USES(THREAD_NAMES, x_rec_count),
    USES(THREAD_NAME, x_rec_pair), USES(EXTERNAL_NAMES, x_rec_count),
    USES(EXTERNAL_NAME, x_rec_external_name), USES(LOCAL_THREADS, x_rec_count), USES(LOCAL_THREAD, x_rec_id),
    USES(EXTERNAL_THREADS, x_rec_count), USES(EXTERNAL_THREAD, x_rec_id), USES(SOURCE_LOCATIONS, x_rec_count),
    USES(SOURCE_LOCATION, x_location), USES(SOURCE_LOCATION_EXPANDS, x_rec_count),
    USES(SOURCE_LOCATION_EXPAND, x_rec_id), USES(SOURCE_LOCATION_PAYLOADS, x_rec_count),
    USES(SOURCE_LOCATION_PAYLOAD, x_location_payload), USES(ZONE_STATS, x_rec_count),
    USES(ZONE_STAT, x_rec_zone_stat), USES(GPU_ZONE_STATS, x_rec_count), USES(GPU_ZONE_STAT, x_rec_zone_stat),
    USES(LOCKS, x_rec_count), USES(LOCK, x_lock), USES(LOCK_THREAD, x_rec_id),
    USES(LOCK_EVENTS, x_lock_events), USES(LOCK_EVENT, x_rec_lock_event),
    USES(MESSAGES, x_count_of_times), USES(MESSAGE, x_rec_message), USES(ZONE_EXTRAS, x_rec_count),
    USES(ZONE_EXTRA, x_rec_zone_extra), USES(THREADS, x_rec_threads), USES(THREAD, x_thread),
    USES(ZONE_BEGIN, x_rec_zone_begin), USES(ZONE_END, x_rec_zone_end), USES(THREAD_MESSAGES, x_rec_count),
    USES(THREAD_MESSAGE, x_rec_id), USES(SWITCH_SAMPLES, x_count_of_times),
    USES(SWITCH_SAMPLE, x_rec_sample), USES(SAMPLES, x_count_of_times), USES(SAMPLE, x_rec_sample),
    USES(GPU_CONTEXTS, x_rec_threads), USES(GPU_CONTEXT, x_rec_gpu_context),
    USES(GPU_NOTE_NAMES, x_rec_count), USES(GPU_NOTE_NAME, x_rec_gpu_note_name),
    USES(GPU_THREADS, x_rec_count), USES(GPU_THREAD, x_gpu_thread),
    USES(GPU_ZONE_BEGIN, x_rec_gpu_zone_begin), USES(GPU_ZONE_END, x_rec_gpu_zone_end),
    USES(GPU_NOTE_QUERIES, x_rec_count), USES(GPU_NOTE_QUERY, x_rec_gpu_note_query),
    USES(GPU_NOTE, x_rec_gpu_note), USES(PLOTS, x_rec_count), USES(PLOT, x_plot),
    USES(PLOT_POINT, x_rec_plot_point), USES(POOLS, x_rec_pools), USES(POOL, x_pool),
    USES(MEMORY_EVENT, x_memory_event), USES(POOL_END, x_rec_pool_end), USES(CALLSTACKS, x_rec_count),
    USES(CALLSTACK, x_callstack), USES(CALLSTACK_FRAMES, x_rec_count),
    USES(CALLSTACK_FRAME, x_callstack_frame), USES(APP_INFOS, x_rec_count),
    USES(APP_INFO, x_app_info), USES(FRAME_IMAGE_DICT, x_rec_blob), USES(FRAME_IMAGES, x_rec_count),
    USES(FRAME_IMAGE, x_frame_image), USES(CONTEXT_SWITCH_THREADS, x_rec_count),
    USES(CONTEXT_SWITCH_THREAD, x_context_switch_thread), USES(CONTEXT_SWITCH, x_rec_context_switch),
    USES(CPU_SWITCH_LISTS, x_rec_count), USES(CPU_SWITCH_LIST, x_count_of_times),
    USES(CPU_SWITCH, x_rec_cpu_switch), USES(TID_TO_PIDS, x_rec_count), USES(TID_TO_PID, x_rec_pair),
    USES(CPU_THREADS, x_rec_count), USES(CPU_THREAD, x_rec_cpu_thread), USES(SYMBOLS, x_rec_symbols),
    USES(SYMBOL, x_rec_symbol), USES(SYMBOL_CODES, x_rec_count), USES(SYMBOL_CODE, x_rec_symbol_code),
    USES(CODE_SYMBOLS, x_rec_count), USES(CODE_SYMBOL, x_rec_pair), USES(HW_SAMPLES, x_rec_count),
    USES(HW_SAMPLE, x_rec_id), USES(HW_SAMPLE_LIST, x_count_of_times),
    USES(HW_SAMPLE_TIME, x_rec_time), USES(SOURCE_FILES, x_rec_count),
    USES(SOURCE_FILE, x_rec_source_file),
};
#undef USES
/* clang-format on */

/* ---- interface */

int codec_init(struct codec *c, const struct file_layout *layout, struct err *e)
{
    *c = (struct codec){.layout = layout};
    c->scratch = malloc(sizeof *c->scratch);
    if (!c->scratch)
        return err_no_memory(e, "call stacks of a trace file");
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        c->scratch->sizes[i] = codecs[i]->size ? (uint8_t)codecs[i]->size(c) : 0;
    for (unsigned i = 0; i < 2; i++) {
        struct codec state = {.layout = layout, .continuous = i == 1};
        c->scratch->frame_sizes[i] = (uint8_t)x_frame_size(&state);
    }
    return 0;
}

void codec_release(struct codec *c)
{
    free(c->scratch);
    c->scratch = NULL;
}

size_t codec_size(const struct codec *c, enum record_type type)
{
    return type == REC_FRAME ? c->scratch->frame_sizes[c->continuous] : c->scratch->sizes[type];
}

codec_read_fn *codec_reader(enum record_type type)
{
    return codecs[type]->read;
}

size_t codec_read_varying(struct codec *c, enum record_type type, const uint8_t *bytes, size_t len,
                          void *rec, uint64_t *need)
{
    return codecs[type]->try(c, bytes, len, rec, need);
}

void codec_write(struct codec *c, enum record_type type, const void *recs, size_t n,
                 struct out_stream *out)
{
    const uint8_t *p = recs;
    size_t stride = record_size(type);
    size_t size = codec_size(c, type);
    if (type == REC_MEMORY_EVENT)
        out_stream_begin_events(out);
    while (n > 0) {
        size_t part = size ? OUT_STREAM_ROOM / size : 1;
        part = part < n ? part : n;
        if (size) {
            uint8_t *to = out_stream_reserve(out, part * size);
            codecs[type]->write(c, to, p, part);
            out_stream_commit(out, to + part * size);
            if (type == REC_MEMORY_EVENT)
                out_stream_end_events(out);
        } else {
            codecs[type]->put(c, p, out);
        }
        p += part * stride;
        n -= part;
    }
}

static const uint8_t inner_magic[5] = {'t', 'r', 'a', 'c', 'y'};

void codec_write_magic(uint32_t version, uint8_t out[INNER_MAGIC_SIZE])
{
    memcpy(out, inner_magic, sizeof inner_magic);
    out[5] = (uint8_t)(version >> 16);
    out[6] = (uint8_t)(version >> 8);
    out[7] = (uint8_t)version;
}

int codec_read_magic(const uint8_t in[INNER_MAGIC_SIZE], uint32_t *version)
{
    if (memcmp(in, inner_magic, sizeof inner_magic) != 0)
        return -1;
    *version = FILE_VERSION(in[5], in[6], in[7]);
    return 0;
}
