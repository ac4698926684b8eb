#include "analysis/zone_list.h"

#define NUMBER_MASK ((UINT64_C(1) << ZONE_NUMBER_BITS) - 1)

void zone_list_init(struct zone_list *l, const char *dir)
{
    *l = (struct zone_list){0};
    spill_init(&l->rows, sizeof(struct zone_row), 0, dir);
}

void zone_list_release(struct zone_list *l)
{
    spill_release(&l->rows);
    vec_release(&l->segments);
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
    const struct zone_list *list;
    struct spill *moved;
};

static int put_rows(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct drain *d = ctx;
    return d->put(d->ctx, recs, n, e);
}

static uint64_t moved_number(const struct zone_list *l, uint64_t number)
{
    size_t low = 0, high = l->segments.len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (l->segments.at[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return number - l->segments.at[low].first + l->segments.at[low].moved;
}

static int move_rows(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct drain *d = ctx;
    const struct zone_row *rows = recs;
    for (size_t i = 0; i < n; i++) {
        struct zone_row row = rows[i];
        uint64_t place = (uint64_t)row.place;
        uint64_t number = moved_number(d->list, place & NUMBER_MASK);
        row.place = (int64_t)((place & ~NUMBER_MASK) | number);
        if (spill_add(d->moved, &row, 1, e) != 0)
            return -1;
    }
    return 0;
}

int zone_list_drain(struct zone_list *l, zone_list_put *put, void *ctx, struct err *e)
{
    struct spill moved;
    struct drain d = {put, ctx, l, &moved};
    if (l->segments.len == 0)
        return spill_drain(&l->rows, put_rows, &d, e);
    spill_init(&moved, sizeof(struct zone_row), 0, l->rows.dir);
    int status = spill_drain(&l->rows, move_rows, &d, e);
    if (status == 0)
        status = spill_drain(&moved, put_rows, &d, e);
    spill_release(&moved);
    return status;
}
