#include "server/capture/usage_record.h"

#include "base/saturate.h"

#define INTERVAL_FIRST 0.1 /* seconds */

static void halve(struct usage_record *r)
{
    for (unsigned i = 0; i + 1 < r->count; i += 2) {
        const struct usage_sample *a = &r->points[i], *b = &r->points[i + 1];
        r->points[i / 2] = a->bytes > b->bytes ? *a : *b;
    }
    r->count /= 2;
    r->interval *= 2;
}

void usage_record_add(struct usage_record *r, const struct memory *memory, double seconds)
{
    struct usage_sample now = {.seconds = seconds};
    for (size_t i = 0; i < memory->pools.len; i++) {
        const struct pool_totals *t = &memory->pools.at[i]->totals;
        now.bytes = saturating_add(now.bytes, t->live_bytes);
        now.blocks += t->live;
        if (i < USAGE_POOLS)
            now.pools[i] = t->live_bytes;
    }
    r->pools = (unsigned)(memory->pools.len < USAGE_POOLS ? memory->pools.len : USAGE_POOLS);
    r->peak = memory->peak_bytes;
    if (r->interval == 0)
        r->interval = INTERVAL_FIRST;
    struct usage_sample *last = r->count ? &r->points[r->count - 1] : NULL;
    if (last && seconds < last->seconds + r->interval) {
        double began = last->seconds;
        if (now.bytes > last->bytes)
            *last = now;
        last->seconds = began;
        return;
    }
    if (r->count == USAGE_POINTS)
        halve(r);
    r->points[r->count++] = now;
}

unsigned usage_record_shape(const struct usage_record *r, uint8_t percent[USAGE_SHAPE])
{
    unsigned n = r->count < USAGE_SHAPE ? r->count : USAGE_SHAPE;
    for (unsigned i = 0; i < n; i++) {
        uint64_t most = 0;
        for (unsigned k = i * r->count / n; k < (i + 1) * r->count / n; k++)
            most = r->points[k].bytes > most ? r->points[k].bytes : most;
        percent[i] = r->peak ? (uint8_t)(100 * (double)most / (double)r->peak) : 0;
    }
    return n;
}
