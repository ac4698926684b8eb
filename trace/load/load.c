#include "trace/load/load.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "trace/file/appendix.h"
#include "trace/file/reader.h"
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

static int load_header(struct loader *l, const struct rec_header *h)
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

static int load_header_texts(struct loader *l, struct err *e)
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

static int load_string(struct loader *l, const struct rec_string *r, struct err *e)
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

static int load_string_pointers(struct loader *l, const struct rec_pair *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t number = string_of_key(l, r[i].value);
        if (number && strings_bind(&l->t->strings, r[i].key, number, e) != 0)
            return -1;
    }
    return 0;
}

static int load_thread_names(struct loader *l, const struct rec_pair *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *name = map_add(&l->thread_names, r[i].key, NULL);
        if (!name)
            return err_no_memory(e, "the trace");
        *name = string_of_key(l, r[i].value);
    }
    return 0;
}

static int load_local_threads(struct loader *l, const struct rec_id *r, size_t n, struct err *e)
{
    struct trace_threads *threads = &l->t->threads;
    for (size_t i = 0; i < n; i++) {
        bool fresh;
        uint64_t *number = map_add(&threads->numbers, r[i].id, &fresh);
        const uint64_t *name = map_find(&l->thread_names, r[i].id);
        struct trace_thread thread = {
            .id = r[i].id, .name = name ? (uint32_t)*name : 0, .is_fiber = r[i].id >> 32 != 0};
        if (!number || !vec_push(&threads->list, thread))
            return err_no_memory(e, "the trace");
        if (fresh)
            *number = threads->list.len - 1;
    }
    return 0;
}

/*
 * A thread that has zones but no entry in the table of local threads; often the first of several
 * fibers.
 */
static int load_thread(struct loader *l, const struct rec_thread *r, struct err *e)
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

static int load_locations(struct loader *l, const struct rec_source_location *r, size_t n,
                          struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        bool fresh;
        uint64_t *number = map_add(&l->t->location_numbers, r[i].pointer, &fresh);
        struct trace_location location = {.pointer = r[i].pointer,
                                          .name = r[i].name.value,
                                          .function = r[i].function.value,
                                          .file = r[i].file.value,
                                          .line = r[i].line,
                                          .color = r[i].color,
                                          .known = true};
        if (!number)
            return err_no_memory(e, "the trace");
        if (!fresh)
            continue; /* the first one counts, as in official readers */
        if (!pageable_push(trace_pageable(l->t), &l->t->locations, location))
            return err_no_memory(e, "the trace");
        *number = l->t->locations.len - 1;
    }
    return 0;
}

static int load_memory_events(struct loader *l, const struct rec_memory_event *r, size_t n,
                              struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (memory_append(&l->t->memory, l->pool, &r[i], e) != 0)
            return -1;
    }
    return 0;
}

static int load_callstack_frame(struct loader *l, const struct rec_callstack_frame *r,
                                struct err *e)
{
    return callstacks_resolve(&l->t->callstacks, r->frame, r->image, r->inlines, r->n, e);
}

static int load_app_infos(struct loader *l, const struct rec_string_ref *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t number = 0;
        if (r[i].flags == STRING_REF_INDEX)
            number = (uint32_t)r[i].value + 1;
        else if (r[i].flags == STRING_REF_POINTER)
            number = strings_at_pointer(&l->t->strings, r[i].value);
        if (number && !pageable_push(trace_pageable(l->t), &l->t->app_info, number))
            return err_no_memory(e, "the trace");
    }
    return 0;
}

static int load_symbols(struct loader *l, const struct rec_symbol *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        bool fresh;
        uint64_t *number = map_add(&l->t->symbol_numbers, r[i].address, &fresh);
        struct trace_symbol symbol = {.address = r[i].address,
                                      .name = r[i].name,
                                      .file = r[i].file,
                                      .line = r[i].line,
                                      .image = r[i].image,
                                      .call_file = r[i].call_file,
                                      .call_line = r[i].call_line,
                                      .size = r[i].size,
                                      .is_inline = r[i].is_inline != 0,
                                      .known = true};
        if (!number)
            return err_no_memory(e, "the trace");
        if (!fresh)
            continue;
        if (!pageable_push(trace_pageable(l->t), &l->t->symbols, symbol))
            return err_no_memory(e, "the trace");
        *number = l->t->symbols.len - 1;
    }
    return 0;
}

static void load_plot(struct loader *l, const struct rec_plot *r)
{
    bool wanted = false;
    for (unsigned i = MEMORY_RSS_ANON; i <= MEMORY_SWAP && l->options->kernel; i++)
        wanted |= r->name == MEMORY_PLOT_KEY(i);
    l->plot = wanted ? r->name : 0;
}

static int load_plot_points(struct loader *l, const struct rec_plot_point *r, size_t n,
                            struct err *e)
{
    for (size_t i = 0; i < n && l->plot; i++) {
        if (plots_value(&l->t->plots, l->plot, r[i].time, r[i].value, e) != 0)
            return -1;
    }
    return 0;
}

static int load_record(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct loader *l = ctx;
    switch (type) {
    case REC_HEADER:
        return load_header(l, recs);
    case REC_STRING:
        return load_string(l, recs, e);
    case REC_STRING_POINTERS:
        return load_header_texts(l, e);
    case REC_STRING_POINTER:
        return load_string_pointers(l, recs, n, e);
    case REC_THREAD_NAME:
        return load_thread_names(l, recs, n, e);
    case REC_LOCAL_THREADS:
        /* The file's table replaces the initial one of an empty store. */
        l->t->threads.list.len = 0;
        map_release(&l->t->threads.numbers);
        return 0;
    case REC_LOCAL_THREAD:
        return load_local_threads(l, recs, n, e);
    case REC_THREAD:
        return load_thread(l, recs, e);
    case REC_SOURCE_LOCATION:
        return load_locations(l, recs, n, e);
    case REC_PLOT:
        load_plot(l, recs);
        return 0;
    case REC_PLOT_POINT:
        return load_plot_points(l, recs, n, e);
    case REC_POOL:
        return memory_pool(&l->t->memory, ((const struct rec_pool *)recs)->key, &l->pool, e);
    case REC_MEMORY_EVENT:
        return l->options->no_events ? 0 : load_memory_events(l, recs, n, e);
    case REC_CALLSTACK: {
        const struct rec_callstack *r = recs;
        return callstacks_append(&l->t->callstacks, r->frames, r->len, e);
    }
    case REC_CALLSTACK_FRAME:
        return load_callstack_frame(l, recs, e);
    case REC_APP_INFO:
        return load_app_infos(l, recs, n, e);
    case REC_SYMBOL:
        return load_symbols(l, recs, n, e);
    default:
        return 0;
    }
}

/* ---- counts */

static uint64_t count_of(const void *rec)
{
    return ((const struct rec_count *)rec)->n;
}

/* Counts precede the records that they count, so list headers suffice. */
static void count_record(struct trace_counts *c, enum record_type type, const void *rec)
{
    switch (type) {
#define COUNT(TYPE, FIELD)                                                                         \
    case REC_##TYPE:                                                                               \
        c->FIELD += count_of(rec);                                                                 \
        break
        COUNT(FRAME_SETS, frame_sets);
        COUNT(STRINGS, strings);
        COUNT(SOURCE_LOCATIONS, source_locations);
        COUNT(SOURCE_LOCATION_PAYLOADS, source_locations);
        COUNT(LOCKS, locks);
        COUNT(MESSAGES, messages);
        COUNT(SWITCH_SAMPLES, switch_samples);
        COUNT(SAMPLES, samples);
        COUNT(PLOTS, plots);
        COUNT(CALLSTACKS, callstacks);
        COUNT(CALLSTACK_FRAMES, callstack_frames);
        COUNT(APP_INFOS, app_infos);
        COUNT(FRAME_IMAGES, frame_images);
        COUNT(CPU_SWITCH_LIST, cpu_switches);
        COUNT(TID_TO_PIDS, processes);
        COUNT(SYMBOL_CODES, symbol_codes);
        COUNT(HW_SAMPLES, hw_samples);
        COUNT(SOURCE_FILES, source_files);
#undef COUNT
    case REC_FRAME_SET:
        c->frames += ((const struct rec_frame_set *)rec)->n;
        break;
    case REC_SECTION_LIST:
        c->sections += ((const struct rec_section_list *)rec)->n;
        break;
    case REC_THREADS:
        c->threads = ((const struct rec_threads *)rec)->n;
        c->zones = ((const struct rec_threads *)rec)->zones;
        break;
    case REC_GPU_CONTEXTS:
        c->gpu_contexts = ((const struct rec_threads *)rec)->n;
        c->gpu_zones = ((const struct rec_threads *)rec)->zones;
        break;
    case REC_PLOT:
        c->plot_points += ((const struct rec_plot *)rec)->n;
        break;
    case REC_POOLS:
        c->pools = ((const struct rec_pools *)rec)->n;
        c->memory_events = ((const struct rec_pools *)rec)->events;
        break;
    case REC_CONTEXT_SWITCH_THREAD:
        c->context_switches += ((const struct rec_id_count *)rec)->n;
        break;
    case REC_SYMBOLS:
        c->symbols = ((const struct rec_symbols *)rec)->n;
        break;
    default:
        break;
    }
}

static int load_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct loader *l = ctx;
    if (l->counts)
        count_record(l->counts, type, recs);
    const struct trace_load_options *o = l->options;
    bool zone = type == REC_ZONE_BEGIN || type == REC_ZONE_END;
    if (load_record(l, type, recs, n, e) != 0)
        return -1;
    if ((zone ? o->zones : o->zones || o->frames) &&
        zone_loader_put(&l->more, l->t, type, recs, n, e) != 0)
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
    struct loader l = {.t = t, .counts = plan->counts, .options = o};
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
