#include "analysis/questions/browser.h"

#include <string.h>
#include <xxhash.h>

void browser_release(struct browser *b)
{
    vec_release(&b->rows);
    vec_release(&b->paths);
    map_release(&b->open);
    *b = (struct browser){0};
}

/* ---- identity of nodes */

static uint64_t hash_view(uint64_t seed, struct view v)
{
    return XXH3_64bits_withSeed(v.p, v.len, map_hash(seed ^ v.len));
}

static uint64_t hash_label(uint64_t parent, const struct tree_label *l)
{
    uint64_t h = hash_view(parent, l->frame.function);
    h = hash_view(h, l->frame.file);
    h = hash_view(h, l->frame.image);
    h = hash_view(h, l->name);
    return map_hash(h ^ l->frame.address ^ (uint64_t)l->frame.line << 40 ^ l->no_callstack ^
                    (uint64_t)l->is_type << 1);
}

/* Parents come before their children. */
static bool find_paths(struct browser *b)
{
    const struct tree *t = b->tree;
    b->paths.len = 0;
    if (!vec_reserve(&b->paths, t->nodes.len))
        return false;
    b->paths.at[b->paths.len++] = 0;
    for (size_t i = 1; i < t->nodes.len; i++) {
        const struct tree_node *n = &t->nodes.at[i];
        b->paths.at[b->paths.len++] = hash_label(b->paths.at[n->parent], &t->labels.at[n->label]);
    }
    return true;
}

/* ---- rows */

static bool is_shown(const struct browser *b, uint32_t node)
{
    return !b->only_live || b->tree->nodes.at[node].inclusive.at[TREE_LIVE_COUNT] != 0;
}

static bool is_open(const struct browser *b, uint32_t node)
{
    return node == TREE_ROOT || map_find(&b->open, b->paths.at[node]) != NULL;
}

static bool has_shown_children(const struct browser *b, uint32_t node)
{
    const struct tree_node *n = &b->tree->nodes.at[node];
    for (uint32_t i = 0; i < n->count; i++) {
        if (is_shown(b, b->tree->children.at[n->first + i]))
            return true;
    }
    return false;
}

/* Nodes in display order, including those in closed nodes. */
struct walk {
    const struct browser *b;
    VEC(uint32_t) waiting; /* the next one last */
    bool failed;
};

static bool walk_next(struct walk *w, uint32_t *node)
{
    if (w->waiting.len == 0 || w->failed)
        return false;
    *node = w->waiting.at[--w->waiting.len];
    return true;
}

static void walk_children(struct walk *w, uint32_t node)
{
    const struct tree *t = w->b->tree;
    const struct tree_node *n = &t->nodes.at[node];
    for (uint32_t i = n->count; i-- > 0 && !w->failed;) {
        uint32_t child = t->children.at[n->first + i];
        if (is_shown(w->b, child))
            w->failed |= !vec_push(&w->waiting, child);
    }
}

/* Makes the rows; moves the cursor to `chosen` or, if it has no row, to its nearest parent. */
static bool make_rows(struct browser *b, uint32_t chosen)
{
    struct walk w = {.b = b};
    uint32_t node;
    size_t best = 0;
    b->rows.len = 0;
    w.failed = !vec_push(&w.waiting, TREE_ROOT);
    while (walk_next(&w, &node)) {
        struct browser_row row = {
            .node = node, .open = is_open(b, node), .has_children = has_shown_children(b, node)};
        if (row.open)
            walk_children(&w, node);
        w.failed |= !vec_push(&b->rows, row);
    }
    /* The path from the chosen node to the root; its rows come in the opposite order. */
    for (uint32_t at = chosen; at != TREE_ROOT && !w.failed; at = b->tree->nodes.at[at].parent)
        w.failed |= !vec_push(&w.waiting, at);
    for (size_t i = 0; i < b->rows.len && w.waiting.len && !w.failed; i++) {
        if (b->rows.at[i].node == w.waiting.at[w.waiting.len - 1]) {
            w.waiting.len--;
            best = i;
        }
    }
    vec_release(&w.waiting);
    b->cursor = best;
    return !w.failed;
}

static uint32_t chosen_node(const struct browser *b)
{
    return b->cursor < b->rows.len ? b->rows.at[b->cursor].node : TREE_ROOT;
}

bool browser_show(struct browser *b, const struct tree *t)
{
    uint64_t path = b->tree && b->cursor < b->rows.len ? b->paths.at[chosen_node(b)] : 0;
    size_t row = b->cursor;
    uint32_t chosen = TREE_ROOT;
    b->tree = t;
    if (!find_paths(b))
        return false;
    for (uint32_t i = 1; i < b->paths.len && path; i++) {
        if (b->paths.at[i] == path)
            chosen = i;
    }
    if (!make_rows(b, chosen))
        return false;
    /* No such node in this tree: the cursor stays at its row. */
    if (path && chosen == TREE_ROOT)
        b->cursor = row < b->rows.len ? row : b->rows.len - 1;
    return true;
}

bool browser_set_only_live(struct browser *b, bool only_live)
{
    b->only_live = only_live;
    return make_rows(b, chosen_node(b));
}

/* ---- opening */

static bool set_open(struct browser *b, uint32_t node, bool open)
{
    if (open)
        return map_add(&b->open, b->paths.at[node], NULL) != NULL;
    map_remove(&b->open, b->paths.at[node]);
    return true;
}

bool browser_set_open(struct browser *b, bool open)
{
    uint32_t node = chosen_node(b);
    return node == TREE_ROOT || (set_open(b, node, open) && make_rows(b, node));
}

bool browser_open_below(struct browser *b, size_t most)
{
    struct walk w = {.b = b};
    uint32_t chosen = chosen_node(b);
    uint32_t node;
    size_t rows = b->rows.len;
    w.failed = !vec_push(&w.waiting, chosen);
    while (walk_next(&w, &node) && rows < most) {
        bool was = is_open(b, node);
        walk_children(&w, node);
        rows += was ? 0 : b->tree->nodes.at[node].count;
        w.failed |= node != TREE_ROOT && b->tree->nodes.at[node].count && !set_open(b, node, true);
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
    uint32_t parent = b->tree->nodes.at[chosen_node(b)].parent;
    while (b->cursor && b->rows.at[b->cursor].node != parent)
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

static bool node_holds(const struct browser *b, uint32_t node, struct view text, bool *failed)
{
    const struct tree_label *l = &b->tree->labels.at[b->tree->nodes.at[node].label];
    struct buf name = {0};
    tree_label_name(&name, b->tree, l);
    *failed |= name.failed;
    bool found = holds((struct view){name.data ? (const char *)name.data : "", name.len}, text) ||
                 holds(l->frame.file, text) || holds(l->frame.image, text);
    buf_release(&name);
    return found;
}

/* Opens all parents of a node. */
static bool reveal(struct browser *b, uint32_t node)
{
    for (uint32_t at = b->tree->nodes.at[node].parent; at != TREE_ROOT;
         at = b->tree->nodes.at[at].parent) {
        if (!set_open(b, at, true))
            return false;
    }
    return make_rows(b, node);
}

bool browser_find(struct browser *b, const char *text, bool forward, bool *found)
{
    struct walk w = {.b = b};
    uint32_t here = chosen_node(b);
    uint32_t node;
    uint32_t first = TREE_ROOT;  /* of all that contain the text */
    uint32_t last = TREE_ROOT;   /* of them */
    uint32_t before = TREE_ROOT; /* the nearest one before the cursor */
    uint32_t after = TREE_ROOT;
    bool passed = false;
    w.failed = !vec_push(&w.waiting, TREE_ROOT);
    while (walk_next(&w, &node)) {
        walk_children(&w, node);
        if (node != TREE_ROOT && node_holds(b, node, view_of(text), &w.failed)) {
            first = first == TREE_ROOT ? node : first;
            last = node;
            if (!passed && node != here)
                before = node;
            if (passed && after == TREE_ROOT)
                after = node;
        }
        passed |= node == here;
    }
    vec_release(&w.waiting);
    uint32_t to = forward ? (after ? after : first) : (before ? before : last);
    *found = to != TREE_ROOT;
    return !w.failed && (!*found || reveal(b, to));
}
