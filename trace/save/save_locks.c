/* Locks. */

#include "trace/save/save_internal.h"

#include <stdlib.h>

#include "trace/store/grouper.h"

#define BATCH 512u

struct lock_rank {
    uint32_t id, number;
};

struct lock_save {
    struct saver *s;
    struct lock_rank *order; /* by id, so that equal captures give equal files */
    uint32_t *lists;         /* lock number → position in `order` */
};

static int compare_ids(const void *a, const void *b)
{
    const struct lock_rank *x = a;
    const struct lock_rank *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int order_locks(struct lock_save *save)
{
    const struct locks *l = &save->s->t->locks;
    save->order = malloc((l->list.len + 1) * sizeof *save->order);
    save->lists = malloc((l->list.len + 1) * sizeof *save->lists);
    if (!save->order || !save->lists)
        return err_no_memory(save->s->e, "saving");
    for (uint32_t i = 0; i < l->list.len; i++)
        save->order[i] = (struct lock_rank){l->list.at[i].id, i};
    qsort(save->order, l->list.len, sizeof *save->order, compare_ids);
    for (uint32_t i = 0; i < l->list.len; i++)
        save->lists[save->order[i].number] = i;
    return 0;
}

static int begin_lock(void *ctx, uint32_t list, struct err *e)
{
    const struct lock_save *save = ctx;
    const struct lock *l = &save->s->t->locks.list.at[save->order[list].number];
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
static int put_lock_events(void *ctx, const struct group_item *items, size_t n, struct err *e)
{
    const struct lock_save *save = ctx;
    struct rec_lock_event batch[BATCH];
    for (size_t i = 0; i < n;) {
        size_t run = 0;
        for (; run < BATCH && i < n; run++, i++)
            batch[run] = (struct rec_lock_event){.time = items[i].time,
                                                 .srcloc = (int16_t)items[i].value,
                                                 .thread = (uint8_t)(items[i].extra >> 8),
                                                 .event = (uint8_t)items[i].extra};
        if (record_put(save->s->sink, REC_LOCK_EVENT, batch, run, e) != 0)
            return -1;
    }
    return 0;
}

static int group_lock_events(const struct lock_save *save, struct grouper *g)
{
    struct locks *l = &save->s->t->locks;
    struct column_walk events = column_walk(&l->events), locations = column_walk(&l->locations);
    struct err *e = save->s->e;
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
    struct lock_save save = {.s = s};
    const struct group_sink sink = {.ctx = &save, .begin = begin_lock, .items = put_lock_events};
    const uint32_t n = (uint32_t)s->t->locks.list.len;
    struct grouper g;
    grouper_init(&g, s->t->locks.events.len, &s->t->spool);
    int status = order_locks(&save);
    if (status == 0)
        status = put_count(s, REC_LOCKS, n);
    if (status == 0)
        status = group_lock_events(&save, &g);
    if (status == 0)
        status = grouper_drain(&g, n, &sink, s->e);
    grouper_release(&g);
    free(save.order);
    free(save.lists);
    return status;
}
