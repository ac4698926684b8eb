#pragma once

/*
 * Counters of a Chrome trace: each member of a counter event's arguments is a value of one plot. A
 * plot is named "COUNTER: MEMBER", or "COUNTER" when the only member is called "value" or like the
 * counter. If several processes have the counter, the process is appended. (The official importer
 * names plots by members alone and merges plots of the same name.)
 */

#include "import/chrome_ids.h"

/* Above the keys of frame sets: both name their texts by key. */
#define CHROME_PLOT_KEY ((uint64_t)1 << 32)

struct chrome_plot {
    struct chrome_id process;
    uint32_t counter, id, member; /* string numbers; id 0: none */
};

struct chrome_plots {
    VEC(struct chrome_plot) list;
    struct map numbers; /* hash of a plot → index */
};

void chrome_plots_release(struct chrome_plots *p);

/* The number of the plot; -1 when there are too many; -2 with `e` on an error. */
int64_t chrome_plot_number(struct chrome_plots *p, struct chrome_ids *ids,
                           const struct chrome_event *ev, struct view member, struct err *e);

/* Passes the names to the ingest: plot n has the key CHROME_PLOT_KEY + n. */
int chrome_plots_finish(const struct chrome_plots *p, const struct chrome_ids *ids,
                        struct ingest *in, struct err *e);
