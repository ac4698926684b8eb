#include "analysis/questions/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/questions/tree_stacks.h"
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

#define NO_LABEL UINT32_MAX
#define NOT_GROWN UINT8_MAX /* in tree.sorted */

/* The call stacks through a node: a range of growth.order. */
struct range {
    size_t begin, end;
};

/* The identity of a label; texts by their number. */
struct label_key {
    uint32_t function, file, image, name;
    uint32_t line;
    uint32_t kind; /* 1: of a type, 2: no call stack */
    uint64_t address;
};

struct child_of {
    uint32_t parent; /* node + 1; 0: none */
    uint32_t child;
};

struct tree_growth {
    struct tree_stacks *stacks;
    const struct tree_stack *list; /* of `stack_count` */
    size_t stack_count;
    VEC(struct range) ranges; /* by node */
    VEC(uint64_t) paths;      /* by node */
    VEC(uint32_t) order;      /* numbers of call stacks */
    VEC(uint32_t) at;         /* by call stack: how many of its functions nodes have used up */
    VEC(uint32_t) labels;     /* by position in a range: of the node that grows */
    VEC(uint32_t) moved;
    VEC(uint32_t) function_labels; /* by function; NO_LABEL: not yet */
    VEC(uint32_t) group_labels;    /* by thread or type */
    VEC(struct child_of) children; /* by label: the last child made with it */
    VEC(struct label_key) keys;    /* by label */
    VEC(uint64_t) hashes;          /* by label: of its texts, the same in other trees */
    struct map numbers;            /* hash of a key → label; on a collision, the next one */
    uint64_t steps;
};

static int no_room(struct err *e)
{
    return err_no_memory(e, "the call-stack tree");
}

/* ---- labels */

static struct tree_label label_of_key(const struct tree_stacks *s, const struct label_key *k)
{
    return (struct tree_label){.frame = {.function = s->texts.at[k->function].view,
                                         .file = s->texts.at[k->file].view,
                                         .image = s->texts.at[k->image].view,
                                         .line = k->line,
                                         .address = k->address},
                               .name = s->texts.at[k->name].view,
                               .is_type = k->kind == 1,
                               .no_callstack = k->kind == 2};
}

static uint64_t hash_of_key(const struct tree_stacks *s, const struct label_key *k)
{
    const uint64_t parts[] = {s->texts.at[k->function].hash,    s->texts.at[k->file].hash,
                              s->texts.at[k->image].hash,       s->texts.at[k->name].hash,
                              (uint64_t)k->line << 2 | k->kind, k->address};
    return XXH3_64bits_withSeed(parts, sizeof parts, map_hash(UINT64_C(0x74726565)));
}

/* The number of a label, added if new; NO_LABEL if memory is short. */
static uint32_t label_number(struct tree *t, const struct label_key *k)
{
    struct tree_growth *g = t->growth;
    uint64_t hash = hash_of_key(g->stacks, k);
    for (uint64_t at = hash;; at++) {
        bool fresh;
        uint64_t *number = map_add(&g->numbers, at, &fresh);
        if (!number)
            break;
        if (!fresh && memcmp(&g->keys.at[*number], k, sizeof *k) == 0)
            return (uint32_t)*number;
        if (!fresh)
            continue;
        *number = t->labels.len;
        if (t->labels.len >= NO_LABEL || !vec_push(&t->labels, label_of_key(g->stacks, k)) ||
            !vec_push(&g->keys, *k) || !vec_push(&g->hashes, hash) ||
            !vec_push(&g->children, (struct child_of){0}))
            break;
        return (uint32_t)*number;
    }
    t->failed = true;
    return NO_LABEL;
}

/* The part of a function that the grouping compares. */
static struct label_key key_of_function(enum tree_by by, const struct tree_function *f)
{
    struct label_key k = {0};
    if (f->is_cut) {
        k.function = f->function;
        return k;
    }
    switch (by) {
    case TREE_FILE:
        k.file = f->file;
        if (f->file == 0)
            k.image = f->image;
        break;
    case TREE_IMAGE:
        k.image = f->image;
        break;
    case TREE_MODULE:
        k.image = f->module;
        break;
    default:
        k.function = f->function;
        /* Nodes without a name are distinguished by image, and by address with TREE_LINE. */
        if (by == TREE_LINE || f->function == 0)
            k.image = f->image;
        if (by == TREE_LINE) {
            k.file = f->file;
            k.line = f->line;
            k.address = f->function ? 0 : f->address;
        }
    }
    return k;
}

/* The number of a text that is made here. */
static uint32_t keep_text(struct tree *t, char *text)
{
    uint32_t number = text ? tree_stacks_keep(t->growth->stacks, text) : UINT32_MAX;
    t->failed |= number == UINT32_MAX;
    return number;
}

static uint32_t label_of_thread(struct tree *t, uint32_t thread)
{
    const struct trace_threads *threads = &t->trace->threads;
    bool known = thread < threads->list.len;
    struct view name = known ? strings_get(&t->trace->strings, threads->list.at[thread].name)
                             : (struct view){"", 0};
    char *text = NULL;
    if (name.len == 0 &&
        asprintf(&text, "thread %llu",
                 (unsigned long long)(known ? threads->list.at[thread].id : thread)) < 0)
        text = NULL;
    struct label_key k = {.name = name.len ? tree_stacks_text(t->growth->stacks, name)
                                           : keep_text(t, text)};
    return k.name == UINT32_MAX ? NO_LABEL : label_number(t, &k);
}

static uint32_t label_of_type(struct tree *t, uint32_t type)
{
    struct tree_stacks *s = t->growth->stacks;
    struct label_key k = {.name = tree_stacks_text(s, s->types.names.at[type]), .kind = 1};
    return k.name == UINT32_MAX ? NO_LABEL : label_number(t, &k);
}

/* The parent of cut call stacks, if the trace has no frame for it. */
static uint32_t label_of_cut(struct tree *t)
{
    char *text = malloc(FRAME_CUT_SIZE);
    if (text)
        frame_name_cut(text, cut_stacks_depth(&t->growth->stacks->cut));
    struct label_key k = {.function = keep_text(t, text)};
    return t->failed ? NO_LABEL : label_number(t, &k);
}

static uint32_t make_function_label(struct tree *t, uint32_t function)
{
    const struct tree_stacks *s = t->growth->stacks;
    if (function == tree_stacks_cut(s))
        return label_of_cut(t);
    const struct label_key k = function == tree_stacks_none(s)
                                   ? (struct label_key){.kind = 2}
                                   : key_of_function(t->options.by, &s->functions[function]);
    return label_number(t, &k);
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

/* The label of the `at`th function of a call stack, in the tree's direction. */
static uint32_t function_label(struct tree *t, const struct tree_stack *s, uint32_t at)
{
    struct tree_growth *g = t->growth;
    uint32_t from_inside = t->options.bottom_up ? at : s->way.len - 1 - at;
    uint32_t function = g->stacks->numbers.at[s->way.first + from_inside];
    uint32_t *label = &g->function_labels.at[function];
    if (*label == NO_LABEL)
        *label = make_function_label(t, function);
    return *label;
}

static uint32_t group_label(struct tree *t, const struct tree_stack *s)
{
    struct tree_growth *g = t->growth;
    bool by_thread = t->options.by == TREE_THREAD;
    uint32_t group = by_thread ? s->thread : types_of(&g->stacks->types, s->callstack);
    while (g->group_labels.len <= group) {
        if (!vec_push(&g->group_labels, NO_LABEL)) {
            t->failed = true;
            return NO_LABEL;
        }
    }
    if (g->group_labels.at[group] == NO_LABEL)
        g->group_labels.at[group] = by_thread ? label_of_thread(t, group) : label_of_type(t, group);
    return g->group_labels.at[group];
}

/*
 * The label of the node of a call stack below one at `depth`; *at: its functions used up so far.
 * NO_LABEL: there is none, or t->failed.
 */
static uint32_t next_label(struct tree *t, const struct tree_stack *s, uint32_t depth, uint32_t *at)
{
    t->growth->steps++;
    if (depth == 0 && is_grouped(t))
        return group_label(t, s);
    if (*at >= s->way.len)
        return NO_LABEL;
    uint32_t label = function_label(t, s, (*at)++);
    while (collapses(t->options.by) && *at < s->way.len && function_label(t, s, *at) == label)
        ++*at;
    return label;
}

static uint64_t path_below(const struct tree_growth *g, uint64_t path, uint32_t label)
{
    uint64_t h = (path << 23 | path >> 41) * UINT64_C(0x9e3779b97f4a7c15) ^ g->hashes.at[label];
    return h * UINT64_C(0xff51afd7ed558ccd);
}

static void add_figures(const struct tree *t, struct tree_figures *to, const struct tree_figures *f)
{
    unsigned n = tree_metric_count(t);
    for (unsigned i = 0; i < n; i++)
        to->at[i] = saturating_add(to->at[i], f->at[i]);
}

/* Adds the figures of a call stack to a node on its path. */
static void pass_node(const struct tree *t, struct tree_node *n, const struct tree_stack *s)
{
    uint64_t bytes = s->figures.at[TREE_BYTES];
    add_figures(t, &n->inclusive, &s->figures);
    /* Call stacks come in no order: of equal ones the first, before allocations without one. */
    bool equal = bytes == n->callstack_bytes;
    bool first = n->callstack == 0 || (s->callstack && s->callstack < n->callstack);
    if (bytes > n->callstack_bytes || (equal && first)) {
        n->callstack = s->callstack;
        n->callstack_bytes = bytes;
    }
}

static bool push_node(struct tree *t, const struct tree_node *n, struct range range, uint64_t path)
{
    struct tree_growth *g = t->growth;
    if (t->nodes.len < UINT32_MAX && vec_push(&t->nodes, *n) && vec_push(&t->sorted, NOT_GROWN) &&
        vec_push(&g->ranges, range) && vec_push(&g->paths, path))
        return true;
    t->failed = true;
    return false;
}

/* The child of `parent` with that label, created if new. */
static uint32_t child_with(struct tree *t, uint32_t parent, uint32_t label)
{
    struct tree_growth *g = t->growth;
    struct child_of *known = &g->children.at[label];
    if (known->parent == parent + 1)
        return known->child;
    const struct tree_node node = {
        .parent = parent, .label = label, .depth = t->nodes.at[parent].depth + 1};
    if (!push_node(t, &node, (struct range){0, 0}, path_below(g, g->paths.at[parent], label)) ||
        !vec_push(&t->children, (uint32_t)t->nodes.len - 1)) {
        t->failed = true;
        return TREE_ROOT;
    }
    *known = (struct child_of){parent + 1, (uint32_t)t->nodes.len - 1};
    return known->child;
}

/* Whether a call stack's allocating function is the node that it came to. */
static bool is_own(const struct tree *t, const struct tree_stack *s, uint32_t before, uint32_t at)
{
    return at != before && (t->options.bottom_up ? before == 0 : at == s->way.len);
}

/* Finds the labels below a node, makes its children, and counts the stacks of each in its range. */
static void find_children(struct tree *t, uint32_t node)
{
    struct tree_growth *g = t->growth;
    const struct range of = g->ranges.at[node];
    uint32_t depth = t->nodes.at[node].depth;
    for (size_t i = of.begin; i < of.end && !t->failed; i++) {
        const struct tree_stack *s = &g->list[g->order.at[i]];
        uint32_t *at = &g->at.at[g->order.at[i]], before = *at;
        uint32_t label = next_label(t, s, depth, at);
        g->labels.at[i] = label;
        if (label == NO_LABEL)
            continue;
        uint32_t child = child_with(t, node, label);
        if (t->failed)
            break;
        g->ranges.at[child].end++;
        pass_node(t, &t->nodes.at[child], s);
        if (is_own(t, s, before, *at))
            add_figures(t, &t->nodes.at[child].exclusive, &s->figures);
    }
}

/* Divides the call stacks of a node among its children; those that end in it come first. */
static void divide(struct tree *t, uint32_t node)
{
    struct tree_growth *g = t->growth;
    const struct range of = g->ranges.at[node];
    const struct tree_node *n = &t->nodes.at[node];
    size_t to = of.begin, ended = of.begin;
    for (uint32_t i = 0; i < n->count; i++)
        to += g->ranges.at[t->children.at[n->first + i]].end;
    to = of.end - (to - of.begin);
    for (uint32_t i = 0; i < n->count; i++) {
        struct range *child = &g->ranges.at[t->children.at[n->first + i]];
        size_t stacks = child->end;
        *child = (struct range){to, to};
        to += stacks;
    }
    memcpy(g->moved.at + of.begin, g->order.at + of.begin,
           (of.end - of.begin) * sizeof *g->moved.at);
    for (size_t i = of.begin; i < of.end; i++) {
        uint32_t label = g->labels.at[i];
        size_t *place = label == NO_LABEL ? &ended : &g->ranges.at[g->children.at[label].child].end;
        g->order.at[(*place)++] = g->moved.at[i];
    }
}

static void grow(struct tree *t, uint32_t node)
{
    t->nodes.at[node].first = (uint32_t)t->children.len;
    find_children(t, node);
    if (t->failed)
        return;
    t->nodes.at[node].count = (uint32_t)t->children.len - t->nodes.at[node].first;
    if (t->nodes.at[node].count)
        divide(t, node);
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

/* A child with what it is sorted by: nodes lie too far apart to be compared themselves. */
struct place {
    uint64_t metric, bytes;
    uint32_t child;
};

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

void tree_sort(struct tree *t, enum tree_metric metric)
{
    t->options.sort = metric;
}

static void sort_children(struct tree *t, uint32_t node)
{
    const struct tree_node *n = &t->nodes.at[node];
    uint32_t *children = n->count ? t->children.at + n->first : NULL;
    struct place *places = n->count > 1 ? malloc(n->count * sizeof *places) : NULL;
    t->failed |= n->count > 1 && !places;
    for (uint32_t i = 0; i < n->count && places; i++) {
        const struct tree_figures *f = &t->nodes.at[children[i]].inclusive;
        places[i] = (struct place){f->at[t->options.sort], f->at[TREE_BYTES], children[i]};
    }
    if (places)
        qsort_r(places, n->count, sizeof *places, compare_places, t);
    for (uint32_t i = 0; i < n->count && places; i++)
        children[i] = places[i].child;
    free(places);
    t->sorted.at[node] = (uint8_t)t->options.sort;
}

const uint32_t *tree_children(struct tree *t, uint32_t node)
{
    if (t->sorted.at[node] == NOT_GROWN && !t->failed)
        grow(t, node);
    if (t->sorted.at[node] != (uint8_t)t->options.sort && !t->failed)
        sort_children(t, node);
    return t->children.at ? t->children.at + t->nodes.at[node].first : NULL;
}

/* ---- all of it */

static bool fill(void *vec_at, size_t n, size_t size)
{
    memset(vec_at, 0xff, n * size);
    return true;
}

static bool start(struct tree *t)
{
    struct tree_growth *g = t->growth;
    static const struct label_key all = {.kind = 3};
    struct tree_node root = {0};
    size_t n = g->stack_count;
    size_t functions = (size_t)tree_stacks_cut(g->stacks) + 1;
    if (!vec_reserve(&g->order, n) || !vec_reserve(&g->at, n) || !vec_reserve(&g->labels, n) ||
        !vec_reserve(&g->moved, n) || !vec_reserve(&g->function_labels, functions) ||
        !fill(g->function_labels.at, functions, sizeof *g->function_labels.at) ||
        label_number(t, &all) == NO_LABEL)
        return false;
    for (size_t i = 0; i < n; i++) {
        g->order.at[g->order.len++] = (uint32_t)i;
        g->at.at[g->at.len++] = 0;
        pass_node(t, &root, &g->list[i]);
    }
    return push_node(t, &root, (struct range){0, n}, 0);
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
    vec_release(&g->labels);
    vec_release(&g->moved);
    vec_release(&g->function_labels);
    vec_release(&g->group_labels);
    vec_release(&g->children);
    vec_release(&g->hashes);
    map_release(&g->numbers);
    vec_release(&g->keys);
    free(g);
    t->growth = NULL;
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
    for (uint32_t i = 0; status == 0 && i < t->nodes.len; i++) {
        (void)tree_children(t, i);
        status = t->failed ? no_room(e) : 0;
    }
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
    uint32_t first = NO_LABEL;
    if (t->sorted.at[node] != NOT_GROWN)
        return count_children(t, node, live);
    for (size_t i = of.begin; i < of.end; i++) {
        const struct tree_stack *s = &g->list[g->order.at[i]];
        uint32_t at = g->at.at[g->order.at[i]];
        if (live && s->figures.at[TREE_LIVE_COUNT] == 0)
            continue;
        uint32_t label = next_label(t, s, t->nodes.at[node].depth, &at);
        if (label != NO_LABEL && first != NO_LABEL && label != first)
            return 2;
        first = label != NO_LABEL ? label : first;
    }
    return first != NO_LABEL;
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
    s->label = next_label(t, &t->growth->list[number], s->depth, &s->at);
    if (s->label == NO_LABEL)
        return false;
    s->path = path_below(t->growth, s->path, s->label);
    s->depth++;
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
