#ifndef TIDEMARK_TRACE_STORE_GROUPER_H
#define TIDEMARK_TRACE_STORE_GROUPER_H

/*
 * Splits one column into lists. The events of all plots, of all locks, … are in one column each, in
 * the order in which they came, so that memory depends neither on their number nor on how many
 * plots there are. The file wants them plot by plot: a sort in bounded memory
 * (trace/store/spill.h), which is stable, so that a list keeps the order of the column unless it is
 * to be sorted by time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spool.h"
#include "trace/store/spill.h"

struct group_item {
    int64_t key; /* the grouper's own */
    int64_t time;
    uint64_t value; /* this and `extra` are the user's */
    uint32_t list;  /* where it goes: lists are handed over from 0 up */
    uint32_t extra;
};

struct grouper {
    struct spill by_time; /* items of lists that are to be sorted by time */
    struct spill by_list;
};

/*
 * For at most `items`, in as much memory as the spool may take, within bounds. Temporary files go
 * to its folder.
 */
void grouper_init(struct grouper *g, uint64_t items, const struct spool *spool);
void grouper_release(struct grouper *g);

/* All items of one list must be added with the same `sorted`. */
int grouper_add(struct grouper *g, struct group_item item, bool sorted, struct err *e);

struct group_sink {
    void *ctx;
    /* Called for each list in turn, also for those without items. */
    int (*begin)(void *ctx, uint32_t list, struct err *e);
    /* Items of the list that was begun last. */
    int (*items)(void *ctx, const struct group_item *items, size_t n, struct err *e);
};

/* Hands over lists 0 to `lists` - 1; no item may belong to another one. The grouper is empty then.
 */
int grouper_drain(struct grouper *g, uint32_t lists, const struct group_sink *sink, struct err *e);

#endif
