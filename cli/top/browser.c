#include "cli/top/browser.h"

#include "base/saturate.h"

#include <stdlib.h>
#include <string.h>

void browser_release(struct browser *b)
{
    vec_release(&b->rows);
    map_release(&b->open);
    map_release(&b->more);
    map_release(&b->chosen);
    vec_release(&b->hits);
    buf_release(&b->searched);
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
    if (!b->fold || node == TREE_ROOT)
        return 0;
    tree_chain(b->tree, node);
    if (tree_peek(b->tree, node, b->only_live) != 1)
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
        row->has_children = tree_peek(b->tree, row->node, b->only_live) != 0 ||
                            b->tree->nodes.at[row->node].others != 0;
        row->known = true;
    }
    return row;
}

struct walk_step {
    uint32_t node, depth;
};

/* Nodes in display order, including those in closed nodes. */
struct walk {
    struct browser *b;
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

/* The children of a node, with those that were asked for. */
static const uint32_t *shown_children(struct browser *b, uint32_t node)
{
    struct tree *t = b->tree;
    uint64_t path = tree_path(t, node);
    const uint64_t *more = map_find(&b->more, path), *chosen = map_find(&b->chosen, path);
    (void)tree_children(t, node);
    uint64_t wanted = t->options.most + (more ? *more : 0), there = t->nodes.at[node].count - 1;
    if (more && there < wanted)
        tree_more(t, node, (uint32_t)(wanted - there));
    if (chosen && tree_child(t, node, *chosen) == TREE_ROOT)
        map_remove(&b->chosen, path);
    return tree_children(t, node);
}

static void walk_children(struct walk *w, uint32_t node, uint32_t depth)
{
    const uint32_t *children = shown_children(w->b, node);
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
        row.above = tree_path(b->tree, b->tree->nodes.at[step.node].parent);
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

/* Shows the child of that path of the node of another, however small it is. */
static bool choose(struct browser *b, uint64_t above, uint64_t path)
{
    uint64_t *chosen = map_add(&b->chosen, above, NULL);
    if (chosen)
        *chosen = path;
    return chosen != NULL;
}

bool browser_show(struct browser *b, struct tree *t)
{
    struct browser_row was = {0};
    size_t row = b->cursor;
    uint32_t chosen = TREE_ROOT;
    if (b->cursor < b->rows.len)
        was = b->rows.at[b->cursor];
    b->tree = t;
    buf_clear(&b->searched);
    if ((was.path && !choose(b, was.above, was.path)) || !list_rows(b))
        return false;
    for (uint32_t i = 1; i < t->nodes.len && was.path; i++) {
        if (tree_path(t, i) == was.path)
            chosen = i;
    }
    place_cursor(b, chosen);
    /* No such node in this tree: the cursor stays at its row. */
    if (was.path && chosen == TREE_ROOT)
        b->cursor = row < b->rows.len ? row : b->rows.len - 1;
    return !t->failed;
}

bool browser_set_only_live(struct browser *b, bool only_live)
{
    uint32_t chosen = chosen_node(b);
    b->only_live = only_live;
    buf_clear(&b->searched);
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

/* Shows more of a node's children. The cursor comes to the first of them. */
static bool show_more(struct browser *b, uint32_t node)
{
    uint64_t *more = map_add(&b->more, tree_path(b->tree, node), NULL);
    if (more)
        *more += b->tree->options.most;
    return more && list_rows(b) && !b->tree->failed;
}

bool browser_set_open(struct browser *b, bool open)
{
    uint32_t node = chosen_node(b);
    if (b->tree->nodes.at[node].others)
        return !open || show_more(b, b->tree->nodes.at[node].parent);
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
    map_release(&b->more);
    map_release(&b->chosen);
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

static void lower(struct buf *b)
{
    uint8_t *at = b->data; /* apart from `b`, so that the loop is vectorised */
    for (size_t i = 0, n = b->len; i < n; i++)
        at[i] |= at[i] >= 'A' && at[i] <= 'Z' ? 0x20 : 0;
}

/* Opens the parents of the node to which a call stack comes after `depth` nodes. */
static bool reveal(struct browser *b, size_t stack, uint32_t depth)
{
    struct tree_step step = {0};
    uint32_t node = TREE_ROOT;
    while (step.depth < depth && tree_step(b->tree, stack, &step)) {
        if (node != TREE_ROOT && !set_open(b, node, true))
            return false;
        if (!choose(b, tree_path(b->tree, node), step.path))
            return false;
        node = tree_child(b->tree, node, step.path);
        if (node == TREE_ROOT)
            return false;
    }
    return make_rows(b, node);
}

/* What is known of a label. */
struct searched_tag {
    enum { NOT_SEARCHED, NO_HIT, IS_HIT } state;
    uint32_t first; /* number + 1 of the hit found first with it; 0: none yet */
};

struct search {
    struct browser *b;
    struct buf name; /* in lower case */
    VEC(struct searched_tag) tags;
    struct map numbers; /* path → number, of hits that are not the first of their tag */
    bool failed;
};

static bool label_holds(struct search *s, const struct tree_label *l)
{
    buf_clear(&s->name);
    tree_label_name(&s->name, s->b->tree, l);
    buf_put(&s->name, "", 1);
    buf_put(&s->name, l->frame.file.p, l->frame.file.len);
    buf_put(&s->name, "", 1);
    buf_put(&s->name, l->frame.image.p, l->frame.image.len);
    lower(&s->name);
    s->failed |= s->name.failed;
    return memmem(s->name.data, s->name.len, s->b->searched.data, s->b->searched.len) != NULL;
}

static bool is_hit(struct search *s, uint32_t tag)
{
    while (s->tags.len <= tag && !s->failed)
        s->failed = !vec_push(&s->tags, (struct searched_tag){0});
    if (s->failed)
        return false;
    if (s->tags.at[tag].state == NOT_SEARCHED) {
        const struct tree_label label = tree_tag_label(s->b->tree, tag);
        s->tags.at[tag].state = label_holds(s, &label) ? IS_HIT : NO_HIT;
    }
    return s->tags.at[tag].state == IS_HIT;
}

/* The hit of a path, a new one if there is none; NULL if memory is short. */
static struct browser_hit *hit_of(struct search *s, uint32_t tag, uint64_t path)
{
    struct browser *b = s->b;
    uint32_t *first = &s->tags.at[tag].first;
    bool fresh = *first == 0;
    size_t number = fresh ? b->hits.len : *first - 1;
    if (fresh) {
        *first = (uint32_t)b->hits.len + 1;
    } else if (b->hits.at[number].path != path) {
        uint64_t *known = map_add(&s->numbers, path, &fresh);
        if (!known)
            return NULL;
        if (fresh)
            *known = b->hits.len;
        number = *known;
    }
    if (fresh && !vec_push(&b->hits, (struct browser_hit){.path = path}))
        return NULL;
    return &b->hits.at[number];
}

static void add_hit(struct search *s, size_t stack, const struct tree_step *step)
{
    struct tree *t = s->b->tree;
    const struct tree_figures *f = tree_stack_figures(t, stack);
    struct browser_hit *hit = hit_of(s, step->tag, step->path);
    s->failed |= !hit;
    if (!hit)
        return;
    if (hit->depth == 0) {
        hit->stack = stack;
        hit->depth = step->depth;
    }
    hit->weight = saturating_add(hit->weight, f->at[t->options.sort]);
    hit->live = saturating_add(hit->live, f->at[TREE_LIVE_COUNT]);
}

#define STACKS_BETWEEN_LOOKS 512u

/* Finds all nodes, grown or not, and drops those that are not shown. */
static bool find_hits(struct browser *b, bool *stopped)
{
    struct search s = {.b = b};
    struct tree *t = b->tree;
    size_t kept = 0;
    size_t stacks = tree_stack_count(t);
    b->hits.len = 0;
    *stopped = false;
    for (size_t i = 0; i < stacks && !s.failed && !*stopped; i++) {
        struct tree_step step = {0};
        *stopped = b->searching && i % STACKS_BETWEEN_LOOKS == 0 &&
                   !b->searching(b->searching_ctx, i, stacks);
        while (!s.failed && tree_step(t, i, &step)) {
            if (is_hit(&s, step.tag))
                add_hit(&s, i, &step);
        }
    }
    if (b->searching && !*stopped)
        (void)b->searching(b->searching_ctx, stacks, stacks);
    for (size_t i = 0; i < b->hits.len; i++) {
        if (!b->only_live || b->hits.at[i].live)
            b->hits.at[kept++] = b->hits.at[i];
    }
    b->hits.len = kept;
    buf_release(&s.name);
    vec_release(&s.tags);
    map_release(&s.numbers);
    return !s.failed && !t->failed;
}

/* Whether a match comes before another: the heavier one, or the one found first. */
static bool is_before(const struct browser_hit *x, const struct browser_hit *y)
{
    return x->weight != y->weight ? x->weight > y->weight : x < y;
}

static const struct browser_hit *first_of(const struct browser_hit *x, const struct browser_hit *y)
{
    return !x || is_before(y, x) ? y : x;
}

static const struct browser_hit *last_of(const struct browser_hit *x, const struct browser_hit *y)
{
    return !x || is_before(x, y) ? y : x;
}

/* The match to go to; NULL: there is none. */
static const struct browser_hit *choose_hit(const struct browser *b, uint64_t here,
                                            enum browser_to to)
{
    const struct browser_hit *at = NULL, *first = NULL, *last = NULL, *before = NULL, *after = NULL;
    const struct browser_hit *end = b->hits.at + b->hits.len;
    for (const struct browser_hit *h = b->hits.at; h < end && !at && to != BROWSER_HEAVIEST; h++)
        at = h->path == here ? h : NULL;
    for (const struct browser_hit *h = b->hits.at; h < end; h++) {
        first = first_of(first, h);
        last = last_of(last, h);
        if (at && is_before(h, at))
            before = last_of(before, h);
        else if (at && h != at)
            after = first_of(after, h);
    }
    if (!at)
        return first;
    return to == BROWSER_LIGHTER ? (after ? after : first) : before ? before : last;
}

/* The path of the node at the cursor: in a folded chain, of the match that brought it there. */
static uint64_t cursor_path(struct browser *b)
{
    const struct browser_row *row = browser_row(b, b->cursor);
    uint32_t node = row->node;
    while (node != row->head && tree_path(b->tree, node) != b->found)
        node = b->tree->nodes.at[node].parent;
    return tree_path(b->tree, tree_path(b->tree, node) == b->found ? node : row->node);
}

bool browser_find(struct browser *b, const char *text, enum browser_to where,
                  struct browser_match *match)
{
    struct buf wanted = {0};
    *match = (struct browser_match){0};
    buf_puts(&wanted, text);
    lower(&wanted);
    bool known = b->searched.len && strcmp(buf_str(&wanted), buf_str(&b->searched)) == 0;
    buf_release(&b->searched);
    b->searched = wanted;
    if (wanted.failed || (!known && !find_hits(b, &match->stopped))) {
        buf_release(&b->searched);
        return false;
    }
    if (match->stopped) {
        buf_clear(&b->searched);
        return true;
    }
    const struct browser_hit *to = b->hits.len ? choose_hit(b, cursor_path(b), where) : NULL;
    for (size_t i = 0; i < b->hits.len && to; i++)
        match->at += !is_before(to, &b->hits.at[i]);
    match->count = b->hits.len;
    b->found = to ? to->path : 0;
    return !to || reveal(b, to->stack, to->depth);
}
