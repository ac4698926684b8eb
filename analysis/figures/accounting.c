#include "analysis/figures/accounting.h"

#include <stdlib.h>

#include "analysis/figures/accounting_parts.h"

void accounting_init(struct accounting *a, const struct accounting_options *options)
{
    *a = (struct accounting){0};
    if (options)
        a->options = *options;
}

static void pool_account_free(struct pool_account *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->pages.len; i++)
        free(p->pages.at[i]);
    for (size_t i = 0; i < p->threads.len; i++)
        free(p->threads.at[i]);
    vec_release(&p->pages);
    vec_release(&p->threads);
    free(p);
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
    struct pool_account *p = calloc(1, sizeof *p);
    if (!p) {
        err_no_memory(e, "figures of memory pools");
        return NULL;
    }
    p->now = INT64_MIN;
    p->figures.peak_time = -1;
    a->pools.at[pool] = p;
    return p;
}

struct counter_page *pool_add_page(struct pool_account *p, uint32_t number, struct err *e)
{
    while (p->pages.len <= number) {
        if (!vec_push(&p->pages, NULL)) {
            err_no_memory(e, "figures of call stacks");
            return NULL;
        }
    }
    struct counter_page *page = aligned_alloc(64, sizeof *page);
    if (!page) {
        err_no_memory(e, "figures of call stacks");
        return NULL;
    }
    *page = (struct counter_page){0};
    for (unsigned i = 0; i < COUNTER_PAGE_KEYS; i++)
        page->hot[i].last_time = INT64_MIN;
    p->pages.at[number] = page;
    return page;
}

static struct account_thread *pool_add_threads(struct pool_account *p, uint32_t number,
                                               struct err *e)
{
    while (p->threads.len <= number) {
        if (!vec_push(&p->threads, NULL)) {
            err_no_memory(e, "figures of threads");
            return NULL;
        }
    }
    struct account_thread *threads = calloc(THREADS_PER_PAGE, sizeof *threads);
    if (!threads) {
        err_no_memory(e, "figures of threads");
        return NULL;
    }
    for (unsigned i = 0; i < THREADS_PER_PAGE; i++)
        threads[i] = (struct account_thread){.latest = INT64_MIN, .previous = INT64_MIN};
    p->threads.at[number] = threads;
    return threads;
}

static inline struct account_thread *pool_thread(struct pool_account *p, uint16_t thread,
                                                 struct err *e)
{
    uint32_t number = thread / THREADS_PER_PAGE;
    struct account_thread *threads = number < p->threads.len && p->threads.at[number]
                                         ? p->threads.at[number]
                                         : pool_add_threads(p, number, e);
    return threads ? &threads[thread % THREADS_PER_PAGE] : NULL;
}

static inline void thread_step(struct account_thread *t, int64_t now)
{
    if (now > t->latest) {
        t->previous = t->latest;
        t->latest = now;
    }
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
    *out = (struct pool_figures){.peak_time = -1};
    if (!p)
        return;
    *out = p->figures;
    if (out->live_bytes > out->peak_bytes) {
        out->peak_bytes = out->live_bytes;
        out->peak_time = p->now;
    }
    if (out->live > out->peak_live)
        out->peak_live = out->live;
}

/* The counter as of the end of the pool's newest nanosecond. */
static bool counter_read(const struct pool_account *p, uint32_t key, struct counter *out)
{
    uint32_t number = key >> COUNTER_PAGE_SHIFT;
    if (number >= p->pages.len || !p->pages.at[number])
        return false;
    const struct counter_hot *h = &p->pages.at[number]->hot[key & (COUNTER_PAGE_KEYS - 1)];
    const struct counter_cold *c = &p->pages.at[number]->cold[key & (COUNTER_PAGE_KEYS - 1)];
    if (h->count == 0)
        return false;
    bool peak_is_now = p->figures.live_bytes > p->figures.peak_bytes;
    bool unchanged = peak_is_now || h->epoch != p->epoch;
    *out = (struct counter){
        .count = h->count,
        .bytes = h->bytes,
        .live_count = h->live_count,
        .live_bytes = h->live_bytes,
        .peak_bytes = h->live_bytes > h->peak_bytes ? h->live_bytes : h->peak_bytes,
        .at_peak_bytes = unchanged ? h->live_bytes : c->at_peak_bytes,
        .at_peak_count = unchanged ? h->live_count : c->at_peak_count,
        .temporary = c->temporary,
        .temporary_bytes = c->temporary_bytes,
        .largest = h->largest,
        .first_time = c->first_time,
        .last_time = h->last_time,
    };
    return true;
}

bool accounting_counter(const struct accounting *a, uint32_t pool, uint32_t key,
                        struct counter *out)
{
    const struct pool_account *p = find_pool(a, pool);
    return p && counter_read(p, key, out);
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
        if (counter_read(p, at, out)) {
            *key = at;
            return true;
        }
    }
    return false;
}
