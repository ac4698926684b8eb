#include "analysis/names/names.h"

#include "base/tempfile.h"
#include "trace/file/record_takers.h"

void names_init(struct names *n)
{
    *n = (struct names){0};
    strings_init(&n->strings);
    pageable_init(&n->pageable, tempfile_dir(NULL), STRINGS_IN_MEMORY);
    strings_use(&n->strings, &n->pageable);
    n->string_keys.pageable = n->thread_names.pageable = n->thread_numbers.pageable =
        n->location_numbers.pageable = &n->pageable;
}

void names_release(struct names *n)
{
    strings_release(&n->strings);
    map_release(&n->string_keys);
    map_release(&n->thread_names);
    map_release(&n->thread_numbers);
    vec_release(&n->threads);
    map_release(&n->location_numbers);
    pageable_vec_release(&n->pageable, &n->locations);
    vec_release(&n->expands);
    vec_release(&n->payloads);
    pageable_release(&n->pageable);
}

static int no_room(struct err *e)
{
    return err_no_memory(e, "the names of the trace");
}

/* Official tools end texts at the first zero byte. */
TAKE_EACH(put_string, struct names *n, string, r)
{
    bool fresh;
    struct view text = {r->text.p, r->text.len ? strnlen(r->text.p, r->text.len) : 0};
    uint32_t number = strings_append(&n->strings, text, e);
    if (!number)
        return -1;
    uint64_t *value = map_add(&n->string_keys, r->key, &fresh);
    if (!value)
        return no_room(e);
    if (fresh)
        *value = number;
    return 0;
}

static uint32_t string_of_key(const struct names *n, uint64_t key)
{
    const uint64_t *number = map_find(&n->string_keys, key);
    return number ? (uint32_t)*number : 0;
}

TAKE_EACH(put_pointer, struct names *n, pair, r)
{
    uint32_t number = string_of_key(n, r->value);
    return number ? strings_bind(&n->strings, r->key, number, e) : 0;
}

/* Keeps the first value of a key. */
static int put_pair(struct map *m, uint64_t key, uint64_t value, struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(m, key, &fresh);
    if (!at)
        return no_room(e);
    if (fresh)
        *at = value;
    return 0;
}

TAKE_EACH(put_thread_name, struct names *n, pair, r)
{
    uint32_t number = string_of_key(n, r->value);
    return number ? put_pair(&n->thread_names, r->key, number, e) : 0;
}

static int add_thread(struct names *n, uint64_t id, struct err *e)
{
    if (put_pair(&n->thread_numbers, id, n->threads.len, e) != 0)
        return -1;
    return vec_push(&n->threads, id) ? 0 : no_room(e);
}

TAKE_EACH(put_thread, struct names *n, id, r)
{
    return add_thread(n, r->id, e);
}

TAKE_EACH(put_location, struct names *n, source_location, r)
{
    if (put_pair(&n->location_numbers, r->pointer, n->locations.len, e) != 0)
        return -1;
    return pageable_push(&n->pageable, &n->locations, *r) ? 0 : no_room(e);
}

TAKE_EACH(put_expand, struct names *n, id, r)
{
    return vec_push(&n->expands, r->id) ? 0 : no_room(e);
}

TAKE_EACH(put_payload, struct names *n, source_location, r)
{
    return vec_push(&n->payloads, *r) ? 0 : no_room(e);
}

static const record_takers takers = {
    [REC_STRING] = put_string,
    [REC_STRING_POINTER] = put_pointer,
    [REC_THREAD_NAME] = put_thread_name,
    [REC_LOCAL_THREAD] = put_thread,
    [REC_SOURCE_LOCATION] = put_location,
    [REC_SOURCE_LOCATION_EXPAND] = put_expand,
    [REC_SOURCE_LOCATION_PAYLOAD] = put_payload,
};

int names_put(struct names *n, enum record_type type, const void *recs, size_t count, struct err *e)
{
    int status = records_take(takers, n, type, recs, count, e);
    if (status != 0)
        pageable_explain(&n->pageable, e);
    return status;
}

void names_wanted(bool wanted[REC_TYPE_COUNT])
{
    records_wanted(takers, wanted);
}

static const struct view unknown = {"???", 3};

struct view names_string(const struct names *n, uint32_t number)
{
    return number == 0 || number > n->strings.list.len ? unknown : strings_get(&n->strings, number);
}

struct view names_pointer(const struct names *n, uint64_t pointer)
{
    return names_string(n, strings_at_pointer(&n->strings, pointer));
}

bool names_knows(const struct names *n, uint64_t pointer)
{
    return strings_at_pointer(&n->strings, pointer) != 0;
}

struct view names_ref(const struct names *n, const struct rec_string_ref *r)
{
    if (r->flags & 1)
        return r->value < n->strings.list.len ? names_string(n, (uint32_t)r->value + 1) : unknown;
    return r->flags == STRING_REF_POINTER ? names_pointer(n, r->value) : unknown;
}

const struct rec_source_location *names_location(const struct names *n, int16_t srcloc)
{
    if (srcloc < 0) {
        size_t index = (size_t)(-1 - srcloc);
        return index < n->payloads.len ? &n->payloads.at[index] : NULL;
    }
    if ((size_t)srcloc >= n->expands.len) /* 32,767, "none", always is */
        return NULL;
    const uint64_t *number = map_find(&n->location_numbers, n->expands.at[srcloc]);
    return number ? &n->locations.at[*number] : NULL;
}

struct view names_location_name(const struct names *n, const struct rec_source_location *l)
{
    if (!l)
        return unknown;
    return names_ref(n, l->name.flags & 2 ? &l->name : &l->function);
}

int names_add_thread(struct names *n, uint64_t id, uint32_t *number, struct err *e)
{
    if (!map_find(&n->thread_numbers, id) && add_thread(n, id, e) != 0)
        return -1;
    *number = (uint16_t)*map_find(&n->thread_numbers, id);
    return 0;
}

struct view names_thread(const struct names *n, uint32_t number)
{
    const uint64_t *name =
        number < n->threads.len ? map_find(&n->thread_names, n->threads.at[number]) : NULL;
    return name ? strings_get(&n->strings, (uint32_t)*name) : (struct view){"", 0};
}
