/* Which pools, threads and sites have separate entries on the page, by what matters. */

#include "analysis/html/html_builder.h"

#include <stdlib.h>
#include <string.h>

/* ---- what matters */

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* The page is about bytes first: many small blocks matter less than few large ones. */
static const double entry_weights[HTML_MEASURES] = {1, 1, 1, 0.25, 0.25};
static const double place_weights[HTML_MEASURES] = {1, 0.08, 0.04, 0.008, 0.008};

static void find_shares(struct html_candidate *to, const struct counter *c,
                        const struct pool_figures *f)
{
    const double shares[HTML_MEASURES] = {
        share(c->bytes, f->total_bytes), share(c->at_peak_bytes, f->peak_bytes),
        share(c->live_bytes, f->live_bytes), share(c->count, f->allocations),
        share(c->temporary, f->temporary)};
    for (size_t i = 0; i < HTML_MEASURES; i++) {
        to->shares[i] = shares[i];
        if (entry_weights[i] * shares[i] > to->share)
            to->share = entry_weights[i] * shares[i];
    }
}

static int compare_numbers(const void *a, const void *b)
{
    const struct html_candidate *x = a;
    const struct html_candidate *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int compare_shares(const void *a, const void *b)
{
    const struct html_candidate *x = a;
    const struct html_candidate *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return compare_numbers(a, b);
}

/* Entries of two pools. */
static void merge(struct html_candidate *to, const struct html_candidate *from)
{
    if (from->share > to->share) {
        to->share = from->share;
        to->row = from->row;
    }
    for (size_t i = 0; i < HTML_MEASURES; i++) {
        if (from->shares[i] > to->shares[i])
            to->shares[i] = from->shares[i];
    }
}

/* One candidate for each number, with its largest share; the largest first. */
void html_rank(struct html_candidates *c)
{
    size_t kept = 0;
    if (c->len)
        qsort(c->at, c->len, sizeof *c->at, compare_numbers);
    for (size_t i = 0; i < c->len; i++) {
        if (kept && c->at[kept - 1].number == c->at[i].number) {
            merge(&c->at[kept - 1], &c->at[i]);
        } else {
            c->at[kept++] = c->at[i];
        }
    }
    c->len = kept;
    if (kept)
        qsort(c->at, kept, sizeof *c->at, compare_shares);
}

static int compare_measures(const void *a, const void *b, void *measure)
{
    const struct html_candidate *x = a;
    const struct html_candidate *y = b;
    const size_t m = *(const size_t *)measure;
    if (x->shares[m] != y->shares[m])
        return x->shares[m] > y->shares[m] ? -1 : 1;
    return compare_numbers(a, b);
}

/*
 * Orders ranked candidates so that however many are chosen, what the others have of each measure is
 * as small as its weight asks: a candidate is as important as what would be left out with it if the
 * heavier ones were chosen. Unlike the largest share this does not prefer a single block at a low
 * peak to gigabytes in many call stacks.
 */
void html_rank_by_rest(struct html_builder *b)
{
    struct html_candidates *c = &b->candidates;
    for (size_t i = 0; i < c->len; i++)
        c->at[i].share = 0;
    for (size_t m = 0; c->len && m < HTML_MEASURES; m++) {
        double whole = 0;
        for (size_t i = 0; i < c->len; i++)
            whole += c->at[i].shares[m];
        qsort_r(c->at, c->len, sizeof *c->at, compare_measures, &m);
        double rest = whole;
        for (size_t i = 0; i < c->len && c->at[i].shares[m] > 0; i++) {
            double importance = place_weights[m] * rest / whole;
            if (importance > c->at[i].share)
                c->at[i].share = importance;
            rest -= c->at[i].shares[m];
        }
        trace_swept(b->trace, m + 1, HTML_MEASURES);
    }
    trace_loaded(b->trace);
    if (c->len)
        qsort(c->at, c->len, sizeof *c->at, compare_shares);
}

int html_add_candidate(struct html_builder *b, const struct counter *c, uint32_t pool,
                       uint32_t number, size_t row, struct err *e)
{
    struct html_candidate at = {.number = number, .row = (uint32_t)row};
    find_shares(&at, c, &b->s->pools.at[pool].figures);
    return vec_push(&b->candidates, at) ? 0 : err_no_memory(e, "what the page shows");
}

/* ---- names */

int html_count_text(struct html_builder *b, struct view text, struct err *e)
{
    return page_tree_text(&b->tree, b->d, &text, e);
}

/* ---- pools */

static int compare_pools(const void *a, const void *b, void *ctx)
{
    const struct summary *s = ctx;
    const struct pool_figures *x = &s->pools.at[*(const uint32_t *)a].figures;
    const struct pool_figures *y = &s->pools.at[*(const uint32_t *)b].figures;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes > y->peak_bytes ? -1 : 1;
    return *(const uint32_t *)a > *(const uint32_t *)b ? 1 : -1;
}

static int list_pools(struct html_builder *b, uint32_t *order, uint32_t *shown, struct err *e)
{
    const struct summary *s = b->s;
    uint32_t n = (uint32_t)s->pools.len;
    uint32_t kept = n > PAGE_POOLS_MAX ? PAGE_POOLS_MAX : n;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    /* All in the summary's order when there is room, else those with the highest peaks. */
    if (n > kept)
        qsort_r(order, n, sizeof *order, compare_pools, (void *)s);
    for (uint32_t i = 0; i < n; i++)
        shown[order[i]] = i < kept ? i : kept;
    for (uint32_t i = 0; i < kept; i++) {
        struct page_pool p = {s->pools.at[order[i]].name, 1, order[i]};
        if (!vec_push(&b->d->pools, p) || html_count_text(b, p.name, e) != 0)
            return err_no_memory(e, "pools");
    }
    struct page_pool rest = {{"", 0}, n - kept, -1};
    if (rest.count && !vec_push(&b->d->pools, rest))
        return err_no_memory(e, "pools");
    return 0;
}

/* The pool of the page for each pool of the trace, by the summary's list of keys. */
int html_choose_pools(struct html_builder *b, struct err *e)
{
    const struct summary *s = b->s;
    const struct memory *m = &b->trace->memory;
    struct map by_key = {0};
    uint32_t *order = calloc(s->pools.len + 1, 2 * sizeof *order);
    int status = order ? list_pools(b, order, order + s->pools.len, e)
                       : err_no_memory(e, "what the page shows");
    for (size_t i = 0; status == 0 && i < s->pools.len; i++) {
        const struct summary_pool *p = &s->pools.at[i];
        for (size_t k = p->first_key; k < p->first_key + p->key_count && status == 0; k++) {
            uint64_t *to = map_add(&by_key, s->pool_keys.at[k], NULL);
            if (to)
                *to = order[s->pools.len + i];
            else
                status = err_no_memory(e, "pools");
        }
    }
    for (size_t i = 0; status == 0 && i < m->pools.len; i++) {
        const uint64_t *to = map_find(&by_key, m->pools.at[i]->key);
        b->pools[i] = to ? (uint32_t)*to : (uint32_t)b->d->pools.len;
    }
    free(order);
    map_release(&by_key);
    return status;
}

/* ---- threads */

int html_choose_threads(struct html_builder *b, struct err *e)
{
    const struct row_list *rows = &b->s->groups;
    const struct trace_threads *threads = &b->trace->threads;
    struct page_data *d = b->d;
    b->candidates.len = 0;
    /* Figures are by thread or by call stack: the page has those of call stacks. */
    for (size_t i = 0; i < rows->len && !b->trace->memory.only.is; i++) {
        if (html_add_candidate(b, &rows->at[i].figures, rows->at[i].pool, rows->at[i].key, i, e) !=
            0)
            return -1;
    }
    html_rank(&b->candidates);
    size_t kept = b->candidates.len < PAGE_THREADS_MAX ? b->candidates.len : PAGE_THREADS_MAX;
    for (size_t i = 0; i < kept; i++) {
        uint32_t number = b->candidates.at[i].number;
        struct page_thread t = {.name = {"", 0}};
        if (number < threads->list.len) {
            const struct trace_thread *in = &threads->list.at[number];
            t.id = in->id;
            t.name = strings_get(&b->trace->strings, in->name);
            b->threads[number] = (uint32_t)i;
        }
        if (!vec_push(&d->threads, t) || html_count_text(b, t.name, e) != 0)
            return err_no_memory(e, "threads");
    }
    d->other_threads = b->candidates.len - kept;
    if (!vec_push(&d->threads, (struct page_thread){.name = {"", 0}, .rest = true}))
        return err_no_memory(e, "threads");
    for (size_t i = 0; i < threads->list.len; i++) {
        if (b->threads[i] == UNASSIGNED)
            b->threads[i] = (uint32_t)kept;
    }
    return 0;
}

/* ---- sites */

/* The type with most bytes. */
static void find_type(const struct summary *s, const struct summary_row *row,
                      struct page_site *site)
{
    site->type = (struct view){"", 0};
    for (size_t i = 0; i < row->type_count && site->type.len == 0; i++)
        site->type = s->row_types.at[row->first_type + i].name;
    site->more_types = site->type.len && row->type_count > 1;
}

/* A site is one entry for all pools: its rows in less important pools may have other types. */
static void compare_types(struct html_builder *b, const struct row_list *rows)
{
    for (size_t i = 0; i < rows->len; i++) {
        const uint64_t *number = map_find(&b->site_numbers, rows->at[i].key);
        struct page_site *site = number ? &b->d->sites.at[*number] : NULL;
        struct page_site here = {.rest = false};
        if (!site || rows->at[i].type_count == 0)
            continue;
        find_type(b->s, &rows->at[i], &here);
        if (site->type.len == 0)
            site->type = here.type;
        site->more_types |= here.more_types || !view_equal(here.type, site->type);
    }
}

int html_choose_sites(struct html_builder *b, struct err *e)
{
    const struct row_list *rows = &b->s->sites;
    struct page_data *d = b->d;
    struct page_site rest = {.frame = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}},
                             .rest = true,
                             .type = {"", 0}};
    b->candidates.len = 0;
    for (size_t i = 0; i < rows->len; i++) {
        if (html_add_candidate(b, &rows->at[i].figures, rows->at[i].pool, rows->at[i].key, i, e) !=
            0)
            return -1;
    }
    html_rank(&b->candidates);
    html_rank_by_rest(b);
    if (!vec_push(&d->sites, rest))
        return err_no_memory(e, "allocation sites");
    for (size_t i = 0; i < b->candidates.len; i++) {
        const struct summary_row *row = &rows->at[b->candidates.at[i].row];
        if (d->sites.len > b->limits.sites ||
            d->text + page_tree_cost(&b->tree, &row->frame) > b->limits.text / 2) {
            d->other_sites++;
            continue;
        }
        uint64_t *number = map_add(&b->site_numbers, row->key, NULL);
        struct page_site site = {
            .frame = row->frame, .no_callstack = row->no_callstack, .callstack = row->callstack};
        find_type(b->s, row, &site);
        if (!number || page_tree_texts(&b->tree, d, &site.frame, e) != 0 ||
            page_tree_text(&b->tree, d, &site.type, e) != 0 || !vec_push(&d->sites, site))
            return err_no_memory(e, "allocation sites");
        *number = d->sites.len - 1;
    }
    compare_types(b, rows);
    return 0;
}
