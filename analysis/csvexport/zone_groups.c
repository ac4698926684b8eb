#include "analysis/csvexport/zone_groups.h"

#include <stdlib.h>
#include <string.h>

/* As in the C locale, which official tools always use. */
static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static bool equal(const char *a, const char *b, size_t n, bool case_sensitive)
{
    if (case_sensitive)
        return memcmp(a, b, n) == 0;
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != lower(b[i]))
            return false;
    }
    return true;
}

bool name_filter_takes(const struct name_filter *f, struct view name)
{
    size_t len = f->part ? strlen(f->part) : 0;
    if (len == 0)
        return true;
    for (size_t i = 0; i + len <= name.len; i++) {
        if (equal(f->part, name.p + i, len, f->case_sensitive))
            return true;
    }
    return false;
}

int zone_groups_init(struct zone_groups *g, size_t reserved, struct err *e)
{
    *g = (struct zone_groups){0};
    if (hash_order_init(&g->order, reserved, e) != 0)
        return -1;
    g->locations = calloc(ZONE_GROUPS_MAX, sizeof *g->locations);
    g->ranks = calloc(ZONE_GROUPS_MAX, sizeof *g->ranks);
    g->taken = calloc(ZONE_GROUPS_MAX, sizeof *g->taken);
    return g->locations && g->ranks && g->taken ? 0 : err_no_memory(e, "the groups of zones");
}

void zone_groups_release(struct zone_groups *g)
{
    hash_order_release(&g->order);
    free(g->locations);
    free(g->ranks);
    free(g->taken);
    *g = (struct zone_groups){0};
}

int zone_groups_list(struct zone_groups *g, int16_t srcloc, struct err *e)
{
    return hash_order_add(&g->order, (uint64_t)(int64_t)srcloc, NULL, e);
}

static uint32_t add_rank(struct zone_groups *g, uint16_t location)
{
    g->locations[g->count] = location;
    g->ranks[location] = ++g->count;
    return g->count - 1;
}

static void rank_listed(struct zone_groups *g)
{
    size_t iter = 0;
    uint64_t key;
    while (hash_order_next(&g->order, &iter, &key))
        add_rank(g, (uint16_t)key);
    hash_order_release(&g->order);
}

uint32_t zone_groups_rank_of(struct zone_groups *g, int16_t srcloc)
{
    uint16_t location = (uint16_t)srcloc;
    if (g->order.slots > 0)
        rank_listed(g);
    return g->ranks[location] ? g->ranks[location] - 1 : add_rank(g, location);
}

bool zone_groups_takes(struct zone_groups *g, int16_t srcloc, const struct names *names,
                       const struct name_filter *filter)
{
    uint8_t *taken = &g->taken[(uint16_t)srcloc];
    if (*taken == 0) {
        struct view name = names_location_name(names, names_location(names, srcloc));
        *taken = name_filter_takes(filter, name) ? 2 : 1;
    }
    return *taken == 2;
}
