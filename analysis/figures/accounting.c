#include "analysis/figures/accounting.h"

void accounting_init(struct accounting *a, const struct accounting_options *options)
{
    *a = (struct accounting){0};
    if (options)
        a->options = *options;
}

void accounting_release(struct accounting *a)
{
    for (size_t i = 0; i < a->pools.len && !a->borrowed; i++)
        pool_account_free(a->pools.at[i]);
    vec_release(&a->pools);
    *a = (struct accounting){0};
}

static bool make_room(struct accounting *a, uint32_t pool, struct err *e)
{
    while (a->pools.len <= pool) {
        if (!vec_push(&a->pools, NULL)) {
            err_no_memory(e, "figures of memory pools");
            return false;
        }
    }
    return true;
}

struct pool_account *accounting_add_pool(struct accounting *a, uint32_t pool, struct err *e)
{
    if (!make_room(a, pool, e))
        return NULL;
    a->pools.at[pool] = pool_account_new(a->options.pageable, e);
    return a->pools.at[pool];
}

static uint32_t accounting_key(const struct accounting *a, const struct memory_op *op)
{
    if (a->options.by_thread)
        return op->block.thread;
    uint32_t id = op->block.callstack;
    if (!a->options.groups)
        return id;
    return id < a->options.group_count ? a->options.groups[id] : 0;
}

void accounting_prefetch(const struct accounting *a, const struct memory_op *op)
{
    uint32_t pool = op->pool < a->options.pool_count ? a->options.pools[op->pool] : op->pool;
    const struct pool_account *p = pool < a->pools.len ? a->pools.at[pool] : NULL;
    if (!p || a->options.key_of || (a->options.sums_only && op->kind == MEMORY_FREE))
        return;
    uint32_t key = accounting_key(a, op);
    uint32_t number = key >> COUNTER_PAGE_SHIFT;
    const struct counter_page *page = number < p->pages.len ? p->pages.at[number] : NULL;
    if (!page)
        return;
    __builtin_prefetch(&page->hot[key & (COUNTER_PAGE_KEYS - 1)], 1);
    if (op->temporary)
        __builtin_prefetch(&page->cold[key & (COUNTER_PAGE_KEYS - 1)], 1);
}

int accounting_op(void *ctx, const struct memory_op *op, struct err *e)
{
    struct accounting *a = ctx;
    uint32_t pool = op->pool;
    if (a->options.sums_only && op->kind == MEMORY_FREE)
        return 0;
    if (pool < a->options.pool_count)
        pool = a->options.pools[pool];
    struct pool_account *p = pool < a->pools.len ? a->pools.at[pool] : NULL;
    if (!p && !(p = accounting_add_pool(a, pool, e)))
        return -1;
    uint32_t key;
    if (!a->options.key_of)
        key = accounting_key(a, op);
    else if (a->options.key_of(a->options.key_ctx, op, &key, e) != 0)
        return -1;
    struct counter_page *page = pool_page(p, key, e);
    struct account_thread *thread = NULL;
    if (page && !a->options.judged && !(thread = pool_thread(p, op->thread, e)))
        return -1;
    if (!page)
        return -1;
    struct counter_hot *h = &page->hot[key & (COUNTER_PAGE_KEYS - 1)];
    if (a->options.sums_only) {
        h->count++;
        h->bytes = saturating_add(h->bytes, op->block.size);
        return 0;
    }
    struct counter_cold *c = &page->cold[key & (COUNTER_PAGE_KEYS - 1)];
    pool_step(p, h, c, op->time);
    if (thread)
        thread_step(thread, p->now);
    if (op->kind == MEMORY_ALLOC) {
        counter_alloc(p, h, c, op->block.size);
        return 0;
    }
    counter_free(p, h, op->block.size);
    if (thread ? op->block.thread == op->thread && thread->previous <= op->block.time
               : op->temporary)
        counter_temporary(p, c, op->block.size);
    return 0;
}

int accounting_put_pool(struct accounting *a, uint32_t pool, const struct pool_figures *figures,
                        struct err *e)
{
    struct pool_account *p = accounting_add_pool(a, pool, e);
    if (p)
        p->figures = *figures;
    return p ? 0 : -1;
}

int accounting_put_counter(struct accounting *a, uint32_t pool, uint32_t key,
                           const struct counter *figures, struct err *e)
{
    struct counter_page *page = pool_page(a->pools.at[pool], key, e);
    if (!page)
        return -1;
    page->hot[key & (COUNTER_PAGE_KEYS - 1)] = (struct counter_hot){
        .live_bytes = figures->live_bytes,
        .live_count = figures->live_count,
        .peak_bytes = figures->peak_bytes,
        .count = figures->count,
        .bytes = figures->bytes,
        .largest = figures->largest,
        .last_time = figures->last_time,
    };
    page->cold[key & (COUNTER_PAGE_KEYS - 1)] = (struct counter_cold){
        .at_peak_bytes = figures->at_peak_bytes,
        .at_peak_count = figures->at_peak_count,
        .temporary = figures->temporary,
        .temporary_bytes = figures->temporary_bytes,
        .first_time = figures->first_time,
    };
    return 0;
}

int accounting_borrow(struct accounting *a, uint32_t pool, const struct accounting *from,
                      uint32_t from_pool, struct err *e)
{
    a->borrowed = true;
    if (!make_room(a, pool, e))
        return -1;
    a->pools.at[pool] = from_pool < from->pools.len ? from->pools.at[from_pool] : NULL;
    return 0;
}

static const struct pool_account *find_pool(const struct accounting *a, uint32_t pool)
{
    return pool < a->pools.len ? a->pools.at[pool] : NULL;
}

void accounting_pool(const struct accounting *a, uint32_t pool, struct pool_figures *out)
{
    const struct pool_account *p = find_pool(a, pool);
    *out = p ? pool_account_figures(p) : (struct pool_figures){.peak_time = -1};
}

bool accounting_next(const struct accounting *a, uint32_t pool, uint64_t *iter, uint32_t *key,
                     struct counter *out)
{
    const struct pool_account *p = find_pool(a, pool);
    if (!p)
        return false;
    uint64_t end = (uint64_t)p->pages.len << COUNTER_PAGE_SHIFT;
    while (*iter < end) {
        uint32_t at = (uint32_t)*iter;
        if (!p->pages.at[at >> COUNTER_PAGE_SHIFT]) {
            *iter = (uint64_t)((at >> COUNTER_PAGE_SHIFT) + 1) << COUNTER_PAGE_SHIFT;
            continue;
        }
        ++*iter;
        if (pool_account_counter(p, at, out)) {
            *key = at;
            return true;
        }
    }
    return false;
}
