#include "analysis/html/html_diff.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/names/program_frames.h"
#include "base/map.h"
#include "base/saturate.h"

struct builder {
    struct page_diff *to;
    struct map frames;   /* hash of a name → its number */
    struct map nodes;    /* parent << 32 | frame → node */
    uint32_t *number[2]; /* node of a tree → of the page */
};

static const struct view none = {"", 0};

static struct view base_name(struct view path)
{
    size_t at = path.len;
    while (at && path.p[at - 1] != '/')
        at--;
    return (struct view){path.p + at, path.len - at};
}

/* ---- frames */

static bool is_same(const struct frame_view *a, const struct frame_view *b)
{
    return view_equal(a->function, b->function) &&
           (a->function.len || view_equal(base_name(a->image), base_name(b->image)));
}

static int frame_number(struct builder *b, const struct frame_view *f, uint32_t *number,
                        struct err *e)
{
    struct page_diff *p = b->to;
    struct view name = f->function.len ? f->function : base_name(f->image);
    uint64_t key = XXH3_64bits_withSeed(name.p, name.len, map_hash(f->function.len == 0));
    for (;; key++) {
        bool fresh;
        uint64_t *at = map_add(&b->frames, key, &fresh);
        if (!at || (fresh && !vec_push(&p->frames, *f)))
            return err_no_memory(e, "the page");
        if (fresh)
            *at = p->frames.len - 1;
        *number = (uint32_t)*at;
        if (is_same(&p->frames.at[*at], f))
            return 0;
    }
}

static struct frame_view frame_of(const struct tree_label *l)
{
    struct frame_view f = l->frame;
    if (l->no_callstack)
        f = (struct frame_view){
            .function = view_of(PAGE_DIFF_NO_STACK), .file = none, .image = none};
    f.address = 0; /* differs between runs */
    return f;
}

/* ---- nodes */

static int child_of(struct builder *b, uint32_t parent, uint32_t frame, uint32_t *node,
                    struct err *e)
{
    struct page_diff *p = b->to;
    bool fresh;
    uint64_t *at = map_add(&b->nodes, (uint64_t)parent << 32 | frame, &fresh);
    const struct page_diff_node made = {.parent = parent, .frame = frame};
    if (!at || (fresh && (p->nodes.len >= UINT32_MAX || !vec_push(&p->nodes, made))))
        return err_no_memory(e, "the page");
    if (fresh)
        *at = p->nodes.len - 1;
    *node = (uint32_t)*at;
    return 0;
}

static void add_own(struct page_diff_node *to, int side, const uint64_t *figures)
{
    for (size_t m = 0; m < PAGE_DIFF_METRICS; m++)
        to->own[side][m] = saturating_add(to->own[side][m], figures[m]);
}

/* Nodes of a tree come after their parents. */
static int join_tree(struct builder *b, int side, struct err *e)
{
    const struct tree *t = &b->to->trees[side];
    b->number[side] = calloc(t->nodes.len, sizeof *b->number[side]);
    if (!b->number[side])
        return err_no_memory(e, "the page");
    for (size_t i = 1; i < t->nodes.len; i++) {
        const struct tree_node *n = &t->nodes.at[i];
        const struct frame_view f = frame_of(&t->labels.at[n->label]);
        uint32_t frame, *node = &b->number[side][i];
        if (frame_number(b, &f, &frame, e) != 0 ||
            child_of(b, b->number[side][n->parent], frame, node, e) != 0)
            return -1;
        add_own(&b->to->nodes.at[*node], side, n->exclusive.at);
    }
    return 0;
}

/* ---- what is left out */

struct weight {
    double share; /* the largest one of a figure, with all nodes below */
    uint32_t node;
};

static int compare_weights(const void *a, const void *b)
{
    const struct weight *x = a;
    const struct weight *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Sets the weights of all nodes: a parent's is no less than a child's, and its number is lower. */
static int weigh(const struct page_diff *p, struct weight *weights, struct err *e)
{
    uint64_t(*all)[2][PAGE_DIFF_METRICS] = calloc(p->nodes.len, sizeof *all);
    if (!all)
        return err_no_memory(e, "the page");
    for (size_t i = p->nodes.len; i-- > 0;) {
        const struct page_diff_node *n = &p->nodes.at[i];
        for (size_t k = 0; k < (size_t)2 * PAGE_DIFF_METRICS; k++) {
            uint64_t *sum = &all[i][0][0] + k;
            uint64_t *parent = &all[n->parent][0][0] + k;
            *sum = saturating_add(*sum, (&n->own[0][0])[k]);
            *parent = i ? saturating_add(*parent, *sum) : *parent;
        }
    }
    for (size_t i = 0; i < p->nodes.len; i++) {
        weights[i] = (struct weight){.node = (uint32_t)i};
        for (size_t k = 0; k < (size_t)2 * PAGE_DIFF_METRICS; k++) {
            uint64_t whole = (&all[0][0][0])[k];
            double share = whole ? (double)(&all[i][0][0])[k] / (double)whole : 0;
            weights[i].share = share > weights[i].share ? share : weights[i].share;
        }
    }
    free(all);
    return 0;
}

/* Moves what a light node has to the nearest node that stays, below which it has one for that. */
static int combine(struct builder *b, const bool *stays, uint32_t mark, uint32_t *to, size_t i,
                   struct err *e)
{
    struct page_diff *p = b->to;
    uint32_t at = p->nodes.at[i].parent;
    while (!stays[at])
        at = p->nodes.at[at].parent;
    if (child_of(b, at, mark, to, e) != 0)
        return -1;
    for (int side = 0; side < 2; side++) {
        add_own(&p->nodes.at[*to], side, p->nodes.at[i].own[side]);
        memset(p->nodes.at[i].own[side], 0, sizeof p->nodes.at[i].own[side]);
    }
    p->left_out++;
    return 0;
}

/* Removes nodes that do not stay; those added since stay. */
static void squeeze(struct page_diff *p, const bool *stays, size_t n, uint32_t *number)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < p->nodes.len; i++) {
        if (i < n && !stays[i])
            continue;
        struct page_diff_node node = p->nodes.at[i];
        node.parent = number[node.parent];
        number[i] = kept;
        p->nodes.at[kept++] = node;
    }
    p->nodes.len = kept;
}

static int leave_out(struct builder *b, const struct weight *weights, bool *stays, struct err *e)
{
    struct page_diff *p = b->to;
    const struct frame_view f = {
        .function = view_of(PAGE_DIFF_LEFT_OUT), .file = none, .image = none};
    size_t n = p->nodes.len;
    uint32_t mark, unused;
    for (size_t i = 0; i < n; i++)
        stays[weights[i].node] = i < PAGE_DIFF_NODES;
    if (frame_number(b, &f, &mark, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!stays[i] && combine(b, stays, mark, &unused, i, e) != 0)
            return -1;
    }
    uint32_t *number = calloc(p->nodes.len, sizeof *number);
    if (!number)
        return err_no_memory(e, "the page");
    squeeze(p, stays, n, number);
    free(number);
    return 0;
}

static int prune(struct builder *b, struct err *e)
{
    size_t n = b->to->nodes.len;
    if (n <= PAGE_DIFF_NODES)
        return 0;
    struct weight *weights = calloc(n, sizeof *weights);
    bool *stays = calloc(n, sizeof *stays);
    int status = weights && stays ? weigh(b->to, weights, e) : err_no_memory(e, "the page");
    if (status == 0) {
        qsort(weights, n, sizeof *weights, compare_weights);
        status = leave_out(b, weights, stays, e);
    }
    free(weights);
    free(stays);
    return status;
}

/* ---- all of it */

static int read_side(struct page_diff *p, int side, struct selection *s,
                     const struct program_frames *beside, struct err *e)
{
    const struct timeline_options window = {
        .begin = 0, .end = selection_end(s) + 1, .buckets = PAGE_DIFF_POINTS, .together = true};
    if (timeline_begin(&p->timelines[side], s, &window, e) != 0)
        return -1;
    const struct memory_observer curve = timeline_observer(&p->timelines[side]);
    const struct tree_options options = {
        .by = TREE_LINE, .skip = p->diff->options.skip, .beside = beside, .also = &curve};
    if (tree_build(&p->trees[side], s, &options, e) != 0)
        return -1;
    timeline_finish(&p->timelines[side]);
    return 0;
}

static int build(struct builder *b, struct selection *const sides[2], struct err *e)
{
    struct program_frames program[2] = {0};
    struct page_diff *p = b->to;
    int status = vec_push(&p->nodes, (struct page_diff_node){0}) &&
                         vec_push(&p->frames, (struct frame_view){.function = none})
                     ? 0
                     : err_no_memory(e, "the page");
    for (int side = 0; side < 2 && status == 0; side++)
        status = program_frames_init(&program[side], sides[side]->trace, p->diff->options.skip, e);
    /* The newer trace comes first, since its files and lines are shown. */
    for (int side = 1; side >= 0 && status == 0; side--) {
        status = read_side(p, side, sides[side], &program[!side], e);
        if (status == 0)
            status = join_tree(b, side, e);
    }
    for (int side = 0; side < 2; side++)
        program_frames_release(&program[side]);
    return status == 0 ? prune(b, e) : -1;
}

int page_diff_build(struct page_diff *p, const struct diff *d, struct selection *base,
                    struct selection *now, struct err *e)
{
    *p = (struct page_diff){.diff = d, .now = now};
    struct builder b = {.to = p};
    struct selection *const sides[2] = {base, now};
    int status = build(&b, sides, e);
    map_release(&b.frames);
    map_release(&b.nodes);
    free(b.number[0]);
    free(b.number[1]);
    if (status != 0)
        page_diff_release(p);
    return status;
}

void page_diff_release(struct page_diff *p)
{
    vec_release(&p->nodes);
    vec_release(&p->frames);
    for (int side = 0; side < 2; side++) {
        tree_release(&p->trees[side]);
        timeline_release(&p->timelines[side]);
    }
    *p = (struct page_diff){0};
}
