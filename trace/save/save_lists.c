#include "trace/save/save_lists.h"

#include <stdlib.h>

#define BATCH 512u

static int put_items(void *ctx, const struct group_item *items, size_t n, struct err *e)
{
    struct list_save *save = ctx;
    const size_t size = record_size(save->kind->item);
    for (size_t i = 0; i < n;) {
        size_t run = 0;
        for (; run < BATCH && i < n; run++, i++) {
            if (save->kind->fill(save, save->batch + run * size, &items[i], e) != 0)
                return -1;
        }
        if (record_put(save->s->sink, save->kind->item, save->batch, run, e) != 0)
            return -1;
    }
    return 0;
}

static int put_lists(struct list_save *save, struct grouper *g)
{
    const struct list_kind *kind = save->kind;
    const struct group_sink sink = {.ctx = save, .begin = kind->begin, .items = put_items};
    kind->order(save);
    for (uint32_t i = 0; i < save->n; i++)
        save->lists[save->order[i]] = i;
    if (put_count(save->s, kind->counts, save->n) != 0 || kind->group(save, g, save->s->e) != 0)
        return -1;
    return grouper_drain(g, save->n, &sink, save->s->e);
}

int save_lists(struct list_save *save, size_t numbers, uint64_t items)
{
    struct grouper g;
    save->order = malloc((numbers + 1) * sizeof *save->order);
    save->lists = malloc((numbers + 1) * sizeof *save->lists);
    save->batch = malloc(BATCH * record_size(save->kind->item));
    if (!save->order || !save->lists || !save->batch)
        return err_no_memory(save->s->e, "saving");
    grouper_init(&g, items, &save->s->t->spool);
    int status = put_lists(save, &g);
    grouper_release(&g);
    return status;
}

void list_save_release(struct list_save *save)
{
    free(save->order);
    free(save->lists);
    free(save->batch);
}
