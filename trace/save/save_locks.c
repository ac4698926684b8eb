/* Locks. */

#include <stdlib.h>

#include "trace/save/save_lists.h"

static int compare_ids(const void *a, const void *b, void *ctx)
{
    const struct locks *l = ctx;
    uint32_t x = l->list.at[*(const uint32_t *)a].id;
    uint32_t y = l->list.at[*(const uint32_t *)b].id;
    return x < y ? -1 : x > y;
}

/* By id, so that equal captures give equal files. */
static void order_locks(struct list_save *save)
{
    struct locks *l = &save->s->t->locks;
    for (uint32_t i = 0; i < l->list.len; i++)
        save->order[save->n++] = i;
    qsort_r(save->order, save->n, sizeof *save->order, compare_ids, l);
}

static int begin_lock(void *ctx, uint32_t list, struct err *e)
{
    const struct list_save *save = ctx;
    const struct lock *l = &save->s->t->locks.list.at[save->order[list]];
    struct rec_lock r = {.id = l->id,
                         .custom_name = l->name,
                         .srcloc = l->location,
                         .type = l->type,
                         .valid = 1,
                         .time_announce = l->announced,
                         .time_terminate = l->ended,
                         .n = l->threads.len};
    if (put(save->s, REC_LOCK, &r) != 0)
        return -1;
    struct rec_id ids[LOCK_THREADS_MAX];
    for (size_t i = 0; i < l->threads.len; i++)
        ids[i].id = l->threads.at[i].id;
    if (l->threads.len && record_put(save->s->sink, REC_LOCK_THREAD, ids, l->threads.len, e) != 0)
        return -1;
    return put_count(save->s, REC_LOCK_EVENTS, l->count);
}

/* `value` is the source location, `extra` thread and kind. */
static int fill_event(struct list_save *save, void *rec, const struct group_item *item,
                      struct err *e)
{
    (void)save, (void)e;
    *(struct rec_lock_event *)rec = (struct rec_lock_event){.time = item->time,
                                                            .srcloc = (int16_t)item->value,
                                                            .thread = (uint8_t)(item->extra >> 8),
                                                            .event = (uint8_t)item->extra};
    return 0;
}

static int group_lock_events(struct list_save *save, struct grouper *g, struct err *e)
{
    struct locks *l = &save->s->t->locks;
    struct column_walk events = column_walk(&l->events), locations = column_walk(&l->locations);
    int status = 0;
    for (struct column_two both; (both = column_walk_two(&events, &locations, &status, e)).first;) {
        const struct lock_event *ev = both.first;
        struct group_item item = {.time = ev->time,
                                  .value = (uint64_t) * (const int16_t *)both.second,
                                  .list = save->lists[ev->lock],
                                  .extra = (uint32_t)ev->thread << 8 | ev->kind};
        status = grouper_add(g, item, l->list.at[ev->lock].disorder, e);
    }
    return status;
}

int save_locks(struct saver *s)
{
    static const struct list_kind kind = {REC_LOCKS,         REC_LOCK_EVENT, order_locks,
                                          group_lock_events, begin_lock,     fill_event};
    struct list_save save = {.s = s, .kind = &kind};
    int status = save_lists(&save, s->t->locks.list.len, s->t->locks.events.len);
    list_save_release(&save);
    return status;
}
