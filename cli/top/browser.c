#include "cli/top/browser.h"

#include "base/saturate.h"

#include <stdlib.h>
#include <string.h>

void browser_release(struct browser *b)
{
    vec_release(&b->rows);
    map_release(&b->open);
    *b = (struct browser){0};
}

/* ---- rows */

static bool is_shown(const struct browser *b, uint32_t node)
{
    return !b->only_live || b->tree->nodes.at[node].inclusive.at[TREE_LIVE_COUNT] != 0;
}

static bool is_open(const struct browser *b, uint32_t node)
{
    return node == TREE_ROOT || map_find(&b->open, tree_path(b->tree, node)) != NULL;
}

/* The single shown child of a node that differs from it in no figure; 0: there is none. */
static uint32_t only_child(const struct browser *b, uint32_t node)
{
    if (!b->fold || node == TREE_ROOT || tree_peek(b->tree, node, b->only_live) != 1)
        return 0;
    const uint32_t *children = tree_children(b->tree, node);
    const struct tree_node *n = &b->tree->nodes.at[node];
    uint32_t only = 0;
    for (uint32_t i = 0; i < n->count; i++)
        only = is_shown(b, children[i]) ? children[i] : only;
    const struct tree_figures *of = &b->tree->nodes.at[only].inclusive;
    return only && memcmp(&n->inclusive, of, sizeof n->inclusive) == 0 ? only : 0;
}

/* The node whose row a node shares. */
static uint32_t row_node(const struct browser *b, uint32_t node)
{
    for (uint32_t next = only_child(b, node); next; next = only_child(b, node))
        node = next;
    return node;
}

/* The first node of the chain that a node is in. */
static uint32_t row_head(const struct browser *b, uint32_t node)
{
    uint32_t parent = b->tree->nodes.at[node].parent;
    while (node != TREE_ROOT && only_child(b, parent) == node) {
        node = parent;
        parent = b->tree->nodes.at[node].parent;
    }
    return node;
}

const struct browser_row *browser_row(struct browser *b, size_t at)
{
    struct browser_row *row = &b->rows.at[at];
    if (!row->known) {
        row->node = row_node(b, row->head);
        row->has_children = tree_peek(b->tree, row->node, b->only_live) != 0;
        row->known = true;
    }
    return row;
}

struct walk_step {
    uint32_t node, depth;
};

/* Nodes in display order, including those in closed nodes. */
struct walk {
    const struct browser *b;
    VEC(struct walk_step) waiting; /* the next one last */
    bool failed;
};

static bool walk_next(struct walk *w, struct walk_step *step)
{
    if (w->waiting.len == 0 || w->failed)
        return false;
    *step = w->waiting.at[--w->waiting.len];
    return true;
}

static void walk_children(struct walk *w, uint32_t node, uint32_t depth)
{
    const uint32_t *children = tree_children(w->b->tree, node);
    for (uint32_t i = w->b->tree->nodes.at[node].count; i-- > 0 && !w->failed;) {
        if (is_shown(w->b, children[i]))
            w->failed |= !vec_push(&w->waiting, ((struct walk_step){children[i], depth}));
    }
    w->failed |= w->b->tree->failed;
}

/* The cursor goes to the row of `chosen` or, if it has none, to that of its nearest parent. */
static void place_cursor(struct browser *b, uint32_t chosen)
{
    uint32_t at = row_head(b, chosen);
    b->cursor = 0;
    while (at != TREE_ROOT) {
        for (size_t i = 0; i < b->rows.len; i++) {
            if (b->rows.at[i].head == at) {
                b->cursor = i;
                return;
            }
        }
        at = row_head(b, b->tree->nodes.at[at].parent);
    }
}

/* Makes the rows. What no open node shows is not looked at. */
static bool list_rows(struct browser *b)
{
    struct walk w = {.b = b};
    struct walk_step step;
    b->rows.len = 0;
    w.failed = !vec_push(&w.waiting, ((struct walk_step){TREE_ROOT, 0}));
    while (walk_next(&w, &step)) {
        struct browser_row row = {
            .head = step.node, .depth = step.depth, .path = tree_path(b->tree, step.node)};
        bool maybe = is_open(b, step.node);
        uint32_t node = maybe ? row_node(b, step.node) : step.node;
        row.open = maybe && is_open(b, node);
        if (row.open)
            walk_children(&w, node, step.depth + 1);
        w.failed |= !vec_push(&b->rows, row);
    }
    vec_release(&w.waiting);
    return !w.failed;
}

/* Makes the rows, and places the cursor. */
static bool make_rows(struct browser *b, uint32_t chosen)
{
    if (!list_rows(b))
        return false;
    place_cursor(b, chosen);
    return !b->tree->failed;
}

static uint32_t chosen_node(struct browser *b)
{
    return b->cursor < b->rows.len ? browser_row(b, b->cursor)->node : TREE_ROOT;
}

bool browser_show(struct browser *b, struct tree *t)
{
    uint64_t path = b->cursor < b->rows.len ? b->rows.at[b->cursor].path : 0;
    size_t row = b->cursor;
    uint32_t chosen = TREE_ROOT;
    b->tree = t;
    if (!list_rows(b))
        return false;
    for (uint32_t i = 1; i < t->nodes.len && path; i++) {
        if (tree_path(t, i) == path)
            chosen = i;
    }
    place_cursor(b, chosen);
    /* No such node in this tree: the cursor stays at its row. */
    if (path && chosen == TREE_ROOT)
        b->cursor = row < b->rows.len ? row : b->rows.len - 1;
    return !t->failed;
}

bool browser_show_sorted(struct browser *b)
{
    return make_rows(b, chosen_node(b));
}

bool browser_set_only_live(struct browser *b, bool only_live)
{
    uint32_t chosen = chosen_node(b);
    b->only_live = only_live;
    return make_rows(b, chosen);
}

bool browser_set_fold(struct browser *b, bool fold)
{
    uint32_t chosen = chosen_node(b);
    b->fold = fold;
    return make_rows(b, chosen);
}

/* ---- opening */

static bool set_open(struct browser *b, uint32_t node, bool open)
{
    if (open)
        return map_add(&b->open, tree_path(b->tree, node), NULL) != NULL;
    map_remove(&b->open, tree_path(b->tree, node));
    return true;
}

/* Opens or closes all nodes of a row. */
static bool set_row_open(struct browser *b, uint32_t head, uint32_t node, bool open)
{
    while (set_open(b, node, open)) {
        if (node == head)
            return true;
        node = b->tree->nodes.at[node].parent;
    }
    return false;
}

bool browser_set_open(struct browser *b, bool open)
{
    uint32_t node = chosen_node(b);
    return node == TREE_ROOT ||
           (set_row_open(b, b->rows.at[b->cursor].head, node, open) && make_rows(b, node));
}

bool browser_open_below(struct browser *b, size_t most)
{
    struct walk w = {.b = b};
    uint32_t chosen = chosen_node(b);
    struct walk_step step;
    size_t rows = b->rows.len;
    w.failed = !vec_push(&w.waiting, ((struct walk_step){b->rows.at[b->cursor].head, 0}));
    while (rows < most && walk_next(&w, &step)) {
        uint32_t node = row_node(b, step.node);
        bool was = is_open(b, node);
        walk_children(&w, node, 0);
        uint32_t count = b->tree->nodes.at[node].count;
        rows += was ? 0 : count;
        w.failed |= node != TREE_ROOT && count && !set_row_open(b, step.node, node, true);
    }
    vec_release(&w.waiting);
    return !w.failed && make_rows(b, chosen);
}

bool browser_close_all(struct browser *b)
{
    uint32_t node = chosen_node(b);
    map_release(&b->open);
    return make_rows(b, node);
}

/* ---- moving */

void browser_to_parent(struct browser *b)
{
    uint32_t depth = b->rows.at[b->cursor].depth;
    while (b->cursor && b->rows.at[b->cursor].depth >= depth)
        b->cursor--;
}

void browser_move(struct browser *b, ptrdiff_t by)
{
    size_t far = by < 0 ? 0 - (size_t)by : (size_t)by;
    size_t room = by < 0 ? b->cursor : b->rows.len ? b->rows.len - 1 - b->cursor : 0;
    far = far < room ? far : room;
    b->cursor = by < 0 ? b->cursor - far : b->cursor + far;
}

/* ---- searching */

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + ('a' - 'A')) : c;
}

static bool holds(struct view in, struct view text)
{
    for (size_t i = 0; i + text.len <= in.len; i++) {
        size_t n = 0;
        while (n < text.len && lower((uint8_t)in.p[i + n]) == lower((uint8_t)text.p[n]))
            n++;
        if (n == text.len)
            return true;
    }
    return false;
}

/* Opens the parents of the node to which a call stack comes after `depth` nodes. */
static bool reveal(struct browser *b, size_t stack, uint32_t depth)
{
    struct tree_step step = {0};
    uint32_t node = TREE_ROOT;
    while (step.depth < depth && tree_step(b->tree, stack, &step)) {
        const uint32_t *children = tree_children(b->tree, node);
        uint32_t count = b->tree->nodes.at[node].count, i = 0;
        if (node != TREE_ROOT && !set_open(b, node, true))
            return false;
        while (i < count && b->tree->nodes.at[children[i]].label != step.label)
            i++;
        if (b->tree->failed || i == count)
            return false;
        node = children[i];
    }
    return make_rows(b, node);
}

/* A node whose label contains the text, grown or not. */
struct hit {
    uint64_t path, weight, live;
    size_t stack; /* one through it */
    uint32_t depth;
};

struct search {
    struct browser *b;
    struct view text;
    struct buf name;
    VEC(int8_t) labels; /* by label: 1: contains the text, 0: does not, -1: not yet known */
    struct map numbers; /* path → number */
    VEC(struct hit) hits;
    bool failed;
};

static bool label_holds(struct search *s, const struct tree_label *l)
{
    buf_clear(&s->name);
    tree_label_name(&s->name, s->b->tree, l);
    s->failed |= s->name.failed;
    return holds(buf_view(&s->name), s->text) || holds(l->frame.file, s->text) ||
           holds(l->frame.image, s->text);
}

static bool is_hit(struct search *s, uint32_t label)
{
    while (s->labels.len <= label && !s->failed)
        s->failed = !vec_push(&s->labels, -1);
    if (s->failed)
        return false;
    if (s->labels.at[label] < 0)
        s->labels.at[label] = label_holds(s, &s->b->tree->labels.at[label]) ? 1 : 0;
    return s->labels.at[label] == 1;
}

static void add_hit(struct search *s, size_t stack, const struct tree_step *step)
{
    const struct tree *t = s->b->tree;
    const struct tree_figures *f = tree_stack_figures(t, stack);
    bool fresh;
    uint64_t *number = map_add(&s->numbers, step->path, &fresh);
    if (number && fresh) {
        *number = s->hits.len;
        s->failed |= !vec_push(
            &s->hits, ((struct hit){.path = step->path, .stack = stack, .depth = step->depth}));
    }
    s->failed |= !number;
    if (s->failed)
        return;
    struct hit *hit = &s->hits.at[*number];
    hit->weight = saturating_add(hit->weight, f->at[t->options.sort]);
    hit->live = saturating_add(hit->live, f->at[TREE_LIVE_COUNT]);
}

/* Finds all nodes, grown or not, and drops those that are not shown. */
static bool find_hits(struct search *s)
{
    struct tree *t = s->b->tree;
    size_t kept = 0;
    for (size_t i = 0; i < tree_stack_count(t) && !s->failed; i++) {
        struct tree_step step = {0};
        while (!s->failed && tree_step(t, i, &step)) {
            if (is_hit(s, step.label))
                add_hit(s, i, &step);
        }
    }
    for (size_t i = 0; i < s->hits.len; i++) {
        if (!s->b->only_live || s->hits.at[i].live)
            s->hits.at[kept++] = s->hits.at[i];
    }
    s->hits.len = kept;
    return !s->failed && !t->failed;
}

/* Whether a match comes before another: the heavier one, or the one found first. */
static bool is_before(const struct hit *x, const struct hit *y)
{
    return x->weight != y->weight ? x->weight > y->weight : x < y;
}

static const struct hit *first_of(const struct hit *x, const struct hit *y)
{
    return !x || is_before(y, x) ? y : x;
}

static const struct hit *last_of(const struct hit *x, const struct hit *y)
{
    return !x || is_before(x, y) ? y : x;
}

/* The match to go to; NULL: there is none. */
static const struct hit *choose_hit(const struct search *s, uint64_t here, bool forward)
{
    const struct hit *at = NULL, *first = NULL, *last = NULL, *before = NULL, *after = NULL;
    const struct hit *end = s->hits.at + s->hits.len;
    for (const struct hit *h = s->hits.at; h < end && !at; h++)
        at = h->path == here ? h : NULL;
    for (const struct hit *h = s->hits.at; h < end; h++) {
        first = first_of(first, h);
        last = last_of(last, h);
        if (at && is_before(h, at))
            before = last_of(before, h);
        else if (at && h != at)
            after = first_of(after, h);
    }
    return !at ? first : forward ? (after ? after : first) : before ? before : last;
}

bool browser_find(struct browser *b, const char *text, bool forward, struct browser_match *match)
{
    struct search s = {.b = b, .text = view_of(text)};
    *match = (struct browser_match){0};
    bool done = find_hits(&s);
    const struct hit *to =
        done && s.hits.len ? choose_hit(&s, tree_path(b->tree, chosen_node(b)), forward) : NULL;
    for (size_t i = 0; i < s.hits.len && to; i++)
        match->at += !is_before(to, &s.hits.at[i]);
    match->count = done ? s.hits.len : 0;
    done = done && (!to || reveal(b, to->stack, to->depth));
    buf_release(&s.name);
    vec_release(&s.labels);
    map_release(&s.numbers);
    vec_release(&s.hits);
    return done;
}
