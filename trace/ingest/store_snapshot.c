#include "trace/ingest/ingest_internal.h"
#include "trace/ingest/store_snapshot.h"

#define TEXT_MAX ((size_t)16 << 20) /* of code or a source file: more than a frame has */

static void snapshot_facts(struct snapshot *s, struct trace *t)
{
    struct trace_facts *f = &t->facts;
    snapshot_i64(s, &f->resolution);
    snapshot_f64(s, &f->timer_mul);
    snapshot_i64(s, &f->delay);
    snapshot_i64(s, &f->last_time);
    snapshot_i64(s, &f->init_end);
    snapshot_u64(s, &f->frame_offset);
    snapshot_u64(s, &f->pid);
    snapshot_i64(s, &f->sampling_period);
    snapshot_u8(s, &f->cpu_arch);
    snapshot_u32(s, &f->cpu_id);
    snapshot_bytes(s, f->cpu_manufacturer, sizeof f->cpu_manufacturer);
    snapshot_bool(s, &f->on_demand);
    snapshot_i64(s, &f->on_demand_time);
    snapshot_string(s, t, &f->capture_name);
    snapshot_string(s, t, &f->program);
    snapshot_string(s, t, &f->host_info);
    snapshot_u64(s, &f->capture_time);
    snapshot_u64(s, &f->executable_time);
    if (s->loading && (f->last_time < 0 || f->last_time > INGEST_TIME_LIMIT))
        snapshot_refuse(s, "a time");
}

/* ---- source locations */

static void snapshot_location_at(struct snapshot *s, struct trace_location *l)
{
    snapshot_u64(s, &l->pointer);
    snapshot_u64(s, &l->name);
    snapshot_u64(s, &l->function);
    snapshot_u64(s, &l->file);
    snapshot_u32(s, &l->line);
    snapshot_u32(s, &l->color);
    snapshot_bool(s, &l->known);
}

static void snapshot_payload(struct snapshot *s, struct trace *t, struct trace_location_payload *l)
{
    snapshot_string(s, t, &l->name);
    snapshot_string(s, t, &l->function);
    snapshot_string(s, t, &l->file);
    snapshot_u32(s, &l->line);
    snapshot_u32(s, &l->color);
}

static void save_locations(struct snapshot *s, struct trace *t)
{
    (void)snapshot_count(s, renumber_kept(s, RENUMBER_LOCATIONS, t->locations.len), LOCATIONS_MAX);
    for (size_t i = 0; i < t->locations.len && !s->failed; i++) {
        if (renumber_keeps(s, RENUMBER_LOCATIONS, i))
            snapshot_location_at(s, &t->locations.at[i]);
    }
}

/*
 * Saves the facts about locations without a position: of earlier parts, and those that lose theirs
 * now.
 */
static void save_known_locations(struct snapshot *s, struct trace *t)
{
    size_t n = 0;
    for (int writing = 0; writing < 2; writing++) {
        for (size_t i = 0; i < t->known_locations.len && !s->failed; i++) {
            if (map_find(&t->location_numbers, t->known_locations.at[i].pointer))
                continue;
            n += !writing;
            if (writing)
                snapshot_location_at(s, &t->known_locations.at[i]);
        }
        for (size_t i = 0; i < t->locations.len && !s->failed; i++) {
            if (renumber_keeps(s, RENUMBER_LOCATIONS, i) || !t->locations.at[i].known)
                continue;
            n += !writing;
            if (writing)
                snapshot_location_at(s, &t->locations.at[i]);
        }
        if (!writing)
            (void)snapshot_count(s, n, SIZE_MAX);
    }
}

static void save_payloads(struct snapshot *s, struct trace *t)
{
    const size_t n = t->location_payloads.len;
    (void)snapshot_count(s, renumber_kept(s, RENUMBER_PAYLOADS, n), LOCATIONS_MAX);
    for (size_t i = 0; i < n && !s->failed; i++) {
        if (renumber_keeps(s, RENUMBER_PAYLOADS, i))
            snapshot_payload(s, t, &t->location_payloads.at[i]);
    }
}

static void number_location(struct snapshot *s, struct map *numbers, uint64_t pointer, size_t i)
{
    bool fresh = false;
    uint64_t *number = map_add(numbers, pointer, &fresh);
    if (!number)
        snapshot_no_memory(s);
    else if (!fresh)
        snapshot_refuse(s, "a source location");
    else
        *number = i;
}

static void load_locations(struct snapshot *s, struct trace *t)
{
    map_release(&t->location_numbers);
    map_release(&t->known_location_numbers);
    SNAPSHOT_EACH(s, &t->locations, i, LOCATIONS_MAX)
    {
        snapshot_location_at(s, &t->locations.at[i]);
        number_location(s, &t->location_numbers, t->locations.at[i].pointer, i);
    }
    SNAPSHOT_EACH(s, &t->known_locations, i, UINT32_MAX)
    {
        snapshot_location_at(s, &t->known_locations.at[i]);
        number_location(s, &t->known_location_numbers, t->known_locations.at[i].pointer, i);
    }
    SNAPSHOT_EACH(s, &t->location_payloads, i, LOCATIONS_MAX)
    snapshot_payload(s, t, &t->location_payloads.at[i]);
}

static void snapshot_locations(struct snapshot *s, struct trace *t)
{
    uint64_t overflow = s->renumbering ? 0 : t->location_overflow;
    if (s->loading) {
        load_locations(s, t);
    } else {
        save_locations(s, t);
        save_known_locations(s, t);
        save_payloads(s, t);
    }
    snapshot_u64(s, s->loading ? &t->location_overflow : &overflow);
}

/* ---- symbols */

static void snapshot_symbols(struct snapshot *s, struct trace *t)
{
    SNAPSHOT_EACH(s, &t->symbols, i, UINT32_MAX)
    {
        struct trace_symbol *y = &t->symbols.at[i];
        snapshot_u64(s, &y->address);
        snapshot_string(s, t, &y->name);
        snapshot_string(s, t, &y->file);
        snapshot_u32(s, &y->line);
        snapshot_string(s, t, &y->image);
        snapshot_string(s, t, &y->call_file);
        snapshot_u32(s, &y->call_line);
        snapshot_u32(s, &y->size);
        snapshot_bool(s, &y->is_inline);
        snapshot_bool(s, &y->known);
        if (y->size >= 1u << 24)
            snapshot_refuse(s, "the size of a symbol");
    }
    snapshot_map_into(s, &t->symbol_numbers, t->symbols.len, "a symbol");
    snapshot_map(s, &t->code_symbols, 0, UINT64_MAX, "a symbol");
}

/* ---- code and source texts */

static void save_blobs(struct snapshot *s, struct keyed_blobs *b)
{
    struct keyed_blobs_reader r;
    uint64_t key;
    struct view bytes;
    int status = 1;
    keyed_blobs_reader_init(&r, b);
    while (!s->failed && (status = keyed_blobs_next(&r, &key, &bytes, s->e)) == 1) {
        snapshot_u64(s, &key);
        snapshot_put_text(s, bytes.p, bytes.len);
    }
    s->failed |= status < 0;
    keyed_blobs_reader_release(&r);
}

static void snapshot_blobs(struct snapshot *s, struct keyed_blobs *b)
{
    struct buf text = {0};
    if (s->in_place)
        return;
    size_t n = snapshot_count(s, b->list.len, UINT32_MAX);
    if (!s->loading) {
        save_blobs(s, b);
        return;
    }
    for (size_t i = 0; i < n && !s->failed; i++) {
        uint64_t key = 0;
        snapshot_u64(s, &key);
        snapshot_buf(s, &text, TEXT_MAX);
        struct view bytes = {(const char *)text.data, text.len};
        s->failed |= !s->failed && keyed_blobs_add(b, key, bytes, s->e) != 0;
    }
    buf_release(&text);
}

/* ---- all together */

void trace_snapshot(struct snapshot *s, struct trace *t)
{
    snapshot_names(s, t);
    snapshot_callstacks(s, t);
    snapshot_facts(s, t);
    snapshot_locations(s, t);
    snapshot_symbols(s, t);
    snapshot_blobs(s, &t->symbol_codes);
    snapshot_blobs(s, &t->sources);
    SNAPSHOT_EACH(s, &t->app_info, i, UINT32_MAX)
    snapshot_string(s, t, &t->app_info.at[i]);
    snapshot_lasting(s, t);
    snapshot_gpu(s, t);
    if (s->loading)
        t->carried = trace_lengths(t);
}

/* Payloads are keyed by their texts' numbers, so the map is rebuilt when those change. */
static void number_payloads(struct snapshot *s, struct ingest *in)
{
    struct err e;
    map_release(&in->payloads);
    for (size_t i = 0; i < in->trace->location_payloads.len && !s->failed; i++) {
        if (ingest_number_payload(in, (uint32_t)i, &e) != 0)
            snapshot_no_memory(s);
    }
}

void ingest_snapshot(struct snapshot *s, struct ingest *in)
{
    struct trace *t = in->trace;
    uint32_t parts = in->parts, asked = in->parts_asked;
    snapshot_u32(s, &parts);
    snapshot_u32(s, &asked);
    in->parts = parts;
    in->parts_asked = asked;
    if (parts >= INT32_MAX || asked > parts)
        snapshot_refuse(s, "the number of parts");
    snapshot_i64(s, &in->time_base);
    snapshot_string_map(s, t, &in->custom_sources, MAP_FROM_TWO_STRINGS, UINT64_MAX, "a frame");
    snapshot_map(s, &in->custom_frames, 0, UINT64_MAX, "a frame");
    if (s->loading)
        number_payloads(s, in);
    snapshot_map(s, &in->fibers, 0, UINT64_MAX, "a fiber");
    snapshot_bool(s, &in->crashed);
    SNAPSHOT_EACH(s, &in->source_names, i, UINT32_MAX)
    snapshot_string(s, t, &in->source_names.at[i]);
    snapshot_u64(s, &in->recorded_sources);
}

void snapshot_note(struct snapshot *s, struct ingest *in)
{
    trace_snapshot(s, in->trace);
    ingest_snapshot(s, in);
    /* Second pass: now that the needed locations are known, mark their texts. */
    snapshot_locations(s, in->trace);
}
