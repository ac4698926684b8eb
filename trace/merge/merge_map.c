/* Translates single records of an input to the output: other numbers, other names, later times. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/merge/merge_internal.h"

typedef int map_fn(struct merge_input *in, void *rec, struct err *e);

/* The value of an open end. */
#define NOT_ENDED (-1)

static int bad_time(const struct merge_input *in, int64_t time, struct err *e)
{
    return err_set(e, ERR_INPUT,
                   "%s: a time of %" PRId64 " ns, and %" PRId64
                   " ns later than that, does not fit the 48 bits of the format",
                   in->name, time, in->shift);
}

/* Times that are not shifted stay unchanged, even if a file has implausible ones. */
static inline int later(const struct merge_input *in, int64_t *time, struct err *e)
{
    if (in->shift == 0)
        return 0;
    if (*time > MERGE_TIME_MAX - in->shift || *time < MERGE_TIME_MIN)
        return bad_time(in, *time, e);
    *time += in->shift;
    return 0;
}

static inline int later_end(const struct merge_input *in, int64_t *time, struct err *e)
{
    bool ended = *time != NOT_ENDED;
    if (ended && later(in, time, e) != 0)
        return -1;
    *time += ended && *time == NOT_ENDED; /* the shifted time must not read as open */
    return 0;
}

static inline uint32_t callstack(const struct merge_input *in, uint32_t number)
{
    return number == 0 ? 0 : number + (uint32_t)in->callstack_base;
}

static inline uint32_t extra(const struct merge_input *in, uint32_t number)
{
    return number == 0 ? 0 : number + (uint32_t)in->extra_base;
}

static inline int16_t srcloc(const struct merge_input *in, int16_t number)
{
    if (number > 0 && (size_t)number < in->expand_map.len)
        return in->expand_map.at[number];
    size_t place = (size_t) - (int64_t)number;
    if (number < 0 && place <= in->payload_map.len)
        return in->payload_map.at[place - 1];
    return number;
}

static inline uint64_t address(const struct merge_input *in, uint64_t a)
{
    return a ^ in->address_tag;
}

/* Symbols are identified by address; 0 is none. */
static inline uint64_t symbol(const struct merge_input *in, uint64_t a)
{
    return a == 0 ? 0 : address(in, a);
}

/* The next thing of its kind. It is an error if the input changed since the scan. */
static const struct merge_named *next_named(struct merge_input *in, enum merge_kind kind,
                                            struct err *e)
{
    const merge_named_list *list = &in->named[kind];
    if (in->next[kind] < list->len)
        return &list->at[in->next[kind]++];
    err_set(e, ERR_INPUT, "%s changed while it was read", in->name);
    return NULL;
}

static const struct merge_named *find_category(const struct merge_input *in, uint64_t category,
                                               struct err *e)
{
    const uint64_t *place = map_find(&in->categories, category);
    if (place)
        return &in->named[KIND_CATEGORY].at[*place - 1];
    err_set(e, ERR_INPUT, "%s changed while it was read", in->name);
    return NULL;
}

/* Room for the data that a record refers to. */
static void *items(struct merge_input *in, size_t size, struct err *e)
{
    struct merge *m = in->m;
    if (size > m->scratch_items_size) {
        void *grown = realloc(m->scratch_items, size);
        if (!grown) {
            err_no_memory(e, "a record");
            return NULL;
        }
        m->scratch_items = grown;
        m->scratch_items_size = size;
    }
    return m->scratch_items;
}

#define MAP(NAME, STRUCT)                                                                          \
    static int NAME##_one(struct merge_input *in, struct rec_##STRUCT *r, struct err *e);          \
    static int NAME(struct merge_input *in, void *rec, struct err *e)                              \
    {                                                                                              \
        return NAME##_one(in, rec, e);                                                             \
    }                                                                                              \
    static int NAME##_one(struct merge_input *in, struct rec_##STRUCT *r, struct err *e)

/* ---- records whose fields say what they mean: map_rec_STRUCT */

#define MAP_string(v) (*(v) = merge_sidx(in, *(v)), 0)
#define MAP_late_string(v) MAP_string(v)
#define MAP_stack(v) (*(v) = callstack(in, *(v)), 0)
#define MAP_text(v) merge_ref(in, v, e)
#define MAP_srcloc(v) (*(v) = srcloc(in, *(v)), 0)
#define MAP_extra(v) (*(v) = extra(in, *(v)), 0)
#define MAP_thread(v) merge_thread(in, v, e)
#define MAP_lock_thread(v) 0
#define MAP_local_thread(v) (*(v) = in->local_map.at[*(v)], 0)
#define MAP_external_thread(v) (*(v) = in->external_map.at[*(v)], 0)
#define MAP_address(v) (*(v) = address(in, *(v)), 0)
#define MAP_time(v) later(in, v, e)
#define MAP_end(v) later_end(in, v, e)
#define MAP_message(v) (*(v) ^= in->key_tag, 0)
#define NOTHING(KIND, NAME)
#define NOTHING_SINCE(HAS, KIND, NAME, OTHERWISE)
#define REFERENCE(KIND, MEANING, NAME)                                                             \
    if (MAP_##MEANING(&r->NAME) != 0)                                                              \
        return -1;
#define MAP_REFERENCES(NAME, FIELDS)                                                               \
    static map_fn map_rec_##NAME __attribute__((unused));                                          \
    MAP(map_rec_##NAME, NAME)                                                                      \
    {                                                                                              \
        (void)in;                                                                                  \
        (void)r;                                                                                   \
        (void)e;                                                                                   \
        FIELDS /* NOLINT(bugprone-macro-parentheses): statements */                                \
            return 0;                                                                              \
    }
FIXED_RECORDS(MAP_REFERENCES, NOTHING, REFERENCE, NOTHING_SINCE)
VARYING_RECORDS(MAP_REFERENCES, NOTHING, REFERENCE)

/* ---- frames and sections */

MAP(map_frame_set, frame_set)
{
    const struct merge_named *named = next_named(in, KIND_FRAME_SET, e);
    if (!named)
        return -1;
    r->name = named->new_key;
    return 0;
}

MAP(map_frame, frame)
{
    r->image = merge_frame_image(in, r->image);
    return later(in, &r->start, e) != 0 ? -1 : later_end(in, &r->end, e);
}

MAP(map_section_list, section_list)
{
    const struct merge_named *named = find_category(in, r->category, e);
    if (!named)
        return -1;
    r->category = (uint16_t)named->new_key;
    return 0;
}

MAP(map_section, section)
{
    r->text = merge_sidx(in, r->text);
    if (r->end >= 0 && later(in, &r->end, e) != 0)
        return -1;
    return later(in, &r->start, e);
}

MAP(map_section_category, section_category)
{
    const struct merge_named *named = find_category(in, r->category, e);
    if (!named)
        return -1;
    r->category = (uint16_t)named->new_key;
    r->description = named->new_name;
    return 0;
}

/* ---- locks and messages */

/* A lock that ended at 0 has no known end. */
MAP(map_lock, lock)
{
    const struct merge_named *named = next_named(in, KIND_LOCK, e);
    if (!named)
        return -1;
    r->id = (uint32_t)named->new_key;
    r->custom_name = named->new_name;
    r->srcloc = srcloc(in, r->srcloc);
    if (r->time_terminate != 0 && later(in, &r->time_terminate, e) != 0)
        return -1;
    return later(in, &r->time_announce, e);
}

MAP(map_thread_id, id)
{
    return merge_thread(in, &r->id, e);
}

MAP(map_thread_message, id)
{
    (void)e;
    r->id ^= in->key_tag;
    return 0;
}

/* ---- zones */

MAP(map_thread, thread)
{
    in->m->outcome->threads++;
    return merge_thread(in, &r->id, e);
}

/* ---- GPU */

MAP(map_gpu_context, gpu_context)
{
    const struct merge_named *named = next_named(in, KIND_CONTEXT, e);
    if (!named)
        return -1;
    r->name = named->new_name;
    return merge_thread(in, &r->thread, e);
}

/* ---- plots and memory */

MAP(map_plot, plot)
{
    const struct merge_named *named = next_named(in, KIND_PLOT, e);
    if (!named)
        return -1;
    r->name = named->new_key;
    return 0;
}

MAP(map_pool, pool)
{
    in->pool = next_named(in, KIND_POOL, e);
    if (!in->pool)
        return -1;
    r->key = in->pool->new_key;
    return 0;
}

MAP(map_memory_event, memory_event)
{
    r->callstack_alloc = callstack(in, r->callstack_alloc);
    r->callstack_free = callstack(in, r->callstack_free);
    r->thread_alloc = in->local_map.at[r->thread_alloc];
    r->thread_free = in->local_map.at[r->thread_free];
    return later(in, &r->time_alloc, e) != 0 ? -1 : later_end(in, &r->time_free, e);
}

MAP(map_pool_end, pool_end)
{
    (void)e;
    r->name = in->pool->new_key;
    return 0;
}

/* ---- call stacks */

MAP(map_callstack, callstack)
{
    uint64_t *frames = items(in, r->len * sizeof *frames, e);
    if (!frames)
        return -1;
    for (unsigned i = 0; i < r->len; i++)
        frames[i] = address(in, r->frames[i]);
    r->frames = frames;
    return 0;
}

MAP(map_callstack_frame, callstack_frame)
{
    struct rec_inline_frame *inlines = items(in, r->n * sizeof *inlines, e);
    if (!inlines)
        return -1;
    for (unsigned i = 0; i < r->n; i++) {
        inlines[i] = r->inlines[i];
        inlines[i].function = merge_sidx(in, inlines[i].function);
        inlines[i].file = merge_sidx(in, inlines[i].file);
        inlines[i].symbol = symbol(in, inlines[i].symbol);
    }
    r->inlines = inlines;
    r->frame = address(in, r->frame);
    r->image = merge_sidx(in, r->image);
    return 0;
}

/* ---- the scheduler */

/* A process has the number of its first thread. */
MAP(map_tid_to_pid, pair)
{
    return merge_thread(in, &r->key, e) != 0 ? -1 : merge_thread(in, &r->value, e);
}

/* ---- symbols and code */

MAP(map_code_symbol, pair)
{
    (void)e;
    r->key = address(in, r->key);
    r->value = symbol(in, r->value);
    return 0;
}

MAP(map_hw_sample, id)
{
    (void)e;
    r->id = address(in, r->id);
    return 0;
}

/* A file that the output already has was given no path. */
MAP(map_source_file, source_file)
{
    if (in->next_file == in->files.len)
        return err_set(e, ERR_INPUT, "%s changed while it was read", in->name);
    uint32_t path = in->files.at[in->next_file++].new_path;
    r->path = path ? strings_get(&in->m->aside, path) : (struct view){NULL, 0};
    return 0;
}

static map_fn *const maps[REC_TYPE_COUNT] = {
    [REC_FRAME_SET] = map_frame_set,
    [REC_FRAME] = map_frame,
    [REC_SECTION_LIST] = map_section_list,
    [REC_SECTION] = map_section,
    [REC_SECTION_CATEGORY] = map_section_category,
    [REC_LOCK] = map_lock,
    [REC_LOCK_THREAD] = map_thread_id,
    [REC_LOCK_EVENT] = map_rec_lock_event,
    [REC_MESSAGE] = map_rec_message,
    [REC_ZONE_EXTRA] = map_rec_zone_extra,
    [REC_THREAD] = map_thread,
    [REC_ZONE_BEGIN] = map_rec_zone_begin,
    [REC_ZONE_END] = map_rec_zone_end,
    [REC_THREAD_MESSAGE] = map_thread_message,
    [REC_SWITCH_SAMPLE] = map_rec_sample,
    [REC_SAMPLE] = map_rec_sample,
    [REC_GPU_CONTEXT] = map_gpu_context,
    [REC_GPU_NOTE_NAME] = map_rec_gpu_note_name,
    [REC_GPU_THREAD] = map_rec_gpu_thread,
    [REC_GPU_ZONE_BEGIN] = map_rec_gpu_zone_begin,
    [REC_GPU_ZONE_END] = map_rec_gpu_zone_end,
    [REC_PLOT] = map_plot,
    [REC_PLOT_POINT] = map_rec_plot_point,
    [REC_POOL] = map_pool,
    [REC_MEMORY_EVENT] = map_memory_event,
    [REC_POOL_END] = map_pool_end,
    [REC_CALLSTACK] = map_callstack,
    [REC_CALLSTACK_FRAME] = map_callstack_frame,
    [REC_CONTEXT_SWITCH_THREAD] = map_rec_id_count,
    [REC_CONTEXT_SWITCH] = map_rec_context_switch,
    [REC_CPU_SWITCH] = map_rec_cpu_switch,
    [REC_TID_TO_PID] = map_tid_to_pid,
    [REC_CPU_THREAD] = map_rec_cpu_thread,
    [REC_SYMBOL] = map_rec_symbol,
    [REC_SYMBOL_CODE] = map_rec_symbol_code,
    [REC_CODE_SYMBOL] = map_code_symbol,
    [REC_HW_SAMPLE] = map_hw_sample,
    [REC_HW_SAMPLE_TIME] = map_rec_time,
    [REC_SOURCE_FILE] = map_source_file,
};

static void *copy(struct merge *m, const void *recs, size_t size, struct err *e)
{
    if (size > m->scratch_size) {
        void *grown = realloc(m->scratch, size);
        if (!grown) {
            err_no_memory(e, "a batch of records");
            return NULL;
        }
        m->scratch = grown;
        m->scratch_size = size;
    }
    memcpy(m->scratch, recs, size);
    return m->scratch;
}

/* ---- lists sorted by time */

static int keep_messages(struct merge *m, const struct rec_message *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct merge_timed_message timed = {.time = r[i].time, .message = r[i]};
        if (spill_add(&m->messages, &timed, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int keep_stats(struct merge_input *in, const struct rec_zone_stat *r, size_t n,
                      struct err *e)
{
    struct merge *m = in->m;
    for (size_t i = 0; i < n; i++) {
        struct rec_zone_stat stat = {srcloc(in, r[i].srcloc), r[i].n};
        uint64_t *place = map_add(&m->stats_at, (uint16_t)stat.srcloc, NULL);
        if (!place)
            return err_no_memory(e, "zone statistics");
        if (*place > 0) {
            m->stats.at[*place - 1].n += stat.n;
            continue;
        }
        if (!pageable_push(&m->pageable, &m->stats, stat))
            return err_no_memory(e, "zone statistics");
        *place = m->stats.len;
    }
    return 0;
}

/* The first zone extra of every input means "none"; the output needs it once. */
static size_t skip_first_extra(struct merge_input *in, size_t n)
{
    bool skip = in->extras_seen == 0 && in->index > 0;
    in->extras_seen += n;
    return skip && n > 0;
}

int merge_put_records(struct merge_input *in, enum record_type type, const void *recs, size_t n,
                      struct err *e)
{
    struct merge *m = in->m;
    size_t size = record_size(type);
    if (in->drop)
        return 0;
    if (type == REC_ZONE_STAT || type == REC_GPU_ZONE_STAT)
        return keep_stats(in, recs, n, e);
    if (type == REC_ZONE_EXTRA) {
        size_t skipped = skip_first_extra(in, n);
        recs = (const char *)recs + skipped * size;
        n -= skipped;
    }
    map_fn *map = maps[type];
    if (!map || n == 0)
        return n > 0 ? record_put(&m->out, type, recs, n, e) : 0;
    char *out = copy(m, recs, n * size, e);
    if (!out)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (map(in, out + i * size, e) != 0)
            return -1;
    }
    bool no_pool = in->pool && in->pool->dropped;
    if ((type == REC_POOL || type == REC_MEMORY_EVENT || type == REC_POOL_END) && no_pool)
        return 0;
    if (type == REC_SOURCE_FILE && !((const struct rec_source_file *)(void *)out)->path.p)
        return 0;
    if (type == REC_MESSAGE && m->n > 1)
        return keep_messages(m, (const struct rec_message *)(void *)out, n, e);
    if (type == REC_CPU_SWITCH && m->n > 1)
        return spill_add(&m->switches, out, n, e);
    return record_put(&m->out, type, out, n, e);
}
