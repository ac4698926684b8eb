#include "analysis/names/names.h"

#include "base/tempfile.h"

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

/* Official tools end texts at the first zero byte. */
static int put_string(struct names *n, const struct rec_string *r, struct err *e)
{
    bool fresh;
    struct view text = {r->text.p, r->text.len ? strnlen(r->text.p, r->text.len) : 0};
    uint32_t number = strings_append(&n->strings, text, e);
    if (!number)
        return -1;
    uint64_t *value = map_add(&n->string_keys, r->key, &fresh);
    if (!value)
        return err_no_memory(e, "the names of the trace");
    if (fresh)
        *value = number;
    return 0;
}

static uint32_t string_of_key(const struct names *n, uint64_t key)
{
    const uint64_t *number = map_find(&n->string_keys, key);
    return number ? (uint32_t)*number : 0;
}

static int put_pointers(struct names *n, const struct rec_pair *r, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t number = string_of_key(n, r[i].value);
        if (number && strings_bind(&n->strings, r[i].key, number, e) != 0)
            return -1;
    }
    return 0;
}

/* Keeps the first value of a key. */
static int put_pair(struct map *m, uint64_t key, uint64_t value, struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(m, key, &fresh);
    if (!at)
        return err_no_memory(e, "the names of the trace");
    if (fresh)
        *at = value;
    return 0;
}

static int put_thread_names(struct names *n, const struct rec_pair *r, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t number = string_of_key(n, r[i].value);
        if (number && put_pair(&n->thread_names, r[i].key, number, e) != 0)
            return -1;
    }
    return 0;
}

static int put_threads(struct names *n, const struct rec_id *r, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        if (put_pair(&n->thread_numbers, r[i].id, n->threads.len, e) != 0)
            return -1;
        if (!vec_push(&n->threads, r[i].id))
            return err_no_memory(e, "the names of the trace");
    }
    return 0;
}

static int put_locations(struct names *n, const struct rec_source_location *r, size_t count,
                         struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        if (put_pair(&n->location_numbers, r[i].pointer, n->locations.len, e) != 0)
            return -1;
        if (!pageable_push(&n->pageable, &n->locations, r[i]))
            return err_no_memory(e, "the names of the trace");
    }
    return 0;
}

static int put_expands(struct names *n, const struct rec_id *r, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        if (!vec_push(&n->expands, r[i].id))
            return err_no_memory(e, "the names of the trace");
    }
    return 0;
}

static int put_payloads(struct names *n, const struct rec_source_location *r, size_t count,
                        struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        if (!vec_push(&n->payloads, r[i]))
            return err_no_memory(e, "the names of the trace");
    }
    return 0;
}

static int put_records(struct names *n, enum record_type type, const void *recs, size_t count,
                       struct err *e)
{
    switch (type) {
    case REC_STRING:
        return put_string(n, recs, e);
    case REC_STRING_POINTER:
        return put_pointers(n, recs, count, e);
    case REC_THREAD_NAME:
        return put_thread_names(n, recs, count, e);
    case REC_LOCAL_THREAD:
        return put_threads(n, recs, count, e);
    case REC_SOURCE_LOCATION:
        return put_locations(n, recs, count, e);
    case REC_SOURCE_LOCATION_EXPAND:
        return put_expands(n, recs, count, e);
    case REC_SOURCE_LOCATION_PAYLOAD:
        return put_payloads(n, recs, count, e);
    default:
        return 0;
    }
}

int names_put(struct names *n, enum record_type type, const void *recs, size_t count, struct err *e)
{
    int status = put_records(n, type, recs, count, e);
    if (status != 0)
        pageable_explain(&n->pageable, e);
    return status;
}

void names_wanted(bool wanted[REC_TYPE_COUNT])
{
    static const enum record_type types[] = {REC_STRING,
                                             REC_STRING_POINTER,
                                             REC_THREAD_NAME,
                                             REC_LOCAL_THREAD,
                                             REC_SOURCE_LOCATION,
                                             REC_SOURCE_LOCATION_EXPAND,
                                             REC_SOURCE_LOCATION_PAYLOAD};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        wanted[types[i]] = true;
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
    if (!map_find(&n->thread_numbers, id) && put_threads(n, &(struct rec_id){id}, 1, e) != 0)
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
