#pragma once

/*
 * The plots of a trace: those that it stores, and the use of each memory pool, which official tools
 * compute after loading. Points are in file-backed columns.
 *
 * Source: `GetFirstTime` in server/TracyWorker.cpp @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/csvexport/hash_order.h"
#include "analysis/csvexport/pool_use.h"
#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/file/record.h"

/* Takes a plot's next points; `name` is a client pointer. */
struct plot_sink {
    void *ctx;
    int (*put)(void *ctx, uint64_t name, const struct listed_point *points, size_t n,
               struct err *e);
};

struct listed_plot {
    uint64_t name;
    uint64_t key;   /* of the pool */
    uint64_t first; /* index of its first point in the column */
    uint64_t n;
};

struct plot_column {
    struct column points;
    VEC(struct listed_plot) plots;
};

struct plot_list {
    struct plot_sink sink;
    struct spool spool;
    struct plot_column stored;
    struct plot_column pools; /* in the order of the file */
    struct hash_order order;  /* of the keys of pools */
    struct map pool_numbers;  /* key → position in `pools` */
    uint64_t pool;            /* key of the current pool */
    bool pool_listed;         /* it has events */
    struct pool_use use;      /* of that pool */
    int64_t first_time;       /* start of the pools' plots */
    bool on_demand;
    uint64_t sets, frames; /* frame sets, and frames of the first, seen so far */
};

/* `l` must not be moved afterwards. */
int plot_list_init(struct plot_list *l, const struct plot_sink *sink, const char *dir,
                   struct err *e);
void plot_list_release(struct plot_list *l);

/* Marks the record types of plots. */
void plot_list_wanted(bool wanted[REC_TYPE_COUNT]);

int plot_list_put(struct plot_list *l, enum record_type type, const void *recs, size_t n,
                  struct err *e);

/*
 * Passes on all plots, those of pools first. Official tools compute these in one thread for each
 * pool, started in the order of a hash map of their keys, and put each before the others when it is
 * done. The order here assumes that threads end in the order in which they started, which is the
 * most likely case.
 */
int plot_list_finish(struct plot_list *l, struct err *e);
