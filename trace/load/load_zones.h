#pragma once

/* Data that trace/load/load.c loads only on request: zones of threads and the base set's frames. */

#include "trace/load/load.h"

struct load_zone {
    uint64_t index;
    int64_t start;
    uint32_t children;
};

/* Set the trace, zero the rest. */
struct zone_loader {
    struct trace *t;
    uint16_t thread;
    VEC(struct load_zone) open;
    VEC(int16_t) locations; /* a location's number in the file → in the store */
    bool base_set;          /* the following frames are the base set's */
};

/* Takes a record of zones or frames that the store has taken; ignores other types. */
int zone_loader_put(struct zone_loader *l, enum record_type type, const void *recs, size_t n,
                    struct err *e);
void zone_loader_release(struct zone_loader *l);
