#ifndef TIDEMARK_ANALYSIS_CSVEXPORT_ZONE_STATS_H
#define TIDEMARK_ANALYSIS_CSVEXPORT_ZONE_STATS_H

/*
 * Figures of the zones of each source location. Only zones that ended, and later than they began,
 * count. Sums are made in the order in which the official tools make them, since it decides the
 * last digits. Memory follows the number of source locations: what has to be sorted goes through
 * temporary files.
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
    double sum_squares; /* of the durations, also where self times are asked for */
    int64_t percentile; /* of durations or self times, as asked for */
    int64_t truncated_mean;

    /* While reading: */
    uint64_t begun;     /* zones so far */
    uint64_t outermost; /* number of the open one that is in no other of the location */
    uint32_t open;      /* how deep the location is nested into itself */
    bool listed;        /* in zone_stats.nested */
    bool sorted;        /* its durations wait in zone_stats.squares from now on */
    VEC(int64_t) spans; /* of those from the outermost one on, when it is not the only one */
};

struct zone_stats {
    struct zone_figures *at;     /* by source location, as unsigned */
    bool self;                   /* percentile and mean are of self times */
    int percent;                 /* 1 to 99, 0: neither is wanted */
    size_t waiting, waiting_max; /* elements of all `spans` */
    VEC(uint16_t) nested;        /* locations that have `spans` */
    struct spill squares;        /* of locations for whose `spans` there is no room */
    struct spill spans;          /* all of them, by location */
};

/* `percent`: the percentile to compute, 0 none. `dir`: for temporary files, see spill.h. */
int zone_stats_init(struct zone_stats *s, int percent, bool self, const char *dir, struct err *e);
void zone_stats_release(struct zone_stats *s);

static inline struct zone_figures *zone_stats_of(struct zone_stats *s, int16_t srcloc)
{
    return &s->at[(uint16_t)srcloc];
}

int zone_stats_nested(struct zone_stats *s, int16_t srcloc, struct err *e);

/* A zone begins. *number is that among the zones of its location. */
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

/* It has ended; z->number is what zone_stats_begin gave. */
int zone_stats_end(struct zone_stats *s, const struct walked_zone *z, struct err *e);

/* All zones were there: completes the figures. */
int zone_stats_finish(struct zone_stats *s, struct err *e);

/*
 * The p-th part (0 … 1) of sorted values by linear interpolation, and the mean of the values up to
 * it, fed one by one.
 */
struct percentile {
    uint64_t n; /* values in all */
    uint64_t low, high;
    double fraction;
    double at_low;
    double bound; /* the percentile, once both neighbours were seen */
    uint64_t seen;
    uint64_t sum; /* of those not above the bound */
    uint64_t counted;
};

void percentile_start(struct percentile *p, double part, uint64_t n);
/* The next value, none smaller than the one before. */
void percentile_add(struct percentile *p, int64_t value);
int64_t percentile_value(const struct percentile *p);
int64_t percentile_truncated_mean(const struct percentile *p);

#endif
