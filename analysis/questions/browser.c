#include "analysis/questions/browser.h"

#include <stdlib.h>
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

/* The single shown child of a node that differs from it in no figure; 0: there is none. */
static uint32_t only_child(const struct browser *b, uint32_t node)
{
    const struct tree *t = b->tree;
    const struct tree_node *n = &t->nodes.at[node];
    uint32_t only = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        uint32_t child = t->children.at[n->first + i];
        if (is_shown(b, child) && only)
            return 0;
        only = is_shown(b, child) ? child : only;
    }
    bool same =
        only && memcmp(&n->inclusive, &t->nodes.at[only].inclusive, sizeof n->inclusive) == 0;
    return b->fold && same && node != TREE_ROOT ? only : 0;
}

/* The node whose row a node shares. */
static uint32_t row_node(const struct browser *b, uint32_t node)
{
    for (uint32_t next = only_child(b, node); next; next = only_child(b, node))
        node = next;
    return node;
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
}

/* The cursor goes to the row of `chosen` or, if it has none, to that of its nearest parent. */
static void place_cursor(struct browser *b, uint32_t chosen)
{
    uint32_t at = row_node(b, chosen);
    b->cursor = 0;
    while (at != TREE_ROOT) {
        for (size_t i = 0; i < b->rows.len; i++) {
            if (b->rows.at[i].node == at) {
                b->cursor = i;
                return;
            }
        }
        do {
            at = b->tree->nodes.at[at].parent;
        } while (at != TREE_ROOT && only_child(b, at));
    }
}

/* Makes the rows, and places the cursor. */
static bool make_rows(struct browser *b, uint32_t chosen)
{
    struct walk w = {.b = b};
    struct walk_step step;
    b->rows.len = 0;
    w.failed = !vec_push(&w.waiting, ((struct walk_step){TREE_ROOT, 0}));
    while (walk_next(&w, &step)) {
        uint32_t node = row_node(b, step.node);
        struct browser_row row = {.node = node,
                                  .head = step.node,
                                  .depth = step.depth,
                                  .open = is_open(b, node),
                                  .has_children = has_shown_children(b, node)};
        if (row.open)
            walk_children(&w, node, step.depth + 1);
        w.failed |= !vec_push(&b->rows, row);
    }
    vec_release(&w.waiting);
    if (!w.failed)
        place_cursor(b, chosen);
    return !w.failed;
}

static uint32_t chosen_node(const struct browser *b)
{
    return b->cursor < b->rows.len ? b->rows.at[b->cursor].node : TREE_ROOT;
}

bool browser_show(struct browser *b, struct tree *t)
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

bool browser_show_sorted(struct browser *b)
{
    return make_rows(b, chosen_node(b));
}

bool browser_set_only_live(struct browser *b, bool only_live)
{
    b->only_live = only_live;
    return make_rows(b, chosen_node(b));
}

bool browser_set_fold(struct browser *b, bool fold)
{
    b->fold = fold;
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
    struct walk_step step;
    size_t rows = b->rows.len;
    w.failed = !vec_push(&w.waiting, ((struct walk_step){chosen, 0}));
    while (walk_next(&w, &step) && rows < most) {
        uint32_t node = row_node(b, step.node);
        bool was = is_open(b, node);
        walk_children(&w, node, 0);
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
    uint32_t parent = b->tree->nodes.at[b->rows.at[b->cursor].head].parent;
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

static bool label_holds(const struct browser *b, const struct tree_label *l, struct view text,
                        bool *failed)
{
    struct buf name = {0};
    tree_label_name(&name, b->tree, l);
    *failed |= name.failed;
    bool found =
        holds(buf_view(&name), text) || holds(l->frame.file, text) || holds(l->frame.image, text);
    buf_release(&name);
    return found;
}

/* For each label, whether it contains the text. NULL: memory is short. */
static bool *find_labels(const struct browser *b, struct view text)
{
    bool failed = false;
    bool *found = calloc(b->tree->labels.len + 1, sizeof *found);
    for (size_t i = 0; i < b->tree->labels.len && found; i++)
        found[i] = label_holds(b, &b->tree->labels.at[i], text, &failed);
    if (!failed)
        return found;
    free(found);
    return NULL;
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

/* Whether node `a` comes before node `b` among matches: the heavier one, or the one found first. */
static bool is_heavier(const struct browser *b, uint32_t x, uint32_t y)
{
    const struct tree *t = b->tree;
    uint64_t a = t->nodes.at[x].inclusive.at[t->options.sort];
    uint64_t c = t->nodes.at[y].inclusive.at[t->options.sort];
    return a != c ? a > c : x < y;
}

static uint32_t heavier(const struct browser *b, uint32_t x, uint32_t y, bool lightest)
{
    return x == TREE_ROOT || (y != TREE_ROOT && is_heavier(b, y, x) != lightest) ? y : x;
}

bool browser_find(struct browser *b, const char *text, bool forward, struct browser_match *match)
{
    uint32_t here = chosen_node(b);
    uint32_t first = TREE_ROOT;  /* the heaviest of all */
    uint32_t last = TREE_ROOT;   /* the lightest */
    uint32_t before = TREE_ROOT; /* the lightest of those before the cursor's */
    uint32_t after = TREE_ROOT;
    bool *found = find_labels(b, view_of(text));
    *match = (struct browser_match){0};
    if (!found)
        return false;
    bool from_match = here != TREE_ROOT && found[b->tree->nodes.at[here].label];
    for (uint32_t i = 1; i < b->tree->nodes.len; i++) {
        if (!found[b->tree->nodes.at[i].label] || !is_shown(b, i))
            continue;
        match->count++;
        first = heavier(b, first, i, false);
        last = heavier(b, last, i, true);
        if (from_match && i != here && is_heavier(b, i, here))
            before = heavier(b, before, i, true);
        else if (from_match && i != here)
            after = heavier(b, after, i, false);
    }
    uint32_t to = !from_match ? first : forward ? (after ? after : first) : before ? before : last;
    for (uint32_t i = 1; i < b->tree->nodes.len && to; i++)
        match->at += found[b->tree->nodes.at[i].label] && is_shown(b, i) && !is_heavier(b, to, i);
    free(found);
    return match->count == 0 || reveal(b, to);
}
