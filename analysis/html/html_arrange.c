#include "analysis/html/html_arrange.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/html/html_tree.h"

/* ---- folding */

/* As many nodes, once more, may be added for folded call stacks; the others have none. */
#define FOLDED_PART 8

struct fold {
    struct page_data *d;
    const struct page_node *old; /* the nodes before */
    uint32_t *places; /* of those that stay, by old number; 0: the root, or it does not */
    size_t most;      /* nodes, with those added for folded call stacks */
    struct page_tree tree;
    VEC(uint32_t) path;
};

/* Adds a node that stays, with its callers. */
static int keep(struct fold *f, uint32_t node, struct err *e)
{
    f->path.len = 0;
    for (; node && !f->places[node]; node = f->old[node].parent) {
        if (!vec_push(&f->path, node))
            return err_no_memory(e, "call stacks");
    }
    uint32_t at = f->places[node];
    while (f->path.len) {
        node = f->path.at[--f->path.len];
        if (page_tree_child(&f->tree, f->d, f->old[node].frame, &at, e) != 0)
            return -1;
        f->places[node] = at;
    }
    return 0;
}

/*
 * Folds a call stack, or places a folded one anew: it keeps its outer frames down to the first that
 * no call stack beside it has. If where the program begins is further in, a node for what is left
 * out and that frame follow, as long as there is room for nodes, else the root takes it.
 */
static int fold(struct fold *f, struct page_stack *s, struct err *e)
{
    uint32_t node = s->node;
    uint32_t gap = f->old[node].parent;
    bool has_begin = true;
    if (!s->is_folded)
        f->d->other_stacks += s->count;
    if (s->is_folded && gap && f->old[gap].frame == f->d->left_out) {
        node = f->old[gap].parent;
        has_begin = false;
    }
    for (; node && !f->places[node]; node = f->old[node].parent)
        has_begin &= node != s->begin;
    if (!has_begin && f->d->nodes.len >= f->most)
        node = 0;
    uint32_t frame = f->old[s->begin].frame;
    s->is_folded = true;
    s->node = f->places[node];
    if (node && !has_begin &&
        (page_tree_child(&f->tree, f->d, f->d->left_out, &s->node, e) != 0 ||
         page_tree_child(&f->tree, f->d, frame, &s->node, e) != 0))
        return -1;
    s->begin = node && has_begin ? f->places[s->begin] : s->node;
    return 0;
}

static int fold_all(struct fold *f, uint32_t whole, struct err *e)
{
    struct page_stack *stacks = f->d->stacks.at;
    size_t n = f->d->stacks.len;
    for (size_t i = 0; i < n; i++) {
        if (!stacks[i].is_folded && stacks[i].rank < whole && keep(f, stacks[i].node, e) != 0)
            return -1;
    }
    f->most = f->d->nodes.len + f->d->nodes.len / FOLDED_PART;
    for (size_t i = 0; i < n; i++) {
        if (!stacks[i].is_folded && stacks[i].rank < whole) {
            stacks[i].node = f->places[stacks[i].node];
            stacks[i].begin = f->places[stacks[i].begin];
        } else if (stacks[i].node && fold(f, &stacks[i], e) != 0) {
            return -1;
        }
    }
    return 0;
}

static int fold_light(struct page_data *d, uint32_t whole, struct err *e)
{
    size_t n = d->nodes.len;
    struct page_node *old = malloc(n * sizeof *old);
    struct fold f = {.d = d, .old = old, .places = calloc(n, sizeof *f.places)};
    int status = -1;
    if (old && f.places) {
        memcpy(old, d->nodes.at, n * sizeof *old);
        d->nodes.len = 1;
        status = fold_all(&f, whole, e);
        d->ranked = whole;
    } else {
        err_no_memory(e, "call stacks");
    }
    free(old);
    free(f.places);
    page_tree_release(&f.tree);
    vec_release(&f.path);
    return status;
}

/* ---- fewer sites */

static int keep_used_frames(struct page_data *d, struct err *e)
{
    size_t n = 0;
    uint32_t *numbers = calloc(d->frames.len + 1, sizeof *numbers);
    if (!numbers)
        return err_no_memory(e, "frames");
    numbers[d->left_out] = 1;
    for (size_t i = 1; i < d->nodes.len; i++)
        numbers[d->nodes.at[i].frame] = 1;
    for (size_t i = 0; i < d->frames.len; i++) {
        if (numbers[i]) {
            d->frames.at[n] = d->frames.at[i];
            numbers[i] = (uint32_t)n++;
        }
    }
    d->frames.len = n;
    d->left_out = numbers[d->left_out];
    for (size_t i = 1; i < d->nodes.len; i++)
        d->nodes.at[i].frame = numbers[d->nodes.at[i].frame];
    free(numbers);
    return 0;
}

int page_data_leave_out(struct page_data *d, uint32_t sites, struct err *e)
{
    const uint32_t pools = (uint32_t)d->pools.len;
    uint32_t ranked = 0;
    for (size_t i = 0; i < d->stacks.len; i++) {
        struct page_stack *s = &d->stacks.at[i];
        if (s->site >= sites) {
            d->other_stacks += s->is_folded ? 0 : s->count;
            *s = (struct page_stack){.is_folded = true};
        }
        if (!s->is_folded)
            s->rank = ranked++;
    }
    d->other_sites += d->sites.len - sites;
    d->sites.len = sites;
    if (page_lives_combine(&d->series.lives, sites * pools, pools, e) != 0 ||
        fold_light(d, ranked, e) != 0)
        return -1;
    return keep_used_frames(d, e);
}

/* ---- order */

/* What is ordered, and its number before. */
struct item {
    uint64_t high, low;
    uint32_t old;
};

static int compare(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;
    if (x->high != y->high)
        return x->high > y->high ? 1 : -1;
    return (x->low > y->low) - (x->low < y->low);
}

/* New numbers by old ones, the same for equal items; returns how many there are. */
static size_t number_items(struct item *items, size_t n, uint32_t *numbers)
{
    uint32_t count = 0;
    if (n)
        qsort(items, n, sizeof *items, compare);
    for (size_t i = 0; i < n; i++) {
        count += i == 0 || compare(&items[i - 1], &items[i]) != 0;
        numbers[items[i].old] = count - 1;
    }
    return count;
}

static uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* `items`: all nodes but the root, as children in order; `numbers`: where each has its first. */
static void walk(const struct item *items, size_t n, uint32_t *first, uint32_t *stack,
                 uint32_t *numbers)
{
    uint32_t count = 0;
    size_t depth = 1;
    for (size_t i = n; i-- > 0;)
        first[items[i].high >> 32] = (uint32_t)i;
    stack[0] = 0;
    while (depth) {
        uint32_t node = stack[--depth];
        size_t end = first[node];
        numbers[node] = count++;
        while (end < n && items[end].high >> 32 == node)
            end++;
        while (end > first[node])
            stack[depth++] = items[--end].old;
    }
}

/* Numbers nodes depth first, those of one caller by their frames. */
static int arrange_nodes(struct page_data *d, struct item *items, uint32_t *numbers, struct err *e)
{
    size_t n = d->nodes.len;
    uint32_t *first = malloc(2 * n * sizeof *first);
    struct page_node *nodes = malloc(n * sizeof *nodes);
    if (!first || !nodes) {
        free(first);
        free(nodes);
        return err_no_memory(e, "call stacks");
    }
    for (size_t i = 0; i < n; i++) {
        const struct page_node *node = &d->nodes.at[i];
        first[i] = (uint32_t)n;
        if (i)
            items[i - 1] = (struct item){pair(node->parent, node->frame), i, (uint32_t)i};
    }
    qsort(items, n - 1, sizeof *items, compare);
    walk(items, n - 1, first, first + n, numbers);
    memcpy(nodes, d->nodes.at, n * sizeof *nodes);
    for (size_t i = 0; i < n; i++)
        d->nodes.at[numbers[i]] = (struct page_node){numbers[nodes[i].parent], nodes[i].frame};
    free(first);
    free(nodes);
    return 0;
}

static int arrange_stacks(struct page_data *d, struct item *items, const uint32_t *nodes,
                          uint32_t *numbers, struct err *e)
{
    size_t n = d->stacks.len;
    struct page_stack *old = malloc(n * sizeof *old);
    if (!old)
        return err_no_memory(e, "call stacks");
    memcpy(old, d->stacks.at, n * sizeof *old);
    for (size_t i = 0; i < n; i++) {
        const struct page_stack *s = &old[i];
        items[i] = (struct item){pair(nodes[s->node], nodes[s->begin]),
                                 (uint64_t)s->site << 1 | s->is_folded, (uint32_t)i};
    }
    d->stacks.len = number_items(items, n, numbers);
    for (size_t i = 0; i < n; i++) {
        struct page_stack *s = &d->stacks.at[numbers[i]];
        *s = old[i];
        s->node = nodes[s->node];
        s->begin = nodes[s->begin];
    }
    free(old);
    return 0;
}

static void arrange_keys(struct page_series *s, struct item *items, const uint32_t *stacks,
                         uint32_t *numbers)
{
    size_t n = s->keys.len;
    for (size_t i = 0; i < n; i++) {
        const struct page_key *key = &s->keys.at[i];
        items[i] = (struct item){pair(stacks[key->stack], key->pool), key->thread, (uint32_t)i};
    }
    s->keys.len = number_items(items, n, numbers);
    for (size_t i = 0; i < n; i++)
        s->keys.at[numbers[items[i].old]] =
            (struct page_key){.pool = (uint32_t)items[i].high,
                              .thread = (uint32_t)items[i].low,
                              .stack = (uint32_t)(items[i].high >> 32)};
}

int page_data_arrange(struct page_data *d, uint32_t whole, struct err *e)
{
    if (whole < d->ranked && fold_light(d, whole, e) != 0)
        return -1;
    size_t nodes = d->nodes.len;
    size_t stacks = d->stacks.len;
    size_t keys = d->series.keys.len;
    struct item *items = calloc(nodes + stacks + keys, sizeof *items);
    uint32_t *numbers = calloc(nodes + stacks + keys, sizeof *numbers);
    int status = -1;
    if (!items || !numbers) {
        err_no_memory(e, "call stacks");
    } else if (arrange_nodes(d, items, numbers, e) == 0 &&
               arrange_stacks(d, items, numbers, numbers + nodes, e) == 0) {
        arrange_keys(&d->series, items, numbers + nodes, numbers + nodes + stacks);
        page_cells_rename(&d->series.cells, numbers + nodes + stacks);
        status = 0;
    }
    free(items);
    free(numbers);
    return status;
}
