#pragma once

/*
 * The source locations by which zones are grouped: which of them a filter matches, and their order,
 * that of the official tool's hash map. Locations of zones that the trace does not list follow in
 * order of appearance; official tools crash on them.
 *
 * Source: the reading of `sourceLocationZones` in server/TracyWorker.cpp and csvexport/src/
 * csvexport.cpp `is_substring` @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/csvexport/hash_order.h"
#include "analysis/names/names.h"
#include "base/err.h"

/* A part of a zone's name, which is that of its source location; "" or NULL matches all. */
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
    uint32_t *ranks;     /* source location → rank + 1; 0: none yet */
    uint8_t *taken;      /* source location → 0 unknown, 1 no, 2 yes */
};

/* `reserved`: the room that the official map reserves; see hash_order_init. */
int zone_groups_init(struct zone_groups *g, size_t reserved, struct err *e);
void zone_groups_release(struct zone_groups *g);

/* Adds a source location that the trace lists. */
int zone_groups_list(struct zone_groups *g, int16_t srcloc, struct err *e);

/* The rank of a source location, from 0. The first call ends the list. */
uint32_t zone_groups_rank_of(struct zone_groups *g, int16_t srcloc);

/* Whether the filter matches a source location; looks up its name once. */
bool zone_groups_takes(struct zone_groups *g, int16_t srcloc, const struct names *names,
                       const struct name_filter *filter);
