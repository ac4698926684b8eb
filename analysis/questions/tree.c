#include "analysis/questions/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/cut_stacks.h"
#include "analysis/figures/figures_account.h"
#include "analysis/names/program_frames.h"
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

/* ---- what is built */

#define NO_LABEL UINT32_MAX

struct builder {
    struct tree *tree;
    struct selection *selection;
    struct program_frames program;
    struct cut_stacks cut;
    uint32_t cut_label; /* NO_LABEL: not yet */
    struct accounting account;
    struct map stack_keys; /* TREE_THREAD: thread << 32 | call stack → key */
    VEC(uint64_t) stacks;  /* the same by key */
    struct map resident;   /* call stack → resident bytes in the selected pools */
    struct map label_numbers;
    struct map child_numbers;   /* parent << 32 | label → node */
    VEC(uint32_t) frame_labels; /* label of each function of each frame; NO_LABEL: not yet */
    uint32_t *first_label;      /* by frame number: its first in frame_labels */
    VEC(uint32_t) way;          /* labels of one call stack, innermost first */
    struct buf content;
    XXH64_hash_t seed;
};

static int no_room(struct err *e)
{
    return err_no_memory(e, "the call-stack tree");
}

/* ---- figures by call stack */

static int key_by_thread(void *ctx, const struct memory_op *op, uint32_t *key, struct err *e)
{
    struct builder *b = ctx;
    bool fresh;
    uint64_t pair = (uint64_t)op->block.thread << 32 | op->block.callstack;
    uint64_t *number = map_add(&b->stack_keys, pair, &fresh);
    if (!number)
        return no_room(e);
    if (fresh) {
        *number = b->stacks.len;
        if (b->stacks.len >= UINT32_MAX || !vec_push(&b->stacks, pair))
            return no_room(e);
    }
    *key = (uint32_t)*number;
    return 0;
}

/* All selected pools are one, so that there is one peak. */
static int count_stacks(struct builder *b, struct err *e)
{
    size_t pools = b->selection->pools.len;
    uint32_t *one = calloc(pools + 1, sizeof *one);
    if (!one)
        return no_room(e);
    struct accounting_options options = {.pools = one, .pool_count = pools, .judged = true};
    if (b->tree->options.by == TREE_THREAD) {
        options.key_of = key_by_thread;
        options.key_ctx = b;
    }
    accounting_init(&b->account, &options);
    const struct memory_observer *also = b->tree->options.also;
    const struct memory_observer to[2] = {accounting_observer(&b->account),
                                          also ? *also : (struct memory_observer){0}};
    int status = also ? selection_sweep_all(b->selection, to, 2, e)
                      : figures_account(b->selection, &b->account, e);
    b->account.options.pools = NULL;
    free(one);
    return status;
}

static bool is_selected(const struct selection *s, uint64_t pool_key)
{
    const struct memory *m = &s->trace->memory;
    for (size_t i = 0; i < m->pools.len; i++) {
        if (m->pools.at[i]->key == pool_key)
            return s->pool_of[i] != UINT32_MAX;
    }
    return false;
}

static int find_resident(struct builder *b, struct err *e)
{
    struct tree *t = b->tree;
    const struct resident_stacks *from = &t->trace->resident;
    t->has_resident = from->known && !b->selection->is_narrow && t->options.by != TREE_THREAD;
    if (t->options.sort == TREE_RESIDENT && !t->has_resident)
        return err_set(e, ERR_USAGE, "what was resident is unknown: %s",
                       from->known
                           ? "it is known of the whole trace only, or of pools, and not by thread"
                           : "the trace has no look at the pages of its process, or was rewritten");
    /* With one pool, no block lies within another. */
    bool once = b->selection->pools.len > 1;
    for (size_t i = 0; i < from->list.len && t->has_resident; i++) {
        const struct resident_stack *one = &from->list.at[i];
        uint64_t *sum = is_selected(b->selection, one->pool)
                            ? map_add(&b->resident, one->callstack, NULL)
                            : NULL;
        if (sum)
            *sum = saturating_add(*sum, saturating_sub(one->present, once ? one->nested : 0));
        else if (is_selected(b->selection, one->pool))
            return no_room(e);
    }
    return 0;
}

/* ---- labels */

static void put_text(struct buf *b, struct view text)
{
    buf_u64(b, text.len);
    buf_put(b, text.p, text.len);
}

static bool label_equal(const struct tree_label *a, const struct tree_label *b)
{
    return view_equal(a->frame.function, b->frame.function) &&
           view_equal(a->frame.file, b->frame.file) && view_equal(a->frame.image, b->frame.image) &&
           view_equal(a->name, b->name) && a->frame.line == b->frame.line &&
           a->frame.address == b->frame.address && a->no_callstack == b->no_callstack &&
           a->is_type == b->is_type;
}

/* The number of a label, added if new; NO_LABEL with `e` filled if memory is short. */
static uint32_t label_number(struct builder *b, const struct tree_label *l, struct err *e)
{
    struct tree *t = b->tree;
    buf_clear(&b->content);
    put_text(&b->content, l->frame.function);
    put_text(&b->content, l->frame.file);
    put_text(&b->content, l->frame.image);
    put_text(&b->content, l->name);
    buf_u32(&b->content, l->frame.line);
    buf_u64(&b->content, l->frame.address);
    buf_u8(&b->content, l->is_type);
    uint64_t key = XXH3_64bits_withSeed(b->content.data, b->content.len, b->seed);
    for (; !b->content.failed; key++) {
        bool fresh;
        uint64_t *number = map_add(&b->label_numbers, key, &fresh);
        if (!number)
            break;
        if (!fresh && label_equal(&t->labels.at[*number], l))
            return (uint32_t)*number;
        if (!fresh)
            continue;
        if (t->labels.len >= NO_LABEL || !vec_push(&t->labels, *l))
            break;
        *number = t->labels.len - 1;
        return (uint32_t)*number;
    }
    no_room(e);
    return NO_LABEL;
}

/* The part of a function that the grouping compares. */
static struct tree_label make_label(enum tree_by by, const struct frame_view *f)
{
    static const struct view none = {"", 0};
    struct tree_label l = {.frame = {.function = none, .file = none, .image = none}, .name = none};
    if (frame_name_is_cut(f->function)) {
        l.frame.function = f->function;
        return l;
    }
    switch (by) {
    case TREE_FILE:
        l.frame.file = f->file;
        if (f->file.len == 0)
            l.frame.image = f->image;
        break;
    case TREE_IMAGE:
        l.frame.image = f->image;
        break;
    case TREE_MODULE:
        l.frame.image = view_base_name(f->image);
        break;
    default:
        l.frame.function = f->function;
        /* Nodes without a name are distinguished by image, and by address with TREE_LINE. */
        if (by == TREE_LINE || f->function.len == 0)
            l.frame.image = f->image;
        if (by == TREE_LINE) {
            l.frame.file = f->file;
            l.frame.line = f->line;
            l.frame.address = f->function.len ? 0 : f->address;
        }
    }
    return l;
}

static uint32_t label_of_frame(struct builder *b, uint32_t frame, uint32_t inlined, struct err *e)
{
    uint32_t *label = &b->frame_labels.at[b->first_label[frame] + inlined];
    if (*label != NO_LABEL)
        return *label;
    struct frame_view f = frame_describe(b->tree->trace, frame, inlined);
    struct tree_label l = make_label(b->tree->options.by, &f);
    uint32_t number = label_number(b, &l, e);
    b->frame_labels.at[b->first_label[frame] + inlined] = number;
    return number;
}

static uint32_t label_of_thread(struct builder *b, uint32_t thread, struct err *e)
{
    const struct trace *t = b->tree->trace;
    struct tree_label l = make_label(TREE_IMAGE, &(struct frame_view){.image = {"", 0}});
    char *text = NULL;
    if (thread < t->threads.list.len)
        l.name = strings_get(&t->strings, t->threads.list.at[thread].name);
    if (l.name.len == 0) {
        if (asprintf(&text, "thread %llu",
                     thread < t->threads.list.len
                         ? (unsigned long long)t->threads.list.at[thread].id
                         : (unsigned long long)thread) < 0) {
            no_room(e);
            return NO_LABEL;
        }
        if (!vec_push(&b->tree->texts, text)) {
            free(text);
            no_room(e);
            return NO_LABEL;
        }
        l.name = view_of(text);
    }
    return label_number(b, &l, e);
}

static uint32_t label_of_type(struct builder *b, uint32_t callstack, struct err *e)
{
    const struct types *types = &b->tree->types;
    struct tree_label l = make_label(TREE_IMAGE, &(struct frame_view){.image = {"", 0}});
    l.name = types->names.at[types_of(types, callstack)];
    l.is_type = true;
    return label_number(b, &l, e);
}

/* The parent of cut call stacks, if the trace has no frame for it. */
static uint32_t label_of_cut(struct builder *b, struct err *e)
{
    struct tree *t = b->tree;
    if (b->cut_label != NO_LABEL)
        return b->cut_label;
    char *text = malloc(FRAME_CUT_SIZE);
    if (!text || !vec_push(&t->texts, text)) {
        free(text);
        no_room(e);
        return NO_LABEL;
    }
    frame_name_cut(text, cut_stacks_depth(&b->cut));
    struct frame_view f = {.function = view_of(text)};
    struct tree_label l = make_label(t->options.by, &f);
    return b->cut_label = label_number(b, &l, e);
}

static uint32_t label_of_none(struct builder *b, struct err *e)
{
    struct tree_label l = make_label(TREE_IMAGE, &(struct frame_view){.image = {"", 0}});
    l.no_callstack = true;
    return label_number(b, &l, e);
}

/* ---- nodes */

static bool collapses(enum tree_by by)
{
    return by == TREE_FILE || by == TREE_IMAGE || by == TREE_MODULE;
}

static int add_to_way(struct builder *b, uint32_t label, struct err *e)
{
    size_t n = b->way.len;
    if (label == NO_LABEL)
        return -1;
    if (n && b->way.at[n - 1] == label && collapses(b->tree->options.by))
        return 0;
    return vec_push(&b->way, label) ? 0 : no_room(e);
}

/* The labels of a call stack, innermost first. */
static int find_way(struct builder *b, uint32_t callstack, struct err *e)
{
    const struct callstacks *c = &b->tree->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, callstack);
    struct stack_place at = {stack ? stack->node : 0, 0};
    b->way.len = 0;
    if (!b->tree->options.all_frames)
        at = program_frames_begin(&b->program, callstack);
    if (at.node == 0)
        return add_to_way(b, label_of_none(b, e), e);
    for (; at.node; at = (struct stack_place){c->nodes.at[at.node].parent, 0}) {
        uint32_t frame = c->nodes.at[at.node].frame;
        uint32_t depth = frame_depth(b->tree->trace, frame);
        for (uint32_t i = b->tree->options.no_inlines ? depth - 1 : at.inlined; i < depth; i++) {
            if (add_to_way(b, label_of_frame(b, frame, i, e), e) != 0)
                return -1;
        }
    }
    if (b->cut.is_bound && cut_stacks_has(&b->cut, callstack))
        return add_to_way(b, label_of_cut(b, e), e);
    return 0;
}

static void add_figures(struct tree_figures *to, const struct tree_figures *f)
{
    for (size_t i = 0; i < TREE_METRICS; i++)
        to->at[i] = saturating_add(to->at[i], f->at[i]);
}

/* Adds the figures of a call stack to a node on its path. */
static void pass_node(struct tree_node *n, uint32_t callstack, const struct tree_figures *f)
{
    uint64_t bytes = f->at[TREE_BYTES];
    add_figures(&n->inclusive, f);
    /* Of equal ones the first: call stacks come in no order. */
    if (n->callstack == 0 || bytes > n->callstack_bytes ||
        (bytes == n->callstack_bytes && callstack < n->callstack)) {
        n->callstack = callstack;
        n->callstack_bytes = bytes;
    }
}

/*
 * The child of `parent` with that label, created if new; 0 (the root, which is no child) on an
 * error.
 */
static uint32_t child_of(struct builder *b, uint32_t parent, uint32_t label, struct err *e)
{
    struct tree *t = b->tree;
    bool fresh;
    uint64_t *number = map_add(&b->child_numbers, (uint64_t)parent << 32 | label, &fresh);
    if (number && !fresh)
        return (uint32_t)*number;
    struct tree_node node = {
        .parent = parent, .label = label, .depth = t->nodes.at[parent].depth + 1};
    if (!number || t->nodes.len >= UINT32_MAX || !vec_push(&t->nodes, node)) {
        no_room(e);
        return TREE_ROOT;
    }
    t->nodes.at[parent].count++;
    *number = t->nodes.len - 1;
    return (uint32_t)*number;
}

static uint32_t callstack_of(const struct builder *b, uint32_t key)
{
    return b->tree->options.by == TREE_THREAD ? (uint32_t)b->stacks.at[key] : key;
}

static int add_stack(struct builder *b, uint32_t key, const struct counter *c, struct err *e)
{
    struct tree *t = b->tree;
    uint32_t callstack = callstack_of(b, key);
    const uint64_t *resident = map_find(&b->resident, callstack);
    const struct tree_figures f = {{c->count ? c->bytes : 0, c->count, c->live_bytes, c->live_count,
                                    c->at_peak_bytes, c->at_peak_count, c->temporary,
                                    resident ? *resident : 0}};
    bool by_thread = t->options.by == TREE_THREAD;
    uint32_t node = TREE_ROOT;
    if (find_way(b, callstack, e) != 0)
        return -1;
    pass_node(&t->nodes.at[node], callstack, &f);
    if (by_thread || t->options.by == TREE_TYPE) {
        uint32_t label = by_thread ? label_of_thread(b, (uint32_t)(b->stacks.at[key] >> 32), e)
                                   : label_of_type(b, callstack, e);
        node = label == NO_LABEL ? TREE_ROOT : child_of(b, node, label, e);
        if (node == TREE_ROOT)
            return -1;
        pass_node(&t->nodes.at[node], callstack, &f);
    }
    for (size_t i = 0; i < b->way.len; i++) {
        uint32_t label = b->way.at[t->options.bottom_up ? i : b->way.len - 1 - i];
        node = child_of(b, node, label, e);
        if (node == TREE_ROOT)
            return -1;
        pass_node(&t->nodes.at[node], callstack, &f);
        /* The allocating function: bottom-up it is at the top. */
        if (t->options.bottom_up ? i == 0 : i + 1 == b->way.len)
            add_figures(&t->nodes.at[node].exclusive, &f);
    }
    return 0;
}

/* ---- order */

struct order {
    const struct tree *tree;
};

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

static int compare_children(const void *a, const void *b, void *ctx)
{
    const struct tree *t = ((struct order *)ctx)->tree;
    const struct tree_node *x = &t->nodes.at[*(const uint32_t *)a];
    const struct tree_node *y = &t->nodes.at[*(const uint32_t *)b];
    uint64_t p = x->inclusive.at[t->options.sort];
    uint64_t q = y->inclusive.at[t->options.sort];
    if (p != q)
        return p > q ? -1 : 1;
    p = x->inclusive.at[TREE_BYTES];
    q = y->inclusive.at[TREE_BYTES];
    if (p != q)
        return p > q ? -1 : 1;
    return compare_labels(&t->labels.at[x->label], &t->labels.at[y->label]);
}

void tree_sort(struct tree *t, enum tree_metric metric)
{
    t->options.sort = metric;
}

static void sort_children(struct tree *t, uint32_t node)
{
    struct order order = {t};
    if (t->nodes.at[node].count > 1)
        qsort_r(t->children.at + t->nodes.at[node].first, t->nodes.at[node].count,
                sizeof *t->children.at, compare_children, &order);
    t->sorted.at[node] = (uint8_t)t->options.sort;
}

const uint32_t *tree_children(struct tree *t, uint32_t node)
{
    if (t->sorted.at[node] != (uint8_t)t->options.sort)
        sort_children(t, node);
    return t->children.at + t->nodes.at[node].first;
}

static int order_children(struct tree *t, struct err *e)
{
    if (!vec_reserve(&t->children, t->nodes.len) || !vec_reserve(&t->sorted, t->nodes.len))
        return no_room(e);
    t->sorted.len = t->nodes.len;
    t->children.len = t->nodes.len - 1;
    uint32_t first = 0;
    for (size_t i = 0; i < t->nodes.len; i++) {
        t->nodes.at[i].first = first;
        first += t->nodes.at[i].count;
        t->nodes.at[i].count = 0;
    }
    for (uint32_t i = 1; i < t->nodes.len; i++) {
        struct tree_node *parent = &t->nodes.at[t->nodes.at[i].parent];
        t->children.at[parent->first + parent->count++] = i;
    }
    for (uint32_t i = 0; i < t->nodes.len; i++)
        sort_children(t, i);
    return 0;
}

/* ---- all of it */

static int prepare_labels(struct builder *b, struct err *e)
{
    const struct callstacks *c = &b->tree->trace->callstacks;
    uint64_t n = 0;
    b->first_label = malloc((c->frames.len + 1) * sizeof *b->first_label);
    if (!b->first_label)
        return no_room(e);
    for (uint32_t i = 0; i < c->frames.len; i++) {
        b->first_label[i] = (uint32_t)n;
        n += frame_depth(b->tree->trace, i);
        if (n > UINT32_MAX)
            return no_room(e);
    }
    if (!vec_reserve(&b->frame_labels, n + 1))
        return no_room(e);
    b->frame_labels.len = n;
    memset(b->frame_labels.at, 0xff, n * sizeof *b->frame_labels.at);
    return 0;
}

static int build(struct builder *b, struct err *e)
{
    struct tree *t = b->tree;
    struct tree_label all = make_label(TREE_IMAGE, &(struct frame_view){.image = {"", 0}});
    if (t->options.by == TREE_TYPE && types_build(&t->types, &b->program, e) != 0)
        return -1;
    if (find_resident(b, e) != 0 || prepare_labels(b, e) != 0 || count_stacks(b, e) != 0)
        return -1;
    if (!vec_push(&t->labels, all) || !vec_push(&t->nodes, (struct tree_node){0}))
        return no_room(e);
    uint64_t iter = 0;
    uint32_t key;
    struct counter c;
    while (accounting_next(&b->account, 0, &iter, &key, &c))
        cut_stacks_note(&b->cut, callstack_of(b, key));
    iter = 0;
    while (accounting_next(&b->account, 0, &iter, &key, &c)) {
        if (add_stack(b, key, &c, e) != 0)
            return -1;
    }
    struct pool_figures figures;
    accounting_pool(&b->account, 0, &figures);
    t->peak_time = figures.peak_time;
    return order_children(t, e);
}

int tree_build(struct tree *t, struct selection *s, const struct tree_options *options,
               struct err *e)
{
    *t = (struct tree){.trace = s->trace, .options = *options, .peak_time = -1};
    struct builder b = {.tree = t, .selection = s, .cut_label = NO_LABEL};
    b.seed = map_hash(UINT64_C(0x74726565));
    int status = program_frames_init(&b.program, s->trace, options->skip, e);
    if (status == 0 && options->beside)
        status = program_frames_pass_over(&b.program, &options->beside->wrappers, e);
    if (status == 0)
        status = cut_stacks_init(&b.cut, s->trace, e);
    if (status == 0)
        status = build(&b, e);
    program_frames_release(&b.program);
    cut_stacks_release(&b.cut);
    accounting_release(&b.account);
    map_release(&b.stack_keys);
    map_release(&b.resident);
    map_release(&b.label_numbers);
    map_release(&b.child_numbers);
    vec_release(&b.stacks);
    vec_release(&b.frame_labels);
    vec_release(&b.way);
    free(b.first_label);
    buf_release(&b.content);
    if (status != 0)
        tree_release(t);
    return status;
}

void tree_release(struct tree *t)
{
    for (size_t i = 0; i < t->texts.len; i++)
        free(t->texts.at[i]);
    vec_release(&t->texts);
    types_release(&t->types);
    vec_release(&t->nodes);
    vec_release(&t->children);
    vec_release(&t->sorted);
    vec_release(&t->labels);
    *t = (struct tree){0};
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
