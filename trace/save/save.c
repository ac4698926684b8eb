#include "trace/save/save.h"

#include <stdlib.h>
#include <string.h>

#include "trace/file/file_version.h"
#include "trace/save/save_internal.h"

/* Official readers copy header texts to a fixed buffer: file-format.md 3.1. */
#define HEADER_TEXT_MAX 1023u
#define BATCH 1024u

static struct view header_text(const struct saver *s, uint32_t number)
{
    struct view v = strings_get(&s->t->strings, number);
    if (v.len > HEADER_TEXT_MAX)
        v.len = HEADER_TEXT_MAX;
    return v;
}

static int save_header(struct saver *s)
{
    const struct trace_facts *f = &s->t->facts;
    /* The store holds all fields of the newest version; convert.h produces the others. */
    struct rec_header h = {.version = FILE_VERSION_MAX,
                           .delay = f->delay,
                           .resolution = f->resolution,
                           .timer_mul = f->timer_mul,
                           .last_time = f->last_time > 0 ? f->last_time : 1,
                           .frame_offset = f->frame_offset,
                           .pid = f->pid,
                           .sampling_period = f->sampling_period,
                           .cpu_arch = f->cpu_arch,
                           .cpu_id = f->cpu_id,
                           .on_demand = f->on_demand,
                           .capture_name = header_text(s, f->capture_name),
                           .capture_program = header_text(s, f->program),
                           .capture_time = f->capture_time,
                           .executable_time = f->executable_time,
                           .host_info = header_text(s, f->host_info)};
    memcpy(h.cpu_manufacturer, f->cpu_manufacturer, sizeof h.cpu_manufacturer);
    return put(s, REC_HEADER, &h);
}

static int save_location_payloads(struct saver *s)
{
    const struct trace *t = s->t;
    if (put_count(s, REC_SOURCE_LOCATION_PAYLOADS, t->location_payloads.len) != 0)
        return -1;
    for (size_t i = 0; i < t->location_payloads.len; i++) {
        const struct trace_location_payload *p = &t->location_payloads.at[i];
        struct rec_source_location r = {.name = ref_of(p->name),
                                        .function = ref_of(p->function),
                                        .file = ref_of(p->file),
                                        .line = p->line,
                                        .color = p->color};
        if (put(s, REC_SOURCE_LOCATION_PAYLOAD, &r) != 0)
            return -1;
    }
    return 0;
}

static int save_strings(struct saver *s)
{
    const struct strings *strings = &s->t->strings;
    if (put_count(s, REC_STRINGS, strings->list.len) != 0)
        return -1;
    for (size_t i = 0; i < strings->list.len; i++) {
        /* A string's key must only be unique: its number will do. */
        struct rec_string r = {.key = i + 1, .text = strings->list.at[i]};
        if (put(s, REC_STRING, &r) != 0)
            return -1;
    }
    return save_map(s, REC_STRING_POINTERS, REC_STRING_POINTER, &strings->by_pointer);
}

static int save_thread_tables(struct saver *s)
{
    const struct trace_threads *threads = &s->t->threads;
    uint64_t named = 0;
    for (size_t i = 0; i < threads->list.len; i++)
        named += threads->list.at[i].name != 0;
    if (put_count(s, REC_THREAD_NAMES, named) != 0)
        return -1;
    for (size_t i = 0; i < threads->list.len; i++) {
        struct rec_pair name = {threads->list.at[i].id, threads->list.at[i].name};
        if (name.value && put(s, REC_THREAD_NAME, &name) != 0)
            return -1;
    }
    if (save_external_names(s) != 0 || put_count(s, REC_LOCAL_THREADS, threads->list.len) != 0)
        return -1;
    for (size_t i = 0; i < threads->list.len; i++) {
        struct rec_id id = {threads->list.at[s->places_threads[i]].id};
        if (put(s, REC_LOCAL_THREAD, &id) != 0)
            return -1;
    }
    return save_external_threads(s);
}

static int save_locations(struct saver *s)
{
    const struct trace *t = s->t;
    uint64_t n = t->locations.len < LOCATIONS_MAX ? t->locations.len : LOCATIONS_MAX;
    if (put_count(s, REC_SOURCE_LOCATIONS, n) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct trace_location *l = &t->locations.at[i];
        struct rec_source_location r = {.pointer = l->pointer,
                                        .name = ref_at(l->name),
                                        .function = ref_at(l->function),
                                        .file = ref_at(l->file),
                                        .line = l->line,
                                        .color = l->color};
        if (put(s, REC_SOURCE_LOCATION, &r) != 0)
            return -1;
    }
    struct rec_id none = {0};
    if (put_count(s, REC_SOURCE_LOCATION_EXPANDS, n + 1) != 0 ||
        put(s, REC_SOURCE_LOCATION_EXPAND, &none) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct rec_id pointer = {t->locations.at[i].pointer};
        if (put(s, REC_SOURCE_LOCATION_EXPAND, &pointer) != 0)
            return -1;
    }
    return 0;
}

static void fill_events(struct rec_memory_event *out, const struct memory_alloc *a,
                        const struct memory_free *f, size_t n, const uint16_t *places)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (struct rec_memory_event){.ptr = a[i].ptr,
                                           .size = memory_alloc_size(&a[i]),
                                           .time_alloc = a[i].time,
                                           .time_free = memory_free_time(&a[i], &f[i]),
                                           .callstack_alloc = a[i].callstack,
                                           .callstack_free = f[i].callstack,
                                           .thread_alloc = places[memory_alloc_thread(&a[i])],
                                           .thread_free = places[memory_free_thread(&f[i])]};
    }
}

static int save_pool_events(struct saver *s, struct pool *p)
{
    struct rec_memory_event batch[BATCH];
    struct column_reader allocs, frees;
    column_reader_init(&allocs, &p->allocs);
    column_reader_init(&frees, &p->frees);
    struct err *e = s->e;
    int status = 0;
    size_t n, m;
    for (uint64_t done = 0; done < p->allocs.len && status == 0; done += n) {
        const struct memory_alloc *a = column_reader_next(&allocs, &n, e);
        const struct memory_free *f = a ? column_reader_next(&frees, &m, e) : NULL;
        if (!f) {
            status = -1;
            break;
        }
        for (size_t i = 0; i < n && status == 0; i += BATCH) {
            size_t run = n - i < BATCH ? n - i : BATCH;
            fill_events(batch, a + i, f + i, run, s->thread_places);
            status = record_put(s->sink, REC_MEMORY_EVENT, batch, run, e);
        }
    }
    column_reader_release(&allocs);
    column_reader_release(&frees);
    return status;
}

static int save_memory(struct saver *s)
{
    const struct memory *m = &s->t->memory;
    struct rec_pools head = {.n = m->pools.len};
    for (size_t i = 0; i < m->pools.len; i++)
        head.events += m->pools.at[i]->allocs.len;
    if (put(s, REC_POOLS, &head) != 0)
        return -1;
    for (size_t i = 0; i < m->pools.len; i++) {
        struct pool *p = m->pools.at[i];
        struct rec_pool r = {.key = p->key,
                             .events = p->allocs.len,
                             .active = p->totals.live,
                             .frees = p->totals.frees};
        struct rec_pool_end end = {.high = p->totals.high_address,
                                   .low = p->totals.low_address,
                                   .usage = p->totals.live_bytes,
                                   .name = p->key};
        if (put(s, REC_POOL, &r) != 0 || save_pool_events(s, p) != 0 ||
            put(s, REC_POOL_END, &end) != 0)
            return -1;
    }
    return 0;
}

static int save_callstacks(struct saver *s)
{
    const struct callstacks *c = &s->t->callstacks;
    if (put_count(s, REC_CALLSTACKS, c->list.len) != 0)
        return -1;
    uint64_t *frames = malloc(UINT16_MAX * sizeof *frames);
    if (!frames)
        return err_no_memory(s->e, "saving");
    int status = 0;
    for (size_t i = 0; i < c->list.len && status == 0; i++) {
        struct rec_callstack r = {.frames = frames, .len = 0};
        for (uint32_t node = c->list.at[i].node; node && r.len < UINT16_MAX;
             node = c->nodes.at[node].parent)
            frames[r.len++] = c->frames.at[c->nodes.at[node].frame].id;
        status = put(s, REC_CALLSTACK, &r);
    }
    free(frames);
    return status;
}

static int put_callstack_frame(struct saver *s, size_t number)
{
    const struct frame *f = &s->t->callstacks.frames.at[number];
    const struct rec_callstack_frame r = {.frame = f->id,
                                          .image = f->image,
                                          .n = (uint8_t)(f->n < UINT8_MAX ? f->n : UINT8_MAX),
                                          .inlines = &s->t->callstacks.inlines.at[f->first]};
    return put(s, REC_CALLSTACK_FRAME, &r);
}

static int save_callstack_frames(struct saver *s)
{
    const struct callstacks *c = &s->t->callstacks;
    struct rec_pair *resolved = malloc((c->frames.len + 1) * sizeof *resolved);
    size_t n = 0;
    if (!resolved)
        return err_no_memory(s->e, "saving");
    for (size_t i = 0; i < c->frames.len; i++) {
        if (c->frames.at[i].n)
            resolved[n++] = (struct rec_pair){c->frames.at[i].id, i};
    }
    int status = put_count(s, REC_CALLSTACK_FRAMES, n);
    return save_scattered(s, resolved, status == 0 ? n : 0, put_callstack_frame) != 0 ? -1 : status;
}

static int save_app_info(struct saver *s)
{
    const struct trace *t = s->t;
    if (put_count(s, REC_APP_INFOS, t->app_info.len) != 0)
        return -1;
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct rec_string_ref ref = ref_of(t->app_info.at[i]);
        if (put(s, REC_APP_INFO, &ref) != 0)
            return -1;
    }
    return 0;
}

static int put_symbol(struct saver *s, size_t number)
{
    const struct trace_symbol *y = &s->t->symbols.at[number];
    struct rec_symbol r = {.address = y->address,
                           .name = y->name,
                           .file = y->file,
                           .line = y->line,
                           .image = y->image,
                           .call_file = y->call_file,
                           .call_line = y->call_line,
                           .is_inline = y->is_inline,
                           .size = y->size};
    return put(s, REC_SYMBOL, &r);
}

static int save_symbols(struct saver *s)
{
    const struct trace *t = s->t;
    struct rec_symbols head = {0};
    struct rec_pair *known = malloc((t->symbols.len + 1) * sizeof *known);
    if (!known)
        return err_no_memory(s->e, "saving");
    /* As in official captures, symbols that the client has not described are left out. */
    for (size_t i = 0; i < t->symbols.len; i++) {
        if (!t->symbols.at[i].known)
            continue;
        known[head.n++] = (struct rec_pair){t->symbols.at[i].address, i};
        head.inlined += t->symbols.at[i].is_inline;
    }
    head.regular = head.n - head.inlined;
    int status = put(s, REC_SYMBOLS, &head);
    return save_scattered(s, known, status == 0 ? head.n : 0, put_symbol) != 0 ? -1 : status;
}

static int save_code_symbols(struct saver *s)
{
    return save_map(s, REC_CODE_SYMBOLS, REC_CODE_SYMBOL, &s->t->code_symbols);
}

static void add_place(struct saver *s, size_t *n, uint16_t number)
{
    if (s->thread_places[number] || number == 0)
        return;
    s->places_threads[*n] = number;
    s->thread_places[number] = (uint16_t)(*n)++;
}

/*
 * Orders the table of local threads as an official program that loads the file would extend it:
 * first none, then the local ones in their order, then the listed ones in theirs, then the others.
 */
static int place_threads(struct saver *s)
{
    const struct trace_threads *threads = &s->t->threads;
    size_t n = 1;
    s->thread_places = calloc(THREADS_MAX, sizeof *s->thread_places);
    s->places_threads = calloc(threads->list.len, sizeof *s->places_threads);
    if (!s->thread_places || !s->places_threads)
        return err_no_memory(s->e, "saving");
    for (size_t i = 0; i < threads->locals.len; i++)
        add_place(s, &n, threads->locals.at[i]);
    for (size_t i = 0; i < threads->order.len; i++)
        add_place(s, &n, threads->order.at[i]);
    for (size_t i = 0; i < threads->list.len; i++)
        add_place(s, &n, (uint16_t)i);
    return 0;
}

static int save_parts(struct saver *s)
{
    static int (*const parts[])(struct saver *) = {
        save_header,
        save_topology,
        save_crash,
        save_frame_sets,
        save_sections,
        save_strings,
        save_thread_tables,
        save_locations,
        save_location_payloads,
        save_zone_stats,
        save_gpu_zone_stats,
        save_locks,
        save_messages,
        save_zone_extras,
        save_threads,
        save_gpu,
        save_plots,
        save_memory,
        save_callstacks,
        save_callstack_frames,
        save_app_info,
        save_frame_images,
        save_context_switches,
        save_symbols,
        save_symbol_codes,
        save_code_symbols,
        save_hw_samples,
        save_source_files,
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i](s) != 0)
            return -1;
    }
    return 0;
}

int trace_save(struct trace *t, const struct record_sink *sink, struct err *e)
{
    struct saver s = {.t = t, .sink = sink, .e = e};
    int status = place_threads(&s);
    column_reader_init(&s.samples, &t->samples.sorted);
    if (status == 0)
        status = save_parts(&s);
    column_reader_release(&s.samples);
    free(s.thread_places);
    free(s.places_threads);
    return status;
}

int trace_save_names(struct trace *t, const struct record_sink *sink, struct err *e)
{
    struct trace names, empty;
    const struct trace_options options = {.spool_dir = t->spool.dir};
    if (trace_init(&empty, &options, e) != 0)
        return -1;
    names = empty;
    names.facts = t->facts;
    names.strings = t->strings;
    names.threads = t->threads;
    names.threads.order.len = 0; /* threads with events */
    names.callstacks = t->callstacks;
    names.locations = t->locations;
    names.location_payloads = t->location_payloads;
    names.symbols = t->symbols;
    names.app_info = t->app_info;
    int status = trace_save(&names, sink, e);
    trace_release(&empty);
    return status;
}
