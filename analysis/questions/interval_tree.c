#include "analysis/questions/interval_tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define NODE_SIZE 1536u
#define LEAF_ENTRIES 60u
#define INNER_ENTRIES 47u
#define HEIGHT_MAX 32u
/*
 * A node that is less than a quarter full is joined with a neighbour if three quarters hold both.
 */
#define SPARSE(ROOM) ((ROOM) / 4)
#define ENOUGH(ROOM) ((ROOM)-SPARSE(ROOM))

/*
 * Unordered intervals, so that a change touches few lines: a new one is appended; the last one
 * replaces a removed one. Each has a tag of 8 bits, beside the count, for lookups.
 */
struct leaf {
    uint8_t tag[LEAF_ENTRIES];
    uint32_t n;
    struct interval at[LEAF_ENTRIES];
};

/*
 * Nothing below child i is less than key i, except below child 0, whose key is unused; nothing
 * extends beyond last[i]. Keys beyond the n-th are the highest possible.
 */
struct inner {
    uint64_t first[INNER_ENTRIES];
    uint64_t value[INNER_ENTRIES];
    uint64_t last[INNER_ENTRIES];
    union interval_node *child[INNER_ENTRIES];
    uint32_t n;
};

union interval_node {
    struct leaf leaf;
    struct inner inner;
    union interval_node *next_spare;
    char room[NODE_SIZE];
};

_Static_assert(sizeof(union interval_node) == NODE_SIZE, "a node fills its lines");

/* ---- nodes */

#define CHUNK_FIRST 8u
#define CHUNK_MOST 4096u /* a multiple of the large page */
#define LARGE_PAGE ((size_t)2 << 20)

/* Chunks grow: small trees stay small, and large ones are in large pages. */
static bool add_chunk(struct interval_tree *t)
{
    size_t nodes = t->chunk_nodes ? 2 * t->chunk_nodes : CHUNK_FIRST;
    nodes = nodes > CHUNK_MOST ? CHUNK_MOST : nodes;
    size_t size = nodes * NODE_SIZE;
    if (t->chunk_count == t->chunk_cap) {
        size_t cap = t->chunk_cap ? 2 * t->chunk_cap : 16;
        void **chunks = realloc(t->chunks, cap * sizeof *chunks);
        if (!chunks)
            return false;
        t->chunks = chunks;
        t->chunk_cap = cap;
    }
    void *chunk = aligned_alloc(size >= LARGE_PAGE ? LARGE_PAGE : 64, size);
    if (!chunk)
        return false;
    if (size >= LARGE_PAGE)
        (void)madvise(chunk, size, MADV_HUGEPAGE); /* optional: only speed depends on it */
    t->chunks[t->chunk_count++] = chunk;
    t->chunk_nodes = t->left = nodes;
    return true;
}

/* Makes sure that the next `n` nodes can be allocated. */
static bool reserve_nodes(struct interval_tree *t, size_t n)
{
    while (t->spare_count < n) {
        if (t->left == 0 && !add_chunk(t))
            return false;
        union interval_node *nodes = t->chunks[t->chunk_count - 1];
        union interval_node *node = &nodes[t->chunk_nodes - t->left--];
        node->next_spare = t->spare;
        t->spare = node;
        t->spare_count++;
    }
    return true;
}

static union interval_node *take_node(struct interval_tree *t)
{
    union interval_node *n = t->spare;
    t->spare = n->next_spare;
    t->spare_count--;
    return n;
}

static void give_back(struct interval_tree *t, union interval_node *n)
{
    n->next_spare = t->spare;
    t->spare = n;
    t->spare_count++;
}

static struct leaf *take_leaf(struct interval_tree *t)
{
    struct leaf *l = &take_node(t)->leaf;
    l->n = 0;
    return l;
}

static struct inner *take_inner(struct interval_tree *t)
{
    struct inner *in = &take_node(t)->inner;
    in->n = 0;
    memset(in->first, 0xff, sizeof in->first);
    return in;
}

void interval_tree_release(struct interval_tree *t)
{
    for (size_t i = 0; i < t->chunk_count; i++)
        free(t->chunks[i]);
    free(t->chunks);
    *t = (struct interval_tree){0};
}

/* ---- positions */

static inline bool is_before(uint64_t first, uint64_t value, uint64_t other, uint64_t other_value)
{
    return first < other || (first == other && value < other_value);
}

static inline uint8_t tag_of(uint64_t first, uint64_t value)
{
    return (uint8_t)(((first ^ value << 7) * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* One bit for each interval with this tag. */
static inline uint64_t tags_match(const struct leaf *l, uint8_t tag)
{
    uint64_t match = 0;
#ifdef __SSE2__
    /* The count comes after the tags: its bytes are compared, too, and ignored. */
    for (unsigned i = 0; i < 4; i++) {
        __m128i tags = _mm_load_si128((const __m128i *)(const void *)(l->tag + (size_t)16 * i));
        __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag));
        match |= (uint64_t)(unsigned)_mm_movemask_epi8(equal) << 16 * i;
    }
#else
    for (unsigned i = 0; i < l->n; i++)
        match |= (uint64_t)(l->tag[i] == tag) << i;
#endif
    return match & ((UINT64_C(1) << l->n) - 1);
}

/* The index of the interval; LEAF_ENTRIES if it is not here. */
static inline uint32_t leaf_find(const struct leaf *l, uint64_t first, uint64_t value)
{
    for (uint64_t m = tags_match(l, tag_of(first, value)); m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        if (l->at[i].first == first && l->at[i].value == value)
            return i;
    }
    return LEAF_ENTRIES;
}

static inline void leaf_append(struct leaf *l, uint64_t first, uint64_t value, uint64_t last)
{
    uint32_t at = l->n++;
    l->tag[at] = tag_of(first, value);
    l->at[at] = (struct interval){first, last, value};
}

/* The number of children with keys at or below x: at least 1, as child 0 has none. */
static inline uint32_t inner_count(const struct inner *in, uint64_t x)
{
    uint32_t base = 0;
    for (uint32_t len = INNER_ENTRIES; len; len /= 2) {
        uint32_t half = len - len / 2;
        base += (0 - (uint32_t)(in->first[base + half - 1] <= x)) & half;
    }
    base = base ? base : 1;
    return base < in->n ? base : in->n;
}

/* The child for (first, value). */
static inline uint32_t inner_place(const struct inner *in, uint64_t first, uint64_t value)
{
    uint32_t i = inner_count(in, first) - 1;
    while (i > 0 && in->first[i] == first && in->value[i] > value)
        i--;
    return i;
}

static uint64_t leaf_reach(const struct leaf *l)
{
    uint64_t reach = 0;
    for (uint32_t i = 0; i < l->n; i++)
        reach = l->at[i].last > reach ? l->at[i].last : reach;
    return reach;
}

static uint64_t reach_of(const union interval_node *n, bool is_leaf)
{
    uint64_t reach = 0;
    if (is_leaf)
        return leaf_reach(&n->leaf);
    for (uint32_t i = 0; i < n->inner.n; i++)
        reach = n->inner.last[i] > reach ? n->inner.last[i] : reach;
    return reach;
}

static inline uint32_t entries(const union interval_node *n, bool is_leaf)
{
    return is_leaf ? n->leaf.n : n->inner.n;
}

static inline uint32_t room(bool is_leaf)
{
    return is_leaf ? LEAF_ENTRIES : INNER_ENTRIES;
}

/* Makes room for an entry at `i`; the caller fills it in. */
static void inner_open(struct inner *in, uint32_t i)
{
    size_t count = in->n++ - i;
    memmove(in->first + i + 1, in->first + i, count * sizeof in->first[0]);
    memmove(in->value + i + 1, in->value + i, count * sizeof in->value[0]);
    memmove(in->last + i + 1, in->last + i, count * sizeof in->last[0]);
    memmove(in->child + i + 1, in->child + i, count * sizeof in->child[0]);
}

static void inner_drop(struct inner *in, uint32_t i)
{
    size_t count = --in->n - i;
    memmove(in->first + i, in->first + i + 1, count * sizeof in->first[0]);
    memmove(in->value + i, in->value + i + 1, count * sizeof in->value[0]);
    memmove(in->last + i, in->last + i + 1, count * sizeof in->last[0]);
    memmove(in->child + i, in->child + i + 1, count * sizeof in->child[0]);
    in->first[in->n] = UINT64_MAX;
}

/* Moves the entries of `b` from `from` on to the end of `a`, which has room. */
static void inner_move(struct inner *a, struct inner *b, uint32_t from)
{
    size_t count = b->n - from;
    memcpy(a->first + a->n, b->first + from, count * sizeof a->first[0]);
    memcpy(a->value + a->n, b->value + from, count * sizeof a->value[0]);
    memcpy(a->last + a->n, b->last + from, count * sizeof a->last[0]);
    memcpy(a->child + a->n, b->child + from, count * sizeof a->child[0]);
    memset(b->first + from, 0xff, count * sizeof b->first[0]);
    a->n += (uint32_t)count;
    b->n = from;
}

static void leaf_move(struct leaf *a, struct leaf *b)
{
    memcpy(a->tag + a->n, b->tag, b->n);
    memcpy(a->at + a->n, b->at, b->n * sizeof a->at[0]);
    a->n += b->n;
}

/* ---- insert */

static void swap(struct interval *a, struct interval *b)
{
    struct interval t = *a;
    *a = *b;
    *b = t;
}

/* Partitions the list: everything before its k-th element is less, and the rest is not (Hoare). */
static void divide(struct interval *list, size_t n, size_t k)
{
    size_t low = 0;
    size_t high = n - 1;
    while (low < high) {
        struct interval pivot = list[low + (high - low) / 2];
        size_t i = low;
        size_t j = high;
        for (;;) {
            while (is_before(list[i].first, list[i].value, pivot.first, pivot.value))
                i++;
            while (is_before(pivot.first, pivot.value, list[j].first, list[j].value))
                j--;
            if (i >= j)
                break;
            swap(&list[i++], &list[j--]);
        }
        /* Nothing in [low, j] is above the pivot, and nothing in (j, high] below it. */
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
}

/* Moves the upper half of a full leaf to `right`; *lowest is its least interval. */
static void leaf_split(struct leaf *left, struct leaf *right, struct interval *lowest)
{
    struct interval all[LEAF_ENTRIES];
    const uint32_t n = LEAF_ENTRIES;
    const uint32_t half = n / 2;
    memcpy(all, left->at, sizeof all);
    divide(all, n, half);
    left->n = 0;
    for (uint32_t i = 0; i < n; i++)
        leaf_append(i < half ? left : right, all[i].first, all[i].value, all[i].last);
    *lowest = all[half];
}

/* Splits child `i` of `parent`, which has room. */
static void split_child(struct interval_tree *t, struct inner *parent, uint32_t i, bool is_leaf)
{
    union interval_node *left = parent->child[i];
    union interval_node *right =
        is_leaf ? (union interval_node *)take_leaf(t) : (union interval_node *)take_inner(t);
    struct interval lowest;
    if (is_leaf) {
        leaf_split(&left->leaf, &right->leaf, &lowest);
    } else {
        inner_move(&right->inner, &left->inner, INNER_ENTRIES / 2);
        lowest.first = right->inner.first[0];
        lowest.value = right->inner.value[0];
    }
    inner_open(parent, i + 1);
    parent->first[i + 1] = lowest.first;
    parent->value[i + 1] = lowest.value;
    parent->last[i + 1] = reach_of(right, is_leaf);
    parent->last[i] = reach_of(left, is_leaf);
    parent->child[i + 1] = right;
}

static void grow_root(struct interval_tree *t)
{
    if (!t->root) {
        t->root = (union interval_node *)take_leaf(t);
        return;
    }
    bool is_leaf = t->height == 0;
    if (entries(t->root, is_leaf) < room(is_leaf))
        return;
    struct inner *top = take_inner(t);
    top->n = 1;
    top->first[0] = top->value[0] = 0;
    top->last[0] = reach_of(t->root, is_leaf);
    top->child[0] = t->root;
    split_child(t, top, 0, is_leaf);
    t->root = (union interval_node *)top;
    t->height++;
}

/* Full nodes on the way down are split at once, so a parent always has room. */
bool interval_tree_insert(struct interval_tree *t, const struct interval *i)
{
    if (!reserve_nodes(t, t->height + 2))
        return false;
    grow_root(t);
    union interval_node *n = t->root;
    for (unsigned height = t->height; height; height--) {
        struct inner *in = &n->inner;
        bool is_leaf = height == 1;
        uint32_t at = inner_place(in, i->first, i->value);
        if (entries(in->child[at], is_leaf) == room(is_leaf)) {
            split_child(t, in, at, is_leaf);
            at += !is_before(i->first, i->value, in->first[at + 1], in->value[at + 1]);
        }
        if (in->last[at] < i->last)
            in->last[at] = i->last;
        n = in->child[at];
    }
    leaf_append(&n->leaf, i->first, i->value, i->last);
    t->count++;
    return true;
}

/* ---- remove */

/* Child `i` of `parent` has become sparse: joins it with a neighbour. */
static void join_child(struct interval_tree *t, struct inner *parent, uint32_t i, bool is_leaf)
{
    uint32_t n = entries(parent->child[i], is_leaf);
    uint32_t enough = ENOUGH(room(is_leaf));
    uint32_t left = i;
    if (n == 0) {
        give_back(t, parent->child[i]);
        inner_drop(parent, i);
        return;
    }
    if (i + 1 >= parent->n || n + entries(parent->child[i + 1], is_leaf) > enough) {
        if (i == 0 || n + entries(parent->child[i - 1], is_leaf) > enough)
            return;
        left = i - 1;
    }
    union interval_node *b = parent->child[left + 1];
    if (!is_leaf) {
        /* Its first child's key is in the parent. */
        b->inner.first[0] = parent->first[left + 1];
        b->inner.value[0] = parent->value[left + 1];
    }
    if (is_leaf)
        leaf_move(&parent->child[left]->leaf, &b->leaf);
    else
        inner_move(&parent->child[left]->inner, &b->inner, 0);
    if (parent->last[left + 1] > parent->last[left])
        parent->last[left] = parent->last[left + 1];
    give_back(t, b);
    inner_drop(parent, left + 1);
}

static void shrink_root(struct interval_tree *t)
{
    while (t->height && t->root->inner.n == 1) {
        union interval_node *only = t->root->inner.child[0];
        give_back(t, t->root);
        t->root = only;
        t->height--;
    }
    if (entries(t->root, t->height == 0) == 0) {
        give_back(t, t->root);
        t->root = NULL;
        t->height = 0;
    }
}

/* The path to the current leaf. */
struct path {
    struct inner *node[HEIGHT_MAX];
    uint32_t place[HEIGHT_MAX];
    unsigned depth;
};

/* Updates the nodes above after the removal of an interval with this `last`. */
static void settle(struct interval_tree *t, struct path *p, uint64_t last)
{
    bool is_leaf = true;
    bool settled = false; /* the nodes above still extend as far as before */
    while (p->depth--) {
        struct inner *parent = p->node[p->depth];
        uint32_t i = p->place[p->depth];
        if (!settled && parent->last[i] == last)
            parent->last[i] = reach_of(parent->child[i], is_leaf);
        settled |= parent->last[i] >= last;
        if (entries(parent->child[i], is_leaf) < SPARSE(room(is_leaf)))
            join_child(t, parent, i, is_leaf);
        else if (settled)
            break;
        is_leaf = false;
    }
    shrink_root(t);
}

bool interval_tree_remove(struct interval_tree *t, uint64_t first, uint64_t value)
{
    struct path p;
    p.depth = 0;
    if (!t->root)
        return false;
    union interval_node *n = t->root;
    for (unsigned height = t->height; height; height--) {
        p.node[p.depth] = &n->inner;
        p.place[p.depth] = inner_place(&n->inner, first, value);
        n = n->inner.child[p.place[p.depth++]];
    }
    struct leaf *l = &n->leaf;
    uint32_t at = leaf_find(l, first, value);
    if (at == LEAF_ENTRIES)
        return false;
    uint64_t last = l->at[at].last;
    uint32_t end = --l->n;
    l->tag[at] = l->tag[end];
    l->at[at] = l->at[end];
    t->count--;
    settle(t, &p, last);
    return true;
}

/* ---- search */

/* The range of addresses and the visitor. */
struct search {
    uint64_t low, high;
    interval_visit *visit;
    void *ctx;
};

static bool visit_leaf(const struct leaf *l, const struct search *s)
{
    struct interval found[LEAF_ENTRIES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct interval *x = &l->at[i];
        if (x->first > s->high || x->last < s->low)
            continue;
        uint32_t at = n++;
        for (; at && is_before(x->first, x->value, found[at - 1].first, found[at - 1].value); at--)
            found[at] = found[at - 1];
        found[at] = *x;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!s->visit(s->ctx, &found[i]))
            return false;
    }
    return true;
}

static bool visit_below(const struct inner *in, unsigned height, const struct search *s)
{
    uint32_t end = inner_count(in, s->high);
    for (uint32_t i = 0; i < end; i++) {
        const union interval_node *child = in->child[i];
        if (in->last[i] < s->low)
            continue;
        if (!(height == 1 ? visit_leaf(&child->leaf, s)
                          : visit_below(&child->inner, height - 1, s)))
            return false;
    }
    return true;
}

bool interval_tree_overlap(const struct interval_tree *t, uint64_t low, uint64_t high,
                           interval_visit *visit, void *ctx)
{
    const struct search s = {low, high, visit, ctx};
    if (!t->root)
        return true;
    return t->height ? visit_below(&t->root->inner, t->height, &s) : visit_leaf(&t->root->leaf, &s);
}
