#include "run/recording/recording_clock.h"

/* Without pairs, stamps count as nanoseconds. */
#define SLOPE_UNKNOWN 1.0

/* Larger times are invalid: 292 years would overflow. */
#define NS_MAX ((uint64_t)1 << 61)

/* A tick of the coarse clock if the kernel's HZ is 250, as Debian's and Ubuntu's is. */
#define TICK_NS 4e6
#define STEADY_NS 1e18

void recording_clock_init(struct recording_clock *c, uint32_t clock, struct rec_pair first)
{
    if (first.ns > NS_MAX)
        first.ns = 0;
    *c = (struct recording_clock){.from = first,
                                  .until = UINT64_MAX,
                                  .slope = SLOPE_UNKNOWN,
                                  .most = clock == REC_CLOCK_COUNTER ? TICK_NS : STEADY_NS};
}

void recording_clock_release(struct recording_clock *c)
{
    vec_release(&c->pairs);
}

static double slope_between(struct rec_pair a, struct rec_pair b)
{
    return (double)(b.ns - a.ns) / (double)(b.stamp - a.stamp);
}

int recording_clock_add(struct recording_clock *c, struct rec_pair pair, struct err *e)
{
    struct rec_pair last = c->pairs.len > c->next ? c->pairs.at[c->pairs.len - 1] : c->from;
    if (pair.stamp <= last.stamp || pair.ns < last.ns || pair.ns > NS_MAX)
        return 0;
    if (c->next == c->pairs.len)
        c->next = c->pairs.len = 0;
    if (!vec_push(&c->pairs, pair))
        return err_no_memory(e, "a recording");
    /* The first pair ahead determines the slope of the current line. */
    if (c->pairs.len == c->next + 1) {
        c->slope = slope_between(c->from, pair);
        c->until = pair.stamp;
    }
    return 0;
}

void recording_clock_turn(struct recording_clock *c, uint64_t stamp)
{
    while (c->next < c->pairs.len && c->pairs.at[c->next].stamp <= stamp) {
        c->from = c->pairs.at[c->next++];
        c->until = UINT64_MAX;
        if (c->next < c->pairs.len) {
            c->slope = slope_between(c->from, c->pairs.at[c->next]);
            c->until = c->pairs.at[c->next].stamp;
        }
    }
}

int recording_clock_meet(struct recording_clock *c, struct rec_pair pair, struct err *e)
{
    recording_clock_turn(c, pair.stamp);
    if (c->next == c->pairs.len)
        return recording_clock_add(c, pair, e);
    struct rec_pair end = c->pairs.at[c->next];
    if (pair.stamp > c->from.stamp && pair.ns >= c->from.ns && pair.ns <= end.ns) {
        c->from = pair;
        c->slope = slope_between(pair, end);
    }
    return 0;
}
