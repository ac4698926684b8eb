#include "trace/load/load.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "trace/file/appendix.h"
#include "trace/file/reader.h"
#include "trace/file/record_takers.h"
#include "trace/load/load_zones.h"
#include "trace/store/kernel_plot.h"

/* Header texts are set after the string list was read: its positions are the string numbers. */
enum { TEXT_CAPTURE_NAME, TEXT_PROGRAM, TEXT_HOST_INFO, TEXT_COUNT };

struct loader {
    struct trace *t;
    struct trace_counts *counts;
    struct buf texts[TEXT_COUNT];
    struct map string_keys;  /* a string's key in the file → its number */
    struct map thread_names; /* thread id → string number */
    uint32_t pool;           /* the pool being filled */
    uint64_t plot;           /* the plot whose points come: its name, if they are wanted; else 0 */
    const struct trace_load_options *options;
    struct zone_loader more;
};

TAKE_EACH(load_header, struct loader *l, header, h)
{
    struct trace_facts *f = &l->t->facts;
    *f = (struct trace_facts){.file_version = h->version,
                              .resolution = h->resolution,
                              .timer_mul = h->timer_mul,
                              .delay = h->delay,
                              .last_time = h->last_time,
                              .frame_offset = h->frame_offset,
                              .pid = h->pid,
                              .sampling_period = h->sampling_period,
                              .cpu_arch = h->cpu_arch,
                              .cpu_id = h->cpu_id,
                              .on_demand = h->on_demand,
                              .capture_time = h->capture_time,
                              .executable_time = h->executable_time};
    memcpy(f->cpu_manufacturer, h->cpu_manufacturer, sizeof f->cpu_manufacturer);
    buf_put(&l->texts[TEXT_CAPTURE_NAME], h->capture_name.p, h->capture_name.len);
    buf_put(&l->texts[TEXT_PROGRAM], h->capture_program.p, h->capture_program.len);
    buf_put(&l->texts[TEXT_HOST_INFO], h->host_info.p, h->host_info.len);
    return 0;
}

/* After the last string. */
TAKE_EACH(load_header_texts, struct loader *l, count, r)
{
    uint32_t *const places[TEXT_COUNT] = {&l->t->facts.capture_name, &l->t->facts.program,
                                          &l->t->facts.host_info};
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct view text = {buf_str(&l->texts[i]), l->texts[i].len};
        if (l->texts[i].failed)
            return err_no_memory(e, "the trace");
        if (!(*places[i] = strings_append(&l->t->strings, text, e)))
            return -1;
    }
    return 0;
}

TAKE_EACH(load_string, struct loader *l, string, r)
{
    bool fresh;
    uint32_t number = strings_append(&l->t->strings, r->text, e);
    if (!number)
        return -1;
    uint64_t *value = map_add(&l->string_keys, r->key, &fresh);
    if (!value)
        return err_no_memory(e, "the trace");
    if (fresh)
        *value = number;
    return 0;
}

/*
 * For pairs with a string key. A pair whose key has no string is dropped, as in official readers.
 */
static uint32_t string_of_key(const struct loader *l, uint64_t key)
{
    const uint64_t *number = map_find(&l->string_keys, key);
    return number ? (uint32_t)*number : 0;
}

TAKE_EACH(load_string_pointer, struct loader *l, pair, r)
{
    uint32_t number = string_of_key(l, r->value);
    return number ? strings_bind(&l->t->strings, r->key, number, e) : 0;
}

TAKE_EACH(load_thread_name, struct loader *l, pair, r)
{
    uint64_t *name = map_add(&l->thread_names, r->key, NULL);
    if (!name)
        return err_no_memory(e, "the trace");
    *name = string_of_key(l, r->value);
    return 0;
}

/* The file's table replaces the initial one of an empty store. */
TAKE_EACH(load_local_threads, struct loader *l, count, r)
{
    l->t->threads.list.len = 0;
    map_release(&l->t->threads.numbers);
    return 0;
}

TAKE_EACH(load_local_thread, struct loader *l, id, r)
{
    struct trace_threads *threads = &l->t->threads;
    bool fresh;
    uint64_t *number = map_add(&threads->numbers, r->id, &fresh);
    const uint64_t *name = map_find(&l->thread_names, r->id);
    struct trace_thread thread = {
        .id = r->id, .name = name ? (uint32_t)*name : 0, .is_fiber = r->id >> 32 != 0};
    if (!number || !vec_push(&threads->list, thread))
        return err_no_memory(e, "the trace");
    if (fresh)
        *number = threads->list.len - 1;
    return 0;
}

/*
 * A thread that has zones but no entry in the table of local threads; often the first of several
 * fibers.
 */
TAKE_EACH(load_thread, struct loader *l, thread, r)
{
    uint16_t number;
    const uint64_t *name = map_find(&l->thread_names, r->id);
    size_t known = l->t->threads.list.len;
    if (trace_thread_number(l->t, r->id, &number, e) != 0)
        return -1;
    if (l->t->threads.list.len > known && name)
        l->t->threads.list.at[number].name = (uint32_t)*name;
    if (r->is_fiber)
        l->t->threads.list.at[number].is_fiber = true;
    return 0;
}

TAKE_EACH(load_location, struct loader *l, source_location, r)
{
    bool fresh;
    uint64_t *number = map_add(&l->t->location_numbers, r->pointer, &fresh);
    struct trace_location location = {.pointer = r->pointer,
                                      .name = r->name.value,
                                      .function = r->function.value,
                                      .file = r->file.value,
                                      .line = r->line,
                                      .color = r->color,
                                      .known = true};
    if (!number)
        return err_no_memory(e, "the trace");
    if (!fresh)
        return 0; /* the first one counts, as in official readers */
    if (!pageable_push(trace_pageable(l->t), &l->t->locations, location))
        return err_no_memory(e, "the trace");
    *number = l->t->locations.len - 1;
    return 0;
}

TAKE_EACH(load_pool, struct loader *l, pool, r)
{
    return memory_pool(&l->t->memory, r->key, &l->pool, e);
}

TAKE_EACH(load_memory_event, struct loader *l, memory_event, r)
{
    return l->options->no_events ? 0 : memory_append(&l->t->memory, l->pool, r, e);
}

TAKE_EACH(load_callstack, struct loader *l, callstack, r)
{
    return callstacks_append(&l->t->callstacks, r->frames, r->len, e);
}

TAKE_EACH(load_callstack_frame, struct loader *l, callstack_frame, r)
{
    return callstacks_resolve(&l->t->callstacks, r->frame, r->image, r->inlines, r->n, e);
}

TAKE_EACH(load_app_info, struct loader *l, string_ref, r)
{
    uint32_t number = 0;
    if (r->flags == STRING_REF_INDEX)
        number = (uint32_t)r->value + 1;
    else if (r->flags == STRING_REF_POINTER)
        number = strings_at_pointer(&l->t->strings, r->value);
    if (number && !pageable_push(trace_pageable(l->t), &l->t->app_info, number))
        return err_no_memory(e, "the trace");
    return 0;
}

TAKE_EACH(load_symbol, struct loader *l, symbol, r)
{
    bool fresh;
    uint64_t *number = map_add(&l->t->symbol_numbers, r->address, &fresh);
    struct trace_symbol symbol = {.address = r->address,
                                  .name = r->name,
                                  .file = r->file,
                                  .line = r->line,
                                  .image = r->image,
                                  .call_file = r->call_file,
                                  .call_line = r->call_line,
                                  .size = r->size,
                                  .is_inline = r->is_inline != 0,
                                  .known = true};
    if (!number)
        return err_no_memory(e, "the trace");
    if (!fresh)
        return 0;
    if (!pageable_push(trace_pageable(l->t), &l->t->symbols, symbol))
        return err_no_memory(e, "the trace");
    *number = l->t->symbols.len - 1;
    return 0;
}

TAKE_EACH(load_plot, struct loader *l, plot, r)
{
    bool wanted = false;
    for (unsigned i = MEMORY_RSS_ANON; i <= MEMORY_SWAP && l->options->kernel; i++)
        wanted |= r->name == MEMORY_PLOT_KEY(i);
    l->plot = wanted ? r->name : 0;
    return 0;
}

TAKE_EACH(load_plot_point, struct loader *l, plot_point, r)
{
    return l->plot ? plots_value(&l->t->plots, l->plot, r->time, r->value, e) : 0;
}

static const record_takers takers = {
    [REC_HEADER] = load_header,
    [REC_STRING] = load_string,
    [REC_STRING_POINTERS] = load_header_texts,
    [REC_STRING_POINTER] = load_string_pointer,
    [REC_THREAD_NAME] = load_thread_name,
    [REC_LOCAL_THREADS] = load_local_threads,
    [REC_LOCAL_THREAD] = load_local_thread,
    [REC_SOURCE_LOCATION] = load_location,
    [REC_THREAD] = load_thread,
    [REC_PLOT] = load_plot,
    [REC_PLOT_POINT] = load_plot_point,
    [REC_POOL] = load_pool,
    [REC_MEMORY_EVENT] = load_memory_event,
    [REC_CALLSTACK] = load_callstack,
    [REC_CALLSTACK_FRAME] = load_callstack_frame,
    [REC_APP_INFO] = load_app_info,
    [REC_SYMBOL] = load_symbol,
};

/* ---- counts */

struct count {
    bool is;
    uint8_t n;   /* offset of the number in the record */
    uint16_t to; /* offset of its sum in struct trace_counts */
};

#define COUNT(STRUCT, N, TO)                                                                       \
    {                                                                                              \
        true, offsetof(struct rec_##STRUCT, N), offsetof(struct trace_counts, TO)                  \
    }
#define LIST(TO) COUNT(count, n, TO)

/* Counts precede the records that they count, so list headers suffice. */
static const struct count list_counts[REC_TYPE_COUNT][2] = {
    [REC_FRAME_SETS] = {LIST(frame_sets)},
    [REC_FRAME_SET] = {COUNT(frame_set, n, frames)},
    [REC_SECTION_LIST] = {COUNT(section_list, n, sections)},
    [REC_STRINGS] = {LIST(strings)},
    [REC_SOURCE_LOCATIONS] = {LIST(source_locations)},
    [REC_SOURCE_LOCATION_PAYLOADS] = {LIST(source_locations)},
    [REC_LOCKS] = {LIST(locks)},
    [REC_MESSAGES] = {LIST(messages)},
    [REC_THREADS] = {COUNT(threads, n, threads), COUNT(threads, zones, zones)},
    [REC_SWITCH_SAMPLES] = {LIST(switch_samples)},
    [REC_SAMPLES] = {LIST(samples)},
    [REC_GPU_CONTEXTS] = {COUNT(threads, n, gpu_contexts), COUNT(threads, zones, gpu_zones)},
    [REC_PLOTS] = {LIST(plots)},
    [REC_PLOT] = {COUNT(plot, n, plot_points)},
    [REC_POOLS] = {COUNT(pools, n, pools), COUNT(pools, events, memory_events)},
    [REC_CALLSTACKS] = {LIST(callstacks)},
    [REC_CALLSTACK_FRAMES] = {LIST(callstack_frames)},
    [REC_APP_INFOS] = {LIST(app_infos)},
    [REC_FRAME_IMAGES] = {LIST(frame_images)},
    [REC_CONTEXT_SWITCH_THREAD] = {COUNT(id_count, n, context_switches)},
    [REC_CPU_SWITCH_LIST] = {LIST(cpu_switches)},
    [REC_TID_TO_PIDS] = {LIST(processes)},
    [REC_SYMBOLS] = {COUNT(symbols, n, symbols)},
    [REC_SYMBOL_CODES] = {LIST(symbol_codes)},
    [REC_HW_SAMPLES] = {LIST(hw_samples)},
    [REC_SOURCE_FILES] = {LIST(source_files)},
};

static void count_record(struct trace_counts *c, enum record_type type, const void *rec)
{
    for (unsigned i = 0; i < 2 && list_counts[type][i].is; i++) {
        uint64_t n;
        memcpy(&n, (const char *)rec + list_counts[type][i].n, sizeof n);
        *(uint64_t *)(void *)((char *)c + list_counts[type][i].to) += n;
    }
}

static int load_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct loader *l = ctx;
    if (l->counts)
        count_record(l->counts, type, recs);
    const struct trace_load_options *o = l->options;
    bool zone = type == REC_ZONE_BEGIN || type == REC_ZONE_END;
    if (records_take(takers, l, type, recs, n, e) != 0)
        return -1;
    if ((zone ? o->zones : o->zones || o->frames) &&
        zone_loader_put(&l->more, type, recs, n, e) != 0)
        return -1;
    return o->beside && o->beside_wanted[type] ? record_put(o->beside, type, recs, n, e) : 0;
}

/* Most records are only counted by their list headers: the reader need not deliver them. */
static void choose_wanted(bool wanted[REC_TYPE_COUNT])
{
    static const enum record_type unwanted[] = {
        REC_FRAME,          REC_SECTION,        REC_LOCK_THREAD, REC_LOCK_EVENT,
        REC_MESSAGE,        REC_ZONE_EXTRA,     REC_ZONE_BEGIN,  REC_ZONE_END,
        REC_THREAD_MESSAGE, REC_SWITCH_SAMPLE,  REC_SAMPLE,      REC_GPU_ZONE_BEGIN,
        REC_GPU_ZONE_END,   REC_GPU_NOTE,       REC_PLOT_POINT,  REC_FRAME_IMAGE,
        REC_CONTEXT_SWITCH, REC_CPU_SWITCH,     REC_TID_TO_PID,  REC_SYMBOL_CODE,
        REC_CODE_SYMBOL,    REC_HW_SAMPLE_TIME, REC_SOURCE_FILE,
    };
    for (size_t i = 0; i < REC_TYPE_COUNT; i++)
        wanted[i] = true;
    for (size_t i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++)
        wanted[unwanted[i]] = false;
}

/* How a file is loaded. */
struct load_plan {
    const struct trace_load_options *options;
    struct trace_counts *counts;
    struct trace_info *info;
};

/* The source of the bytes: a file, or an inner stream (fd < 0). */
struct load_input {
    int fd;
    const char *name;
    struct byte_source source;
};

/* A trace of figures only: they are behind it, unless a tool dropped them. */
static int take_only(struct trace *t, int fd, struct err *e)
{
    struct appendix a;
    struct view bytes;
    struct err unread = {0};
    struct stat st;
    t->memory.only.is = true;
    t->memory.only.piped = fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode);
    for (size_t i = 0; i < t->memory.pools.len; i++)
        t->memory.pools.at[i]->counted = true;
    if (t->memory.only.piped || appendix_read(fd, &a, &unread) != 1)
        return 0;
    if (appendix_find(&a, APPENDIX_ONLY, &bytes))
        buf_put(&t->memory.only.bytes, bytes.p, bytes.len);
    free(a.content);
    return t->memory.only.bytes.failed ? err_no_memory(e, "the trace") : 0;
}

static bool is_of_figures_only(const struct trace *t)
{
    return view_equal(trace_fact(t, "figures", 0), view_of("only"));
}

static int load_input(struct trace *t, const struct load_input *in, const struct load_plan *plan,
                      struct err *e)
{
    const struct trace_load_options *o = plan->options;
    struct loader l = {.t = t, .counts = plan->counts, .options = o, .more.t = t};
    struct record_sink sink = {&l, load_put};
    bool wanted[REC_TYPE_COUNT];
    struct trace_read_options options = {.wanted = wanted,
                                         .ahead = true,
                                         .limits.decoder_bytes = trace_decoder_budget(t),
                                         .progress = t->loading,
                                         .progress_ctx = t->loading_ctx};
    struct trace_info unused;
    struct trace_info *info = plan->info ? plan->info : &unused;
    if (trace_make_pageable(t, e) != 0)
        return -1;
    l.string_keys.pageable = l.thread_names.pageable = trace_pageable(t);
    choose_wanted(wanted);
    wanted[REC_MEMORY_EVENT] = !o->no_events;
    wanted[REC_ZONE_BEGIN] = wanted[REC_ZONE_END] = o->zones;
    wanted[REC_FRAME] = o->frames;
    wanted[REC_PLOT_POINT] = o->kernel;
    for (size_t i = 0; o->beside && i < REC_TYPE_COUNT; i++)
        wanted[i] |= o->beside_wanted[i];
    int status = in->fd < 0 ? trace_read_inner(in->source, &sink, &options, info, e)
                            : trace_read(in->fd, in->name, &sink, &options, info, e);
    trace_loaded(t);
    memcpy(t->behind, info->behind, sizeof t->behind);
    zone_loader_release(&l.more);
    for (int i = 0; i < TEXT_COUNT; i++)
        buf_release(&l.texts[i]);
    map_release(&l.string_keys);
    map_release(&l.thread_names);
    if (status == 0 && is_of_figures_only(t))
        status = take_only(t, in->fd, e);
    if (status != 0)
        pageable_explain(&t->pageable, e);
    return status;
}

static int load_path(struct trace *t, const char *path, const struct load_plan *plan, struct err *e)
{
    if (plan->counts)
        *plan->counts = (struct trace_counts){0};
    if (strcmp(path, "-") == 0)
        return load_input(t, &(struct load_input){STDIN_FILENO, "standard input", {0}}, plan, e);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    int status = load_input(t, &(struct load_input){fd, path, {0}}, plan, e);
    close(fd);
    return status;
}

int trace_load_fd(struct trace *t, int fd, const char *name,
                  const struct trace_load_options *options, struct trace_counts *counts,
                  struct trace_info *info, struct err *e)
{
    const struct load_plan plan = {options, counts, info};
    if (counts)
        *counts = (struct trace_counts){0};
    return load_input(t, &(struct load_input){fd, name, {0}}, &plan, e);
}

int trace_load_with(struct trace *t, const char *path, const struct trace_load_options *options,
                    struct trace_counts *counts, struct trace_info *info, struct err *e)
{
    const struct load_plan plan = {options, counts, info};
    return load_path(t, path, &plan, e);
}

int trace_load(struct trace *t, const char *path, struct trace_counts *counts,
               struct trace_info *info, struct err *e)
{
    static const struct trace_load_options nothing_more = {0};
    return trace_load_with(t, path, &nothing_more, counts, info, e);
}

int trace_load_names(struct trace *t, const char *path, struct err *e)
{
    static const struct trace_load_options names = {.no_events = true};
    return trace_load_with(t, path, &names, NULL, NULL, e);
}

int trace_load_inner(struct trace *t, struct byte_source source,
                     const struct trace_load_options *options, struct err *e)
{
    const struct load_plan plan = {options, NULL, NULL};
    const struct load_input in = {-1, NULL, source};
    return load_input(t, &in, &plan, e);
}
