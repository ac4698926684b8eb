/* The first reading of an input: its tables, and the lengths of lists that others refer to. */

#include <string.h>
#include <xxhash.h>

#include "trace/file/record_takers.h"
#include "trace/merge/merge_internal.h"

static int no_room(struct err *e)
{
    return err_no_memory(e, "the tables of a trace");
}

/* A scan of one expression on the record `r`. */
#define SCAN(NAME, STRUCT, RESULT)                                                                 \
    TAKE_EACH(NAME, struct merge_input *in, STRUCT, r)                                             \
    {                                                                                              \
        return RESULT;                                                                             \
    }
#define KEEP(LIST, VALUE) (pageable_push(&in->m->pageable, &in->LIST, VALUE) ? 0 : no_room(e))

/* Copies header texts, which must outlive the record. */
static int keep_aside(struct merge *m, struct view *text, struct err *e)
{
    uint32_t number = strings_intern(&m->aside, *text, e);
    if (!number)
        return -1;
    *text = strings_get(&m->aside, number);
    return 0;
}

TAKE_EACH(scan_header, struct merge_input *in, header, r)
{
    in->header = *r;
    if (keep_aside(in->m, &in->header.capture_name, e) != 0 ||
        keep_aside(in->m, &in->header.capture_program, e) != 0)
        return -1;
    return keep_aside(in->m, &in->header.host_info, e);
}

SCAN(scan_crash, crash, (in->crash = *r, 0))

TAKE_EACH(scan_string, struct merge_input *in, string, r)
{
    bool fresh;
    uint32_t number = strings_intern(&in->m->strings, r->text, e);
    if (!number)
        return -1;
    uint64_t *value = map_add(&in->keys, r->key, &fresh);
    if (!value || !pageable_push(&in->m->pageable, &in->strings, number))
        return no_room(e);
    if (fresh)
        *value = number;
    return 0;
}

/* As in official readers, a name without a string is none, and the first one of a key counts. */
static int keep_name(struct merge_input *in, struct map *numbers, merge_pair_list *list,
                     const struct rec_pair *r, struct err *e)
{
    const uint64_t *number = map_find(&in->keys, r->value);
    bool fresh;
    if (!number)
        return 0;
    uint64_t *value = map_add(numbers, r->key, &fresh);
    if (!value)
        return no_room(e);
    if (!fresh)
        return 0;
    *value = *number;
    return pageable_push(&in->m->pageable, list, (struct rec_pair){r->key, *number}) ? 0
                                                                                     : no_room(e);
}

SCAN(scan_pointer, pair, keep_name(in, &in->texts, &in->pointers, r, e))
SCAN(scan_thread_name, pair, keep_name(in, &in->named_threads, &in->thread_names, r, e))

TAKE_EACH(scan_external_name, struct merge_input *in, external_name, rec)
{
    struct rec_external_name r = *rec;
    const uint64_t *program = map_find(&in->keys, r.program_key);
    const uint64_t *thread = map_find(&in->keys, r.thread_key);
    if (!program || !thread)
        return 0;
    r.program_key = *program;
    r.thread_key = *thread;
    return pageable_push(&in->m->pageable, &in->external_names, r) ? 0 : no_room(e);
}

SCAN(scan_local, id, KEEP(local_threads, r->id))
SCAN(scan_external, id, KEEP(external_threads, r->id))
SCAN(scan_location, source_location, KEEP(locations, *r))
SCAN(scan_expand, id, KEEP(expands, r->id))
SCAN(scan_payload, source_location, KEEP(payloads, *r))
SCAN(scan_app_info, string_ref, KEEP(app_info, *r))

/* ---- named things */

static int keep_named(struct merge_input *in, enum merge_kind kind, struct merge_named named,
                      struct err *e)
{
    return pageable_push(&in->m->pageable, &in->named[kind], named) ? 0 : no_room(e);
}

/* The section category of that number, created if missing. NULL when memory is short. */
static struct merge_named *category_at(struct merge_input *in, uint64_t category)
{
    merge_named_list *list = &in->named[KIND_CATEGORY];
    uint64_t *place = map_add(&in->categories, category, NULL);
    if (!place || (*place == 0 &&
                   !pageable_push(&in->m->pageable, list, (struct merge_named){.key = category})))
        return NULL;
    if (*place == 0)
        *place = list->len;
    return &list->at[*place - 1];
}

/* Frame sets and categories precede the strings: their names are looked up later. */
TAKE_EACH(scan_frame_set, struct merge_input *in, frame_set, r)
{
    return keep_named(in, KIND_FRAME_SET, (struct merge_named){.key = r->name, .n = r->n}, e);
}

/* 0.13.4 has one list without a category: trace/filter/convert.h makes it number 0. */
TAKE_EACH(scan_section_list, struct merge_input *in, section_list, r)
{
    bool flat = in->info.layout->sections == SECTIONS_FLAT;
    return category_at(in, flat ? 0 : r->category) ? 0 : no_room(e);
}

/* `new_name` holds the string index until the strings are known. */
TAKE_EACH(scan_category, struct merge_input *in, section_category, r)
{
    struct merge_named *named = category_at(in, r->category);
    if (!named)
        return no_room(e);
    named->new_name = r->description;
    return 0;
}

TAKE_EACH(scan_lock, struct merge_input *in, lock, r)
{
    struct merge_named named = {.key = r->id, .name = merge_sidx(in, r->custom_name)};
    return keep_named(in, KIND_LOCK, named, e);
}

TAKE_EACH(scan_context, struct merge_input *in, gpu_context, r)
{
    struct merge_named named = {.name = merge_sidx(in, r->name)};
    return keep_named(in, KIND_CONTEXT, named, e);
}

static uint32_t text_at(const struct merge_input *in, uint64_t pointer)
{
    const uint64_t *number = map_find(&in->texts, pointer);
    return number ? (uint32_t)*number : 0;
}

TAKE_EACH(scan_plot, struct merge_input *in, plot, r)
{
    struct merge_named named = {.key = r->name, .name = text_at(in, r->name)};
    return keep_named(in, KIND_PLOT, named, e);
}

TAKE_EACH(scan_pool, struct merge_input *in, pool, r)
{
    struct merge_named named = {.key = r->key, .n = r->events, .name = text_at(in, r->key)};
    in->m->outcome->memory_events += r->events;
    if (keep_named(in, KIND_POOL, named, e) != 0)
        return -1;
    uint64_t *place = map_add(&in->pools, r->key, NULL);
    if (!place)
        return no_room(e);
    *place = *place ? *place : in->named[KIND_POOL].len;
    return 0;
}

/* ---- lengths, and data keyed by address */

static int use_key(struct merge_input *in, uint64_t key)
{
    unsigned top = (unsigned)(key >> 48);
    in->key_tops[top / 64] |= UINT64_C(1) << top % 64;
    return 0;
}

SCAN(scan_extras, count, (in->extras = r->n, 0))
SCAN(scan_callstacks, count, (in->callstacks = r->n, 0))
SCAN(scan_images, count, (in->images = r->n, 0))
SCAN(scan_message, message, use_key(in, r->key))
SCAN(scan_thread_message, id, use_key(in, r->id))

static int use_address(struct merge_input *in, uint64_t address, struct err *e)
{
    uint64_t region = address >> MERGE_REGION_BITS;
    if (region == in->last_region)
        return 0;
    in->last_region = region;
    return map_add(&in->regions, region, NULL) ? 0 : no_room(e);
}

TAKE_EACH(scan_callstack, struct merge_input *in, callstack, r)
{
    int status = 0;
    for (unsigned i = 0; i < r->len && status == 0; i++)
        status = use_address(in, r->frames[i], e);
    return status;
}

TAKE_EACH(scan_frame, struct merge_input *in, callstack_frame, r)
{
    int status = use_address(in, r->frame, e);
    for (unsigned i = 0; i < r->n && status == 0; i++) {
        if (r->inlines[i].symbol != 0)
            status = use_address(in, r->inlines[i].symbol, e);
    }
    return status;
}

TAKE_EACH(scan_code_symbol, struct merge_input *in, pair, r)
{
    if (use_address(in, r->key, e) != 0)
        return -1;
    return r->value != 0 ? use_address(in, r->value, e) : 0;
}

SCAN(scan_symbol, symbol, use_address(in, r->address, e))
SCAN(scan_code, symbol_code, use_address(in, r->address, e))
SCAN(scan_hw_sample, id, use_address(in, r->id, e))

TAKE_EACH(scan_source_file, struct merge_input *in, source_file, r)
{
    struct merge_file file = {.path = strings_intern(&in->m->aside, r->path, e),
                              .content = XXH3_64bits(r->bytes.len ? r->bytes.p : "", r->bytes.len)};
    if (!file.path)
        return -1;
    return pageable_push(&in->m->pageable, &in->files, file) ? 0 : no_room(e);
}

static const record_takers scans = {
    [REC_HEADER] = scan_header,
    [REC_CRASH] = scan_crash,
    [REC_FRAME_SET] = scan_frame_set,
    [REC_SECTION_LIST] = scan_section_list,
    [REC_SECTION_CATEGORY] = scan_category,
    [REC_STRING] = scan_string,
    [REC_STRING_POINTER] = scan_pointer,
    [REC_THREAD_NAME] = scan_thread_name,
    [REC_EXTERNAL_NAME] = scan_external_name,
    [REC_LOCAL_THREAD] = scan_local,
    [REC_EXTERNAL_THREAD] = scan_external,
    [REC_SOURCE_LOCATION] = scan_location,
    [REC_SOURCE_LOCATION_EXPAND] = scan_expand,
    [REC_SOURCE_LOCATION_PAYLOAD] = scan_payload,
    [REC_LOCK] = scan_lock,
    [REC_MESSAGE] = scan_message,
    [REC_ZONE_EXTRAS] = scan_extras,
    [REC_THREAD_MESSAGE] = scan_thread_message,
    [REC_GPU_CONTEXT] = scan_context,
    [REC_PLOT] = scan_plot,
    [REC_POOL] = scan_pool,
    [REC_CALLSTACKS] = scan_callstacks,
    [REC_CALLSTACK] = scan_callstack,
    [REC_CALLSTACK_FRAME] = scan_frame,
    [REC_APP_INFO] = scan_app_info,
    [REC_FRAME_IMAGES] = scan_images,
    [REC_SYMBOL] = scan_symbol,
    [REC_SYMBOL_CODE] = scan_code,
    [REC_CODE_SYMBOL] = scan_code_symbol,
    [REC_HW_SAMPLE] = scan_hw_sample,
    [REC_SOURCE_FILE] = scan_source_file,
};

static int scan_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    return records_take(scans, ctx, type, recs, n, e);
}

/* Resolves the names of early things now that the strings are known. */
static void name_early_things(struct merge_input *in)
{
    merge_named_list *sets = &in->named[KIND_FRAME_SET];
    merge_named_list *categories = &in->named[KIND_CATEGORY];
    for (size_t i = 0; i < sets->len; i++)
        sets->at[i].name = text_at(in, sets->at[i].key);
    for (size_t i = 0; i < categories->len; i++) {
        categories->at[i].name = merge_sidx(in, categories->at[i].new_name);
        categories->at[i].new_name = 0;
    }
}

int merge_scan(struct merge *m, struct merge_input *in, struct err *e)
{
    bool wanted[REC_TYPE_COUNT] = {false};
    const struct record_sink sink = {in, scan_put};
    records_wanted(scans, wanted);
    in->last_region = UINT64_MAX;
    if (m->source->read(m->source->ctx, in->number, 0, &sink, wanted, &in->info, e) != 0)
        return -1;
    name_early_things(in);
    return 0;
}
