#pragma once

/*
 * Splits a column into lists. The events of all plots, of all locks, and so on are in one column
 * each, in order of arrival, so that memory depends neither on their number nor on the number of
 * plots. The file needs them plot by plot. The grouper is a stable sort in bounded memory
 * (trace/store/spill.h), so a list keeps the order of the column unless it is sorted by time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spool.h"
#include "trace/store/spill.h"

struct group_item {
    int64_t key; /* used by the grouper */
    int64_t time;
    uint64_t value; /* `value` and `extra` are the caller's */
    uint32_t list;  /* target list; lists are delivered from 0 up */
    uint32_t extra;
};

struct grouper {
    struct spill by_time; /* items of lists to sort by time */
    struct spill by_list;
};

/*
 * For at most `items`, in the spool's memory budget within bounds. Temporary files go to the
 * spool's folder.
 */
void grouper_init(struct grouper *g, uint64_t items, const struct spool *spool);
void grouper_release(struct grouper *g);

/* Items of one list must all have the same `sorted`. */
int grouper_add(struct grouper *g, struct group_item item, bool sorted, struct err *e);

struct group_sink {
    void *ctx;
    /* Called for each list in turn, also for empty ones. */
    int (*begin)(void *ctx, uint32_t list, struct err *e);
    /* Items of the current list. */
    int (*items)(void *ctx, const struct group_item *items, size_t n, struct err *e);
};

/* Delivers lists 0 to `lists` - 1, to which all items must belong, and empties the grouper. */
int grouper_drain(struct grouper *g, uint32_t lists, const struct group_sink *sink, struct err *e);
