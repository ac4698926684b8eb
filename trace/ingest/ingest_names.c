/* Texts from the client: strings at pointers, source locations, application info. */

#include "trace/ingest/ingest_internal.h"

#include <string.h>
#include <xxhash.h>

int ingest_name_at(struct ingest *in, const struct event *ev, struct err *e)
{
    uint32_t text = strings_intern(&in->trace->strings, ev->name.text, e);
    return text ? strings_bind(&in->trace->strings, ev->name.key, text, e) : -1;
}

/*
 * The table entry of a source location. It is assigned at the first use, as in the official server,
 * since the answer that describes the location arrives later. NULL with *none when the table is
 * full, else when memory is short.
 */
static struct trace_location *location_at(struct ingest *in, uint64_t pointer, bool *none,
                                          struct err *e)
{
    struct trace *t = in->trace;
    const uint64_t *known = map_find(&t->location_numbers, pointer);
    *none = false;
    if (known)
        return &t->locations.at[*known];
    if (t->locations.len >= t->location_limit) {
        *none = true;
        return NULL;
    }
    uint64_t *number = map_add(&t->location_numbers, pointer, NULL);
    const uint64_t *before = map_find(&t->known_location_numbers, pointer);
    const struct trace_location one =
        before ? t->known_locations.at[*before] : (struct trace_location){.pointer = pointer};
    if (!number || !vec_push(&t->locations, one)) {
        err_no_memory(e, "the trace");
        return NULL;
    }
    *number = t->locations.len - 1;
    return &t->locations.at[*number];
}

int ingest_location(struct ingest *in, const struct event *ev, struct err *e)
{
    bool none;
    struct trace_location *l = location_at(in, ev->srcloc_reply.pointer, &none, e);
    if (!l) {
        in->trace->location_overflow += none;
        return none ? 0 : -1;
    }
    if (!l->known)
        *l = (struct trace_location){.pointer = l->pointer,
                                     .name = ev->srcloc_reply.name,
                                     .function = ev->srcloc_reply.function,
                                     .file = ev->srcloc_reply.file,
                                     .line = ev->srcloc_reply.line,
                                     .color = ingest_color(ev->srcloc_reply.color),
                                     .known = true};
    return 0;
}

/* Its index; or NULL, and the hash under which to add it. */
static const uint64_t *find_payload(const struct ingest *in, const struct trace_location_payload *p,
                                    uint64_t *hash)
{
    const uint64_t *at;
    *hash = XXH3_64bits(p, sizeof *p);
    while ((at = map_find(&in->payloads, *hash)) &&
           memcmp(&in->trace->location_payloads.at[*at], p, sizeof *p) != 0)
        (*hash)++;
    return at;
}

int ingest_number_payload(struct ingest *in, uint32_t index, struct err *e)
{
    uint64_t hash;
    if (find_payload(in, &in->trace->location_payloads.at[index], &hash))
        return 0;
    uint64_t *at = map_add(&in->payloads, hash, NULL);
    if (!at)
        return err_no_memory(e, "the trace");
    *at = index;
    return 0;
}

/* Equal payloads share a number: server/TracyWorker.cpp AddSourceLocationPayload @ v0.14.0. */
static int payload_number(struct ingest *in, const struct event_location *from, int16_t *number,
                          struct err *e)
{
    struct trace *t = in->trace;
    struct trace_location_payload p = {.function = strings_intern(&t->strings, from->function, e),
                                       .file = strings_intern(&t->strings, from->file, e),
                                       .line = from->line,
                                       .color = ingest_color(from->color)};
    if (from->name.len)
        p.name = strings_intern(&t->strings, from->name, e);
    if (!p.function || !p.file || (from->name.len && !p.name))
        return -1;
    uint64_t hash;
    const uint64_t *known = find_payload(in, &p, &hash);
    if (!known && t->location_payloads.len >= t->location_limit) {
        t->location_overflow++;
        *number = LOCATION_NONE;
        return 0;
    }
    uint64_t index = known ? *known : t->location_payloads.len;
    if (!known &&
        (!vec_push(&t->location_payloads, p) || ingest_number_payload(in, (uint32_t)index, e) != 0))
        return err_no_memory(e, "the trace");
    *number = (int16_t)(-1 - (int16_t)index);
    return 0;
}

int ingest_location_number(struct ingest *in, uint64_t pointer,
                           const struct event_location *payload, int16_t *number, struct err *e)
{
    if (payload)
        return payload_number(in, payload, number, e);
    if (pointer == in->last_location && in->last_location_number) {
        *number = in->last_location_number;
        return 0;
    }
    bool none;
    const struct trace_location *l = location_at(in, pointer, &none, e);
    if (!l && !none)
        return -1;
    *number = l ? (int16_t)(l - in->trace->locations.at + 1) : LOCATION_NONE;
    in->last_location = pointer;
    in->last_location_number = *number;
    return 0;
}

int ingest_app_info(struct ingest *in, const struct event *ev, struct err *e)
{
    uint32_t text = strings_intern(&in->trace->strings, ev->text, e);
    if (!text)
        return -1;
    ingest_time(in, ingest_part_time(in, ev->time));
    return vec_push(&in->trace->app_info, text) ? 0 : err_no_memory(e, "the trace");
}
