/*
 * interval_tree against a plain list on random histories: overlapping and equal intervals, blocks
 * of no bytes, the top of the address space, growth from nothing and back to nothing.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The nodes, for the check of all invariants. */
#include "analysis/questions/interval_tree.c" /* NOLINT(bugprone-suspicious-include) */
#include "base/vec.h"

/*
 * The bounds of a subtree in the nodes above: keys from (first, value) on, below (end, end_value).
 */
struct bounds {
    uint64_t first, value;
    uint64_t end, end_value;
    bool has_first, has_end;
};

static bool sound_leaf(const struct leaf *l, const struct bounds *b, size_t *count)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->at[i].last < l->at[i].first || l->tag[i] != tag_of(l->at[i].first, l->at[i].value))
            return false;
        if ((b->has_first && is_before(l->at[i].first, l->at[i].value, b->first, b->value)) ||
            (b->has_end && !is_before(l->at[i].first, l->at[i].value, b->end, b->end_value)))
            return false;
    }
    *count += l->n;
    return l->n != 0 && l->n <= LEAF_ENTRIES;
}

static bool sound_below(const union interval_node *n, unsigned height, const struct bounds *b,
                        size_t *count)
{
    if (height == 0)
        return sound_leaf(&n->leaf, b, count);
    const struct inner *in = &n->inner;
    if (in->n == 0 || in->n > INNER_ENTRIES)
        return false;
    for (uint32_t i = 0; i < in->n; i++) {
        struct bounds below = *b;
        if (i) {
            below.has_first = true;
            below.first = in->first[i];
            below.value = in->value[i];
        }
        if (i + 1 < in->n) {
            below.has_end = true;
            below.end = in->first[i + 1];
            below.end_value = in->value[i + 1];
        }
        if (in->last[i] != reach_of(in->child[i], height == 1) ||
            !sound_below(in->child[i], height - 1, &below, count))
            return false;
    }
    for (uint32_t i = in->n; i < INNER_ENTRIES; i++) {
        if (in->first[i] != UINT64_MAX)
            return false;
    }
    return true;
}

/* Whether all invariants hold. */
static bool interval_tree_is_sound(const struct interval_tree *t)
{
    static const struct bounds none = {0};
    size_t count = 0;
    if (!t->root)
        return t->count == 0 && t->height == 0;
    return sound_below(t->root, t->height, &none, &count) && count == t->count;
}

struct model {
    struct interval_tree tree;
    VEC(struct interval) list;
    VEC(struct interval) got;
    VEC(struct interval) want;
    uint64_t seed;
    uint64_t next_value;
};

static uint64_t rnd(struct model *m, uint64_t below)
{
    m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (m->seed >> 33) % below;
}

static bool collect(void *ctx, const struct interval *i)
{
    struct model *m = ctx;
    assert_true(vec_push(&m->got, *i));
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct interval *x = a;
    const struct interval *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static void check_overlap(struct model *m, uint64_t low, uint64_t high)
{
    m->got.len = m->want.len = 0;
    for (size_t i = 0; i < m->list.len; i++) {
        if (m->list.at[i].first <= high && m->list.at[i].last >= low)
            assert_true(vec_push(&m->want, m->list.at[i]));
    }
    if (m->want.len)
        qsort(m->want.at, m->want.len, sizeof *m->want.at, compare);
    assert_true(interval_tree_overlap(&m->tree, low, high, collect, m));
    assert_int_equal(m->got.len, m->want.len);
    for (size_t i = 0; i < m->got.len; i++)
        assert_memory_equal(&m->got.at[i], &m->want.at[i], sizeof m->got.at[i]);
}

/* How a history's blocks lie. */
struct shape {
    uint64_t base, room; /* addresses */
    uint64_t size;       /* below this */
    bool apart;          /* none overlaps another */
    size_t live;         /* about so many at a time */
    size_t steps;
};

static struct interval make_interval(struct model *m, const struct shape *s)
{
    uint64_t at = s->apart ? rnd(m, s->room / s->size) * s->size : rnd(m, s->room);
    uint64_t size = rnd(m, 10) == 0 ? 0 : rnd(m, s->size + 1);
    if (rnd(m, 50) == 0)
        at = 0;
    return interval_of_block(s->base + at, size, m->next_value++);
}

static void step(struct model *m, const struct shape *s, bool grows)
{
    if (m->list.len == 0 || rnd(m, 10) < (grows ? 7 : 3)) {
        struct interval i = make_interval(m, s);
        assert_true(interval_tree_insert(&m->tree, &i));
        assert_true(vec_push(&m->list, i));
        return;
    }
    size_t at = (size_t)rnd(m, m->list.len);
    struct interval gone = m->list.at[at];
    assert_true(interval_tree_remove(&m->tree, gone.first, gone.value));
    assert_false(interval_tree_remove(&m->tree, gone.first, gone.value));
    m->list.at[at] = m->list.at[--m->list.len];
}

static void run_history(const struct shape *s, uint64_t seed)
{
    struct model m = {.seed = seed};
    bool grows = true;
    for (size_t i = 0; i < s->steps; i++) {
        step(&m, s, grows);
        if (m.list.len > s->live)
            grows = false;
        else if (m.list.len < s->live / 8)
            grows = true;
        assert_int_equal(m.tree.count, m.list.len);
        if (i % (s->steps / 200) == 0) {
            assert_true(interval_tree_is_sound(&m.tree));
            uint64_t at = s->base + rnd(&m, s->room);
            check_overlap(&m, at, at);
            check_overlap(&m, at, at + rnd(&m, s->room) / 16 < at ? UINT64_MAX : at + 1000);
        }
    }
    check_overlap(&m, 0, UINT64_MAX);
    check_overlap(&m, UINT64_MAX, UINT64_MAX);
    check_overlap(&m, 0, 0);
    while (m.list.len) {
        struct interval *i = &m.list.at[--m.list.len];
        assert_true(interval_tree_remove(&m.tree, i->first, i->value));
        if (m.list.len % 97 == 0)
            assert_true(interval_tree_is_sound(&m.tree));
    }
    assert_null(m.tree.root);
    check_overlap(&m, 0, UINT64_MAX);
    interval_tree_release(&m.tree);
    vec_release(&m.list);
    vec_release(&m.got);
    vec_release(&m.want);
}

static void test_random_histories(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.base = 0x1000, .room = 1 << 20, .size = 64, .apart = true, .live = 3000, .steps = 40000},
        {.base = 0, .room = 4000, .size = 300, .live = 600, .steps = 20000},
        {.base = 0, .room = 16, .size = 4, .live = 900, .steps = 20000}, /* nearly all are equal */
        {.base = UINT64_MAX - 4095, .room = 4096, .size = 512, .live = 300, .steps = 10000},
        {.base = 0,
         .room = UINT64_C(1) << 47,
         .size = UINT64_C(1) << 44,
         .live = 40,
         .steps = 4000},
        {.base = 0x7f0000000000, .room = 1 << 24, .size = 32, .live = 20000, .steps = 90000},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (uint64_t seed = 1; seed <= 3; seed++)
            run_history(&shapes[i], seed);
    }
}

/* In order, backwards, and emptied from either end: the shapes that random ones do not have. */
static void test_ordered_histories(void **state)
{
    (void)state;
    enum { N = 5000 };
    for (int form = 0; form < 4; form++) {
        struct model m = {.seed = 1};
        for (uint64_t i = 0; i < N; i++) {
            uint64_t at = form & 1 ? N - i : i;
            struct interval in = interval_of_block(at * 16, 16, at);
            assert_true(interval_tree_insert(&m.tree, &in));
        }
        assert_true(interval_tree_is_sound(&m.tree));
        for (uint64_t i = 0; i < N; i++) {
            uint64_t at = (form & 2 ? N - 1 - i : i) + (form & 1);
            assert_true(interval_tree_remove(&m.tree, at * 16, at));
            if (i % 61 == 0)
                assert_true(interval_tree_is_sound(&m.tree));
        }
        assert_null(m.tree.root);
        interval_tree_release(&m.tree);
    }
}

static bool stop_at_second(void *ctx, const struct interval *i)
{
    (void)i;
    int *n = ctx;
    return ++*n < 2;
}

static void test_borders(void **state)
{
    (void)state;
    struct interval_tree t = {0};
    struct interval top = interval_of_block(UINT64_MAX - 9, 4096, 1);
    struct interval none = interval_of_block(100, 0, 2);
    struct interval all = interval_of_block(0, UINT64_MAX, 3);
    int n = 0;
    assert_int_equal(top.last, UINT64_MAX);
    assert_int_equal(none.last, 100);
    assert_false(interval_tree_remove(&t, 0, 0));
    assert_true(interval_tree_overlap(&t, 5, 5, stop_at_second, &n));
    assert_true(interval_tree_insert(&t, &top));
    assert_true(interval_tree_insert(&t, &none));
    assert_true(interval_tree_insert(&t, &all));
    assert_false(interval_tree_overlap(&t, 100, 100, stop_at_second, &n)); /* stops at the second */
    assert_int_equal(n, 2);
    n = 0;
    assert_true(interval_tree_overlap(&t, 101, 101, stop_at_second, &n));
    assert_int_equal(n, 1);
    n = 0;
    assert_true(interval_tree_overlap(&t, UINT64_MAX, UINT64_MAX, stop_at_second, &n));
    assert_int_equal(n, 1);
    assert_false(interval_tree_remove(&t, 100, 3));
    interval_tree_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_ordered_histories),
        cmocka_unit_test(test_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
