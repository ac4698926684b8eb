/*
 * The call-stack tree and the selection it is built from, against sums over a plain list of random
 * allocations: both directions, all groupings, filters.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/questions/tree.h"
#include "test/unit/random_history.h"

#define PATH_SIZE 1024

/* What the list says of one node: its way from the root, and figures. */
struct row {
    char path[PATH_SIZE];
    struct tree_figures inclusive, exclusive;
};

struct oracle {
    VEC(struct row) rows;
};

static struct row *row_of(struct oracle *o, const char *path)
{
    for (size_t i = 0; i < o->rows.len; i++) {
        if (strcmp(o->rows.at[i].path, path) == 0)
            return &o->rows.at[i];
    }
    struct row fresh = {0};
    snprintf(fresh.path, sizeof fresh.path, "%s", path);
    assert_true(vec_push(&o->rows, fresh));
    return &o->rows.at[o->rows.len - 1];
}

static void add(struct tree_figures *to, const struct tree_figures *f)
{
    for (size_t i = 0; i < TREE_METRICS; i++)
        to->at[i] += f->at[i];
}

/* The names of a block's way, innermost first, as the options want them. */
static unsigned names_of(const struct random_history *h, const struct rh_block *b,
                         const struct tree_options *o, const char *names[])
{
    const struct rh_stack *s = &h->stacks[b->stack];
    unsigned n = 0;
    bool inside = !o->all_frames;
    for (unsigned i = 0; i < s->n; i++) {
        bool allocator = strcmp(s->names[i], "malloc") == 0 || strncmp(s->names[i], "oper", 4) == 0;
        if (inside && allocator && i + 1 < s->n)
            continue;
        inside = false;
        if (o->no_inlines && !s->outermost[i])
            continue;
        names[n++] = s->names[i];
    }
    if (s->n == 0)
        names[n++] = "[no call stack]";
    return n;
}

static void count_block(struct oracle *o, const struct random_history *h, const struct rh_block *b,
                        const struct tree_options *options, const struct tree_figures *f)
{
    static const char *const threads[] = {"worker 0", "worker 1", "thread 102", "worker 3"};
    const char *names[RH_DEPTH * 3];
    char path[PATH_SIZE] = "";
    size_t len = 0;
    unsigned n = names_of(h, b, options, names);
    add(&row_of(o, path)->inclusive, f);
    if (options->by == TREE_THREAD) {
        len += (size_t)snprintf(path, sizeof path, ">%s", threads[b->thread]);
        add(&row_of(o, path)->inclusive, f);
    }
    for (unsigned i = 0; i < n; i++) {
        len += (size_t)snprintf(path + len, sizeof path - len, ">%s",
                                names[options->bottom_up ? i : n - 1 - i]);
        add(&row_of(o, path)->inclusive, f);
        if (options->bottom_up ? i == 0 : i + 1 == n)
            add(&row_of(o, path)->exclusive, f);
    }
}

/* Does the list say that the block is selected? */
static bool chosen_by(const struct random_history *h, const struct rh_block *b,
                      const struct selection_options *o)
{
    if (o->pool && (strcmp(o->pool, "twin") == 0) != (b->pool != 0))
        return false;
    if (o->thread &&
        b->thread != (o->thread[0] == 'w' ? o->thread[7] - '0' : strtol(o->thread, NULL, 10) - 100))
        return false;
    if (o->has_range && (b->start < o->begin || b->start >= o->end))
        return false;
    if (o->has_at && (b->start > o->at || b->end <= o->at))
        return false;
    if (o->has_size && (b->size < o->size_min || b->size > o->size_max))
        return false;
    if (!o->match)
        return true;
    for (unsigned i = 0; i < h->stacks[b->stack].n; i++) {
        if (strstr(h->stacks[b->stack].names[i], o->match))
            return true;
    }
    return false;
}

static int64_t end_of(const struct selection_options *o)
{
    int64_t end = o->has_range ? o->end : INT64_MAX;
    return o->has_at && o->at + 1 < end ? o->at + 1 : end;
}

/* Half of each block that lives on is resident. */
static void make_resident(struct random_history *h)
{
    struct trace *t = &h->trace;
    t->resident.known = true;
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        const struct resident_stack one = {.pool = t->memory.pools.at[b->pool]->key,
                                           .callstack = h->stacks[b->stack].id,
                                           .present = b->size / 2,
                                           .nested = b->size / 8};
        if (b->end == INT64_MAX)
            assert_true(vec_push(&t->resident.list, one));
    }
}

static bool knows_resident(const struct random_history *h, const struct selection_options *s,
                           const struct tree_options *o)
{
    return h->trace.resident.known && !selection_is_narrow(s) && o->by != TREE_THREAD;
}

static void ask_list(struct oracle *o, const struct random_history *h,
                     const struct selection_options *s, const struct tree_options *options,
                     int64_t *peak_time)
{
    static bool chosen[RH_BLOCKS];
    int64_t end = end_of(s);
    for (size_t i = 0; i < h->n; i++)
        chosen[i] = chosen_by(h, &h->blocks[i], s);
    *peak_time = rh_peak_time(h, chosen, end);
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        bool live = b->end >= end;
        bool at_peak = *peak_time != -1 && b->start <= *peak_time && b->end > *peak_time;
        struct tree_figures f = {{b->size, 1, live ? b->size : 0, live, at_peak ? b->size : 0,
                                  at_peak, !live && rh_temporary(h, b),
                                  knows_resident(h, s, options) && live
                                      ? b->size / 2 - (s->pool ? 0 : b->size / 8)
                                      : 0}};
        if (chosen[i])
            count_block(o, h, b, options, &f);
    }
}

/* The way of a node as the oracle writes it. */
static void path_of(const struct tree *t, uint32_t node, char path[PATH_SIZE])
{
    uint32_t way[64];
    unsigned n = 0;
    size_t len = 0;
    for (; node != TREE_ROOT; node = t->nodes.at[node].parent)
        way[n++] = node;
    path[0] = 0;
    while (n--) {
        struct buf name = {0};
        tree_label_name(&name, t, &t->labels.at[t->nodes.at[way[n]].label]);
        len += (size_t)snprintf(path + len, PATH_SIZE - len, ">%s", buf_str(&name));
        buf_release(&name);
    }
}

static void compare(const struct tree *t, struct oracle *o)
{
    assert_int_equal(t->nodes.len, o->rows.len);
    assert_int_equal(t->children.len, t->nodes.len - 1);
    for (uint32_t i = 0; i < t->nodes.len; i++) {
        char path[PATH_SIZE];
        const struct tree_node *n = &t->nodes.at[i];
        path_of(t, i, path);
        const struct row *row = row_of(o, path);
        for (size_t k = 0; k < TREE_METRICS; k++) {
            assert_int_equal(n->inclusive.at[k], row->inclusive.at[k]);
            assert_int_equal(n->exclusive.at[k], row->exclusive.at[k]);
        }
        for (uint32_t k = 0; k < n->count; k++) {
            const struct tree_node *child = &t->nodes.at[t->children.at[n->first + k]];
            assert_int_equal(child->parent, i);
            assert_int_equal(child->depth, n->depth + 1);
            if (k)
                assert_true(
                    t->nodes.at[t->children.at[n->first + k - 1]].inclusive.at[t->options.sort] >=
                    child->inclusive.at[t->options.sort]);
        }
    }
    assert_int_equal(t->nodes.len, o->rows.len); /* no way was asked for that is not there */
}

static void check(struct random_history *h, const struct selection_options *s,
                  const struct tree_options *options)
{
    struct err e = {0};
    struct selection selection;
    struct tree tree;
    struct oracle oracle = {0};
    int64_t peak_time;
    (void)row_of(&oracle, "");
    ask_list(&oracle, h, s, options, &peak_time);
    assert_int_equal(selection_init(&selection, &h->trace, s, &e), 0);
    assert_int_equal(tree_build(&tree, &selection, options, &e), 0);
    assert_int_equal(tree.peak_time, peak_time);
    assert_int_equal(tree.has_resident, knows_resident(h, s, options));
    compare(&tree, &oracle);
    tree_release(&tree);
    selection_release(&selection);
    vec_release(&oracle.rows);
}

static void test_shapes(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options all = {0};
    rh_make(&h, 11);
    make_resident(&h);
    for (int form = 0; form < 16; form++) {
        struct tree_options o = {
            .by = form & 8 ? TREE_THREAD : TREE_FUNCTION,
            .bottom_up = form & 1,
            .no_inlines = form & 2,
            .all_frames = form & 4,
            .sort = (enum tree_metric)(form & 8 ? form % TREE_RESIDENT : form % TREE_METRICS)};
        check(&h, &all, &o);
    }
    rh_release(&h);
}

static void test_selections(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options selections[] = {
        {.pool = "twin"},
        {.pool = "default", .thread = "worker 1"},
        {.thread = "102"},
        {.has_range = true, .begin = 100, .end = 400},
        {.has_range = true, .begin = INT64_MIN, .end = 250, .pool = "twin"},
        {.has_at = true, .at = 300},
        {.has_at = true, .at = 300, .has_range = true, .begin = 200, .end = INT64_MAX},
        {.has_at = true, .at = 1 << 20},
        {.has_size = true, .size_min = 0, .size_max = 0},
        {.has_size = true, .size_min = 100, .size_max = 200, .match = "draw"},
        {.match = "parse"},
        {.match = "malloc", .has_range = true, .begin = 50, .end = 500},
        {.match = "nothing is called so"},
        {.has_range = true, .begin = 1 << 20, .end = 1 << 21},
    };
    for (uint64_t seed = 1; seed <= 3; seed++) {
        rh_make(&h, seed);
        make_resident(&h);
        for (size_t i = 0; i < sizeof selections / sizeof *selections; i++) {
            struct tree_options o = {.bottom_up = i & 1, .sort = TREE_LIVE_BYTES};
            check(&h, &selections[i], &o);
        }
        rh_release(&h);
    }
}

/* The groupings that look at files and images: sums stay, and neighbours that are equal are one. */
static void test_groupings(void **state)
{
    (void)state;
    static struct random_history h;
    struct err e = {0};
    static const struct selection_options all = {0};
    rh_make(&h, 5);
    for (int by = TREE_LINE; by <= TREE_MODULE; by++) {
        struct tree_options o = {.by = (enum tree_by)by, .all_frames = true};
        struct selection s;
        struct tree t;
        struct tree_figures sum = {0};
        assert_int_equal(selection_init(&s, &h.trace, &all, &e), 0);
        assert_int_equal(tree_build(&t, &s, &o, &e), 0);
        for (uint32_t i = 1; i < t.nodes.len; i++) {
            const struct tree_node *n = &t.nodes.at[i];
            add(&sum, &n->exclusive);
            if (by != TREE_LINE && n->parent != TREE_ROOT)
                assert_int_not_equal(n->label, t.nodes.at[n->parent].label);
        }
        for (size_t k = 0; k < TREE_METRICS; k++)
            assert_int_equal(sum.at[k], t.nodes.at[TREE_ROOT].inclusive.at[k]);
        assert_int_equal(sum.at[TREE_COUNT], RH_BLOCKS);
        for (size_t i = 1; by == TREE_MODULE && i < t.labels.len; i++)
            assert_null(memchr(t.labels.at[i].frame.image.p, '/', t.labels.at[i].frame.image.len));
        tree_release(&t);
        selection_release(&s);
    }
    rh_release(&h);
}

static void refused(struct random_history *h, const struct selection_options *o, const char *text)
{
    struct err e = {0};
    struct selection s;
    assert_int_equal(selection_init(&s, &h->trace, o, &e), -1);
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.text, text));
}

static void refused_by_tree(struct random_history *h, const struct selection_options *only,
                            enum tree_by by)
{
    const struct tree_options o = {.by = by, .sort = TREE_RESIDENT};
    struct err e = {0};
    struct selection s;
    struct tree t;
    assert_int_equal(selection_init(&s, &h->trace, only, &e), 0);
    assert_int_equal(tree_build(&t, &s, &o, &e), -1);
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.text, "what was resident is unknown"));
    selection_release(&s);
}

static void test_resident_is_unknown(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options all = {0}, some = {.match = "draw"};
    rh_make(&h, 5);
    refused_by_tree(&h, &all, TREE_FUNCTION);
    make_resident(&h);
    refused_by_tree(&h, &all, TREE_THREAD);
    refused_by_tree(&h, &some, TREE_FUNCTION);
    rh_release(&h);
}

static void test_refusals(void **state)
{
    (void)state;
    static struct random_history h;
    rh_make(&h, 5);
    refused(&h, &(struct selection_options){.pool = "x"}, "the trace has: default, twin, twin");
    refused(&h, &(struct selection_options){.thread = "y"}, "no thread has the name or id 'y'");
    refused(&h, &(struct selection_options){.match = "("}, "no regular expression");
    refused(&h, &(struct selection_options){.has_frame = true, .frame = 3}, "no frame 3");
    refused(&h, &(struct selection_options){.zone = "z"}, "no zone is called 'z'");
    rh_release(&h);
}

/* Frames and zones that stand in the store. */
static void test_frames_and_zones(void **state)
{
    (void)state;
    static struct random_history h;
    struct err e = {0};
    rh_make(&h, 7);
    for (int64_t time = 0; time < h.now; time += 100)
        assert_int_equal(frame_sets_mark(&h.trace.frame_sets, 0, time, &e), 0);
    struct trace_location location = {.name = 0x77, .known = true};
    assert_int_equal(strings_bind(&h.trace.strings, 0x77, rh_text(&h, "a zone"), &e), 0);
    assert_true(vec_push(&h.trace.locations, location));
    bool found;
    /* Nested ones of the same name, and one on another thread that never ends. */
    assert_int_equal(zones_begin(&h.trace.zones, 1, 50, 1, 0, &e), 0);
    assert_int_equal(zones_begin(&h.trace.zones, 1, 60, 1, 0, &e), 0);
    assert_int_equal(zones_end(&h.trace.zones, 1, 70, &found, &e), 0);
    assert_int_equal(zones_end(&h.trace.zones, 1, 150, &found, &e), 0);
    assert_int_equal(zones_begin(&h.trace.zones, 1, 160, -1, 0, &e), 0);
    assert_int_equal(zones_begin(&h.trace.zones, 3, 200, 1, 0, &e), 0);
    struct selection s;
    struct tree t;
    uint64_t frame = 0;
    uint64_t zone = 0;
    for (size_t i = 0; i < h.n; i++) {
        const struct rh_block *b = &h.blocks[i];
        frame += b->start >= 200 && b->start < 300;
        zone += (b->thread == 1 && b->start >= 50 && b->start <= 150) ||
                (b->thread == 3 && b->start >= 200);
    }
    struct tree_options o = {0};
    struct selection_options by_frame = {.has_frame = true, .frame = 2};
    assert_int_equal(selection_init(&s, &h.trace, &by_frame, &e), 0);
    assert_int_equal(tree_build(&t, &s, &o, &e), 0);
    assert_int_equal(t.nodes.at[TREE_ROOT].inclusive.at[TREE_COUNT], frame);
    tree_release(&t);
    selection_release(&s);
    struct selection_options by_zone = {.zone = "a zone"};
    assert_int_equal(selection_init(&s, &h.trace, &by_zone, &e), 0);
    assert_int_equal(tree_build(&t, &s, &o, &e), 0);
    assert_int_equal(t.nodes.at[TREE_ROOT].inclusive.at[TREE_COUNT], zone);
    tree_release(&t);
    selection_release(&s);
    rh_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_selections),
        cmocka_unit_test(test_groupings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_resident_is_unknown),
        cmocka_unit_test(test_frames_and_zones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
