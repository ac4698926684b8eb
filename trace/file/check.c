#include "trace/file/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/map.h"
#include "trace/file/limits.h"

/* Source location numbers have 16 bits, and a list of statistics has each once. */
#define ZONE_STATS_MAX 65536u

int check_failed(const struct record_place *place, size_t i, struct err *e, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_INPUT,
                   "%s %" PRIu64 " of %" PRIu64 ", offset %" PRIu64
                   " of the uncompressed stream: %s",
                   record_name(place->type), place->number + i, place->total,
                   place->offset + i * place->size, text);
}

/* The position and context of one check, for error texts. */
struct spot {
    struct checks *k;
    const struct record_place *place;
    struct err *e;
    size_t i; /* the record's index in the batch */
};

static int out_of_bounds(const struct spot *s, const char *what, uint64_t index, uint64_t count)
{
    return check_failed(s->place, s->i, s->e, "%s %llu of %llu", what, (unsigned long long)index,
                        (unsigned long long)count);
}

static void use_later(const struct spot *s, enum late_table table, uint64_t index)
{
    struct late_index *late = &s->k->late[table];
    if (index <= late->max)
        return;
    late->max = index;
    late->place = *s->place;
    late->place.number += s->i;
    late->place.offset += s->i * s->place->size;
}

static const char *const late_names[LATE_TABLE_COUNT] = {
    [LATE_STRING] = "string",
    [LATE_CALLSTACK] = "callstack",
    [LATE_IMAGE] = "frame image",
};

static int settle(const struct spot *s, enum late_table table, uint64_t count)
{
    const struct late_index *late = &s->k->late[table];
    if (late->max <= count)
        return 0;
    struct spot used = {s->k, &late->place, s->e, 0};
    return out_of_bounds(&used, late_names[table], late->max, count);
}

/* A string index: 0: none, else from 1. */
static int check_sidx(const struct spot *s, uint32_t index)
{
    return index <= s->k->strings ? 0 : out_of_bounds(s, "string", index, s->k->strings);
}

static int check_string_ref(const struct spot *s, const struct rec_string_ref *r)
{
    if (r->flags != STRING_REF_INDEX || r->value < s->k->strings)
        return 0;
    return out_of_bounds(s, "string", r->value + 1, s->k->strings);
}

static int check_srcloc(const struct spot *s, int16_t srcloc)
{
    const struct checks *k = s->k;
    if (srcloc < 0) {
        uint64_t index = (uint64_t) - (int64_t)srcloc;
        return index <= k->payloads
                   ? 0
                   : out_of_bounds(s, "allocated source location", index, k->payloads);
    }
    if (srcloc == 0 || (uint64_t)srcloc < k->expands)
        return 0;
    if (srcloc == SOURCE_LOCATION_NONE && k->layout->no_location)
        return 0;
    return out_of_bounds(s, "source location", (uint64_t)srcloc, k->expands);
}

static int check_extra(const struct spot *s, uint32_t extra)
{
    if (extra == 0 || extra < s->k->extras)
        return 0;
    return out_of_bounds(s, "zone extra", extra + UINT64_C(1), s->k->extras);
}

static int check_thread(const struct spot *s, const char *what, uint16_t thread, uint64_t count)
{
    return thread < count ? 0 : out_of_bounds(s, what, thread + 1u, count);
}

typedef int check_fn(struct spot *s, const void *recs, size_t n);

/* Defines the check of a record type: CHECK(name, struct) { … } sees `s` and the record `r`. */
#define CHECK(NAME, STRUCT)                                                                        \
    static int NAME##_one(const struct spot *s, const struct rec_##STRUCT *r);                     \
    static int NAME(struct spot *s, const void *recs, size_t n)                                    \
    {                                                                                              \
        const struct rec_##STRUCT *r = recs;                                                       \
        for (s->i = 0; s->i < n; s->i++) {                                                         \
            if (NAME##_one(s, &r[s->i]) != 0)                                                      \
                return -1;                                                                         \
        }                                                                                          \
        return 0;                                                                                  \
    }                                                                                              \
    static int NAME##_one(const struct spot *s, const struct rec_##STRUCT *r)

/* ---- records whose fields say what they mean: check_rec_STRUCT, check_rec_STRUCT_one */

#define CHECK_string(v) check_sidx(s, v)
#define CHECK_late_string(v) (use_later(s, LATE_STRING, v), 0)
#define CHECK_stack(v) (use_later(s, LATE_CALLSTACK, v), 0)
#define CHECK_text(v) check_string_ref(s, &(v))
#define CHECK_srcloc(v) check_srcloc(s, v)
#define CHECK_extra(v) check_extra(s, v)
#define CHECK_lock_thread(v) check_thread(s, "lock thread", v, s->k->lock_threads)
#define CHECK_local_thread(v) check_thread(s, "thread", v, s->k->local_threads)
#define CHECK_external_thread(v) check_thread(s, "external thread", v, s->k->external_threads)
#define CHECK_thread(v) 0
#define CHECK_address(v) 0
#define CHECK_time(v) 0
#define CHECK_end(v) 0
#define CHECK_message(v) 0
#define NOTHING(KIND, NAME)
#define NOTHING_SINCE(HAS, KIND, NAME, OTHERWISE)
#define REFERENCE(KIND, MEANING, NAME)                                                             \
    if (CHECK_##MEANING(r->NAME) != 0)                                                             \
        return -1;
#define CHECK_REFERENCES(NAME, FIELDS)                                                             \
    static check_fn check_rec_##NAME __attribute__((unused));                                      \
    CHECK(check_rec_##NAME, NAME)                                                                  \
    {                                                                                              \
        (void)s;                                                                                   \
        (void)r;                                                                                   \
        FIELDS /* NOLINT(bugprone-macro-parentheses): statements */                                \
            return 0;                                                                              \
    }
FIXED_RECORDS(CHECK_REFERENCES, NOTHING, REFERENCE, NOTHING_SINCE)

/* ---- others */

CHECK(check_topology, topology_node)
{
    s->k->topology_nodes += r->n;
    if (r->n <= TOPOLOGY_MAX && s->k->topology_nodes <= TOPOLOGY_MAX)
        return 0;
    return check_failed(s->place, s->i, s->e, "impossible number of processors");
}

CHECK(check_packages, count)
{
    if (r->n <= TOPOLOGY_MAX)
        return 0;
    return check_failed(s->place, s->i, s->e, "impossible number of processors");
}

CHECK(check_frame, frame)
{
    if (r->image >= 0)
        use_later(s, LATE_IMAGE, (uint64_t)r->image + 1);
    return 0;
}

CHECK(check_strings, count)
{
    s->k->strings = r->n;
    return settle(s, LATE_STRING, r->n);
}

static int check_thread_table(const struct spot *s, uint64_t n, uint64_t *count)
{
    *count = n;
    if (n <= THREADS_MAX)
        return 0;
    return check_failed(s->place, s->i, s->e, "%llu threads; at most %u are possible",
                        (unsigned long long)n, THREADS_MAX);
}

CHECK(check_local_threads, count)
{
    return check_thread_table(s, r->n, &s->k->local_threads);
}

CHECK(check_external_threads, count)
{
    return check_thread_table(s, r->n, &s->k->external_threads);
}

CHECK(check_expands, count)
{
    s->k->expands = r->n;
    return 0;
}

/* Files of old versions may have longer tables; numbers beyond 16 bits are unusable there. */
static int check_locations(const struct spot *s, uint64_t n)
{
    if (n <= s->k->layout->locations_max)
        return 0;
    return check_failed(s->place, s->i, s->e, "%llu source locations; at most %u are possible",
                        (unsigned long long)n, s->k->layout->locations_max);
}

CHECK(check_source_locations, count)
{
    return check_locations(s, r->n);
}

CHECK(check_payloads, count)
{
    s->k->payloads = r->n;
    return check_locations(s, r->n);
}

CHECK(check_zone_stats, count)
{
    if (r->n <= ZONE_STATS_MAX)
        return 0;
    return check_failed(s->place, s->i, s->e,
                        "statistics of %llu source locations; at most %u are possible",
                        (unsigned long long)r->n, ZONE_STATS_MAX);
}

CHECK(check_location, source_location)
{
    if (check_string_ref(s, &r->name) != 0 || check_string_ref(s, &r->function) != 0)
        return -1;
    return check_string_ref(s, &r->file);
}

CHECK(check_lock, lock)
{
    s->k->lock_threads = r->n;
    if (r->n > LOCK_THREADS_MAX)
        return check_failed(s->place, s->i, s->e, "%llu threads use this lock; at most %u can",
                            (unsigned long long)r->n, LOCK_THREADS_MAX);
    return check_rec_lock_one(s, r);
}

CHECK(check_message, message)
{
    s->k->message_sum += map_hash(r->key);
    return check_rec_message_one(s, r);
}

CHECK(check_extras, count)
{
    s->k->extras = r->n;
    return 0;
}

CHECK(check_thread_message, id)
{
    s->k->thread_message_sum += map_hash(r->id);
    return 0;
}

CHECK(check_memory_event_slowly, memory_event)
{
    use_later(s, LATE_CALLSTACK, r->callstack_alloc);
    use_later(s, LATE_CALLSTACK, r->callstack_free);
    return CHECK_local_thread(r->thread_alloc) != 0 ? -1 : CHECK_local_thread(r->thread_free);
}

/*
 * The longest lists of a file: one pass finds the largest values, and a second one is rarely
 * needed.
 */
static int check_memory_event(struct spot *s, const void *recs, size_t n)
{
    const struct rec_memory_event *r = recs;
    uint32_t callstack = 0;
    uint32_t thread = 0;
    for (size_t i = 0; i < n; i++) {
        callstack = r[i].callstack_alloc > callstack ? r[i].callstack_alloc : callstack;
        callstack = r[i].callstack_free > callstack ? r[i].callstack_free : callstack;
        thread = r[i].thread_alloc > thread ? r[i].thread_alloc : thread;
        thread = r[i].thread_free > thread ? r[i].thread_free : thread;
    }
    if (callstack <= s->k->late[LATE_CALLSTACK].max && thread < s->k->local_threads)
        return 0;
    return check_memory_event_slowly(s, recs, n);
}

CHECK(check_callstacks, count)
{
    return settle(s, LATE_CALLSTACK, r->n);
}

CHECK(check_callstack, callstack)
{
    return r->len > 0 ? 0 : check_failed(s->place, s->i, s->e, "a call stack without frames");
}

CHECK(check_callstack_frame, callstack_frame)
{
    if (r->n == 0)
        return check_failed(s->place, s->i, s->e, "a frame that stands for no function");
    if (check_sidx(s, r->image) != 0)
        return -1;
    for (unsigned i = 0; i < r->n; i++) {
        if (check_sidx(s, r->inlines[i].function) != 0 || check_sidx(s, r->inlines[i].file) != 0)
            return -1;
    }
    return 0;
}

CHECK(check_app_info, string_ref)
{
    return check_string_ref(s, r);
}

CHECK(check_images, count)
{
    return settle(s, LATE_IMAGE, r->n);
}

static check_fn *const checks[REC_TYPE_COUNT] = {
    [REC_PACKAGES] = check_packages,
    [REC_PACKAGE] = check_topology,
    [REC_DIE] = check_topology,
    [REC_CORE] = check_topology,
    [REC_CRASH] = check_rec_crash,
    [REC_FRAME] = check_frame,
    [REC_SECTION] = check_rec_section,
    [REC_SECTION_CATEGORY] = check_rec_section_category,
    [REC_STRINGS] = check_strings,
    [REC_LOCAL_THREADS] = check_local_threads,
    [REC_EXTERNAL_THREADS] = check_external_threads,
    [REC_SOURCE_LOCATIONS] = check_source_locations,
    [REC_SOURCE_LOCATION] = check_location,
    [REC_SOURCE_LOCATION_EXPANDS] = check_expands,
    [REC_SOURCE_LOCATION_PAYLOADS] = check_payloads,
    [REC_SOURCE_LOCATION_PAYLOAD] = check_location,
    [REC_ZONE_STATS] = check_zone_stats,
    [REC_ZONE_STAT] = check_rec_zone_stat,
    [REC_GPU_ZONE_STATS] = check_zone_stats,
    [REC_GPU_ZONE_STAT] = check_rec_zone_stat,
    [REC_LOCK] = check_lock,
    [REC_LOCK_EVENT] = check_rec_lock_event,
    [REC_MESSAGE] = check_message,
    [REC_ZONE_EXTRAS] = check_extras,
    [REC_ZONE_EXTRA] = check_rec_zone_extra,
    [REC_ZONE_BEGIN] = check_rec_zone_begin,
    [REC_THREAD_MESSAGE] = check_thread_message,
    [REC_SWITCH_SAMPLE] = check_rec_sample,
    [REC_SAMPLE] = check_rec_sample,
    [REC_GPU_CONTEXT] = check_rec_gpu_context,
    [REC_GPU_NOTE_NAME] = check_rec_gpu_note_name,
    [REC_GPU_ZONE_BEGIN] = check_rec_gpu_zone_begin,
    [REC_MEMORY_EVENT] = check_memory_event,
    [REC_CALLSTACKS] = check_callstacks,
    [REC_CALLSTACK] = check_callstack,
    [REC_CALLSTACK_FRAME] = check_callstack_frame,
    [REC_APP_INFO] = check_app_info,
    [REC_FRAME_IMAGES] = check_images,
    [REC_CPU_SWITCH] = check_rec_cpu_switch,
    [REC_SYMBOL] = check_rec_symbol,
};

int check_records(struct checks *k, const struct record_place *place, const void *recs, size_t n,
                  struct err *e)
{
    struct spot s = {k, place, e, 0};
    check_fn *check = checks[place->type];
    return check ? check(&s, recs, n) : 0;
}

bool check_wanted(enum record_type type)
{
    return checks[type] != NULL;
}
