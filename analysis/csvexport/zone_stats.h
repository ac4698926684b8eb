#pragma once

/*
 * Figures of the zones of each source location. Only zones with an end after their start count.
 * Sums are computed in the order of the official tools, since it determines the last digits. Memory
 * grows with the number of source locations: data to be sorted goes through temporary files.
 *
 * Source: `ReconstructZoneStatistics` in server/TracyWorker.cpp and csvexport/src/csvexport.cpp @
 * v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/tables/zone_walk.h"
#include "base/err.h"
#include "trace/store/spill.h"

/* Nanoseconds; "self" is without the time of the zones directly inside. */
struct zone_figures {
    uint64_t count;
    int64_t total, min, max;
    int64_t self_total, self_min, self_max;
    double sum_squares; /* of the durations, even with self times */
    int64_t percentile; /* of durations or self times, as requested */
    int64_t truncated_mean;

    /* While reading: */
    uint64_t begun;     /* zones so far */
    uint64_t outermost; /* number of the open zone that is not in another one of the location */
    uint32_t open;      /* nesting depth of the location in itself */
    bool listed;        /* in zone_stats.nested */
    bool sorted;        /* its durations go to zone_stats.squares from now on */
    VEC(int64_t) spans; /* of the zones from the outermost one on, if there are nested ones */
};

struct zone_stats {
    struct zone_figures *at;     /* by source location, as unsigned */
    bool self;                   /* percentile and mean are of self times */
    int percent;                 /* 1 to 99; 0: neither is computed */
    size_t waiting, waiting_max; /* elements of all `spans` */
    VEC(uint16_t) nested;        /* locations that have `spans` */
    struct spill squares;        /* of locations whose `spans` have no room */
    struct spill spans;          /* all of them, by location */
};

/* `percent`: the percentile to compute, 0: none. `dir`: for temporary files, see spill.h. */
int zone_stats_init(struct zone_stats *s, int percent, bool self, const char *dir, struct err *e);
void zone_stats_release(struct zone_stats *s);

static inline struct zone_figures *zone_stats_of(struct zone_stats *s, int16_t srcloc)
{
    return &s->at[(uint16_t)srcloc];
}

int zone_stats_nested(struct zone_stats *s, int16_t srcloc, struct err *e);

/* Begins a zone. *number is its number among the zones of its location. */
static inline int zone_stats_begin(struct zone_stats *s, int16_t srcloc, uint64_t *number,
                                   struct err *e)
{
    struct zone_figures *f = zone_stats_of(s, srcloc);
    *number = f->begun++;
    if (f->open++ > 0)
        return zone_stats_nested(s, srcloc, e);
    f->outermost = *number;
    return 0;
}

/* Ends a zone; z->number is that of zone_stats_begin. */
int zone_stats_end(struct zone_stats *s, const struct walked_zone *z, struct err *e);

/* After the last zone: completes the figures. */
int zone_stats_finish(struct zone_stats *s, struct err *e);

/*
 * The p-th quantile (0 … 1) of sorted values by linear interpolation, and the mean of the values up
 * to it. Values are added one at a time.
 */
struct percentile {
    uint64_t n; /* number of values */
    uint64_t low, high;
    double fraction;
    double at_low;
    double bound; /* the percentile, once both neighbours are known */
    uint64_t seen;
    uint64_t sum; /* of values up to the bound */
    uint64_t counted;
};

void percentile_start(struct percentile *p, double part, uint64_t n);
/* Adds the next value, at least as large as the previous one. */
void percentile_add(struct percentile *p, int64_t value);
int64_t percentile_value(const struct percentile *p);
int64_t percentile_truncated_mean(const struct percentile *p);
