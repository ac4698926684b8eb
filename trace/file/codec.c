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
#define REFERENCE(KIND, MEANING, NAME) x_##KIND(x, d, &r->NAME);
#define FIELD_SINCE(HAS, KIND, NAME, OTHERWISE) X_SINCE(HAS, KIND, r->NAME, OTHERWISE);
#define PLAIN(NAME, FIELDS)                                                                        \
    RECORD_CODEC(x_rec_##NAME, NAME)                                                               \
    {                                                                                              \
        __attribute__((unused)) const struct file_layout *l = c->layout;                           \
        FIELDS                                                                                     \
    }
FIXED_RECORDS(PLAIN, FIELD, REFERENCE, FIELD_SINCE)
VARYING_RECORDS(PLAIN, FIELD, REFERENCE)

/* A count before a list whose time deltas start from 0. */
RECORD_CODEC(x_count_of_times, count)
{
    c->time = 0;
    x_rec_count(x, d, c, r);
}

RECORD_CODEC(x_rec_header, header)
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

RECORD_CODEC(x_rec_frame, frame)
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

RECORD_CODEC(x_rec_source_location, source_location)
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

RECORD_CODEC(x_rec_memory_event, memory_event)
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
RECORD_CODEC(x_rec_callstack, callstack)
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

RECORD_CODEC(x_rec_callstack_frame, callstack_frame)
{
    x_u64(x, d, &r->frame);
    x_u8(x, d, &r->n);
    x_u24(x, d, &r->image);
    if (is_read(d))
        r->inlines = c->scratch->inlines;
    for (unsigned i = 0; i < r->n; i++)
        x_inline_frame(x, d, (struct rec_inline_frame *)&r->inlines[i]);
}

RECORD_CODEC(x_rec_string_ref, string_ref)
{
    x_string_ref(x, d, r);
}

/* BC1 blocks take half a byte per pixel, at most 2.1 GiB. */
RECORD_CODEC(x_rec_frame_image, frame_image)
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
FIXED_RECORDS(FIXED_PLAIN, FIELD, REFERENCE, FIELD_SINCE)
VARYING_RECORDS(VARYING_PLAIN, FIELD, REFERENCE)
FIXED(x_count_of_times, count)
VARYING(x_rec_header, header)
FIXED(x_cpu, topology_node)
FIXED(x_frame_set, frame_set)
FIXED(x_rec_frame, frame)
FIXED(x_rec_source_location, source_location)
FIXED(x_location_payload, source_location)
FIXED(x_lock, lock)
FIXED(x_lock_events, count)
FIXED(x_thread, thread)
FIXED(x_gpu_thread, gpu_thread)
FIXED(x_plot, plot)
FIXED(x_pool, pool)
FIXED(x_rec_memory_event, memory_event)
VARYING(x_rec_callstack, callstack)
VARYING(x_rec_callstack_frame, callstack_frame)
FIXED(x_rec_string_ref, string_ref)
VARYING(x_rec_frame_image, frame_image)
FIXED(x_context_switch_thread, id_count)

/* The codec of a record's struct. */
static const struct record_codec *const plain[REC_TYPE_COUNT] = {
#define RECORD(NAME, STRUCT, TEXT) [REC_##NAME] = &x_rec_##STRUCT##_codec,
    RECORD_TYPES(RECORD)
#undef RECORD
};

/* Those of types that do more than their struct says. */
static const struct record_codec *const special[REC_TYPE_COUNT] = {
    [REC_CPU] = &x_cpu_codec,
    [REC_FRAME_SET] = &x_frame_set_codec,
    [REC_SOURCE_LOCATION_PAYLOAD] = &x_location_payload_codec,
    [REC_LOCK] = &x_lock_codec,
    [REC_LOCK_EVENTS] = &x_lock_events_codec,
    [REC_MESSAGES] = &x_count_of_times_codec,
    [REC_THREAD] = &x_thread_codec,
    [REC_SWITCH_SAMPLES] = &x_count_of_times_codec,
    [REC_SAMPLES] = &x_count_of_times_codec,
    [REC_GPU_THREAD] = &x_gpu_thread_codec,
    [REC_PLOT] = &x_plot_codec,
    [REC_POOL] = &x_pool_codec,
    [REC_CONTEXT_SWITCH_THREAD] = &x_context_switch_thread_codec,
    [REC_CPU_SWITCH_LIST] = &x_count_of_times_codec,
    [REC_HW_SAMPLE_LIST] = &x_count_of_times_codec,
};

static const struct record_codec *codec_of(enum record_type type)
{
    return special[type] ? special[type] : plain[type];
}

/* ---- interface */

int codec_init(struct codec *c, const struct file_layout *layout, struct err *e)
{
    *c = (struct codec){.layout = layout};
    c->scratch = malloc(sizeof *c->scratch);
    if (!c->scratch)
        return err_no_memory(e, "call stacks of a trace file");
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        c->scratch->sizes[i] = codec_of(i)->size ? (uint8_t)codec_of(i)->size(c) : 0;
    for (unsigned i = 0; i < 2; i++) {
        struct codec state = {.layout = layout, .continuous = i == 1};
        c->scratch->frame_sizes[i] = (uint8_t)x_rec_frame_size(&state);
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
    return codec_of(type)->read;
}

size_t codec_read_varying(struct codec *c, enum record_type type, const uint8_t *bytes, size_t len,
                          void *rec, uint64_t *need)
{
    return codec_of(type)->try(c, bytes, len, rec, need);
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
            codec_of(type)->write(c, to, p, part);
            out_stream_commit(out, to + part * size);
            if (type == REC_MEMORY_EVENT)
                out_stream_end_events(out);
        } else {
            codec_of(type)->put(c, p, out);
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
