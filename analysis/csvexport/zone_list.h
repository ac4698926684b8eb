#pragma once

/*
 * Every zone of a trace, processor or GPU, by source location: collected in file order, passed on
 * in the order of the official tools, sorted through a temporary file.
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/store/spill.h"

struct zone_row {
    int64_t place; /* rank of the source location, then number of the zone */
    int64_t start; /* ns */
    int64_t span;  /* ns */
    uint32_t text; /* string number */
    uint32_t thread;
};

#define ZONE_NUMBER_BITS 47

static inline uint32_t zone_row_rank(const struct zone_row *r)
{
    return (uint32_t)((uint64_t)r->place >> ZONE_NUMBER_BITS);
}

struct zone_list {
    struct spill rows;
};

void zone_list_init(struct zone_list *l, const char *dir);
void zone_list_release(struct zone_list *l);

/* Adds a row and sets its place. Numbers are below 2^47, ranks below 2^16. */
int zone_list_add(struct zone_list *l, uint32_t rank, uint64_t number, struct zone_row *row,
                  struct err *e);

/* Takes the rows in order. */
typedef int zone_list_put(void *ctx, const struct zone_row *rows, size_t n, struct err *e);

int zone_list_drain(struct zone_list *l, zone_list_put *put, void *ctx, struct err *e);
