/*
 * Any history of memory events as the page shows it: however long the steps become, their sums are
 * those of the summary, and so is the make-up of each pool's peak. The summary is the same when the
 * events are counted on their way past, without a store.
 *
 * An event every EVENT bytes.
 */

#include <stdint.h>
#include <stdlib.h>

#include <string.h>

#include "analysis/figures/stream_figures.h"
#include "analysis/html/html_arrange.h"
#include "analysis/html/html_data.h"
#include "base/bytes.h"
#include "trace/save/save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EVENT 24u
#define POOLS 3u
#define THREADS 5u
#define STACKS 6u
#define TIME_MASK ((UINT64_C(1) << 40) - 1)
/* Of the sizes of one input together, so that no sum ends at its highest value. */
#define SIZES (UINT64_C(1) << 60)

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void make_names(struct trace *t, uint32_t stacks[STACKS])
{
    struct err e = {0};
    uint32_t pool;
    uint16_t thread;
    bool fresh;
    for (uint64_t i = 0; i < POOLS; i++)
        check(memory_pool(&t->memory, 16 * i, &pool, &e) == 0);
    for (uint64_t i = 1; i < THREADS; i++)
        check(trace_thread_number(t, i, &thread, &e) == 0);
    stacks[0] = 0;
    for (uint64_t i = 1; i < STACKS; i++) {
        uint64_t frames[] = {0x1000 * (i % 4 + 1), 0x9000};
        check(callstacks_intern(&t->callstacks, frames, i % 2 + 1, &stacks[i], &fresh, &e) == 0);
    }
}

static void add_event(struct trace *t, const uint8_t *p, const uint32_t stacks[STACKS],
                      uint64_t *time, uint64_t *sizes)
{
    struct err e = {0};
    struct rec_memory_event in = {.ptr = load_u64(p + 8),
                                  .callstack_alloc = stacks[p[0] % STACKS],
                                  .thread_alloc = p[1] % THREADS};
    uint64_t wanted = load_u64(p + 16) >> (p[2] % 64);
    *time += load_u32(p + 4) >> (p[3] & 31);
    in.size = wanted & ((UINT64_C(1) << 48) - 1);
    if (in.size > SIZES - *sizes)
        in.size = 0;
    *sizes += in.size;
    in.time_alloc = (int64_t)(*time & TIME_MASK);
    in.time_free = p[3] & 32 ? -1 : in.time_alloc + (int64_t)(wanted % 1000 * (p[3] >> 6));
    in.thread_free = p[3] & 64 ? in.thread_alloc : 0;
    check(memory_append(&t->memory, p[2] % POOLS, &in, &e) == 0);
}

static void check_sums(const struct page_data *d, const struct summary *s)
{
    const struct page_cells *c = &d->series.cells;
    uint64_t sums[POOLS][PAGE_VALUES] = {0};
    for (size_t i = 0; i < c->list.len; i++) {
        check(c->list.at[i].key < d->series.keys.len && c->list.at[i].step < page_cells_steps(c));
        check(i == 0 || c->list.at[i - 1].step < c->list.at[i].step ||
              (c->list.at[i - 1].step == c->list.at[i].step &&
               c->list.at[i - 1].key < c->list.at[i].key));
        for (unsigned k = 0; k < PAGE_VALUES; k++)
            sums[d->series.keys.at[c->list.at[i].key].pool][k] += (uint64_t)c->list.at[i].v[k];
    }
    uint64_t freed[POOLS] = {0};
    for (size_t i = 0; i < d->series.lives.list.len; i++) {
        const struct page_life *life = &d->series.lives.list.at[i];
        check(life->freed < d->series.lives.parts && life->born < d->series.lives.parts);
        freed[life->row % d->pools.len] += life->count;
    }
    for (size_t i = 0; i < s->pools.len; i++) {
        const struct pool_figures *f = &s->pools.at[i].figures;
        uint64_t highest = 0;
        for (size_t k = 0; k < PAGE_SLOTS; k++) {
            const struct page_point *point = &page_series_points(&d->series, (uint32_t)i)[k];
            highest = point->max > highest ? point->max : highest;
        }
        check(sums[i][PAGE_ALLOCS] == f->allocations && sums[i][PAGE_FREES] == f->frees);
        check(sums[i][PAGE_ALLOC_BYTES] == f->total_bytes);
        check(sums[i][PAGE_ALLOC_BYTES] - sums[i][PAGE_FREE_BYTES] == f->live_bytes);
        check(sums[i][PAGE_TEMPORARY] == f->temporary);
        check(highest == f->peak_bytes);
        check(freed[i] == f->frees);
        /* One step: its peak is that of the pool. */
        check(page_cells_steps(c) > 1 || sums[i][PAGE_PEAK_BYTES] == f->peak_bytes);
    }
}

static void check_stream(struct trace *t, const struct summary *s, const struct skiplist *skip)
{
    struct err e = {0};
    struct stream_figures f;
    struct summary streamed;
    const struct summary_options options = {
        .by = GROUP_THREAD, .skip = skip, .stacks = true, .stream = &f};
    stream_figures_init(&f, t);
    f.by_thread = true;
    const struct record_sink sink = stream_figures_sink(&f);
    /* Times that begin anew beside another pool are left to the sweep. */
    if (trace_save(t, &sink, &e) != 0) {
        check(f.unsuited);
        stream_figures_release(&f);
        return;
    }
    check(summary_build(&streamed, t, &options, &e) == 0);
    check(streamed.pools.len == s->pools.len && streamed.sites.len == s->sites.len);
    for (size_t i = 0; i < s->pools.len; i++) {
        const struct summary_pool *a = &streamed.pools.at[i];
        const struct summary_pool *b = &s->pools.at[i];
        check(memcmp(&a->figures, &b->figures, sizeof a->figures) == 0);
        check(a->low_address == b->low_address && a->high_address == b->high_address);
    }
    for (size_t i = 0; i < s->sites.len; i++) {
        const struct summary_row *a = &streamed.sites.at[i];
        const struct summary_row *b = &s->sites.at[i];
        check(memcmp(&a->figures, &b->figures, sizeof a->figures) == 0);
        check(a->key == b->key && a->callstack == b->callstack);
    }
    check(streamed.groups.len == s->groups.len);
    for (size_t i = 0; i < s->groups.len; i++) {
        const struct summary_row *a = &streamed.groups.at[i];
        const struct summary_row *b = &s->groups.at[i];
        check(a->key == b->key && memcmp(&a->figures, &b->figures, sizeof a->figures) == 0);
    }
    summary_release(&streamed);
    stream_figures_release(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace t;
    struct summary s;
    struct page_data d;
    struct err e = {0};
    uint32_t stacks[STACKS];
    uint64_t time = 0;
    uint64_t sizes = 0;
    const struct skiplist skip = {0};
    const struct summary_options options = {.by = GROUP_THREAD, .skip = &skip, .stacks = true};
    check(trace_init(&t, NULL, &e) == 0);
    make_names(&t, stacks);
    for (size_t i = 0; i + EVENT <= size; i += EVENT)
        add_event(&t, data + i, stacks, &time, &sizes);
    check(summary_build(&s, &t, &options, &e) == 0);
    check(page_data_build(&d, &t, &s, &skip, PAGE_SIZE, &e) == 0);
    check_sums(&d, &s);
    while (page_cells_steps(&d.series.cells) > 1) {
        check(page_cells_halve(&d.series.cells, &e) == 0);
        check_sums(&d, &s);
    }
    while (d.ranked > 1) {
        check(page_data_arrange(&d, d.ranked / 2, &e) == 0);
        check_sums(&d, &s);
    }
    page_data_release(&d);
    check_stream(&t, &s, &skip);
    summary_release(&s);
    trace_release(&t);
    return 0;
}
