#include "analysis/html/html_cells.h"

#include <stdlib.h>
#include <string.h>

#include "base/saturate.h"

void page_cells_init(struct page_cells *c, const struct page_cells_options *options)
{
    *c = (struct page_cells){.options = *options};
}

void page_cells_release(struct page_cells *c)
{
    vec_release(&c->list);
    vec_release(&c->sums);
    vec_release(&c->touched);
    vec_release(&c->scratch);
}

static bool has_too_many(const struct page_cells *c)
{
    uint32_t steps = page_cells_steps(c);
    return c->list.len > c->options.cells_max && steps > 1 && steps > c->options.steps_min;
}

static int compare_keys(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Turns the sums of the current step into cells. */
static int flush(struct page_cells *c, struct err *e)
{
    if (c->touched.len == 0)
        return 0;
    qsort(c->touched.at, c->touched.len, sizeof *c->touched.at, compare_keys);
    if (!vec_reserve(&c->list, c->list.len + c->touched.len))
        return err_no_memory(e, "figures of the page");
    for (size_t i = 0; i < c->touched.len; i++) {
        uint32_t key = c->touched.at[i];
        struct page_sum *sum = &c->sums.at[key];
        if (c->options.settle)
            c->options.settle(c->options.ctx, key, sum->v);
        struct page_cell *cell = &c->list.at[c->list.len++];
        cell->step = c->step;
        cell->key = key;
        memcpy(cell->v, sum->v, sizeof cell->v);
        *sum = (struct page_sum){0};
    }
    c->touched.len = 0;
    return 0;
}

static void join(const struct page_cells *c, uint32_t step, const struct page_cell *a,
                 const struct page_cell *b, struct page_cell *to)
{
    struct page_cell out = {.step = step, .key = a ? a->key : b->key};
    if (c->options.join) {
        uint32_t half = 1u << c->shift;
        c->options.join(c->options.ctx, out.key, step * 2 * half, half, a ? a->v : NULL,
                        b ? b->v : NULL, out.v);
    } else {
        for (unsigned i = 0; i < c->options.values; i++)
            out.v[i] = saturating_sum(a ? a->v[i] : 0, b ? b->v[i] : 0);
    }
    *to = out;
}

/*
 * Joins the cells of two adjacent steps. Those of the earlier step were moved to the scratch; those
 * of the later one end at `end`, so writing never overtakes reading.
 */
static size_t join_runs(struct page_cells *c, uint32_t step, size_t out, size_t b, size_t end)
{
    const struct page_cell *first = c->scratch.at;
    size_t n = c->scratch.len;
    size_t a = 0;
    while (a < n || b < end) {
        const struct page_cell *x = a < n ? &first[a] : NULL;
        const struct page_cell *y = b < end ? &c->list.at[b] : NULL;
        if (x && y && x->key != y->key) {
            if (x->key < y->key)
                y = NULL;
            else
                x = NULL;
        }
        a += x != NULL;
        b += y != NULL;
        join(c, step, x, y, &c->list.at[out++]);
    }
    return out;
}

int page_cells_halve(struct page_cells *c, struct err *e)
{
    size_t out = 0;
    for (size_t i = 0; i < c->list.len;) {
        uint32_t step = c->list.at[i].step / 2;
        size_t middle = i;
        while (middle < c->list.len && c->list.at[middle].step == 2 * step)
            middle++;
        size_t end = middle;
        while (end < c->list.len && c->list.at[end].step == 2 * step + 1)
            end++;
        if (!vec_reserve(&c->scratch, middle - i + 1))
            return err_no_memory(e, "figures of the page");
        memcpy(c->scratch.at, &c->list.at[i], (middle - i) * sizeof *c->list.at);
        c->scratch.len = middle - i;
        out = join_runs(c, step, out, middle, end);
        i = end;
    }
    c->list.len = out;
    c->shift++;
    c->step /= 2;
    return 0;
}

int page_cells_advance(struct page_cells *c, uint32_t slot, struct err *e)
{
    while (slot >> c->shift > c->step) {
        if (flush(c, e) != 0)
            return -1;
        uint32_t next = slot >> c->shift;
        /* A pair of steps is joined only when both are complete. */
        if (has_too_many(c) && next / 2 > c->step / 2) {
            if (page_cells_halve(c, e) != 0)
                return -1;
            c->step = (slot >> c->shift) - 1;
            continue;
        }
        c->step = next;
    }
    return 0;
}

int64_t *page_cells_at(struct page_cells *c, uint32_t key, bool *fresh, struct err *e)
{
    while (c->sums.len <= key) {
        if (!vec_push(&c->sums, (struct page_sum){0})) {
            err_no_memory(e, "figures of the page");
            return NULL;
        }
    }
    struct page_sum *sum = &c->sums.at[key];
    *fresh = !sum->touched;
    if (!sum->touched) {
        if (!vec_push(&c->touched, key)) {
            err_no_memory(e, "figures of the page");
            return NULL;
        }
        sum->touched = true;
    }
    return sum->v;
}

int page_cells_finish(struct page_cells *c, struct err *e)
{
    if (flush(c, e) != 0)
        return -1;
    while (has_too_many(c)) {
        if (page_cells_halve(c, e) != 0)
            return -1;
    }
    return 0;
}

static int compare_cells(const void *a, const void *b)
{
    const struct page_cell *x = a;
    const struct page_cell *y = b;
    if (x->step != y->step)
        return x->step > y->step ? 1 : -1;
    return (x->key > y->key) - (x->key < y->key);
}

void page_cells_rename(struct page_cells *c, const uint32_t *names)
{
    size_t out = 0;
    for (size_t i = 0; i < c->list.len; i++)
        c->list.at[i].key = names[c->list.at[i].key];
    if (c->list.len)
        qsort(c->list.at, c->list.len, sizeof *c->list.at, compare_cells);
    for (size_t i = 0; i < c->list.len; i++) {
        struct page_cell *cell = &c->list.at[i];
        struct page_cell *last = &c->list.at[out ? out - 1 : 0];
        if (i == 0 || compare_cells(last, cell) != 0) {
            c->list.at[out++] = *cell;
            continue;
        }
        for (unsigned k = 0; k < PAGE_VALUES_MAX; k++)
            last->v[k] = saturating_sum(last->v[k], cell->v[k]);
    }
    c->list.len = out;
}
