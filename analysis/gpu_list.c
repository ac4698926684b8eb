#include "analysis/gpu_list.h"

void gpu_list_release(struct gpu_list *l)
{
    vec_release(&l->open);
    hash_order_release(&l->order);
    map_release(&l->threads);
    vec_release(&l->segments);
}

static uint64_t segment_length(const struct gpu_list *l, size_t i)
{
    uint64_t end = i + 1 < l->segments.len ? l->segments.at[i + 1].first : l->count;
    return end - l->segments.at[i].first;
}

static void place_segment(struct gpu_list *l, size_t i, uint64_t *next)
{
    l->segments.at[i].moved = *next;
    l->moved |= *next != l->segments.at[i].first;
    *next += segment_length(l, i);
}

int gpu_list_context(struct gpu_list *l, struct err *e)
{
    uint64_t next = l->context < l->segments.len ? l->segments.at[l->context].first : 0;
    size_t iter = 0;
    uint64_t id;
    while (hash_order_next(&l->order, &iter, &id))
        place_segment(l, (size_t)*map_find(&l->threads, id), &next);
    l->context = l->segments.len;
    hash_order_release(&l->order);
    map_release(&l->threads);
    return hash_order_init(&l->order, 0, e);
}

/* A thread that comes twice in a context, which no tool writes, stays where it first was. */
int gpu_list_thread(struct gpu_list *l, const struct rec_gpu_thread *r, struct err *e)
{
    bool fresh;
    if (r->n == 0)
        return 0;
    uint64_t *at = map_add(&l->threads, r->id, &fresh);
    if (!at)
        return err_no_memory(e, "threads of GPU zones");
    if (!fresh)
        return err_set(e, ERR_INPUT, "a GPU context that has the same thread twice");
    *at = l->segments.len;
    if (!vec_push(&l->segments, (struct zone_segment){l->count, l->count}))
        return err_no_memory(e, "threads of GPU zones");
    return hash_order_add(&l->order, r->id, NULL, e);
}

int gpu_list_begin(struct gpu_list *l, const struct rec_gpu_zone_begin *r, struct err *e)
{
    struct open_gpu_zone zone = {l->count++, r->gpu_start, r->srcloc};
    return vec_push(&l->open, zone) ? 0 : err_no_memory(e, "nested GPU zones");
}

bool gpu_list_end(struct gpu_list *l, const struct rec_gpu_zone_end *r, struct gpu_zone *out)
{
    const struct open_gpu_zone *zone = &l->open.at[--l->open.len];
    *out = (struct gpu_zone){zone->number, zone->start, r->gpu_end - zone->start, zone->srcloc};
    return r->gpu_end >= 0 && out->span > 0;
}

int gpu_list_finish(struct gpu_list *l, struct zone_list *rows, struct err *e)
{
    if (gpu_list_context(l, e) != 0)
        return -1;
    for (size_t i = 0; l->moved && i < l->segments.len; i++) {
        if (!vec_push(&rows->segments, l->segments.at[i]))
            return err_no_memory(e, "threads of GPU zones");
    }
    return 0;
}
