#pragma once

/*
 * Puts the lists of one kind, such as plots: all their items are in one column, and grouper.h
 * brings those of a list together.
 */

#include "trace/save/save_internal.h"
#include "trace/store/grouper.h"

struct list_save;

struct list_kind {
    enum record_type counts, item; /* REC_PLOTS, REC_PLOT_POINT */
    /* Fills save->order and save->n. */
    void (*order)(struct list_save *save);
    /* Adds all items to the grouper. */
    int (*group)(struct list_save *save, struct grouper *g, struct err *e);
    /* Puts what precedes the items of the list save->order[list]. */
    int (*begin)(void *save, uint32_t list, struct err *e);
    /* Makes the record of an item. */
    int (*fill)(struct list_save *save, void *rec, const struct group_item *item, struct err *e);
};

struct list_save {
    struct saver *s;
    const struct list_kind *kind;
    uint32_t *order; /* numbers of lists, in file order */
    uint32_t *lists; /* number → position in `order` */
    uint32_t n;      /* lists to put, the first of `order` */
    uint8_t *batch;  /* records to put together */
};

/* `numbers`: of lists in the store; `items`: of all of them. The caller releases `save`. */
int save_lists(struct list_save *save, size_t numbers, uint64_t items);
void list_save_release(struct list_save *save);
