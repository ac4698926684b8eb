#include "analysis/figures/figures_account.h"

#include <stdlib.h>

#include "analysis/figures/figures_only.h"
#include "analysis/figures/stream_figures.h"
#include "base/map.h"

/* The pools as the accounting counts them; each may have the figures of one pool only. */
static int map_pools(const struct stream_figures *f, const struct selection *s,
                     const struct accounting *a, uint32_t *pool_of, struct err *e)
{
    bool shared = false, failed = false;
    struct map targets = {0};
    for (size_t i = 0; i < f->pools.len; i++) {
        uint32_t number = f->pools.at[i].number, to = s->pool_of[number];
        bool fresh = true;
        pool_of[number] = to < a->options.pool_count ? a->options.pools[to] : to;
        failed |= to != UINT32_MAX && !map_add(&targets, pool_of[number], &fresh);
        shared |= !fresh;
    }
    map_release(&targets);
    if (failed)
        return err_no_memory(e, "figures of memory pools");
    return shared ? memory_refuse("the peak of several pools together is not known: choose one", e)
                  : 0;
}

int figures_account(struct selection *s, struct accounting *a, struct err *e)
{
    const struct accounting_options *by = &a->options;
    const struct memory_observer observer = accounting_observer(a);
    struct selection mapped = *s;
    struct stream_figures *f;
    if (!s->trace->memory.only.is)
        return selection_sweep(s, &observer, e);
    if (s->is_narrow || by->by_thread || by->key_of)
        return memory_refuse(
            "they do not distinguish times, sizes and zones, nor threads in a tree", e);
    if (figures_only_find(s->trace, &f, e) != 0)
        return -1;
    mapped.pool_of = calloc(s->trace->memory.pools.len + 1, sizeof *mapped.pool_of);
    if (!mapped.pool_of)
        return err_no_memory(e, "figures of memory pools");
    const struct stream_grouping grouping = {by->groups, by->group_count, a};
    int status = map_pools(f, s, a, mapped.pool_of, e);
    if (status == 0)
        status = by->groups ? stream_figures_group(f, &mapped, &grouping, 1, e)
                            : stream_figures_callstacks(f, &mapped, a, e);
    free(mapped.pool_of);
    return status;
}
