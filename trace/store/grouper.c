#include "trace/store/grouper.h"

#define BYTES_LEAST ((size_t)4 << 20)

void grouper_init(struct grouper *g, uint64_t items, const struct spool *spool)
{
    size_t bytes = spool->raw_budget + spool->packed_budget;
    bytes = bytes < BYTES_LEAST ? BYTES_LEAST : bytes > SPILL_BYTES ? SPILL_BYTES : bytes;
    const size_t most = bytes / sizeof(struct group_item);
    size_t capacity = items < most ? (size_t)items + 1 : most; /* 0 would be the default */
    spill_init(&g->by_time, sizeof(struct group_item), capacity, spool->dir);
    spill_init(&g->by_list, sizeof(struct group_item), capacity, spool->dir);
}

void grouper_release(struct grouper *g)
{
    spill_release(&g->by_time);
    spill_release(&g->by_list);
}

int grouper_add(struct grouper *g, struct group_item item, bool sorted, struct err *e)
{
    item.key = sorted ? item.time : (int64_t)item.list;
    return spill_add(sorted ? &g->by_time : &g->by_list, &item, 1, e);
}

/* Moves items from the sort by time to the sort by list. */
static int move_on(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct grouper *g = ctx;
    const struct group_item *items = recs;
    for (size_t i = 0; i < n; i++) {
        struct group_item item = items[i];
        item.key = item.list;
        if (spill_add(&g->by_list, &item, 1, e) != 0)
            return -1;
    }
    return 0;
}

struct group_walk {
    const struct group_sink *sink;
    uint32_t begun; /* lists begun */
};

static int begin_until(struct group_walk *w, uint32_t lists, struct err *e)
{
    while (w->begun < lists) {
        if (w->sink->begin(w->sink->ctx, w->begun++, e) != 0)
            return -1;
    }
    return 0;
}

static int hand_over(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct group_walk *w = ctx;
    const struct group_item *items = recs;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && items[end].list == items[i].list; end++)
            ;
        if (begin_until(w, items[i].list + 1, e) != 0 ||
            w->sink->items(w->sink->ctx, items + i, end - i, e) != 0)
            return -1;
    }
    return 0;
}

int grouper_drain(struct grouper *g, uint32_t lists, const struct group_sink *sink, struct err *e)
{
    struct group_walk walk = {.sink = sink};
    if (spill_drain(&g->by_time, move_on, g, e) != 0)
        return -1;
    spill_release(&g->by_time); /* its buffer is no longer needed */
    if (spill_drain(&g->by_list, hand_over, &walk, e) != 0)
        return -1;
    return begin_until(&walk, lists, e);
}
