#include "analysis/csvexport/zone_list.h"

/* Sorting needs as much again. */
#define BUFFER_BYTES ((size_t)16 << 20)

void zone_list_init(struct zone_list *l, const char *dir)
{
    spill_init(&l->rows, sizeof(struct zone_row), BUFFER_BYTES / sizeof(struct zone_row), dir);
}

void zone_list_release(struct zone_list *l)
{
    spill_release(&l->rows);
}

int zone_list_add(struct zone_list *l, uint32_t rank, uint64_t number, struct zone_row *row,
                  struct err *e)
{
    row->place = (int64_t)((uint64_t)rank << ZONE_NUMBER_BITS | number);
    return spill_add(&l->rows, row, 1, e);
}

struct drain {
    zone_list_put *put;
    void *ctx;
};

static int put_rows(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct drain *d = ctx;
    return d->put(d->ctx, recs, n, e);
}

int zone_list_drain(struct zone_list *l, zone_list_put *put, void *ctx, struct err *e)
{
    struct drain d = {put, ctx};
    return spill_drain(&l->rows, put_rows, &d, e);
}
