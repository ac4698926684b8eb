/*
 * Walking through a call-stack tree: rows against a plain walk over the tree, what stays open and
 * chosen when the tree is built anew, search.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/top/browser.h"
#include "analysis/questions/tree_stacks.h"
#include "test/unit/random_history.h"

#define NAME_SIZE 256

struct fixture {
    struct random_history h;
    struct selection selection;
    struct tree_stacks stacks, old_stacks;
    struct tree tree;
    struct browser browser;
    struct err e;
};

/* Of what was allocated before a time. */
static void build_until(struct fixture *f, const struct tree_options *o, int64_t end)
{
    const struct selection_options some = {.has_range = true, .begin = INT64_MIN, .end = end};
    assert_int_equal(selection_init(&f->selection, &f->h.trace, &some, &f->e), 0);
    const struct tree_stacks_options counted = {
        .tree = o, .by_thread = true, .by_type = true, .each_pool = true};
    tree_stacks_release(&f->old_stacks);
    f->old_stacks = f->stacks;
    assert_int_equal(tree_stacks_init(&f->stacks, &f->selection, &counted, &f->e), 0);
    assert_int_equal(tree_open(&f->tree, &f->stacks, o, &f->e), 0);
    selection_release(&f->selection);
    assert_true(browser_show(&f->browser, &f->tree));
}

static void build(struct fixture *f, const struct tree_options *o)
{
    build_until(f, o, INT64_MAX);
}

static void open_fixture(struct fixture *f, uint64_t seed, const struct tree_options *o)
{
    *f = (struct fixture){0};
    rh_make(&f->h, seed);
    build(f, o);
}

static void close_fixture(struct fixture *f)
{
    browser_release(&f->browser);
    tree_release(&f->tree);
    tree_stacks_release(&f->stacks);
    tree_stacks_release(&f->old_stacks);
    rh_release(&f->h);
}

/* All nodes, as those of tree_build. */
static void grow(struct fixture *f)
{
    for (uint32_t i = 0; i < f->tree.nodes.len; i++)
        (void)tree_children(&f->tree, i);
    assert_false(f->tree.failed);
}

static void name_of(const struct fixture *f, uint32_t node, char name[NAME_SIZE])
{
    struct buf b = {0};
    if (node != TREE_ROOT)
        tree_label_name(&b, &f->tree, &f->tree.labels.at[f->tree.nodes.at[node].label]);
    snprintf(name, NAME_SIZE, "%s", buf_str(&b));
    buf_release(&b);
}

static uint32_t chosen(struct fixture *f)
{
    return browser_row(&f->browser, f->browser.cursor)->node;
}

/* ---- rows */

static bool is_shown(const struct fixture *f, uint32_t node)
{
    return !f->browser.only_live || f->tree.nodes.at[node].inclusive.at[TREE_LIVE_COUNT];
}

/* The rows from `*at` on are the node and, when it is open, all below it. */
static void check_below(struct fixture *f, uint32_t node, size_t *at)
{
    assert_true(*at < f->browser.rows.len);
    const struct browser_row *row = browser_row(&f->browser, (*at)++);
    unsigned children = 0;
    assert_int_equal(row->node, node);
    (void)tree_children(&f->tree, node);
    for (uint32_t i = 0; i < f->tree.nodes.at[node].count; i++) {
        uint32_t child = f->tree.children.at[f->tree.nodes.at[node].first + i];
        children += is_shown(f, child);
        if (row->open && is_shown(f, child))
            check_below(f, child, at);
    }
    assert_int_equal(row->has_children, children != 0 || f->tree.nodes.at[node].others != 0);
}

static void check_rows(struct fixture *f)
{
    size_t at = 0;
    check_below(f, TREE_ROOT, &at);
    assert_int_equal(at, f->browser.rows.len);
    assert_true(f->browser.rows.at[0].open);
    assert_true(f->browser.cursor < f->browser.rows.len);
}

/* Opens, closes and moves at random; what is not touched stays as it is. */
static void test_random_walks(void **state)
{
    (void)state;
    static struct fixture f;
    for (uint64_t seed = 1; seed < 4; seed++) {
        open_fixture(&f, seed, &(struct tree_options){.bottom_up = seed & 1});
        for (int step = 0; step < 400; step++) {
            browser_move(&f.browser, (ptrdiff_t)rh_rnd(&f.h, 41) - 20);
            uint32_t before = chosen(&f);
            size_t rows = f.browser.rows.len;
            bool open = rh_rnd(&f.h, 3) != 0;
            bool was = f.browser.rows.at[f.browser.cursor].open;
            assert_true(browser_set_open(&f.browser, open));
            assert_int_equal(chosen(&f), before);
            assert_true(open == was || before == TREE_ROOT || f.browser.rows.len != rows ||
                        !f.browser.rows.at[f.browser.cursor].has_children);
            if (step % 37 == 0)
                assert_true(browser_set_only_live(&f.browser, !f.browser.only_live));
            if (step % 41 == 0)
                assert_true(browser_open_below(&f.browser, 50));
            if (step % 97 == 0)
                browser_to_parent(&f.browser);
            check_rows(&f);
        }
        assert_true(browser_close_all(&f.browser));
        check_rows(&f);
        assert_int_equal(f.browser.rows.len - 1, f.browser.only_live
                                                     ? f.browser.rows.len - 1
                                                     : f.tree.nodes.at[TREE_ROOT].count);
        close_fixture(&f);
    }
}

static void test_moving(void **state)
{
    (void)state;
    static struct fixture f;
    open_fixture(&f, 5, &(struct tree_options){0});
    size_t last = f.browser.rows.len - 1;
    browser_move(&f.browser, -3);
    assert_int_equal(f.browser.cursor, 0);
    browser_move(&f.browser, PTRDIFF_MAX);
    assert_int_equal(f.browser.cursor, last);
    browser_move(&f.browser, PTRDIFF_MIN);
    assert_int_equal(f.browser.cursor, 0);
    assert_true(browser_set_open(&f.browser, false)); /* the root stays open */
    check_rows(&f);
    assert_int_equal(f.browser.rows.len - 1, last);
    browser_move(&f.browser, 1);
    assert_true(browser_open_below(&f.browser, SIZE_MAX));
    browser_move(&f.browser, 1);
    assert_int_equal(f.tree.nodes.at[chosen(&f)].depth, 2);
    browser_to_parent(&f.browser);
    assert_int_equal(f.browser.cursor, 1);
    close_fixture(&f);
}

/* ---- another tree */

/* The names on the way to each row, one after the other. */
static void ways(struct fixture *f, struct buf *out)
{
    char name[NAME_SIZE];
    buf_clear(out);
    for (size_t i = 0; i < f->browser.rows.len; i++) {
        for (uint32_t at = browser_row(&f->browser, i)->node; at != TREE_ROOT;
             at = f->tree.nodes.at[at].parent) {
            name_of(f, at, name);
            buf_printf(out, "%s<", name);
        }
        buf_printf(out, "%d\n", f->browser.rows.at[i].open);
    }
}

static void test_built_anew(void **state)
{
    (void)state;
    static struct fixture f;
    const struct tree_options by_bytes = {.sort = TREE_BYTES};
    struct buf before = {0};
    struct buf after = {0};
    char name[NAME_SIZE];
    char again[NAME_SIZE];
    f = (struct fixture){0};
    rh_make(&f.h, 9);
    build_until(&f, &by_bytes, f.h.blocks[25].start);
    browser_move(&f.browser, 2);
    assert_true(browser_open_below(&f.browser, 20));
    browser_move(&f.browser, 3);
    ways(&f, &before);
    name_of(&f, chosen(&f), name);

    struct tree old = f.tree;
    build_until(&f, &by_bytes, f.h.blocks[25].start);
    tree_release(&old);
    ways(&f, &after);
    assert_string_equal(buf_str(&before), buf_str(&after));
    name_of(&f, chosen(&f), again);
    assert_string_equal(name, again);

    /* More blocks: new nodes and other figures, but what was open is. */
    old = f.tree;
    build(&f, &by_bytes);
    assert_true(f.tree.nodes.at[TREE_ROOT].inclusive.at[TREE_COUNT] >
                old.nodes.at[TREE_ROOT].inclusive.at[TREE_COUNT]);
    tree_release(&old);
    check_rows(&f);
    assert_true(f.browser.rows.len > (size_t)f.tree.nodes.at[TREE_ROOT].count + 1);
    name_of(&f, chosen(&f), again);
    assert_string_equal(name, again);

    uint32_t node = chosen(&f);
    for (int m = 0; m < TREE_METRICS; m++) {
        tree_sort(&f.tree, (enum tree_metric)m);
        assert_true(browser_show(&f.browser, &f.tree));
        check_rows(&f);
        assert_int_equal(chosen(&f), node);
        for (size_t i = 1; i < f.tree.nodes.at[TREE_ROOT].count; i++) {
            const uint32_t *c = f.tree.children.at + f.tree.nodes.at[TREE_ROOT].first + i;
            assert_true(f.tree.nodes.at[c[-1]].inclusive.at[m] >=
                        f.tree.nodes.at[c[0]].inclusive.at[m]);
        }
    }

    /* The other way round nothing is called so: the cursor stays among the rows. */
    old = f.tree;
    build(&f, &(struct tree_options){.bottom_up = true, .by = TREE_FILE});
    tree_release(&old);
    check_rows(&f);
    buf_release(&before);
    buf_release(&after);
    close_fixture(&f);
}

/* ---- search */

static uint64_t weight(const struct fixture *f, uint32_t node)
{
    return f->tree.nodes.at[node].inclusive.at[f->tree.options.sort];
}

static bool stop_at_once(void *ctx, size_t done, size_t of)
{
    (void)ctx;
    assert_true(done < of);
    return false;
}

static void test_search(void **state)
{
    (void)state;
    static struct fixture f;
    struct browser_match found;
    char name[NAME_SIZE];
    unsigned wanted = 0;
    open_fixture(&f, 3, &(struct tree_options){0});
    /* Nodes that are not yet there are found, too: the same ones are counted in another tree. */
    static struct fixture whole;
    open_fixture(&whole, 3, &(struct tree_options){0});
    grow(&whole);
    for (uint32_t i = 1; i < whole.tree.nodes.len; i++) {
        name_of(&whole, i, name);
        wanted += strcmp(name, "Scene::draw()") == 0;
    }
    close_fixture(&whole);
    assert_true(wanted > 2);
    assert_true(browser_find(&f.browser, "no such thing", BROWSER_LIGHTER, &found));
    assert_int_equal(found.count, 0);
    assert_int_equal(f.browser.cursor, 0);

    f.browser.searching = stop_at_once;
    assert_true(browser_find(&f.browser, "Scene::draw()", BROWSER_HEAVIEST, &found));
    assert_true(found.stopped && found.count == 0 && f.browser.cursor == 0);
    f.browser.searching = NULL;

    /* Each of them once, then the first again; and all the way back. */
    uint32_t *seen = calloc(wanted, sizeof *seen);
    assert_non_null(seen);
    for (unsigned i = 0; i <= wanted; i++) {
        assert_true(browser_find(&f.browser, "sCENE::DRAW(", BROWSER_LIGHTER, &found));
        assert_int_equal(found.count, wanted);
        assert_int_equal(found.at, i % wanted + 1);
        name_of(&f, chosen(&f), name);
        assert_string_equal(name, "Scene::draw()");
        check_rows(&f);
        for (unsigned k = 0; k < i && i < wanted; k++)
            assert_int_not_equal(seen[k], chosen(&f));
        for (unsigned k = 0; k < i && i < wanted; k++)
            assert_true(weight(&f, seen[k]) >= weight(&f, chosen(&f)));
        if (i < wanted)
            seen[i] = chosen(&f);
        else
            assert_int_equal(seen[0], chosen(&f));
    }
    for (unsigned i = wanted; i-- > 0;) {
        assert_true(browser_find(&f.browser, "Scene::draw()", BROWSER_HEAVIER, &found));
        assert_int_equal(chosen(&f), seen[i]);
        assert_int_equal(found.at, i + 1);
    }
    free(seen);
    /* From a match, too. */
    assert_true(browser_find(&f.browser, "Scene::draw()", BROWSER_LIGHTER, &found));
    assert_int_equal(found.at, 2);
    assert_true(browser_find(&f.browser, "Scene::draw()", BROWSER_HEAVIEST, &found));
    assert_int_equal(found.at, 1);
    close_fixture(&f);
}

/* ---- folding */

/* A folded row's chain has equal figures and no other child; all nodes are in one row or closed. */
static void test_fold(void **state)
{
    (void)state;
    static struct fixture f;
    size_t folded = 0, nodes = 0;
    open_fixture(&f, 3, &(struct tree_options){0});
    assert_true(browser_open_below(&f.browser, 100000));
    size_t all = f.browser.rows.len;
    assert_true(browser_set_fold(&f.browser, true));
    assert_true(browser_open_below(&f.browser, 100000));
    for (size_t i = 0; i < f.browser.rows.len; i++) {
        const struct browser_row *row = browser_row(&f.browser, i);
        for (uint32_t at = row->node; at != row->head; at = f.tree.nodes.at[at].parent) {
            const struct tree_node *n = &f.tree.nodes.at[at], *up = &f.tree.nodes.at[n->parent];
            assert_int_equal(up->count, 1);
            assert_memory_equal(&n->inclusive, &up->inclusive, sizeof n->inclusive);
            folded++;
        }
        nodes++;
        f.browser.cursor = i;
        browser_to_parent(&f.browser);
        assert_true(i == 0 || f.browser.cursor < i);
        assert_true(i == 0 || f.browser.rows.at[f.browser.cursor].depth + 1 == row->depth);
    }
    assert_true(folded > 0);
    assert_int_equal(nodes + folded, all);
    close_fixture(&f);
}

/* The next match is another one, also within a row. */
static void test_search_folded(void **state)
{
    (void)state;
    static struct fixture f;
    struct browser_match found;
    size_t within = 0;
    open_fixture(&f, 3, &(struct tree_options){0});
    assert_true(browser_set_fold(&f.browser, true));
    assert_true(browser_find(&f.browser, "e", BROWSER_HEAVIEST, &found));
    for (size_t i = 1; i <= found.count; i++) {
        size_t before = f.browser.cursor;
        assert_true(browser_find(&f.browser, "e", BROWSER_LIGHTER, &found));
        assert_int_equal(found.at, i % found.count + 1);
        within += f.browser.cursor == before;
    }
    assert_true(within > 0);
    for (size_t i = found.count; i > 0; i--) {
        assert_true(browser_find(&f.browser, "e", BROWSER_HEAVIER, &found));
        assert_int_equal(found.at, i);
    }
    close_fixture(&f);
}

/* The call stack of a node goes through it, and none of those through it has more. */
static void test_callstacks(void **state)
{
    (void)state;
    static struct fixture f;
    uint64_t most = 0;
    open_fixture(&f, 21, &(struct tree_options){.bottom_up = true, .all_frames = true});
    grow(&f);
    uint64_t bytes[RH_STACKS] = {0};
    for (size_t i = 0; i < f.h.n; i++)
        bytes[f.h.blocks[i].stack] += f.h.blocks[i].size;
    for (size_t i = 0; i < RH_STACKS; i++) {
        uint64_t same = 0; /* of stacks with that id */
        for (size_t k = 0; k < RH_STACKS; k++)
            same += f.h.stacks[k].id == f.h.stacks[i].id ? bytes[k] : 0;
        most = same > most ? same : most;
    }
    assert_int_equal(f.tree.nodes.at[TREE_ROOT].callstack_bytes, most);
    for (uint32_t i = 1; i < f.tree.nodes.len; i++) {
        const struct tree_node *n = &f.tree.nodes.at[i];
        char name[NAME_SIZE];
        struct buf frame = {0};
        struct frame_walk walk = frame_walk_start(&f.h.trace, n->callstack);
        struct frame_view v;
        assert_true(n->callstack_bytes <= n->inclusive.at[TREE_BYTES]);
        name_of(&f, i, name);
        for (uint32_t depth = 0; depth < n->depth && frame_walk_next(&walk, &v); depth++) {
            buf_clear(&frame);
            frame_name(&frame, &v);
        }
        assert_string_equal(frame.len ? buf_str(&frame) : "[no call stack]", name);
        buf_release(&frame);
    }
    close_fixture(&f);
}

/* ---- trees that grow */

static void same_nodes(struct tree *x, uint32_t a, struct tree *y, uint32_t b, bool chains)
{
    if (chains)
        tree_chain(x, a);
    const uint32_t *in_x = tree_children(x, a), *in_y = tree_children(y, b);
    struct buf name_x = {0}, name_y = {0};
    assert_false(x->failed);
    assert_memory_equal(&x->nodes.at[a].inclusive, &y->nodes.at[b].inclusive,
                        sizeof x->nodes.at[a].inclusive);
    assert_memory_equal(&x->nodes.at[a].exclusive, &y->nodes.at[b].exclusive,
                        sizeof x->nodes.at[a].exclusive);
    assert_int_equal(x->nodes.at[a].callstack_bytes, y->nodes.at[b].callstack_bytes);
    assert_int_equal(x->nodes.at[a].callstack, y->nodes.at[b].callstack);
    assert_int_equal(x->nodes.at[a].count, y->nodes.at[b].count);
    if (a != TREE_ROOT) {
        tree_label_name(&name_x, x, &x->labels.at[x->nodes.at[a].label]);
        tree_label_name(&name_y, y, &y->labels.at[y->nodes.at[b].label]);
        assert_string_equal(buf_str(&name_x), buf_str(&name_y));
    }
    buf_release(&name_x);
    buf_release(&name_y);
    uint32_t count = x->nodes.at[a].count;
    for (uint32_t i = 0; i < count; i++) {
        in_x = x->children.at + x->nodes.at[a].first;
        in_y = y->children.at + y->nodes.at[b].first;
        same_nodes(x, in_x[i], y, in_y[i], chains);
    }
}

/* One count serves all groupings, directions and pools: each tree is what tree_build makes. */
static void test_one_count_for_all(void **state)
{
    (void)state;
    static struct fixture f;
    static const char *const pools[] = {NULL, "default", "twin"};
    open_fixture(&f, 13, &(struct tree_options){0});
    for (unsigned form = 0; form < 6 * 7; form++) {
        const struct tree_options o = {.by = (enum tree_by)(form / 6), .bottom_up = form & 1};
        const struct selection_options only = {.pool = pools[form / 2 % 3]};
        struct selection s;
        struct tree built, grown;
        assert_int_equal(selection_init(&s, &f.h.trace, &only, &f.e), 0);
        assert_int_equal(tree_build(&built, &s, &o, &f.e), 0);
        selection_release(&s);
        tree_stacks_choose(&f.stacks, form / 2 % 3 ? form / 2 % 3 - 1 : TREE_ALL_POOLS);
        for (int chains = 0; chains < 2; chains++) {
            assert_int_equal(tree_open(&grown, &f.stacks, &o, &f.e), 0);
            assert_int_equal(grown.peak_time, built.peak_time);
            same_nodes(&grown, TREE_ROOT, &built, TREE_ROOT, chains);
            tree_release(&grown);
        }
        tree_release(&built);
    }
    browser_release(&f.browser);
    f.browser = (struct browser){0};
    close_fixture(&f);
}

/* ---- nodes with many children */

#define MOST 3u

/* A child that stands for others: NULL if none does. */
static const struct tree_node *others_in(const struct tree *t, uint32_t node)
{
    const struct tree_node *n = &t->nodes.at[node];
    const struct tree_node *last =
        n->count ? &t->nodes.at[t->children.at[n->first + n->count - 1]] : n;
    return last->others ? last : NULL;
}

/*
 * The children of a node of a limited tree are the first ones in the whole tree, and one with the
 * sums of the others. Where metrics are equal, others may be chosen.
 */
static void check_limited(struct tree *x, uint32_t a, struct tree *whole, uint32_t b)
{
    (void)tree_children(x, a);
    const uint32_t *all = tree_children(whole, b);
    uint32_t count = whole->nodes.at[b].count, kept = count < MOST ? count : MOST;
    enum tree_metric sort = x->options.sort;
    const struct tree_node *others = others_in(x, a);
    struct tree_figures inclusive = {0}, exclusive = {0};
    assert_false(x->failed);
    assert_int_equal(x->nodes.at[a].count, kept + (count > kept));
    assert_int_equal(others ? others->others : 0, count - kept);
    for (uint32_t i = 0; i < count; i++) {
        const struct tree_node *in_whole = &whole->nodes.at[all[i]];
        const struct tree_node *in_x =
            &x->nodes.at[x->children.at[x->nodes.at[a].first + (i < kept ? i : kept)]];
        if (i < kept)
            assert_int_equal(in_x->inclusive.at[sort], in_whole->inclusive.at[sort]);
        for (unsigned m = 0; m < TREE_METRICS; m++) {
            inclusive.at[m] += in_whole->inclusive.at[m];
            exclusive.at[m] += in_whole->exclusive.at[m];
        }
    }
    for (uint32_t i = 0; i < x->nodes.at[a].count; i++) {
        const struct tree_node *n = &x->nodes.at[x->children.at[x->nodes.at[a].first + i]];
        for (unsigned m = 0; m < TREE_METRICS; m++) {
            inclusive.at[m] -= n->inclusive.at[m];
            exclusive.at[m] -= n->exclusive.at[m];
        }
    }
    static const struct tree_figures none;
    assert_memory_equal(&inclusive, &none, sizeof none);
    assert_memory_equal(&exclusive, &none, sizeof none);
}

/* All nodes that can be reached, then all that others stood for: the whole tree. */
static void check_growth(struct tree *x, struct tree *whole, uint32_t a, uint32_t b)
{
    check_limited(x, a, whole, b);
    uint32_t before = x->nodes.at[a].count;
    uint32_t count = whole->nodes.at[b].count;
    /* The last one by its path, then the rest in two steps. */
    if (others_in(x, a)) {
        uint32_t last = whole->children.at[whole->nodes.at[b].first + count - 1];
        uint32_t made = tree_child(x, a, tree_path(whole, last));
        assert_int_not_equal(made, TREE_ROOT);
        assert_memory_equal(&x->nodes.at[made].inclusive, &whole->nodes.at[last].inclusive,
                            sizeof(struct tree_figures));
        assert_int_equal(tree_child(x, a, tree_path(whole, last)), made);
        assert_true(x->nodes.at[a].count == before || x->nodes.at[a].count == before + 1);
        assert_int_equal(tree_child(x, a, 1), TREE_ROOT);
    }
    tree_more(x, a, 1);
    tree_more(x, a, 1000);
    assert_null(others_in(x, a));
    for (uint32_t i = 0; i < count; i++)
        check_growth(x, whole, x->children.at[x->nodes.at[a].first + i],
                     whole->children.at[whole->nodes.at[b].first + i]);
}

static void test_limited_trees(void **state)
{
    (void)state;
    static struct fixture f;
    size_t limited = 0;
    open_fixture(&f, 13, &(struct tree_options){0});
    for (unsigned form = 0; form < 2 * 7 * TREE_RESIDENT; form++) {
        struct tree_options o = {.by = (enum tree_by)(form / 2 % 7),
                                 .bottom_up = form & 1,
                                 .sort = (enum tree_metric)(form / 14)};
        struct tree whole, x;
        assert_int_equal(tree_open(&whole, &f.stacks, &o, &f.e), 0);
        o.most = MOST;
        o.sort = TREE_COUNT;
        assert_int_equal(tree_open(&x, &f.stacks, &o, &f.e), 0);
        (void)tree_children(&x, TREE_ROOT);
        limited += others_in(&x, TREE_ROOT) != NULL;
        tree_sort(&x, whole.options.sort);
        check_growth(&x, &whole, TREE_ROOT, TREE_ROOT);
        same_nodes(&x, TREE_ROOT, &whole, TREE_ROOT, false);
        tree_release(&whole);
        tree_release(&x);
    }
    assert_true(limited > 10);
    browser_release(&f.browser);
    f.browser = (struct browser){0};
    close_fixture(&f);
}

/* Rows of others are opened in place; search and another order keep the node of the cursor. */
static void test_rows_of_others(void **state)
{
    (void)state;
    static struct fixture f;
    char name[NAME_SIZE], again[NAME_SIZE];
    struct browser_match match;
    open_fixture(&f, 13, &(struct tree_options){.bottom_up = true, .all_frames = true});
    uint32_t all = f.tree.nodes.at[TREE_ROOT].count;
    name_of(&f, f.tree.children.at[f.tree.nodes.at[TREE_ROOT].first + all - 1], name);
    assert_true(all > 2 * MOST + 1);
    tree_release(&f.tree);
    browser_release(&f.browser);
    build(&f, &(struct tree_options){.bottom_up = true, .all_frames = true, .most = MOST});
    assert_int_equal(f.browser.rows.len, 1 + MOST + 1);

    browser_move(&f.browser, PTRDIFF_MAX);
    const struct browser_row *last = browser_row(&f.browser, f.browser.cursor);
    assert_int_equal(f.tree.nodes.at[last->node].others, all - MOST);
    assert_true(last->has_children);
    assert_true(browser_open_below(&f.browser, 1000)); /* it has nothing below */
    assert_int_equal(f.browser.rows.len, 1 + MOST + 1);
    assert_true(browser_set_open(&f.browser, false));
    assert_int_equal(f.browser.rows.len, 1 + MOST + 1);
    assert_true(browser_set_open(&f.browser, true));
    assert_int_equal(f.browser.rows.len, 1 + 2 * MOST + 1);
    assert_int_equal(f.browser.cursor, 1 + MOST);
    assert_int_equal(f.tree.nodes.at[chosen(&f)].others, 0);
    check_rows(&f);

    /* It stays so in another tree and another order, for which others are the largest. */
    name_of(&f, chosen(&f), name);
    for (int m = 0; m < 2 * TREE_RESIDENT; m++) {
        tree_sort(&f.tree, (enum tree_metric)(m / 2));
        struct tree old = f.tree;
        if (m & 1)
            build(&f, &old.options);
        else
            assert_true(browser_show(&f.browser, &f.tree));
        if (m & 1)
            tree_release(&old);
        name_of(&f, chosen(&f), again);
        assert_string_equal(name, again);
        assert_in_range(f.browser.rows.len, 1 + 2 * MOST + 1, 1 + 2 * MOST + 2);
        check_rows(&f);
    }

    /* The smallest is found. */
    assert_true(browser_close_all(&f.browser));
    tree_sort(&f.tree, TREE_COUNT);
    browser_move(&f.browser, PTRDIFF_MIN);
    assert_true(browser_show(&f.browser, &f.tree));
    assert_int_equal(f.browser.rows.len, 1 + MOST + 1);
    static struct fixture whole;
    open_fixture(&whole, 13, &f.tree.options);
    tree_release(&whole.tree);
    browser_release(&whole.browser);
    build(&whole,
          &(struct tree_options){.bottom_up = true, .all_frames = true, .sort = TREE_COUNT});
    name_of(&whole, whole.tree.children.at[whole.tree.nodes.at[TREE_ROOT].first + all - 1], name);
    close_fixture(&whole);
    bool seen = false;
    do {
        assert_true(browser_find(&f.browser, name, BROWSER_LIGHTER, &match));
        assert_true(match.count > 0);
        name_of(&f, chosen(&f), again);
        seen |= strcmp(name, again) == 0 && f.tree.nodes.at[chosen(&f)].depth == 1;
        check_rows(&f);
    } while (match.at < match.count);
    assert_true(seen);
    close_fixture(&f);
}

#define MANY 3000u
#define DEEP 24u
#define SCREEN 50u

/* Blocks with many deep call stacks, of MANY / 8 functions. */
static void add_many(struct random_history *h)
{
    struct err e = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t frames[DEEP];
        uint32_t id;
        bool fresh, fault;
        for (uint32_t k = 0; k < DEEP; k++) {
            char name[32];
            uint64_t function = k + 1 == DEEP ? 0 : rh_rnd(h, MANY / 8);
            snprintf(name, sizeof name, "many%u()", (unsigned)function);
            const struct rec_inline_frame in = {.function = rh_text(h, name)};
            frames[k] = 0xa00000 + function;
            assert_int_equal(callstacks_resolve(&h->trace.callstacks, frames[k],
                                                rh_text(h, "/bin/many"), &in, 1, &e),
                             0);
        }
        assert_int_equal(callstacks_intern(&h->trace.callstacks, frames, DEEP, &id, &fresh, &e), 0);
        const struct memory_place at = {++h->now, (uint16_t)(i % RH_THREADS), id};
        assert_int_equal(
            alloc_in(&h->trace.memory, i % RH_POOLS, 0x70000000 + 64 * i, 8 + i, at, &fault, &e),
            0);
    }
    h->trace.facts.last_time = h->now;
}

/* Another view, and a screen of rows: steps along few call stacks, and few new nodes. */
static void check_work(struct fixture *f, const struct tree_options *o, uint64_t steps_of_all,
                       size_t nodes_of_all)
{
    size_t stacks;
    tree_release(&f->tree);
    assert_int_equal(tree_open(&f->tree, &f->stacks, o, &f->e), 0);
    stacks = tree_stack_count(&f->tree);
    f->browser.fold = true;
    assert_true(browser_show(&f->browser, &f->tree));
    for (size_t i = 0; i < SCREEN && i < f->browser.rows.len; i++)
        (void)browser_row(&f->browser, i);
    /* The root's children, a chain's, and what shows whether a row has some: a level each. */
    assert_true(tree_steps(&f->tree) <= 4 * stacks);
    assert_true(tree_steps(&f->tree) * 4 < steps_of_all);
    assert_true(f->tree.nodes.len * 4 < nodes_of_all);
}

/* A view of a node with many children: two steps along each call stack, and a node for few. */
static void test_work_of_many_children(void **state)
{
    (void)state;
    static struct fixture f;
    const struct tree_options o = {.bottom_up = true, .by = TREE_LINE, .most = 100};
    f = (struct fixture){0};
    rh_make(&f.h, 17);
    add_many(&f.h);
    build(&f, &o);
    const struct tree_node *root = &f.tree.nodes.at[TREE_ROOT];
    assert_true(root->count == 101 && others_in(&f.tree, TREE_ROOT)->others > 200);
    for (int m = 0; m < TREE_RESIDENT; m++) {
        uint64_t before = tree_steps(&f.tree);
        tree_sort(&f.tree, (enum tree_metric)m);
        assert_true(browser_show(&f.browser, &f.tree));
        for (size_t i = 0; i < SCREEN && i < f.browser.rows.len; i++)
            (void)browser_row(&f.browser, i);
        assert_true(tree_steps(&f.tree) - before <= 2 * tree_stack_count(&f.tree));
        assert_true(f.tree.nodes.len <= 102);
    }
    close_fixture(&f);
}

static void test_work_is_bounded(void **state)
{
    (void)state;
    static struct fixture f;
    f = (struct fixture){0};
    rh_make(&f.h, 17);
    add_many(&f.h);
    build(&f, &(struct tree_options){0});
    for (unsigned form = 0; form < 4; form++) {
        const struct tree_options o = {.by = form & 2 ? TREE_LINE : TREE_FUNCTION,
                                       .bottom_up = form & 1};
        tree_release(&f.tree);
        assert_int_equal(tree_open(&f.tree, &f.stacks, &o, &f.e), 0);
        grow(&f);
        uint64_t steps = tree_steps(&f.tree);
        size_t nodes = f.tree.nodes.len;
        assert_true(nodes > (size_t)MANY * DEEP / 4);
        check_work(&f, &o, steps, nodes);
        tree_stacks_choose(&f.stacks, form % 2);
        check_work(&f, &o, steps, nodes);
        tree_stacks_choose(&f.stacks, TREE_ALL_POOLS);
        check_work(&f, &o, steps, nodes);
        /* Opening a row looks at its call stacks, not at the others. */
        uint64_t before = tree_steps(&f.tree);
        browser_move(&f.browser, PTRDIFF_MAX);
        uint64_t through = f.tree.nodes.at[chosen(&f)].inclusive.at[TREE_COUNT];
        assert_true(browser_set_open(&f.browser, true));
        assert_true(tree_steps(&f.tree) - before <= 2 * through * DEEP);
    }
    close_fixture(&f);
}

static void count_looks(void *ctx)
{
    ++*(uint64_t *)ctx;
}

/*
 * Threads, whose call stacks begin alike: the nodes of threads without a step, and two along each
 * call stack for their chains. Callers hear of the work.
 */
static void test_work_of_threads(void **state)
{
    (void)state;
    static struct fixture f;
    uint64_t looks = 0;
    const struct tree_options o = {.by = TREE_THREAD};
    f = (struct fixture){0};
    rh_make(&f.h, 17);
    add_many(&f.h);
    build(&f, &o);
    f.stacks.working = count_looks;
    f.stacks.working_ctx = &looks;
    for (int pool = 0; pool < 2; pool++) {
        uint64_t before = f.stacks.steps;
        looks = 0;
        tree_release(&f.tree);
        tree_stacks_choose(&f.stacks, pool ? 0 : TREE_ALL_POOLS);
        assert_int_equal(tree_open(&f.tree, &f.stacks, &o, &f.e), 0);
        f.browser.fold = true;
        assert_true(browser_show(&f.browser, &f.tree));
        size_t rows = f.browser.rows.len, stacks = tree_stack_count(&f.tree);
        assert_true(rows > 2);
        assert_int_equal(tree_steps(&f.tree), 0);
        for (size_t i = 0; i < rows; i++)
            (void)browser_row(&f.browser, i);
        assert_true(tree_steps(&f.tree) <= 2 * stacks + 2 * DEEP * rows);
        assert_int_equal(looks, f.stacks.steps / TREE_STEPS_BETWEEN - before / TREE_STEPS_BETWEEN);
        assert_true(looks > 0);
    }
    close_fixture(&f);
}

/* One child after the other is taken out of many: the memory for children does not grow faster. */
static void test_memory_of_children(void **state)
{
    (void)state;
    static struct fixture f;
    const struct tree_options o = {.bottom_up = true, .by = TREE_LINE, .most = 10};
    f = (struct fixture){0};
    rh_make(&f.h, 17);
    add_many(&f.h);
    build(&f, &o);
    uint32_t all = others_in(&f.tree, TREE_ROOT)->others + o.most, count = o.most;
    assert_true(all > 300);
    for (; count < all; count++) {
        tree_more(&f.tree, TREE_ROOT, 1);
        assert_false(f.tree.failed);
        assert_int_equal(f.tree.nodes.at[TREE_ROOT].count, count + 1 + (count + 1 < all));
        if (count % 7 == 0) /* so that the children of the root are not the last ones */
            (void)tree_children(&f.tree, f.tree.children.at[f.tree.nodes.at[TREE_ROOT].first]);
        for (uint32_t i = 0; i + 2 < f.tree.nodes.at[TREE_ROOT].count; i++) {
            const uint32_t *at = f.tree.children.at + f.tree.nodes.at[TREE_ROOT].first + i;
            assert_true(f.tree.nodes.at[at[0]].inclusive.at[TREE_BYTES] >=
                        f.tree.nodes.at[at[1]].inclusive.at[TREE_BYTES]);
        }
    }
    assert_null(others_in(&f.tree, TREE_ROOT));
    assert_true(f.tree.children.len <= 16 * (size_t)all);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_walks),
        cmocka_unit_test(test_moving),
        cmocka_unit_test(test_built_anew),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_search_folded),
        cmocka_unit_test(test_callstacks),
        cmocka_unit_test(test_one_count_for_all),
        cmocka_unit_test(test_limited_trees),
        cmocka_unit_test(test_rows_of_others),
        cmocka_unit_test(test_work_of_many_children),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_work_of_threads),
        cmocka_unit_test(test_memory_of_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
