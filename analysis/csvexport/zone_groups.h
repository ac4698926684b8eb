#ifndef TIDEMARK_ANALYSIS_CSVEXPORT_ZONE_GROUPS_H
#define TIDEMARK_ANALYSIS_CSVEXPORT_ZONE_GROUPS_H

/*
 * The source locations that zones are grouped by: which of them a filter lets through, and in which
 * order they come, that of the official tool's hash map. Locations that a trace has zones of but
 * does not list follow in order of appearance; official tools crash on them.
 *
 * Source: the reading of `sourceLocationZones` in server/TracyWorker.cpp and csvexport/src/
 * csvexport.cpp `is_substring` @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/csvexport/hash_order.h"
#include "analysis/names/names.h"
#include "base/err.h"

/* Part of a zone's name, which is that of its source location; "" or NULL lets all through. */
struct name_filter {
    const char *part;
    bool case_sensitive;
};

bool name_filter_takes(const struct name_filter *f, struct view name);

#define ZONE_GROUPS_MAX 65536u

struct zone_groups {
    struct hash_order order; /* of those listed */
    uint32_t count;
    uint16_t *locations; /* rank → source location, as unsigned */
    uint32_t *ranks;     /* source location → rank + 1, 0 none yet */
    uint8_t *taken;      /* source location → 0 not asked yet, 1 no, 2 yes */
};

/* `reserved`: the room that the official map is given before; see hash_order_init. */
int zone_groups_init(struct zone_groups *g, size_t reserved, struct err *e);
void zone_groups_release(struct zone_groups *g);

/* The trace lists a source location. */
int zone_groups_list(struct zone_groups *g, int16_t srcloc, struct err *e);

/* The rank of a source location, from 0. The first call ends the list. */
uint32_t zone_groups_rank_of(struct zone_groups *g, int16_t srcloc);

/* Whether the filter takes a source location; looks at its name once. */
bool zone_groups_takes(struct zone_groups *g, int16_t srcloc, const struct names *names,
                       const struct name_filter *filter);

#endif
