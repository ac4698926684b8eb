#pragma once

/*
 * Turns the records of a thread's zones, nested starts and ends, into whole zones. A zone is
 * complete after the zones inside it, but numbered in order of start, as in the official tools.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "trace/file/record.h"

struct walked_zone {
    uint64_t number; /* over all zones of the trace, in order of start */
    int64_t start;
    int64_t end; /* negative: never ended */
    /* The durations of its children; unended children count as negative in the first. */
    int64_t children;
    int64_t ended_children;
    uint32_t extra;
    int16_t srcloc;
};

struct zone_walk {
    VEC(struct walked_zone) open;
    uint64_t count;
};

void zone_walk_release(struct zone_walk *w);

/* Sums of absurd durations must not overflow, which is undefined. */
static inline int64_t wrapping_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int zone_walk_begin(struct zone_walk *w, const struct rec_zone_begin *r,
                                  struct err *e)
{
    struct walked_zone zone = {
        .number = w->count++, .start = r->start, .extra = r->extra, .srcloc = r->srcloc};
    return vec_push(&w->open, zone) ? 0 : err_no_memory(e, "nested zones");
}

/* Ends the innermost open zone. There is one: the reader checks the order of records. */
static inline struct walked_zone zone_walk_end(struct zone_walk *w, const struct rec_zone_end *r)
{
    struct walked_zone zone = w->open.at[--w->open.len];
    zone.end = r->end;
    if (w->open.len > 0) {
        struct walked_zone *parent = &w->open.at[w->open.len - 1];
        int64_t span = zone.end - zone.start; /* both fit 48 bits */
        parent->children = wrapping_sum(parent->children, span);
        parent->ended_children = wrapping_sum(parent->ended_children, span > 0 ? span : 0);
    }
    return zone;
}
