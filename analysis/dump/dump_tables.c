#include "analysis/dump/dump_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "trace/store/callstacks.h"

static int no_room(struct err *e)
{
    return err_no_memory(e, "the tables of the trace");
}

static struct view view_at(const struct dump_tables *t, struct slice s)
{
    return (struct view){(const char *)t->bytes.data + s.at, s.len};
}

uint64_t dump_hash(struct view bytes)
{
    return XXH3_64bits(bytes.p, bytes.len);
}

/* ---- lookups */

bool dump_string(const struct dump_tables *t, uint64_t number, struct view *text)
{
    if (number >= t->strings.len)
        return false;
    *text = view_at(t, t->strings.at[number]);
    return true;
}

bool dump_text_of_key(const struct dump_tables *t, uint64_t key, struct view *text)
{
    const uint64_t *number = map_find(&t->string_keys, key);
    return number && dump_string(t, *number, text);
}

bool dump_text_at(const struct dump_tables *t, uint64_t pointer, struct view *text)
{
    const uint64_t *value = map_find(&t->pointers, pointer);
    return value && dump_string(t, *value & UINT32_MAX, text);
}

uint32_t dump_rank(const struct dump_tables *t, uint64_t pointer)
{
    const uint64_t *value = map_find(&t->pointers, pointer);
    return value ? (uint32_t)(*value >> 32) : 0;
}

struct view dump_location(const struct dump_tables *t, int16_t srcloc)
{
    size_t number = srcloc < 0 ? (size_t) - (int)srcloc - 1 : (size_t)srcloc;
    if (srcloc < 0)
        return number < t->payloads.len ? view_at(t, t->payloads.at[number]) : view_of("");
    if (number == 0 || number >= t->location_expands.len)
        return view_of("");
    const uint64_t *location = map_find(&t->location_numbers, t->location_expands.at[number]);
    return location ? view_at(t, t->locations.at[*location]) : view_of("");
}

uint64_t dump_custom_frame(const struct dump_tables *t, uint64_t frame)
{
    const uint64_t *hash = map_find(&t->custom_frames, frame);
    return hash ? *hash : frame;
}

/* ---- fields */

void dump_field_string(const struct dump_tables *t, struct buf *out, const char *name,
                       uint32_t sidx)
{
    struct view text;
    if (sidx > 0 && dump_string(t, sidx - 1, &text))
        t->format->text(out, view_of(name), text);
}

void dump_field_pointer(const struct dump_tables *t, struct buf *out, const char *name,
                        uint64_t pointer)
{
    struct view text;
    char field[64];
    if (dump_text_at(t, pointer, &text)) {
        t->format->text(out, view_of(name), text);
    } else if (pointer != 0) {
        snprintf(field, sizeof field, "%s_pointer", name);
        t->format->address(out, view_of(field), pointer);
    }
}

void dump_field_ref(const struct dump_tables *t, struct buf *out, const char *name,
                    const struct rec_string_ref *ref)
{
    struct view text;
    if (ref->flags == STRING_REF_POINTER)
        dump_field_pointer(t, out, name, ref->value);
    else if (ref->flags == STRING_REF_INDEX && dump_string(t, ref->value, &text))
        t->format->text(out, view_of(name), text);
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
    bool only_callstacks; /* again, now that their frames are known */
};

static int put_string(struct dump_tables *t, const struct rec_string *r, struct err *e)
{
    struct slice s = {t->bytes.len, r->text.len};
    bool fresh;
    uint64_t *number = map_add(&t->string_keys, r->key, &fresh);
    if (!number)
        return no_room(e);
    if (fresh)
        *number = t->strings.len;
    buf_put(&t->bytes, r->text.p, r->text.len);
    return !t->bytes.failed && vec_push(&t->strings, s) ? 0 : no_room(e);
}

/* A pointer to a key that no string has points nowhere, as for official readers. */
static int put_pointers(struct dump_tables *t, const struct rec_pair *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t *number = map_find(&t->string_keys, r[i].value);
        bool fresh;
        uint64_t *value = number ? map_add(&t->pointers, r[i].key, &fresh) : NULL;
        if (number && !value)
            return no_room(e);
        if (number && fresh)
            *value = *number;
    }
    return 0;
}

static int put_location(struct dump_tables *t, const struct rec_source_location *r, struct slice *s,
                        struct err *e)
{
    /* The fields' texts are parts of t->bytes, which must not move while they are copied. */
    struct buf fields = {0};
    dump_fields_location(t, &fields, r);
    *s = (struct slice){t->bytes.len, fields.len};
    buf_put(&t->bytes, fields.data, fields.len);
    bool failed = fields.failed || t->bytes.failed;
    buf_release(&fields);
    return failed ? no_room(e) : 0;
}

static int put_locations(struct dump_tables *t, const struct rec_source_location *r, size_t n,
                         struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct slice s;
        bool fresh;
        uint64_t *number = map_add(&t->location_numbers, r[i].pointer, &fresh);
        if (!number)
            return no_room(e);
        if (fresh)
            *number = t->locations.len;
        if (put_location(t, &r[i], &s, e) != 0)
            return -1;
        if (!vec_push(&t->locations, s))
            return no_room(e);
    }
    return 0;
}

static int put_payloads(struct dump_tables *t, const struct rec_source_location *r, size_t n,
                        struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct slice s;
        if (put_location(t, &r[i], &s, e) != 0)
            return -1;
        if (!vec_push(&t->payloads, s))
            return no_room(e);
    }
    return 0;
}

/* A frame that the client described itself has a number where others have an address. */
static int put_callstack(struct dump_tables *t, const struct rec_callstack *r, struct err *e)
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
    return vec_push(&t->callstacks, dump_hash(frames)) ? 0 : no_room(e);
}

static int put_custom_frame(struct dump_tables *t, const struct rec_callstack_frame *r,
                            struct err *e)
{
    if (!(r->frame & FRAME_ID_CUSTOM))
        return 0;
    struct buf fields = {0};
    bool fresh;
    dump_field_string(t, &fields, "image", r->image);
    for (unsigned i = 0; i < r->n; i++) {
        dump_field_string(t, &fields, "function", r->inlines[i].name);
        dump_field_string(t, &fields, "file", r->inlines[i].file);
        t->format->number(&fields, view_of("line"), r->inlines[i].line);
        t->format->address(&fields, view_of("symbol"), r->inlines[i].symbol);
    }
    uint64_t *hash = map_add(&t->custom_frames, r->frame, &fresh);
    if (hash && fresh)
        *hash = dump_hash((struct view){buf_str(&fields), fields.len});
    bool failed = fields.failed || !hash;
    buf_release(&fields);
    return failed ? no_room(e) : 0;
}

uint64_t dump_image_hash(const struct rec_frame_image *r)
{
    uint64_t head = (uint64_t)r->w | (uint64_t)r->h << 16 | (uint64_t)r->flip << 32;
    return XXH3_64bits_withSeed(r->bytes.p, r->bytes.len, head);
}

static int put_image(struct dump_tables *t, const struct rec_frame_image *r, struct err *e)
{
    return vec_push(&t->images, dump_image_hash(r)) ? 0 : no_room(e);
}

static int put_gpu_context(struct dump_tables *t, const struct rec_gpu_context *r, struct err *e)
{
    struct buf fields = {0};
    dump_fields_gpu_context(t, &fields, r);
    struct dump_gpu_context c = {{t->bytes.len, fields.len}, t->gpu_contexts.len};
    buf_put(&t->bytes, fields.data, fields.len);
    bool failed = fields.failed || t->bytes.failed;
    buf_release(&fields);
    return !failed && vec_push(&t->gpu_contexts, c) ? 0 : no_room(e);
}

static int put_ids(struct dump_tables *t, enum record_type type, const struct rec_id *r, size_t n,
                   struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        bool kept = type == REC_LOCAL_THREAD      ? vec_push(&t->local_threads, r[i].id)
                    : type == REC_EXTERNAL_THREAD ? vec_push(&t->external_threads, r[i].id)
                                                  : vec_push(&t->location_expands, r[i].id);
        if (!kept)
            return no_room(e);
    }
    return 0;
}

static int tables_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct tables_reader *reader = ctx;
    struct dump_tables *t = reader->t;
    if (reader->only_callstacks)
        return type == REC_CALLSTACK ? put_callstack(t, recs, e) : 0;
    switch (type) {
    case REC_HEADER:
        t->layout = file_layout_find(((const struct rec_header *)recs)->version);
        return t->layout ? 0 : err_set(e, ERR_INPUT, "internal error: unknown file version");
    case REC_STRING:
        return put_string(t, recs, e);
    case REC_STRING_POINTER:
        return put_pointers(t, recs, n, e);
    case REC_LOCAL_THREAD:
    case REC_EXTERNAL_THREAD:
    case REC_SOURCE_LOCATION_EXPAND:
        return put_ids(t, type, recs, n, e);
    case REC_SOURCE_LOCATION:
        return put_locations(t, recs, n, e);
    case REC_SOURCE_LOCATION_PAYLOAD:
        return put_payloads(t, recs, n, e);
    case REC_ZONE_EXTRA:
        return dump_extras_add(&t->extras, recs, n, e);
    case REC_GPU_CONTEXT:
        return put_gpu_context(t, recs, e);
    case REC_CALLSTACK:
        return put_callstack(t, recs, e);
    case REC_CALLSTACK_FRAME:
        return put_custom_frame(t, recs, e);
    case REC_FRAME_IMAGE:
        return put_image(t, recs, e);
    default:
        return 0;
    }
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
    struct ranked *all = malloc(t->pointers.count * sizeof *all);
    if (!all)
        return no_room(e);
    for (const struct map_slot *slot; (slot = map_next(&t->pointers, &iter)); n++) {
        all[n].pointer = slot->key;
        all[n].text = view_at(t, t->strings.at[slot->value]);
    }
    qsort(all, n, sizeof *all, compare_ranked);
    for (size_t i = 0; i < n; i++)
        *map_find(&t->pointers, all[i].pointer) |= (uint64_t)(i + 1) << 32;
    free(all);
    return 0;
}

static int compare_contexts(const void *a, const void *b, void *tables)
{
    const struct dump_gpu_context *x = a;
    const struct dump_gpu_context *y = b;
    int order = view_compare(view_at(tables, x->fields), view_at(tables, y->fields));
    return order != 0 ? order : x->number < y->number ? -1 : x->number > y->number;
}

static int rank_gpu_contexts(struct dump_tables *t, struct err *e)
{
    size_t n = t->gpu_contexts.len;
    if (n == 0)
        return 0;
    if (!vec_reserve(&t->gpu_ranks, n))
        return no_room(e);
    qsort_r(t->gpu_contexts.at, n, sizeof *t->gpu_contexts.at, compare_contexts, t);
    for (size_t i = 0; i < n; i++)
        t->gpu_ranks.at[t->gpu_contexts.at[i].number] = (uint32_t)i;
    t->gpu_ranks.len = n;
    return 0;
}

void dump_tables_init(struct dump_tables *t, const struct dump_options *options)
{
    *t = (struct dump_tables){.format = options->format};
    dump_extras_init(&t->extras, options->spill_dir);
}

int dump_tables_read(struct dump_tables *t, const struct dump_source *source, bool images,
                     struct err *e)
{
    static const enum record_type tables[] = {
        REC_HEADER,       REC_STRING,          REC_STRING_POINTER,
        REC_LOCAL_THREAD, REC_EXTERNAL_THREAD, REC_SOURCE_LOCATION,
        REC_ZONE_EXTRA,   REC_GPU_CONTEXT,     REC_SOURCE_LOCATION_EXPAND,
        REC_CALLSTACK,    REC_CALLSTACK_FRAME, REC_SOURCE_LOCATION_PAYLOAD,
    };
    struct tables_reader reader = {.t = t};
    struct record_sink sink = {&reader, tables_put};
    bool wanted[REC_TYPE_COUNT] = {false};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        wanted[tables[i]] = true;
    wanted[REC_FRAME_IMAGE] = images;
    if (source->read(source->ctx, &sink, wanted, e) != 0 ||
        dump_extras_finish(&t->extras, e) != 0 || rank_pointers(t, e) != 0 ||
        rank_gpu_contexts(t, e) != 0)
        return -1;
    if (!t->custom_stacks)
        return 0;
    reader.only_callstacks = true;
    t->callstacks.len = 0;
    return source->read(source->ctx, &sink, wanted, e);
}

void dump_tables_release(struct dump_tables *t)
{
    buf_release(&t->bytes);
    vec_release(&t->strings);
    map_release(&t->string_keys);
    map_release(&t->pointers);
    vec_release(&t->local_threads);
    vec_release(&t->external_threads);
    map_release(&t->location_numbers);
    vec_release(&t->locations);
    vec_release(&t->location_expands);
    vec_release(&t->payloads);
    dump_extras_release(&t->extras);
    vec_release(&t->callstacks);
    vec_release(&t->frames);
    map_release(&t->custom_frames);
    vec_release(&t->images);
    vec_release(&t->gpu_contexts);
    vec_release(&t->gpu_ranks);
}
