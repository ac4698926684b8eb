/*
 * Source locations: equal locations of two inputs become one. An input may have the same code
 * location more than once (templates, inlined functions); the output keeps as many.
 */

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/file/limits.h"
#include "trace/merge/merge_internal.h"

/* A text that no string resolves is identified by its pointer. */
#define BY_POINTER (UINT64_C(1) << 63)

struct locations {
    struct merge *m;
    struct strings contents; /* contents of a location, as bytes → number */
    struct map at;           /* number → index in the output's list + 1 */
    struct map times;        /* for the current input: number → occurrences so far */
};

static uint64_t text_of(const struct merge_input *in, const struct rec_string_ref *r)
{
    if (r->flags == STRING_REF_INDEX)
        return r->value < in->strings.len ? in->strings.at[r->value] : 0;
    if (r->flags != STRING_REF_POINTER)
        return 0;
    const uint64_t *number = map_find(&in->texts, r->value);
    return number ? *number : r->value | BY_POINTER;
}

/* The number of a location's contents, for their `ordinal`-th occurrence in the input. */
static uint32_t content(struct locations *l, const struct merge_input *in,
                        const struct rec_source_location *r, uint64_t ordinal, struct err *e)
{
    uint8_t bytes[40];
    store_u64(bytes, text_of(in, &r->name));
    store_u64(bytes + 8, text_of(in, &r->function));
    store_u64(bytes + 16, text_of(in, &r->file));
    store_u32(bytes + 24, r->line);
    store_u32(bytes + 28, r->color);
    store_u64(bytes + 32, ordinal);
    return strings_intern(&l->contents, (struct view){(const char *)bytes, sizeof bytes}, e);
}

/*
 * `*place` is the entry of such a location: 1 + its index in the output's list, or 0 if it has none
 * yet.
 */
static int find(struct locations *l, const struct merge_input *in,
                const struct rec_source_location *r, uint64_t **place, struct err *e)
{
    uint32_t first = content(l, in, r, 0, e);
    if (!first)
        return -1;
    uint64_t *times = map_add(&l->times, first, NULL);
    if (!times)
        return err_no_memory(e, "source locations");
    uint32_t number = content(l, in, r, (*times)++, e);
    if (!number)
        return -1;
    *place = map_add(&l->at, number, NULL);
    return *place ? 0 : err_no_memory(e, "source locations");
}

static int take_over(struct merge_input *in, struct rec_source_location *r, struct err *e)
{
    if (merge_ref(in, &r->name, e) != 0 || merge_ref(in, &r->function, e) != 0)
        return -1;
    return merge_ref(in, &r->file, e);
}

static int add_static(struct locations *l, struct merge_input *in,
                      const struct rec_source_location *r, struct err *e)
{
    struct merge *m = l->m;
    struct rec_source_location added = *r;
    uint64_t *place, *known;
    bool fresh;
    if (map_find(&in->location_map, r->pointer))
        return 0;
    if (find(l, in, r, &place, e) != 0)
        return -1;
    if (*place == 0) {
        if (take_over(in, &added, e) != 0 || merge_unused(&in->location_map, &m->location_ids,
                                                          r->pointer, 48, &added.pointer, e) != 0)
            return -1;
        if (!pageable_push(&m->pageable, &m->locations, added))
            return err_no_memory(e, "source locations");
        *place = m->locations.len;
        return 0;
    }
    known = map_add(&in->location_map, r->pointer, &fresh);
    if (!known)
        return err_no_memory(e, "source locations");
    *known = m->locations.at[*place - 1].pointer;
    return 0;
}

/* Expanded locations are numbered: `numbers` maps the output's pointers to numbers. */
static int add_expand(struct merge_input *in, uint64_t pointer, struct map *numbers, struct err *e)
{
    struct merge *m = in->m;
    bool fresh;
    const uint64_t *known = map_find(&in->location_map, pointer);
    uint64_t merged = known ? *known : 0;
    if (!known && merge_unused(&in->location_map, &m->location_ids, pointer, 48, &merged, e) != 0)
        return -1;
    uint64_t *number = map_add(numbers, merged, &fresh);
    if (!number)
        return err_no_memory(e, "source locations");
    if (fresh) {
        *number = m->expands.len;
        if (!pageable_push(&m->pageable, &m->expands, merged))
            return err_no_memory(e, "source locations");
    }
    if (m->n > 1 && m->expands.len > LOCATIONS_MAX + 1)
        return 0; /* counted, and rejected below */
    return pageable_push(&in->m->pageable, &in->expand_map, (int16_t)*number)
               ? 0
               : err_no_memory(e, "source locations");
}

static int add_payload(struct locations *l, struct merge_input *in,
                       const struct rec_source_location *r, struct err *e)
{
    struct merge *m = l->m;
    struct rec_source_location added = *r;
    uint64_t *place;
    if (find(l, in, r, &place, e) != 0)
        return -1;
    if (*place == 0) {
        if (take_over(in, &added, e) != 0)
            return -1;
        if (!pageable_push(&m->pageable, &m->payloads, added))
            return err_no_memory(e, "source locations");
        *place = m->payloads.len;
    }
    return pageable_push(&in->m->pageable, &in->payload_map, (int16_t)(-(int64_t)*place))
               ? 0
               : err_no_memory(e, "source locations");
}

static void release(struct locations *l)
{
    strings_release(&l->contents);
    map_release(&l->at);
    map_release(&l->times);
}

static void begin(struct locations *l, struct merge *m)
{
    *l = (struct locations){.m = m, .at.pageable = &m->pageable, .times.pageable = &m->pageable};
    strings_init(&l->contents);
    strings_use(&l->contents, &m->pageable);
    l->contents.limit = UINT32_MAX;
}

static int plan_static(struct merge *m, struct err *e)
{
    struct locations l;
    begin(&l, m);
    struct map numbers = {.pageable = &m->pageable};
    int status = 0;
    for (size_t i = 0; i < m->n && status == 0; i++) {
        struct merge_input *in = m->order[i];
        map_release(&l.times);
        for (size_t k = 0; k < in->locations.len && status == 0; k++)
            status = add_static(&l, in, &in->locations.at[k], e);
        /* Number 0 is no location. */
        if (in->expands.len > 0 && m->expands.len == 0 &&
            !pageable_push(&m->pageable, &m->expands, in->expands.at[0]))
            status = err_no_memory(e, "source locations");
        if (status == 0 && in->expands.len > 0 &&
            !pageable_push(&in->m->pageable, &in->expand_map, 0))
            status = err_no_memory(e, "source locations");
        for (size_t k = 1; k < in->expands.len && status == 0; k++)
            status = add_expand(in, in->expands.at[k], &numbers, e);
    }
    release(&l);
    map_release(&numbers);
    return status;
}

static int plan_payloads(struct merge *m, struct err *e)
{
    struct locations l;
    begin(&l, m);
    int status = 0;
    for (size_t i = 0; i < m->n && status == 0; i++) {
        struct merge_input *in = m->order[i];
        map_release(&l.times);
        for (size_t k = 0; k < in->payloads.len && status == 0; k++)
            status = add_payload(&l, in, &in->payloads.at[k], e);
    }
    release(&l);
    return status;
}

static int check_limit(const char *what, uint64_t n, struct err *e)
{
    if (n <= LOCATIONS_MAX)
        return 0;
    return err_set(e, ERR_INPUT,
                   "the inputs have %" PRIu64 " different %s in all; a trace can have %u", n, what,
                   LOCATIONS_MAX);
}

int merge_plan_locations(struct merge *m, struct err *e)
{
    if (plan_static(m, e) != 0 || plan_payloads(m, e) != 0)
        return -1;
    if (m->n == 1)
        return 0;
    if (m->expands.len > 0 && check_limit("source locations", m->expands.len - 1, e) != 0)
        return -1;
    if (m->locations.len > LOCATIONS_MAX + 1)
        return check_limit("source locations", m->locations.len, e);
    return check_limit("allocated source locations", m->payloads.len, e);
}
