#include "trace/filter/range_zones.h"

#include <stdlib.h>
#include <string.h>

#define LOCATIONS 65536u

/* Exceptions sorted in memory at once. */
#define EXCEPTIONS_MAX 65536u

struct exception {
    int64_t position; /* first, because spill sorts by it */
    uint64_t outcome; /* 0: dropped; else 1 + its kept children */
};

int range_zones_init(struct range_zones *z, struct spool *spool, const char *dir, struct err *e)
{
    *z = (struct range_zones){0};
    spill_init(&z->exceptions, sizeof(struct exception), EXCEPTIONS_MAX, dir);
    tally_init(&z->exceptions_in_order, spool);
    z->by_location = calloc(LOCATIONS, sizeof *z->by_location);
    return z->by_location ? 0 : err_no_memory(e, "zones of a range");
}

void range_zones_release(struct range_zones *z)
{
    vec_release(&z->open);
    spill_release(&z->exceptions);
    tally_release(&z->exceptions_in_order);
    free(z->by_location);
    z->by_location = NULL;
}

int range_zones_begin(struct range_zones *z, int16_t srcloc, uint32_t children,
                      bool starts_in_range, bool in_range, struct err *e)
{
    struct open_zone zone = {z->position++, children, 0, srcloc, in_range, starts_in_range};
    return vec_push(&z->open, zone) ? 0 : err_no_memory(e, "open zones");
}

int range_zones_end(struct range_zones *z, bool *kept, struct err *e)
{
    if (z->open.len == 0)
        return err_set(e, ERR_INPUT, "internal error: a zone ends that never began");
    struct open_zone zone = z->open.at[--z->open.len];
    bool expected = zone.starts_in_range && zone.kept_children == zone.children;
    *kept = zone.in_range || zone.kept_children > 0;
    if (*kept) {
        z->kept++;
        z->parents += zone.kept_children > 0;
        z->by_location[(uint16_t)zone.srcloc]++;
        if (z->open.len > 0)
            z->open.at[z->open.len - 1].kept_children++;
    }
    if (*kept == expected)
        return 0;
    struct exception x = {zone.position, *kept ? UINT64_C(1) + zone.kept_children : 0};
    return spill_add(&z->exceptions, &x, 1, e);
}

static int keep_exceptions(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct range_zones *z = ctx;
    const struct exception *x = recs;
    for (size_t i = 0; i < n; i++) {
        if (tally_add(&z->exceptions_in_order, (uint64_t)x[i].position, e) != 0 ||
            tally_add(&z->exceptions_in_order, x[i].outcome, e) != 0)
            return -1;
    }
    z->exception_count += n;
    return 0;
}

static int take_exception(struct range_zones *z, struct err *e)
{
    uint64_t position;
    z->next_exception = -1;
    if (z->exception_count == 0)
        return 0;
    z->exception_count--;
    if (tally_take(&z->exceptions_in_order, &position, e) != 0 ||
        tally_take(&z->exceptions_in_order, &z->next_outcome, e) != 0)
        return -1;
    z->next_exception = (int64_t)position;
    return 0;
}

int range_zones_counted(struct range_zones *z, struct err *e)
{
    z->position = 0;
    if (spill_drain(&z->exceptions, keep_exceptions, z, e) != 0)
        return -1;
    spill_release(&z->exceptions);
    return take_exception(z, e);
}

int range_zones_outcome(struct range_zones *z, bool starts_in_range, uint32_t *children, bool *kept,
                        struct err *e)
{
    *kept = starts_in_range;
    if (z->position++ != z->next_exception)
        return 0;
    *kept = z->next_outcome > 0;
    *children = *kept ? (uint32_t)(z->next_outcome - 1) : 0;
    return take_exception(z, e);
}
