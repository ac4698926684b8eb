#include "analysis/html/html_data.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/html/html_arrange.h"
#include "analysis/html/html_builder.h"
#include "analysis/html/html_pack.h"

/*
 * The divisors are bytes of the page for each, measured on pages of compilers, interpreters and
 * bench/firehose.c, so that the parts together fill it or are a little too many.
 */
static struct html_limits limits_of(size_t size)
{
    return (struct html_limits){.cells = size / 6,
                                .histogram = size / 25,
                                .map = size / 20,
                                .lives = size / 100,
                                .blocks = size / 200,
                                .sites = size / 300,
                                .stacks = size / 40,
                                .nodes = size / 7,
                                .folded_nodes = size / 50,
                                .text = size / 2};
}

/* ---- the span of time */

static const struct selection *narrowed(const struct html_builder *b)
{
    return selection_is_narrow(&b->s->selection.options) ? &b->s->selection : NULL;
}

static void widen(struct page_data *d, int64_t time)
{
    if (time < d->from)
        d->from = time;
    if (time > d->to)
        d->to = time;
}

/* The times of a block's allocation and free, as far as they are selected; and the block itself. */
static int take_block(struct html_builder *b, const struct memory_alloc *a,
                      const struct selection_block *block, struct err *e)
{
    const struct selection *only = narrowed(b);
    if (only && !selection_wants(only, block))
        return 0;
    bool lives = is_live_before(block->freed, only ? only->end : INT64_MAX);
    widen(b->d, block->time);
    if (!lives)
        widen(b->d, block->freed);
    const struct page_block shown = {.pool = b->pools[block->pool],
                                     .callstack = block->callstack,
                                     .ptr = a->ptr,
                                     .size = block->size,
                                     .time = block->time,
                                     .freed = lives ? INT64_MAX : block->freed};
    if (page_map_touch(&b->d->map, shown.pool, shown.ptr, shown.size, e) != 0)
        return -1;
    return page_blocks_offer(&b->d->blocks, &shown, e);
}

static int read_blocks(struct html_builder *b, uint32_t number, struct err *e)
{
    struct pool *pool = b->trace->memory.pools.at[number];
    struct column_reader allocs;
    struct column_reader frees;
    const struct memory_alloc *a;
    const struct memory_free *f = NULL;
    size_t n = 0;
    size_t same = 0;
    int64_t now = INT64_MIN;
    int status = 0;
    column_reader_init(&allocs, &pool->allocs);
    column_reader_init(&frees, &pool->frees);
    while (status == 0 && (a = column_reader_next(&allocs, &n, e)) &&
           (f = column_reader_next(&frees, &same, e))) {
        for (size_t i = 0; i < n && status == 0; i++) {
            const int64_t freed = memory_free_time(&a[i], &f[i]);
            now = a[i].time > now ? a[i].time : now; /* as in a sweep: it never runs backwards */
            const struct selection_block block = {.pool = number,
                                                  .thread = memory_alloc_thread(&a[i]),
                                                  .callstack = a[i].callstack,
                                                  .size = memory_alloc_size(&a[i]),
                                                  .time = now,
                                                  .freed =
                                                      is_freed(freed) && freed < now ? now : freed};
            status = take_block(b, &a[i], &block, e);
        }
        trace_swept(b->trace, allocs.next, pool->allocs.len);
    }
    trace_loaded(b->trace);
    if (allocs.next < pool->allocs.len)
        status = -1;
    column_reader_release(&allocs);
    column_reader_release(&frees);
    return status;
}

/* A time of a file's figures or readings: the span between two such fits. */
static int64_t bounded_time(int64_t time)
{
    const int64_t most = INT64_MAX / 4;
    return time > most ? most : time < -most ? -most : time;
}

/* Of a trace of figures only, and its use over time. */
static int find_use(struct html_builder *b, struct err *e)
{
    const struct summary *s = b->s;
    struct page_data *d = b->d;
    if (selection_figures(&b->selection, e) != 0)
        return -1;
    if (s->pools.len > PAGE_POOLS_MAX)
        return memory_refuse("the peak of several pools together is not known, and a page shows up "
                             "to 24: choose one",
                             e);
    for (size_t i = 0; i < s->stacks.len; i++) {
        widen(d, bounded_time(s->stacks.at[i].figures.first_time));
        widen(d, bounded_time(s->stacks.at[i].figures.last_time));
    }
    if (d->from > d->to)
        d->from = d->to = 0;
    const struct timeline_options window = {
        .begin = d->from, .end = d->to + 1, .buckets = PAGE_SLOTS / 2};
    if (timeline_build(&b->use, &b->selection, &window, e) != 0)
        return -1;
    d->figure_step = timeline_time(&b->use, 1) - b->use.begin;
    return 0;
}

static int find_span(struct html_builder *b, struct err *e)
{
    struct page_data *d = b->d;
    d->from = INT64_MAX;
    d->to = INT64_MIN;
    d->blocks.max = b->limits.blocks;
    page_map_init(&d->map);
    if (b->trace->memory.only.is)
        return find_use(b, e);
    for (uint32_t i = 0; i < b->trace->memory.pools.len; i++) {
        if (b->pools[i] < d->pools.len && read_blocks(b, i, e) != 0)
            return -1;
    }
    if (d->from > d->to)
        d->from = d->to = 0;
    else if (!narrowed(b))
        widen(d, bounded_time(kernel_curve_end(b->trace, d->to)));
    return 0;
}

/* ---- all of it */

/* Chooses one step length for all data over time. */
static int align_steps(struct page_series *s, struct err *e)
{
    struct page_cells *all[] = {&s->cells, &s->histogram, &s->blocks};
    unsigned shift = 0;
    for (size_t i = 0; i < 3; i++)
        shift = all[i]->shift > shift ? all[i]->shift : shift;
    for (size_t i = 0; i < 3; i++) {
        while (all[i]->shift < shift) {
            if (page_cells_halve(all[i], e) != 0)
                return -1;
        }
    }
    return 0;
}

/* The blocks were collected before sites were chosen. */
static void find_block_sites(struct html_builder *b)
{
    struct page_data *d = b->d;
    for (size_t i = 0; i < d->blocks.list.len; i++) {
        uint32_t callstack = d->blocks.list.at[i].callstack;
        uint32_t stack = callstack < b->stack_limit ? b->stacks[callstack] : 0;
        d->blocks.list.at[i].site = d->stacks.at[stack].site;
    }
    page_blocks_finish(&d->blocks);
}

/* Sites are sorted by importance, after the first, which is "other". */
static void choose_owners(struct html_builder *b)
{
    for (size_t i = 0; i < b->stack_limit; i++) {
        uint32_t site = b->d->stacks.at[b->stacks[i]].site;
        b->owners[i] = (uint8_t)(site && site <= PAGE_MAP_OWNERS ? site - 1 : PAGE_MAP_OWNERS);
    }
}

static int list_sites(struct html_builder *b, struct err *e)
{
    b->sites.len = 0;
    for (size_t i = 0; i < b->d->stacks.len; i++) {
        if (!vec_push(&b->sites, b->d->stacks.at[i].site))
            return err_no_memory(e, "call stacks");
    }
    return 0;
}

/* `first`: leaks share the pass. */
static int build_series(struct html_builder *b, bool first, struct err *e)
{
    struct page_data *d = b->d;
    choose_owners(b);
    if (list_sites(b, e) != 0)
        return -1;
    const struct page_series_options o = {
        .pools = b->pools,
        .pool_count = (uint32_t)d->pools.len,
        .threads = b->threads,
        .thread_limit = b->trace->threads.list.len,
        .thread_count = (uint32_t)d->threads.len,
        .thread_other = (uint32_t)d->threads.len - 1,
        .stacks = b->stacks,
        .stack_limit = b->stack_limit,
        .stack_other = 0,
        .sites = b->sites.at,
        .owners = b->owners,
        .map = &d->map,
        .from = d->from,
        .to = d->to,
        .selection = &b->selection,
        .all_threads = b->all_threads,
        .steps_min = PAGE_STEPS_MIN,
        .cells_max = b->limits.cells,
        .histogram_max = b->limits.histogram,
        .map_max = b->limits.map,
        .lives_max = b->limits.lives,
    };
    if (!b->trace->memory.only.is)
        return page_series_build(&d->series, &o, first ? &b->leaks.to : NULL, e);
    if (first && b->leaks.figures(b->leaks.to.ctx, e) != 0)
        return -1;
    return page_series_figures(&d->series, &o, b->s, &b->use, e);
}

/* Discards all sites and call stacks, for another choice. */
static void forget_places(struct html_builder *b)
{
    struct page_data *d = b->d;
    d->sites.len = d->stacks.len = d->nodes.len = d->frames.len = 0;
    d->other_sites = d->other_stacks = 0;
    d->text = d->ranked = 0;
    b->folded_nodes = 0;
    map_release(&b->site_numbers);
    map_release(&b->site_rests);
    memset(b->node_numbers, 0, (2 * b->trace->callstacks.nodes.len + 1) * sizeof *b->node_numbers);
    map_release(&b->frame_numbers);
    page_tree_release(&b->tree);
    memset(b->stacks, 0, b->stack_limit * sizeof *b->stacks);
    page_series_release(&d->series);
}

#define ATTEMPTS 4

/* Bytes of the page without its data, and of a pool's curve; parts that names and the rest take. */
#define FRAME_BYTES 185000u
#define CURVE_BYTES 12000u
#define TEXT_PART 0.3
#define OTHER_PART 0.16

/* Bytes of the cells of keys with PAGE_STEPS_MIN steps if all call stacks of a site were one. */
static int find_least(const struct page_data *d, size_t *size, struct err *e)
{
    const struct page_series *s = &d->series;
    struct page_cells c = {.options = s->cells.options, .shift = s->cells.shift};
    struct buf raw = {0};
    struct buf packed = {0};
    uint32_t *names = malloc(s->keys.len * sizeof *names);
    int status = names ? 0 : err_no_memory(e, "figures of the page");
    for (size_t i = 0; i < s->cells.list.len && status == 0; i++) {
        if (!vec_push(&c.list, s->cells.list.at[i]))
            status = err_no_memory(e, "figures of the page");
    }
    while (status == 0 && page_cells_steps(&c) > PAGE_STEPS_MIN)
        status = page_cells_halve(&c, e);
    for (size_t i = 0; i < s->keys.len && status == 0; i++) {
        const struct page_key *key = &s->keys.at[i];
        uint32_t owner = key->pool * (uint32_t)d->threads.len + key->thread;
        names[i] = owner * (uint32_t)d->sites.len + d->stacks.at[key->stack].site;
    }
    if (status == 0) {
        page_cells_rename(&c, names);
        pack_cells(&c, &raw);
        status = pack_text(&raw, &packed, e);
    }
    *size = packed.len;
    buf_release(&raw);
    buf_release(&packed);
    page_cells_release(&c);
    free(names);
    return status;
}

/* Whether less was chosen for another attempt. */
static bool choose_less(struct html_builder *b)
{
    const struct page_series *s = &b->d->series;
    if (s->histogram.shift > s->cells.shift && page_cells_steps(&s->histogram) < PAGE_STEPS_MIN &&
        !b->all_threads) {
        b->all_threads = true;
        return true;
    }
    if (s->folded)
        b->limits.stacks = b->d->ranked / (2 * HEAVY_TIMES);
    return s->folded != 0;
}

/* The names of what is left. */
static int count_text(struct html_builder *b, struct err *e)
{
    struct page_data *d = b->d;
    int status = 0;
    page_tree_release(&b->tree);
    d->text = 0;
    for (size_t i = 0; i < d->sites.len && status == 0; i++)
        status = page_tree_texts(&b->tree, d, &d->sites.at[i].frame, e);
    for (size_t i = 0; i < d->frames.len && status == 0; i++)
        status = page_tree_texts(&b->tree, d, &d->frames.at[i], e);
    return status;
}

/*
 * Leaves sites out as long as there is no room for all, with the call stacks of each as one: then
 * steps are short enough, or html_write can make it so.
 */
static int fit_sites(struct html_builder *b, struct err *e)
{
    struct page_data *d = b->d;
    for (int attempt = 1; attempt < ATTEMPTS && d->series.keys.len; attempt++) {
        const double room = (1 - OTHER_PART) * (double)d->size - FRAME_BYTES -
                            CURVE_BYTES * (double)d->pools.len - TEXT_PART * (double)d->text;
        size_t least;
        if (find_least(d, &least, e) != 0)
            return -1;
        if ((double)least <= room)
            return 0;
        double sites = (double)d->sites.len * 0.98 * (room > 0 ? room : 0) / (double)least;
        size_t kept = sites > PAGE_MAP_OWNERS ? (size_t)sites : PAGE_MAP_OWNERS;
        if (kept + 1 >= d->sites.len)
            return 0;
        if (page_data_leave_out(d, (uint32_t)kept + 1, e) != 0 || count_text(b, e) != 0)
            return -1;
    }
    return 0;
}

static int build(struct html_builder *b, struct err *e)
{
    b->limits = limits_of(b->d->size);
    if (html_stacks_begin(b, e) != 0 || html_choose_pools(b, e) != 0 ||
        html_choose_threads(b, e) != 0 || find_span(b, e) != 0)
        return -1;
    for (int attempt = 1;; attempt++) {
        if (html_choose_sites(b, e) != 0 || html_choose_stacks(b, e) != 0 ||
            build_series(b, attempt == 1, e) != 0)
            return -1;
        if (attempt == ATTEMPTS || !choose_less(b))
            break;
        forget_places(b);
    }
    struct page_data *d = b->d;
    if (fit_sites(b, e) != 0 || page_lives_finish(&d->series.lives, e) != 0)
        return -1;
    find_block_sites(b);
    int64_t end = d->from + (int64_t)(d->series.slot_ns * PAGE_SLOTS);
    if (kernel_curve_build(&d->kernel, b->trace, d->from, end, PAGE_SLOTS, e) != 0 ||
        align_steps(&d->series, e) != 0)
        return -1;
    return page_data_arrange(d, UINT32_MAX, e);
}

/* What was resident, and why. */
static int build_resident(struct html_builder *b, const struct skiplist *skip, struct err *e)
{
    struct page_data *d = b->d;
    const struct page_look *look = resident_highest(b->trace);
    if (!look)
        return 0;
    if (resident_build(&d->resident, &b->selection, skip, look, e) != 0)
        return -1;
    d->looked = true;
    return resident_findings_make(&d->findings, &d->resident, b->trace,
                                  selection_is_narrow(&b->selection.options), e);
}

int page_data_build(struct page_data *d, struct trace *t, const struct summary *s,
                    const struct skiplist *skip, size_t size, struct err *e)
{
    *d = (struct page_data){.summary = s, .size = size};
    struct html_builder b = {.d = d, .trace = t, .s = s, .selection = s->selection};
    const struct skiplist known = summary_skiplist(s, skip);
    size_t threads = t->threads.list.len;
    b.stack_limit = t->callstacks.list.len + 1;
    b.pools = calloc(t->memory.pools.len + 1, sizeof *b.pools);
    b.threads = malloc((threads + 1) * sizeof *b.threads);
    b.stacks = calloc(b.stack_limit, sizeof *b.stacks);
    b.owners = malloc(b.stack_limit);
    int status = -1;
    if (b.pools && b.threads && b.stacks && b.owners &&
        program_frames_init(&b.program, t, &known, e) == 0 && cut_stacks_init(&b.cut, t, e) == 0) {
        memset(b.threads, 0xff, (threads + 1) * sizeof *b.threads);
        status = leaks_begin(&b.leaks, &d->leaks, &b.selection, &known, NULL, e);
        if (status == 0)
            status = b.leaks.end(b.leaks.to.ctx, build(&b, e) == 0, e);
        if (status == 0)
            status = build_resident(&b, &known, e);
    } else if (!b.pools || !b.threads || !b.stacks || !b.owners) {
        err_no_memory(e, "what the page shows");
    }
    d->series.options.pools = d->series.options.threads = d->series.options.stacks = NULL;
    d->series.options.owners = NULL;
    d->series.options.sites = NULL;
    free(b.pools);
    free(b.threads);
    free(b.stacks);
    free(b.owners);
    program_frames_release(&b.program);
    cut_stacks_release(&b.cut);
    map_release(&b.site_numbers);
    map_release(&b.site_rests);
    free(b.node_numbers);
    map_release(&b.frame_numbers);
    page_tree_release(&b.tree);
    timeline_release(&b.use);
    vec_release(&b.sites);
    vec_release(&b.path);
    vec_release(&b.candidates);
    if (status != 0)
        page_data_release(d);
    return status;
}

void page_data_release(struct page_data *d)
{
    vec_release(&d->pools);
    vec_release(&d->threads);
    vec_release(&d->sites);
    vec_release(&d->stacks);
    vec_release(&d->nodes);
    vec_release(&d->frames);
    page_series_release(&d->series);
    page_map_release(&d->map);
    page_blocks_release(&d->blocks);
    kernel_curve_release(&d->kernel);
    leaks_release(&d->leaks);
    resident_release(&d->resident);
    resident_findings_release(&d->findings);
    *d = (struct page_data){0};
}
