#include "analysis/questions/tree.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/questions/tree_stacks.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/saturate.h"
#include "trace/store/frame_name.h"

static const char *const by_names[] = {
    [TREE_FUNCTION] = "function", [TREE_LINE] = "line",     [TREE_FILE] = "file",
    [TREE_IMAGE] = "image",       [TREE_MODULE] = "module", [TREE_THREAD] = "thread",
    [TREE_TYPE] = "type",
};

static const char *const metric_names[] = {
    [TREE_BYTES] = "bytes",         [TREE_COUNT] = "count",
    [TREE_LIVE_BYTES] = "live",     [TREE_LIVE_COUNT] = "live-count",
    [TREE_PEAK_BYTES] = "at-peak",  [TREE_PEAK_COUNT] = "at-peak-count",
    [TREE_TEMPORARY] = "temporary", [TREE_RESIDENT] = "resident",
};

const char *tree_by_name(enum tree_by by)
{
    return by_names[by];
}

const char *tree_metric_name(enum tree_metric metric)
{
    return metric_names[metric];
}

/* ---- how it grows */

#define NO_TAG UINT32_MAX
#define NOT_GROWN UINT8_MAX /* in tree.sorted */

/* The call stacks through a node: a range of growth.order. */
struct range {
    size_t begin, end;
};

/*
 * What distinguishes labels, their key: by line the number of the function, else the number of a
 * text and one of these. The empty name: no call stack.
 */
enum { KEY_NAME, KEY_FILE, KEY_IMAGE, KEY_GROUP, KEY_KINDS };

/* A label. Only those of nodes are in tree.labels. */
struct tag {
    uint32_t key;
    uint32_t parent; /* node + 1; 0: none */
    uint32_t child;  /* the last one made with it, of `parent` */
    uint32_t label;  /* in tree.labels; 0: not there */
    uint64_t hash;   /* of its texts, the same in other trees; 0: not known yet */
};

struct tree_growth {
    struct tree_stacks *stacks;
    const struct tree_stack_list *from;
    const struct tree_stack *list; /* of `stack_count` */
    size_t stack_count;
    VEC(struct range) ranges; /* by node */
    VEC(uint64_t) paths;      /* by node */
    VEC(uint32_t) order;      /* numbers of call stacks */
    VEC(uint32_t) at;         /* by call stack: how many of its functions nodes have used up */
    /* By position in a range, while a node grows: the tag below it, `at` after that; then order. */
    VEC(uint32_t) found, after;
    VEC(uint32_t) chain;   /* tags, while a chain is made */
    VEC(uint32_t) numbers; /* by key: its tag + 1 */
    VEC(struct tag) tags;
    VEC(uint32_t) group_tags; /* by thread or type; NO_TAG: not yet */
    bool has_others;          /* a node stands for others */
    uint64_t steps;
};

static int no_room(struct err *e)
{
    return err_no_memory(e, "the call-stack tree");
}

/* ---- labels */

struct tree_label tree_tag_label(const struct tree *t, uint32_t tag)
{
    const struct tree_stacks *s = t->growth->stacks;
    uint32_t key = t->growth->tags.at[tag].key;
    bool by_line = t->options.by == TREE_LINE;
    struct view empty = s->texts.at[0].view;
    struct tree_label l = {.frame = {.function = empty, .file = empty, .image = empty},
                           .name = empty,
                           .no_callstack = key == (by_line ? tree_stacks_none(s) : KEY_NAME)};
    if (by_line) {
        const struct tree_function *f = &s->functions[key];
        l.frame.function = s->texts.at[f->function].view;
        l.frame.file = s->texts.at[f->file].view;
        l.frame.image = s->texts.at[f->image].view;
        l.frame.line = f->line;
        l.frame.address = f->address;
        return l;
    }
    struct view *const at[] = {[KEY_NAME] = &l.frame.function,
                               [KEY_FILE] = &l.frame.file,
                               [KEY_IMAGE] = &l.frame.image,
                               [KEY_GROUP] = &l.name};
    *at[key % KEY_KINDS] = s->texts.at[key / KEY_KINDS].view;
    l.is_type = key % KEY_KINDS == KEY_GROUP && t->options.by == TREE_TYPE;
    return l;
}

static uint64_t hash_of_tag(struct tree *t, uint32_t tag)
{
    const struct tree_stacks *s = t->growth->stacks;
    struct tag *at = &t->growth->tags.at[tag];
    uint64_t parts[6] = {at->key % KEY_KINDS};
    if (at->hash)
        return at->hash;
    if (t->options.by == TREE_LINE) {
        const struct tree_function *f = &s->functions[at->key];
        const uint64_t own[] = {KEY_KINDS + (at->key == tree_stacks_none(s)),
                                s->texts.at[f->function].hash,
                                s->texts.at[f->file].hash,
                                s->texts.at[f->image].hash,
                                f->line,
                                f->address};
        memcpy(parts, own, sizeof parts);
    } else {
        parts[1] = s->texts.at[at->key / KEY_KINDS].hash;
    }
    at->hash = XXH3_64bits_withSeed(parts, sizeof parts, map_hash(UINT64_C(0x74726565))) | 1;
    return at->hash;
}

/* The tag of a key, added if new; NO_TAG if memory is short. */
static uint32_t tag_of_key(struct tree *t, uint32_t key)
{
    struct tree_growth *g = t->growth;
    while (g->numbers.len <= key && !t->failed)
        t->failed = !vec_push(&g->numbers, 0);
    if (t->failed)
        return NO_TAG;
    if (g->numbers.at[key] == 0) {
        if (!vec_push(&g->tags, ((struct tag){.key = key}))) {
            t->failed = true;
            return NO_TAG;
        }
        g->numbers.at[key] = (uint32_t)g->tags.len;
    }
    return g->numbers.at[key] - 1;
}

/* The part of a function that the grouping compares. */
static uint32_t key_of_function(const struct tree *t, uint32_t number)
{
    const struct tree_function *f = &t->growth->stacks->functions[number];
    enum tree_by by = t->options.by;
    if (by == TREE_LINE)
        return number;
    if (f->is_cut || number == tree_stacks_none(t->growth->stacks))
        return f->function * KEY_KINDS + KEY_NAME;
    if (by == TREE_MODULE)
        return f->module * KEY_KINDS + KEY_IMAGE;
    if (by == TREE_FILE && f->file)
        return f->file * KEY_KINDS + KEY_FILE;
    /* Functions without a name are distinguished by image. */
    if (by == TREE_FILE || by == TREE_IMAGE || f->function == 0)
        return f->image * KEY_KINDS + KEY_IMAGE;
    return f->function * KEY_KINDS + KEY_NAME;
}

/* ---- nodes */

static bool collapses(enum tree_by by)
{
    return by == TREE_FILE || by == TREE_IMAGE || by == TREE_MODULE;
}

static bool is_grouped(const struct tree *t)
{
    return t->options.by == TREE_THREAD || t->options.by == TREE_TYPE;
}

/* The tag of the `at`th function of a call stack, in the tree's direction. */
static uint32_t function_tag(struct tree *t, const struct tree_stack *s, uint32_t at)
{
    uint32_t from_inside = t->options.bottom_up ? at : s->way.len - 1 - at;
    uint32_t number = t->growth->stacks->numbers.at[s->way.first + from_inside];
    return tag_of_key(t, key_of_function(t, number));
}

static uint32_t group_tag(struct tree *t, const struct tree_stack *s)
{
    struct tree_growth *g = t->growth;
    bool by_thread = t->options.by == TREE_THREAD;
    uint32_t group = by_thread ? s->thread : types_of(&g->stacks->types, s->callstack);
    while (g->group_tags.len <= group && !t->failed)
        t->failed = !vec_push(&g->group_tags, NO_TAG);
    if (t->failed || g->group_tags.at[group] != NO_TAG)
        return t->failed ? NO_TAG : g->group_tags.at[group];
    uint32_t text = by_thread ? g->from->threads.at[g->from->thread_of.at[group]].text
                              : tree_stacks_text(g->stacks, g->stacks->types.names.at[group]);
    t->failed = text == UINT32_MAX;
    if (!t->failed)
        g->group_tags.at[group] = tag_of_key(t, text * KEY_KINDS + KEY_GROUP);
    return g->group_tags.at[group];
}

/*
 * The tag of the node of a call stack below one at `depth`; *at: its functions used up so far.
 * NO_TAG: there is none, or t->failed.
 */
static uint32_t next_tag(struct tree *t, const struct tree_stack *s, uint32_t depth, uint32_t *at)
{
    t->growth->steps++;
    tree_stacks_step(t->growth->stacks);
    if (depth == 0 && is_grouped(t))
        return group_tag(t, s);
    if (*at >= s->way.len)
        return NO_TAG;
    uint32_t tag = function_tag(t, s, (*at)++);
    while (collapses(t->options.by) && *at < s->way.len && function_tag(t, s, *at) == tag)
        ++*at;
    return tag;
}

static uint64_t path_below(struct tree *t, uint64_t path, uint32_t tag)
{
    uint64_t h = (path << 23 | path >> 41) * UINT64_C(0x9e3779b97f4a7c15) ^ hash_of_tag(t, tag);
    return h * UINT64_C(0xff51afd7ed558ccd);
}

/* The number of a new node; TREE_ROOT: t->failed. */
static uint32_t push_node(struct tree *t, const struct tree_node *n, uint64_t path)
{
    struct tree_growth *g = t->growth;
    if (t->nodes.len < UINT32_MAX && vec_push(&t->nodes, *n) && vec_push(&t->sorted, NOT_GROWN) &&
        vec_push(&g->ranges, ((struct range){0, 0})) && vec_push(&g->paths, path))
        return (uint32_t)t->nodes.len - 1;
    t->failed = true;
    return TREE_ROOT;
}

/* The child of `parent` with that tag, created if new. */
static uint32_t child_with(struct tree *t, uint32_t parent, uint32_t tag)
{
    struct tag *of = &t->growth->tags.at[tag];
    if (of->parent == parent + 1)
        return of->child;
    if (of->label == 0) {
        of->label = (uint32_t)t->labels.len;
        t->failed |= !vec_push(&t->labels, tree_tag_label(t, tag));
    }
    const struct tree_node node = {
        .parent = parent, .label = of->label, .depth = t->nodes.at[parent].depth + 1};
    *of = (struct tag){of->key, parent + 1,
                       push_node(t, &node, path_below(t, t->growth->paths.at[parent], tag)),
                       of->label, of->hash};
    t->failed |= !vec_push(&t->children, of->child);
    return of->child;
}

/* Whether a call stack's allocating function is the node that it came to. */
static bool is_own(const struct tree *t, const struct tree_stack *s, uint32_t before, uint32_t at)
{
    return at != before && (t->options.bottom_up ? before == 0 : at == s->way.len);
}

/* A child with what it is sorted by: nodes lie too far apart to be compared themselves. */
struct place {
    uint64_t metric, bytes;
    uint32_t child; /* or tag */
};

static bool is_smaller(const struct place *a, const struct place *b)
{
    if (a->metric != b->metric)
        return a->metric < b->metric;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->child > b->child;
}

/* Moves the `most` largest places to the front. */
static void select_places(struct place *at, size_t n, size_t most)
{
    for (size_t i = most; i-- > 0;) {
        HEAP_DOWN(at, most, i, a, b, is_smaller(&at[a], &at[b]));
    }
    for (size_t i = most; i < n; i++) {
        if (is_smaller(&at[i], &at[0]))
            continue;
        HEAP_SWAP(at, i, 0);
        HEAP_DOWN(at, most, 0, a, b, is_smaller(&at[a], &at[b]));
    }
}

#define IN_PLACES UINT32_MAX /* as tag.parent: tag.child is a place */

/* Adds up the children that a range of a node's call stacks has. Returns how many there are. */
static size_t list_places(struct tree *t, uint32_t node, struct range of, struct place *places)
{
    struct tree_growth *g = t->growth;
    uint32_t depth = t->nodes.at[node].depth, n = 0;
    for (size_t i = of.begin; i < of.end && !t->failed; i++) {
        const struct tree_stack *s = &g->list[g->order.at[i]];
        g->after.at[i] = g->at.at[g->order.at[i]];
        uint32_t number = g->found.at[i] = next_tag(t, s, depth, &g->after.at[i]);
        if (number == NO_TAG)
            continue;
        struct tag *tag = &g->tags.at[number];
        if (tag->parent != IN_PLACES) {
            tag->parent = IN_PLACES;
            tag->child = n;
            places[n++] = (struct place){.child = number};
        }
        struct place *place = &places[tag->child];
        place->metric = saturating_add(place->metric, s->figures.at[t->options.sort]);
        place->bytes = saturating_add(place->bytes, s->figures.at[TREE_BYTES]);
    }
    return n;
}

/*
 * Lets all children but the `most` largest, or but that of the tag `only`, share a node. Returns
 * it; TREE_ROOT: there are no others.
 */
static uint32_t leave_others(struct tree *t, uint32_t node, struct range of, uint32_t most,
                             uint32_t only)
{
    struct tree_growth *g = t->growth;
    struct place *places = calloc(of.end - of.begin, sizeof *places);
    uint32_t others = TREE_ROOT;
    t->failed |= !places;
    size_t n = places ? list_places(t, node, of, places) : 0, kept = n < most ? n : most;
    if (n && only != NO_TAG)
        HEAP_SWAP(places, g->tags.at[only].child, 0);
    else if (kept < n)
        select_places(places, n, kept);
    if (kept < n && !t->failed) {
        const struct tree_node all = {
            .parent = node, .depth = t->nodes.at[node].depth + 1, .others = (uint32_t)(n - kept)};
        others = push_node(t, &all, ~g->paths.at[node]);
        t->sorted.at[others] = (uint8_t)t->options.sort; /* nothing grows below it */
        g->has_others = true;
    }
    for (size_t i = 0; i < n; i++) {
        struct tag *tag = &g->tags.at[places[i].child];
        tag->parent = i < kept ? 0 : node + 1;
        tag->child = others;
    }
    free(places);
    return others;
}

/*
 * Makes the children of a node, and counts the stacks of each in its range. With others, the tags
 * are found already.
 */
static void find_children(struct tree *t, uint32_t node, struct range of, uint32_t others)
{
    struct tree_growth *g = t->growth;
    uint32_t depth = t->nodes.at[node].depth;
    for (size_t i = of.begin; i < of.end && !t->failed; i++) {
        const struct tree_stack *s = &g->list[g->order.at[i]];
        uint32_t *at = &g->at.at[g->order.at[i]], before = *at;
        if (others == TREE_ROOT)
            g->found.at[i] = next_tag(t, s, depth, at);
        else
            *at = g->after.at[i];
        if (g->found.at[i] == NO_TAG)
            continue;
        uint32_t child = child_with(t, node, g->found.at[i]);
        if (t->failed)
            break;
        g->ranges.at[child].end++;
        tree_node_pass(&t->nodes.at[child], &s->figures, s->callstack, s->figures.at[TREE_BYTES]);
        if (is_own(t, s, before, *at))
            tree_figures_add(&t->nodes.at[child].exclusive, &s->figures);
        if (child == others)
            *at = before;
    }
}

/* Divides call stacks among the children from `first` on; those that end in the node come first. */
static void divide(struct tree *t, struct range of, size_t first)
{
    struct tree_growth *g = t->growth;
    size_t to = of.begin, ended = of.begin;
    for (size_t i = first; i < t->children.len; i++)
        to += g->ranges.at[t->children.at[i]].end;
    to = of.end - (to - of.begin);
    for (size_t i = first; i < t->children.len; i++) {
        struct range *child = &g->ranges.at[t->children.at[i]];
        size_t stacks = child->end;
        *child = (struct range){to, to};
        to += stacks;
    }
    memcpy(g->after.at + of.begin, g->order.at + of.begin,
           (of.end - of.begin) * sizeof *g->after.at);
    for (size_t i = of.begin; i < of.end; i++) {
        uint32_t tag = g->found.at[i];
        size_t *place = tag == NO_TAG ? &ended : &g->ranges.at[g->tags.at[tag].child].end;
        g->order.at[(*place)++] = g->after.at[i];
    }
}

/* Appends the children of a range of a node's call stacks, all new ones or `others`. */
static void make_children(struct tree *t, uint32_t node, struct range of, uint32_t others)
{
    size_t first = t->children.len;
    find_children(t, node, of, others);
    if (others != TREE_ROOT)
        t->failed |= !vec_push(&t->children, others);
    if (!t->failed && t->children.len > first)
        divide(t, of, first);
}

/* Makes the nodes of threads, whose call stacks are together and added up. */
static void make_threads(struct tree *t)
{
    struct tree_growth *g = t->growth;
    for (size_t i = 0; i < g->from->threads.len && !t->failed; i++) {
        const struct tree_thread *thread = &g->from->threads.at[i];
        uint32_t tag = tag_of_key(t, thread->text * KEY_KINDS + KEY_GROUP);
        uint32_t child = tag != NO_TAG ? child_with(t, TREE_ROOT, tag) : TREE_ROOT;
        if (t->failed)
            break;
        struct tree_node *n = &t->nodes.at[child];
        n->callstack = thread->sum.callstack;
        n->callstack_bytes = thread->sum.callstack_bytes;
        n->inclusive = thread->sum.inclusive;
        g->ranges.at[child] = (struct range){thread->begin, thread->end};
    }
}

/*
 * The places that the children of a node have: with others, room for those that are taken out of
 * them.
 */
static size_t room_of(size_t count, uint32_t others)
{
    size_t room = 1;
    while (room < count)
        room *= 2;
    return others != TREE_ROOT ? room : count;
}

static void grow(struct tree *t, uint32_t node)
{
    const struct range of = t->growth->ranges.at[node];
    uint32_t most = t->options.most, others = TREE_ROOT;
    size_t first = t->children.len, threads = t->growth->from->threads.len;
    bool has_threads = node == TREE_ROOT && threads && (!most || threads <= most);
    if (most && of.end - of.begin > most && !has_threads)
        others = leave_others(t, node, of, most, NO_TAG);
    if (has_threads)
        make_threads(t);
    else
        make_children(t, node, of, others);
    size_t count = t->children.len - first, room = room_of(count, others);
    t->failed |= !vec_reserve(&t->children, first + room);
    if (t->failed)
        return;
    t->children.len = first + room;
    t->nodes.at[node].first = (uint32_t)first;
    t->nodes.at[node].count = (uint32_t)count;
}

/* ---- order */

static int compare_labels(const struct tree_label *a, const struct tree_label *b)
{
    const struct view pairs[][2] = {{a->name, b->name},
                                    {a->frame.function, b->frame.function},
                                    {a->frame.file, b->frame.file},
                                    {a->frame.image, b->frame.image}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t n = pairs[i][0].len < pairs[i][1].len ? pairs[i][0].len : pairs[i][1].len;
        int order = n ? memcmp(pairs[i][0].p, pairs[i][1].p, n) : 0;
        if (order == 0)
            order = (pairs[i][0].len > pairs[i][1].len) - (pairs[i][0].len < pairs[i][1].len);
        if (order)
            return order;
    }
    if (a->is_type != b->is_type)
        return a->is_type ? -1 : 1;
    if (a->frame.line != b->frame.line)
        return a->frame.line < b->frame.line ? -1 : 1;
    return (a->frame.address > b->frame.address) - (a->frame.address < b->frame.address);
}

static int compare_places(const void *a, const void *b, void *ctx)
{
    const struct tree *t = ctx;
    const struct place *x = a, *y = b;
    if (x->metric != y->metric)
        return x->metric > y->metric ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return compare_labels(&t->labels.at[t->nodes.at[x->child].label],
                          &t->labels.at[t->nodes.at[y->child].label]);
}

/* The child of a node that stands for others; TREE_ROOT: none does. */
static uint32_t others_of(const struct tree *t, uint32_t node)
{
    const struct tree_node *n = &t->nodes.at[node];
    uint32_t last = n->count ? t->children.at[n->first + n->count - 1] : TREE_ROOT;
    return t->nodes.at[last].others ? last : TREE_ROOT;
}

static void sort_children(struct tree *t, uint32_t node)
{
    const struct tree_node *n = &t->nodes.at[node];
    uint32_t count = n->count - (others_of(t, node) != TREE_ROOT);
    uint32_t *children = count ? t->children.at + n->first : NULL;
    struct place *places = count > 1 ? malloc(count * sizeof *places) : NULL;
    t->failed |= count > 1 && !places;
    for (uint32_t i = 0; i < count && places; i++) {
        const struct tree_figures *f = &t->nodes.at[children[i]].inclusive;
        places[i] = (struct place){f->at[t->options.sort], f->at[TREE_BYTES], children[i]};
    }
    if (places)
        qsort_r(places, count, sizeof *places, compare_places, t);
    for (uint32_t i = 0; i < count && places; i++)
        children[i] = places[i].child;
    free(places);
    t->sorted.at[node] = (uint8_t)t->options.sort;
}

void tree_sort(struct tree *t, enum tree_metric metric)
{
    struct tree_growth *g = t->growth;
    t->options.sort = metric;
    if (!g || !g->has_others)
        return;
    t->nodes.len = t->sorted.len = g->ranges.len = g->paths.len = 1;
    t->children.len = 0;
    t->nodes.at[TREE_ROOT].count = 0;
    t->sorted.at[TREE_ROOT] = NOT_GROWN;
    memset(g->at.at, 0, g->at.len * sizeof *g->at.at);
    for (size_t i = 0; i < g->tags.len; i++)
        g->tags.at[i].parent = 0;
    g->has_others = false;
}

const uint32_t *tree_children(struct tree *t, uint32_t node)
{
    if (t->sorted.at[node] == NOT_GROWN && !t->failed)
        grow(t, node);
    if (t->sorted.at[node] != (uint8_t)t->options.sort && !t->failed)
        sort_children(t, node);
    return t->children.at ? t->children.at + t->nodes.at[node].first : NULL;
}

/* Makes children of the call stacks that one stands for: see leave_others. */
static void take_out(struct tree *t, uint32_t node, uint32_t most, uint32_t only)
{
    const uint32_t was = others_of(t, node);
    const struct range of = t->growth->ranges.at[was];
    size_t fresh = t->children.len, kept = t->nodes.at[node].count - 1;
    uint32_t others = leave_others(t, node, of, most, only);
    make_children(t, node, of, others);
    size_t taken = t->children.len - fresh, count = kept + taken, room = room_of(count, was);
    bool fits = count <= room_of(kept + 1, was);
    t->failed |= !fits && !vec_reserve(&t->children, fresh + room);
    if (t->failed)
        return;
    struct tree_node *n = &t->nodes.at[node];
    uint32_t *all = t->children.at, *to = fits ? all + n->first : all + fresh;
    memmove(to + kept, all + fresh, taken * sizeof *all);
    if (!fits) {
        memcpy(to, all + n->first, kept * sizeof *all);
        n->first = (uint32_t)fresh;
    }
    t->children.len = fits ? fresh : fresh + room;
    n->count = (uint32_t)count;
    sort_children(t, node);
}

void tree_more(struct tree *t, uint32_t node, uint32_t most)
{
    (void)tree_children(t, node);
    if (others_of(t, node) != TREE_ROOT && !t->failed)
        take_out(t, node, most, NO_TAG);
}

uint32_t tree_child(struct tree *t, uint32_t node, uint64_t path)
{
    struct tree_growth *g = t->growth;
    const uint32_t *children = tree_children(t, node);
    for (uint32_t i = 0; i < t->nodes.at[node].count; i++) {
        if (g->paths.at[children[i]] == path)
            return children[i];
    }
    uint32_t others = others_of(t, node);
    const struct range of = others != TREE_ROOT ? g->ranges.at[others] : (struct range){0, 0};
    for (size_t i = of.begin; i < of.end && !t->failed; i++) {
        uint32_t at = g->at.at[g->order.at[i]];
        uint32_t tag = next_tag(t, &g->list[g->order.at[i]], t->nodes.at[node].depth, &at);
        if (tag != NO_TAG && path_below(t, g->paths.at[node], tag) == path) {
            take_out(t, node, 1, tag);
            return t->failed ? TREE_ROOT : g->tags.at[tag].child;
        }
    }
    return TREE_ROOT;
}

/* ---- all of it */

static bool start(struct tree *t)
{
    struct tree_growth *g = t->growth;
    const struct tree_node *root = &g->from->sum;
    const struct tree_stacks *s = g->stacks;
    size_t n = g->stack_count;
    size_t keys =
        t->options.by == TREE_LINE ? (size_t)tree_stacks_cut(s) + 1 : KEY_KINDS * s->texts.len;
    g->numbers.at = calloc(keys, sizeof *g->numbers.at);
    if (!g->numbers.at || !vec_reserve(&g->order, n) || !vec_reserve(&g->at, n) ||
        !vec_reserve(&g->found, n) || !vec_reserve(&g->after, n) ||
        !vec_push(&t->labels, (struct tree_label){0}))
        return false;
    g->numbers.len = g->numbers.cap = keys;
    for (size_t i = 0; i < n; i++) {
        g->order.at[g->order.len++] = g->from->order.len ? g->from->order.at[i] : (uint32_t)i;
        g->at.at[g->at.len++] = 0;
    }
    (void)push_node(t, root, 0);
    if (!t->failed)
        g->ranges.at[TREE_ROOT].end = n;
    return !t->failed;
}

int tree_open(struct tree *t, struct tree_stacks *stacks, const struct tree_options *options,
              struct err *e)
{
    const struct tree_stack_list *list = NULL;
    *t = (struct tree){.trace = stacks->trace,
                       .options = *options,
                       .peak_time = stacks->peak_time,
                       .has_resident = stacks->has_resident && options->by != TREE_THREAD,
                       .growth = calloc(1, sizeof *t->growth)};
    if (t->options.sort == TREE_RESIDENT && !t->has_resident) {
        err_set(e, ERR_USAGE, "what was resident is unknown: %s",
                t->trace->resident.known
                    ? "it is known of the whole trace only, or of pools, and not by thread"
                    : "the trace has no look at the pages of its process, or was rewritten");
    } else if (t->growth && (list = tree_stacks_list(stacks, options->by == TREE_THREAD)) != NULL) {
        t->growth->from = list;
        t->growth->list = list->stacks.at;
        t->growth->stack_count = list->stacks.len;
        t->growth->stacks = stacks;
    }
    if (e->code == 0 && list && start(t))
        return 0;
    tree_release(t);
    return e->code ? -1 : no_room(e);
}

static void growth_release(struct tree *t)
{
    struct tree_growth *g = t->growth;
    if (!g)
        return;
    vec_release(&g->ranges);
    vec_release(&g->paths);
    vec_release(&g->order);
    vec_release(&g->at);
    vec_release(&g->found);
    vec_release(&g->after);
    vec_release(&g->chain);
    vec_release(&g->numbers);
    vec_release(&g->tags);
    vec_release(&g->group_tags);
    free(g);
    t->growth = NULL;
}

/* Makes all nodes: each call stack takes a step at each of its functions, and one beyond. */
static bool grow_all(struct tree *t)
{
    struct tree_growth *g = t->growth;
    uint64_t steps = 0;
    for (size_t i = 0; i < g->stack_count; i++)
        steps += g->list[i].way.len + 1;
    t->options.most = 0;
    for (uint32_t i = 0; i < t->nodes.len && !t->failed; i++) {
        (void)tree_children(t, i);
        trace_swept(t->trace, g->steps, steps);
    }
    trace_loaded(t->trace);
    return !t->failed;
}

int tree_build(struct tree *t, struct selection *s, const struct tree_options *options,
               struct err *e)
{
    struct tree_stacks stacks;
    const struct tree_stacks_options counted = {.tree = options,
                                                .by_thread = options->by == TREE_THREAD,
                                                .by_type = options->by == TREE_TYPE,
                                                .also = options->also,
                                                .also_count = options->also ? 1 : 0};
    *t = (struct tree){0};
    if (tree_stacks_init(&stacks, s, &counted, e) != 0)
        return -1;
    int status = tree_open(t, &stacks, options, e);
    if (status == 0 && !grow_all(t))
        status = no_room(e);
    growth_release(t);
    t->texts = stacks.owned;
    stacks.owned = (struct owned_texts){0};
    t->types = stacks.types;
    stacks.types = (struct types){0};
    tree_stacks_release(&stacks);
    if (status != 0)
        tree_release(t);
    return status;
}

void tree_release(struct tree *t)
{
    growth_release(t);
    owned_texts_release(&t->texts);
    types_release(&t->types);
    vec_release(&t->nodes);
    vec_release(&t->children);
    vec_release(&t->sorted);
    vec_release(&t->labels);
    *t = (struct tree){0};
}

/* ---- of a growing tree */

uint64_t tree_path(const struct tree *t, uint32_t node)
{
    return t->growth->paths.at[node];
}

/* The same of a node whose children are there. */
static unsigned count_children(const struct tree *t, uint32_t node, bool live)
{
    const struct tree_node *n = &t->nodes.at[node];
    unsigned count = 0;
    for (uint32_t i = 0; i < n->count && count < 2; i++) {
        const struct tree_node *child = &t->nodes.at[t->children.at[n->first + i]];
        count += !live || child->inclusive.at[TREE_LIVE_COUNT];
    }
    return count;
}

unsigned tree_peek(struct tree *t, uint32_t node, bool live)
{
    struct tree_growth *g = t->growth;
    const struct range of = g->ranges.at[node];
    uint32_t first = NO_TAG;
    if (t->sorted.at[node] != NOT_GROWN)
        return count_children(t, node, live);
    for (size_t i = of.begin; i < of.end; i++) {
        const struct tree_stack *s = &g->list[g->order.at[i]];
        uint32_t at = g->at.at[g->order.at[i]];
        if (live && s->figures.at[TREE_LIVE_COUNT] == 0)
            continue;
        uint32_t tag = next_tag(t, s, t->nodes.at[node].depth, &at);
        if (tag != NO_TAG && first != NO_TAG && tag != first)
            return 2;
        first = tag != NO_TAG ? tag : first;
    }
    return first != NO_TAG;
}

/* Finds the tags below a node that all its call stacks have. */
static void find_chain(struct tree *t, uint32_t node)
{
    struct tree_growth *g = t->growth;
    const struct range of = g->ranges.at[node];
    uint32_t depth = t->nodes.at[node].depth;
    g->chain.len = 0;
    for (size_t i = of.begin; i < of.end && (i == of.begin || g->chain.len); i++) {
        const struct tree_stack *s = &g->list[g->order.at[i]];
        uint32_t at = g->at.at[g->order.at[i]], tag, n = 0;
        while ((i == of.begin || n < g->chain.len) &&
               (tag = next_tag(t, s, depth + n, &at)) != NO_TAG) {
            if (i == of.begin)
                t->failed |= !vec_push(&g->chain, tag);
            else if (g->chain.at[n] != tag)
                break;
            n++;
        }
        g->chain.len = n;
    }
}

/* Lets call stacks go on to the end of a chain, whose last node is `last`. */
static void follow_chain(struct tree *t, struct range of, uint32_t last, uint32_t length)
{
    struct tree_growth *g = t->growth;
    uint32_t depth = t->nodes.at[last].depth - length;
    for (size_t i = of.begin; i < of.end; i++) {
        const struct tree_stack *s = &g->list[g->order.at[i]];
        uint32_t *at = &g->at.at[g->order.at[i]];
        for (uint32_t n = 0; n < length && collapses(t->options.by); n++)
            (void)next_tag(t, s, depth + n, at);
        *at += collapses(t->options.by) ? 0 : length;
        if (!t->options.bottom_up && *at == s->way.len)
            tree_figures_add(&t->nodes.at[last].exclusive, &s->figures);
    }
}

void tree_chain(struct tree *t, uint32_t node)
{
    struct tree_growth *g = t->growth;
    if (node == TREE_ROOT || t->sorted.at[node] != NOT_GROWN || t->failed)
        return;
    const struct range of = g->ranges.at[node];
    find_chain(t, node);
    for (size_t i = 0; i < g->chain.len && !t->failed; i++) {
        uint32_t child = child_with(t, node, g->chain.at[i]);
        if (t->failed)
            return;
        struct tree_node *parent = &t->nodes.at[node], *n = &t->nodes.at[child];
        n->callstack = parent->callstack;
        n->callstack_bytes = parent->callstack_bytes;
        n->inclusive = parent->inclusive;
        if (t->options.bottom_up && parent->depth == is_grouped(t))
            n->exclusive = n->inclusive;
        parent->first = (uint32_t)t->children.len - 1;
        parent->count = 1;
        t->sorted.at[node] = (uint8_t)t->options.sort;
        g->ranges.at[child] = of;
        node = child;
    }
    if (g->chain.len && !t->failed)
        follow_chain(t, of, node, (uint32_t)g->chain.len);
}

size_t tree_stack_count(const struct tree *t)
{
    return t->growth->stack_count;
}

const struct tree_figures *tree_stack_figures(const struct tree *t, size_t number)
{
    return &t->growth->list[number].figures;
}

bool tree_step(struct tree *t, size_t number, struct tree_step *s)
{
    s->tag = next_tag(t, &t->growth->list[number], s->depth, &s->at);
    if (s->tag == NO_TAG)
        return false;
    s->path = path_below(t, s->depth++ ? s->path : t->growth->paths.at[TREE_ROOT], s->tag);
    return true;
}

uint64_t tree_steps(const struct tree *t)
{
    return t->growth->steps;
}

static void put_label(struct buf *out, const struct tree *t, const struct tree_label *l,
                      void (*put_frame)(struct buf *, const struct frame_view *))
{
    const struct frame_view *f = &l->frame;
    if (l->name.len) {
        buf_put(out, l->name.p, l->name.len);
    } else if (l->is_type) {
        buf_puts(out, "[no type]");
    } else if (l->no_callstack) {
        buf_puts(out, "[no call stack]");
    } else if (!collapses(t->options.by) || frame_name_is_cut(f->function)) {
        put_frame(out, f);
    } else if (f->file.len) {
        buf_put(out, f->file.p, f->file.len);
    } else {
        buf_puts(out, t->options.by == TREE_FILE || f->image.len == 0 ? "[unknown]" : "");
        if (t->options.by == TREE_FILE && f->image.len)
            buf_puts(out, " ");
        buf_put(out, f->image.p, f->image.len);
    }
}

void tree_label_name(struct buf *out, const struct tree *t, const struct tree_label *l)
{
    put_label(out, t, l, frame_name);
}

void tree_label_short(struct buf *out, const struct tree *t, const struct tree_label *l)
{
    put_label(out, t, l, frame_short_name);
}

void tree_label_bare(struct buf *out, const struct tree *t, const struct tree_label *l)
{
    put_label(out, t, l, frame_bare_name);
}
