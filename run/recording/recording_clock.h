#pragma once

/*
 * Converts stamps to nanoseconds by pairs of both: straight lines between pairs; after the last
 * pair the last slope continues. Stamps of REC_CLOCK_COUNTER do not count the time between events,
 * but threads record a pair whenever the kernel's coarse clock has moved: an event is at most a
 * tick of that clock after the pair before it.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "client/recording_format.h"

struct recording_clock {
    struct rec_pair from;       /* start of the current line */
    uint64_t until;             /* stamp at the start of the next line */
    double slope;               /* ns per stamp */
    double most;                /* ns from `from` to a stamp on the line */
    VEC(struct rec_pair) pairs; /* ahead, in order */
    size_t next;
};

/* `clock`: enum rec_clock. */
void recording_clock_init(struct recording_clock *c, uint32_t clock, struct rec_pair first);
void recording_clock_release(struct recording_clock *c);

/* Adds the newest pair; ignores one that goes back in stamp or time. */
int recording_clock_add(struct recording_clock *c, struct rec_pair pair, struct err *e);

/* Takes the pair of the record that is being read: no earlier stamp is converted after it. */
int recording_clock_meet(struct recording_clock *c, struct rec_pair pair, struct err *e);

/* Advances to the line that contains `stamp`. */
void recording_clock_turn(struct recording_clock *c, uint64_t stamp);

/* Nanoseconds of CLOCK_MONOTONIC. Stamps must not decrease from call to call. */
static inline int64_t recording_clock_ns(struct recording_clock *c, uint64_t stamp)
{
    if (__builtin_expect(stamp >= c->until, 0))
        recording_clock_turn(c, stamp);
    double ns = (double)(int64_t)(stamp - c->from.stamp) * c->slope;
    return (int64_t)c->from.ns + (int64_t)(ns < 0 ? 0 : ns > c->most ? c->most : ns);
}
