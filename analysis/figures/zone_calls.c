#include "analysis/figures/zone_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/saturate.h"

void zone_calls_release(struct zone_calls *z)
{
    pageable_vec_release(z->numbers.pageable, &z->calls);
    pageable_vec_release(z->numbers.pageable, &z->costs);
    map_release(&z->numbers);
}

int zone_calls_begin(struct zone_calls *z, uint32_t label, uint16_t thread, int64_t begin,
                     int64_t end, struct err *e)
{
    while (z->calls.len <= label) {
        if (!pageable_push(z->numbers.pageable, &z->calls, 0))
            return err_no_memory(e, "calls of zones");
    }
    z->calls.at[label] += selection_wants_zone(z->selection, thread, begin, end);
    return 0;
}

/* The tally of a pool, created if new; NULL if memory is short. */
static struct zone_tally *tally_of(struct zone_tallies *t, uint32_t pool)
{
    size_t low = 0;
    BISECT(low, t->list.len, i, t->list.at[i].pool < pool);
    if (low < t->list.len && t->list.at[low].pool == pool)
        return &t->list.at[low];
    struct zone_tally fresh = {.pool = pool};
    if (!vec_push(&t->list, fresh))
        return NULL;
    memmove(&t->list.at[low + 1], &t->list.at[low], (t->list.len - 1 - low) * sizeof *t->list.at);
    t->list.at[low] = fresh;
    return &t->list.at[low];
}

int zone_calls_add(struct zone_tallies *t, uint32_t pool, uint64_t size, struct err *e)
{
    struct zone_tally *tally = tally_of(t, pool);
    if (!tally)
        return err_no_memory(e, "calls of zones");
    tally->count++;
    tally->bytes = saturating_add(tally->bytes, size);
    tally->all_count++;
    tally->all_bytes = saturating_add(tally->all_bytes, size);
    return 0;
}

static void raise(uint64_t *most, uint64_t n)
{
    if (n > *most)
        *most = n;
}

static int settle(struct zone_calls *z, uint32_t label, const struct zone_tally *t, struct err *e)
{
    bool fresh;
    uint64_t *number = map_add(&z->numbers, (uint64_t)t->pool << 32 | label, &fresh);
    if (!number || (fresh && !pageable_push(z->numbers.pageable, &z->costs, (struct zone_cost){0})))
        return err_no_memory(e, "calls of zones");
    if (fresh)
        *number = z->costs.len - 1;
    struct zone_cost *c = &z->costs.at[*number];
    c->allocating += t->count != 0;
    raise(&c->count_max, t->count);
    raise(&c->bytes_max, t->bytes);
    c->all_count = saturating_add(c->all_count, t->all_count);
    c->all_bytes = saturating_add(c->all_bytes, t->all_bytes);
    raise(&c->all_count_max, t->all_count);
    raise(&c->all_bytes_max, t->all_bytes);
    return 0;
}

int zone_calls_end(struct zone_calls *z, uint32_t label, struct zone_tallies *t,
                   struct zone_tallies *parent, struct err *e)
{
    int status = 0;
    for (size_t i = 0; i < t->list.len && status == 0; i++) {
        const struct zone_tally *from = &t->list.at[i];
        struct zone_tally *to = parent ? tally_of(parent, from->pool) : NULL;
        if (parent && !to)
            status = err_no_memory(e, "calls of zones");
        if (to) {
            to->all_count += from->all_count;
            to->all_bytes = saturating_add(to->all_bytes, from->all_bytes);
        }
        if (status == 0)
            status = settle(z, label, from, e);
    }
    vec_release(&t->list);
    return status;
}

bool zone_calls_cost(const struct zone_calls *z, uint32_t pool, uint32_t label,
                     struct zone_cost *out)
{
    const uint64_t *number = map_find(&z->numbers, (uint64_t)pool << 32 | label);
    if (!number)
        return false;
    *out = z->costs.at[*number];
    out->calls = label < z->calls.len ? z->calls.at[label] : 0;
    return true;
}
