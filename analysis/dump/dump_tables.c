#include "analysis/dump/dump_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/tempfile.h"
#include "trace/file/record_takers.h"
#include "trace/store/callstacks.h"

static int no_room(struct err *e)
{
    return err_no_memory(e, "the tables of the trace");
}

uint64_t dump_hash(struct view bytes)
{
    return XXH3_64bits(bytes.p, bytes.len);
}

/* ---- lookups */

uint32_t dump_string_of_key(const struct dump_tables *t, uint64_t key)
{
    const uint64_t *number = map_find(&t->string_keys, key);
    return number ? (uint32_t)*number : 0;
}

static uint32_t string_at(const struct dump_tables *t, uint64_t pointer)
{
    const uint64_t *value = map_find(&t->pointers, pointer);
    return value ? (uint32_t)*value : 0;
}

uint32_t dump_string_of(const struct dump_tables *t, const struct rec_string_ref *ref)
{
    if (ref->flags == STRING_REF_POINTER)
        return string_at(t, ref->value);
    return ref->flags == STRING_REF_INDEX && ref->value < t->strings.list.len
               ? (uint32_t)ref->value + 1
               : 0;
}

uint32_t dump_rank(const struct dump_tables *t, uint64_t pointer)
{
    const uint64_t *value = map_find(&t->pointers, pointer);
    return value ? (uint32_t)(*value >> 32) : 0;
}

const struct rec_source_location *dump_location(const struct dump_tables *t, int16_t srcloc)
{
    size_t number = srcloc < 0 ? (size_t) - (int)srcloc - 1 : (size_t)srcloc;
    if (srcloc < 0)
        return number < t->payloads.len ? &t->payloads.at[number] : NULL;
    if (number == 0 || number >= t->location_expands.len)
        return NULL;
    const uint64_t *location = map_find(&t->location_numbers, t->location_expands.at[number]);
    return location ? &t->locations.at[*location] : NULL;
}

uint64_t dump_custom_frame(const struct dump_tables *t, uint64_t frame)
{
    const uint64_t *hash = map_find(&t->custom_frames, frame);
    return hash ? *hash : frame;
}

/* ---- fields */

static void put_length(const struct dump_tables *t, struct buf *out, const char *name, size_t len,
                       uint64_t hash)
{
    char field[64];
    snprintf(field, sizeof field, "%s_bytes", name);
    t->format->number(out, view_of(field), len);
    snprintf(field, sizeof field, "%s_hash", name);
    dump_field_hash(t, out, field, hash);
}

void dump_field_text(const struct dump_tables *t, struct buf *out, const char *name,
                     struct view text)
{
    if (text.len > DUMP_TEXT_MAX)
        put_length(t, out, name, text.len, dump_hash(text));
    else
        t->format->text(out, view_of(name), text);
}

void dump_field_string(const struct dump_tables *t, struct buf *out, const char *name,
                       uint32_t sidx)
{
    if (sidx == 0 || sidx > t->strings.list.len)
        return;
    struct view text = strings_get(&t->strings, sidx);
    const uint64_t *hash = text.len > DUMP_TEXT_MAX ? map_find(&t->long_texts, sidx) : NULL;
    if (hash)
        put_length(t, out, name, text.len, *hash);
    else
        t->format->text(out, view_of(name), text);
}

void dump_field_pointer(const struct dump_tables *t, struct buf *out, const char *name,
                        uint64_t pointer)
{
    char field[64];
    uint32_t sidx = string_at(t, pointer);
    if (sidx) {
        dump_field_string(t, out, name, sidx);
    } else if (pointer != 0) {
        snprintf(field, sizeof field, "%s_pointer", name);
        t->format->address(out, view_of(field), pointer);
    }
}

void dump_field_ref(const struct dump_tables *t, struct buf *out, const char *name,
                    const struct rec_string_ref *ref)
{
    if (ref->flags == STRING_REF_POINTER)
        dump_field_pointer(t, out, name, ref->value);
    else
        dump_field_string(t, out, name, dump_string_of(t, ref));
}

const char *dump_hash_text(uint64_t hash, char out[DUMP_HASH_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 16; i++)
        out[i] = digits[hash >> (60 - 4 * i) & 15];
    out[16] = 0;
    return out;
}

void dump_field_hash(const struct dump_tables *t, struct buf *out, const char *name, uint64_t hash)
{
    char text[DUMP_HASH_SIZE];
    t->format->word(out, view_of(name), (struct view){dump_hash_text(hash, text), 16});
}

void dump_field_callstack(const struct dump_tables *t, struct buf *out, const char *name,
                          uint32_t callstack)
{
    if (callstack > 0 && callstack <= t->callstacks.len)
        dump_field_hash(t, out, name, t->callstacks.at[callstack - 1]);
}

void dump_fields_location(const struct dump_tables *t, struct buf *out,
                          const struct rec_source_location *r)
{
    dump_field_ref(t, out, "name", &r->name);
    dump_field_ref(t, out, "function", &r->function);
    dump_field_ref(t, out, "file", &r->file);
    t->format->number(out, view_of("line"), r->line);
    if (r->color != 0)
        t->format->address(out, view_of("color"), r->color);
}

void dump_fields_gpu_context(const struct dump_tables *t, struct buf *out,
                             const struct rec_gpu_context *r)
{
    t->format->number(out, view_of("type"), r->type);
    dump_field_string(t, out, "name", r->name);
    t->format->number(out, view_of("thread"), r->thread);
    t->format->real(out, view_of("period"), (double)r->period);
    t->format->number(out, view_of("calibration"), r->calibration);
    t->format->number(out, view_of("overflow"), r->overflow);
}

/* ---- reading */

struct tables_reader {
    struct dump_tables *t;
    bool only_callstacks; /* a second pass, now that their frames are known */
};

TAKE_EACH(put_header, struct dump_tables *t, header, r)
{
    t->layout = file_layout_find(r->version);
    return t->layout ? 0 : err_set(e, ERR_INPUT, "internal error: unknown file version");
}

TAKE_EACH(put_string, struct dump_tables *t, string, r)
{
    bool fresh;
    uint32_t sidx = strings_append(&t->strings, r->text, e);
    if (!sidx)
        return -1;
    uint64_t *number = map_add(&t->string_keys, r->key, &fresh);
    if (!number)
        return no_room(e);
    if (fresh)
        *number = sidx;
    if (r->text.len <= DUMP_TEXT_MAX)
        return 0;
    uint64_t *hash = map_add(&t->long_texts, sidx, NULL);
    if (!hash)
        return no_room(e);
    *hash = dump_hash(r->text);
    return 0;
}

/* A pointer to a key that no string has points nowhere, as in official readers. */
TAKE_EACH(put_pointer, struct dump_tables *t, pair, r)
{
    const uint64_t *number = map_find(&t->string_keys, r->value);
    bool fresh;
    uint64_t *value = number ? map_add(&t->pointers, r->key, &fresh) : NULL;
    if (number && !value)
        return no_room(e);
    if (number && fresh)
        *value = *number;
    return 0;
}

TAKE_EACH(put_location, struct dump_tables *t, source_location, r)
{
    bool fresh;
    uint64_t *number = map_add(&t->location_numbers, r->pointer, &fresh);
    if (!number || (fresh && !pageable_push(&t->pageable, &t->locations, *r)))
        return no_room(e);
    if (fresh)
        *number = t->locations.len - 1;
    return 0;
}

TAKE_EACH(put_payload, struct dump_tables *t, source_location, r)
{
    return pageable_push(&t->pageable, &t->payloads, *r) ? 0 : no_room(e);
}

/* A frame described by the client has a number instead of an address. */
TAKE_EACH(put_callstack, struct dump_tables *t, callstack, r)
{
    t->frames.len = 0;
    if (!vec_reserve(&t->frames, 2 * (size_t)r->len))
        return no_room(e);
    for (unsigned i = 0; i < r->len; i++) {
        bool custom = r->frames[i] & FRAME_ID_CUSTOM;
        t->custom_stacks |= custom;
        if (custom)
            t->frames.at[t->frames.len++] = UINT64_MAX; /* no address */
        t->frames.at[t->frames.len++] = custom ? dump_custom_frame(t, r->frames[i]) : r->frames[i];
    }
    struct view frames = {(const char *)t->frames.at, t->frames.len * sizeof *t->frames.at};
    return pageable_push(&t->pageable, &t->callstacks, dump_hash(frames)) ? 0 : no_room(e);
}

/* Hashes rendered fields and empties the buffer. */
static bool hash_fields(XXH3_state_t *state, struct buf *fields)
{
    struct view view = buf_view(fields);
    bool done = !fields->failed && XXH3_64bits_update(state, view.p, view.len) == XXH_OK;
    buf_clear(fields);
    return done;
}

static bool hash_frame(const struct dump_tables *t, const struct rec_callstack_frame *r,
                       XXH3_state_t *state, struct buf *fields)
{
    bool done = XXH3_64bits_reset(state) == XXH_OK;
    dump_field_string(t, fields, "image", r->image);
    for (unsigned i = 0; i < r->n && done; i++) {
        dump_field_string(t, fields, "function", r->inlines[i].function);
        dump_field_string(t, fields, "file", r->inlines[i].file);
        t->format->number(fields, view_of("line"), r->inlines[i].line);
        t->format->address(fields, view_of("symbol"), r->inlines[i].symbol);
        done = hash_fields(state, fields);
    }
    return done && hash_fields(state, fields);
}

TAKE_EACH(put_custom_frame, struct dump_tables *t, callstack_frame, r)
{
    if (!(r->frame & FRAME_ID_CUSTOM))
        return 0;
    struct buf fields = {0};
    bool fresh;
    XXH3_state_t *state = XXH3_createState();
    bool done = state && hash_frame(t, r, state, &fields);
    uint64_t *hash = done ? map_add(&t->custom_frames, r->frame, &fresh) : NULL;
    if (hash && fresh)
        *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    buf_release(&fields);
    return hash ? 0 : no_room(e);
}

uint64_t dump_image_hash(const struct rec_frame_image *r)
{
    uint64_t head = (uint64_t)r->w | (uint64_t)r->h << 16 | (uint64_t)r->flip << 32;
    return XXH3_64bits_withSeed(r->bytes.p, r->bytes.len, head);
}

TAKE_EACH(put_image, struct dump_tables *t, frame_image, r)
{
    return pageable_push(&t->pageable, &t->images, dump_image_hash(r)) ? 0 : no_room(e);
}

TAKE_EACH(put_gpu_context, struct dump_tables *t, gpu_context, r)
{
    struct buf fields = {0};
    uint8_t number[8];
    dump_fields_gpu_context(t, &fields, r);
    store_u64(number, __builtin_bswap64(t->gpu_contexts++));
    int status = fields.failed ? no_room(e)
                               : line_sort_add(&t->gpu_sort, buf_view(&fields),
                                               (struct view){(char *)number, sizeof number}, e);
    buf_release(&fields);
    return status;
}

TAKE_EACH(put_local_thread, struct dump_tables *t, id, r)
{
    return vec_push(&t->local_threads, r->id) ? 0 : no_room(e);
}

TAKE_EACH(put_external_thread, struct dump_tables *t, id, r)
{
    return vec_push(&t->external_threads, r->id) ? 0 : no_room(e);
}

TAKE_EACH(put_location_expand, struct dump_tables *t, id, r)
{
    return vec_push(&t->location_expands, r->id) ? 0 : no_room(e);
}

TAKE_EACH(put_zone_extra, struct dump_tables *t, zone_extra, r)
{
    return dump_extras_add(&t->extras, r, e);
}

static const record_takers takers = {
    [REC_HEADER] = put_header,
    [REC_STRING] = put_string,
    [REC_STRING_POINTER] = put_pointer,
    [REC_LOCAL_THREAD] = put_local_thread,
    [REC_EXTERNAL_THREAD] = put_external_thread,
    [REC_SOURCE_LOCATION] = put_location,
    [REC_SOURCE_LOCATION_EXPAND] = put_location_expand,
    [REC_SOURCE_LOCATION_PAYLOAD] = put_payload,
    [REC_ZONE_EXTRA] = put_zone_extra,
    [REC_GPU_CONTEXT] = put_gpu_context,
    [REC_CALLSTACK] = put_callstack,
    [REC_CALLSTACK_FRAME] = put_custom_frame,
    [REC_FRAME_IMAGE] = put_image,
};

static int tables_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct tables_reader *reader = ctx;
    if (reader->only_callstacks && type != REC_CALLSTACK)
        return 0;
    int status = records_take(takers, reader->t, type, recs, n, e);
    if (status != 0)
        pageable_explain(&reader->t->pageable, e);
    return status;
}

/* ---- ranks */

struct ranked {
    struct view text;
    uint64_t pointer;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;
    int order = view_compare(x->text, y->text);
    return order != 0 ? order : x->pointer < y->pointer ? -1 : x->pointer > y->pointer;
}

static int rank_pointers(struct dump_tables *t, struct err *e)
{
    size_t n = 0, iter = 0;
    if (t->pointers.count == 0)
        return 0;
    size_t bytes = t->pointers.count * sizeof(struct ranked);
    struct ranked *all = pageable_zeroed(&t->pageable, bytes);
    if (!all)
        return no_room(e);
    for (const struct map_slot *slot; (slot = map_next(&t->pointers, &iter)); n++) {
        all[n].pointer = slot->key;
        all[n].text = strings_get(&t->strings, (uint32_t)slot->value);
    }
    qsort(all, n, sizeof *all, compare_ranked);
    for (size_t i = 0; i < n; i++)
        *map_find(&t->pointers, all[i].pointer) |= (uint64_t)(i + 1) << 32;
    pageable_free(&t->pageable, all, bytes);
    return 0;
}

/* Contexts come in the order of their fields; each line ends with the number in the file. */
static int rank_context(void *ctx, struct view line, struct err *e)
{
    struct dump_tables *t = ctx;
    uint64_t number = __builtin_bswap64(load_u64(line.p + line.len - sizeof number));
    (void)e;
    t->gpu_ranks.at[number] = (uint32_t)t->gpu_ranks.len++;
    return 0;
}

static int rank_gpu_contexts(struct dump_tables *t, struct err *e)
{
    if (!pageable_reserve(&t->pageable, &t->gpu_ranks, t->gpu_contexts))
        return no_room(e);
    return line_sort_drain(&t->gpu_sort, rank_context, t, e);
}

void dump_tables_init(struct dump_tables *t, const struct dump_options *options)
{
    *t = (struct dump_tables){.format = options->format};
    pageable_init(&t->pageable, tempfile_dir(options->spill_dir), STRINGS_IN_MEMORY);
    strings_init(&t->strings);
    strings_use(&t->strings, &t->pageable);
    struct map *maps[] = {&t->string_keys, &t->long_texts, &t->pointers, &t->location_numbers,
                          &t->custom_frames};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        maps[i]->pageable = &t->pageable;
    line_sort_init(&t->gpu_sort, options->sort_bytes, options->spill_dir);
    dump_extras_init(&t->extras, options->spill_dir);
}

int dump_tables_read(struct dump_tables *t, const struct dump_source *source, bool images,
                     struct err *e)
{
    struct tables_reader reader = {.t = t};
    struct record_sink sink = {&reader, tables_put};
    bool wanted[REC_TYPE_COUNT] = {false};
    records_wanted(takers, wanted);
    wanted[REC_FRAME_IMAGE] = images;
    if (source->read(source->ctx, &sink, wanted, e) != 0 || dump_extras_finish(&t->extras, e) != 0)
        return -1;
    if (rank_pointers(t, e) != 0 || rank_gpu_contexts(t, e) != 0) {
        pageable_explain(&t->pageable, e);
        return -1;
    }
    if (!t->custom_stacks)
        return 0;
    reader.only_callstacks = true;
    t->callstacks.len = 0;
    return source->read(source->ctx, &sink, wanted, e);
}

void dump_tables_release(struct dump_tables *t)
{
    strings_release(&t->strings);
    map_release(&t->string_keys);
    map_release(&t->long_texts);
    map_release(&t->pointers);
    vec_release(&t->local_threads);
    vec_release(&t->external_threads);
    map_release(&t->location_numbers);
    pageable_vec_release(&t->pageable, &t->locations);
    vec_release(&t->location_expands);
    pageable_vec_release(&t->pageable, &t->payloads);
    dump_extras_release(&t->extras);
    pageable_vec_release(&t->pageable, &t->callstacks);
    vec_release(&t->frames);
    map_release(&t->custom_frames);
    pageable_vec_release(&t->pageable, &t->images);
    line_sort_release(&t->gpu_sort);
    pageable_vec_release(&t->pageable, &t->gpu_ranks);
    pageable_release(&t->pageable);
}
