#include "analysis/figures/pool_account.h"

#include <stdlib.h>

struct pool_account *pool_account_new(struct pageable *pageable, struct err *e)
{
    struct pool_account *p = calloc(1, sizeof *p);
    if (!p) {
        err_no_memory(e, "figures of memory pools");
        return NULL;
    }
    p->pageable = pageable;
    p->now = INT64_MIN;
    p->figures.peak_time = -1;
    return p;
}

void pool_account_free(struct pool_account *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->chunks.len; i++)
        pageable_free(p->pageable, p->chunks.at[i].at, p->chunks.at[i].size);
    for (size_t i = 0; i < p->threads.len; i++)
        free(p->threads.at[i]);
    vec_release(&p->chunks);
    vec_release(&p->pages);
    vec_release(&p->threads);
    free(p);
}

#define LINE ((size_t)64) /* of a cache, for struct counter_hot */

/*
 * Each chunk is half as large as all before it: a pool with few counters takes little, and one with
 * many has few chunks. False if memory is short.
 */
static bool add_chunk(struct pool_account *p)
{
    size_t n = p->page_count / 2 + 1;
    struct counter_chunk chunk = {.size = n * sizeof(struct counter_page) + LINE};
    chunk.at = pageable_zeroed(p->pageable, chunk.size);
    if (!chunk.at || !vec_push(&p->chunks, chunk)) {
        pageable_free(p->pageable, chunk.at, chunk.size);
        return false;
    }
    uintptr_t begin = ((uintptr_t)chunk.at + LINE - 1) / LINE * LINE;
    p->vacant = (struct counter_page *)((char *)chunk.at + (begin - (uintptr_t)chunk.at));
    p->vacant_count = n;
    p->page_count += n;
    return true;
}

struct counter_page *pool_add_page(struct pool_account *p, uint32_t number, struct err *e)
{
    while (p->pages.len <= number) {
        if (!vec_push(&p->pages, NULL)) {
            err_no_memory(e, "figures of call stacks");
            return NULL;
        }
    }
    if (!p->vacant_count && !add_chunk(p)) {
        err_no_memory(e, "figures of call stacks");
        return NULL;
    }
    struct counter_page *page = p->vacant++;
    p->vacant_count--;
    for (unsigned i = 0; i < COUNTER_PAGE_KEYS; i++)
        page->hot[i].last_time = INT64_MIN;
    p->pages.at[number] = page;
    return page;
}

struct account_thread *pool_add_threads(struct pool_account *p, uint32_t number, struct err *e)
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

struct pool_figures pool_account_figures(const struct pool_account *p)
{
    struct pool_figures f = p->figures;
    if (f.live_bytes > f.peak_bytes) {
        f.peak_bytes = f.live_bytes;
        f.peak_time = p->now;
    }
    if (f.live > f.peak_live)
        f.peak_live = f.live;
    return f;
}

bool pool_account_counter(const struct pool_account *p, uint32_t key, struct counter *out)
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
