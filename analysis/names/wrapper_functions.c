#include "analysis/names/wrapper_functions.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/names/frames.h"
#include "base/saturate.h"
#include "trace/store/frame_name.h"

/* ---- a set of texts */

static uint64_t key_of(struct view text)
{
    return map_hash(XXH3_64bits(text.p, text.len));
}

bool wrapper_functions_have(const struct wrapper_functions *w, struct view function)
{
    if (w->list.len == 0)
        return false;
    for (uint64_t key = key_of(function);; key++) {
        const uint64_t *number = map_find(&w->numbers, key);
        if (!number || view_equal(w->list.at[*number], function))
            return number != NULL;
    }
}

static int add_text(struct wrapper_functions *w, struct view function, struct err *e)
{
    if (wrapper_functions_have(w, function))
        return 0;
    uint64_t key = key_of(function);
    while (map_find(&w->numbers, key))
        key++;
    uint64_t *number = map_add(&w->numbers, key, NULL);
    if (!number || !vec_push(&w->list, function))
        return err_no_memory(e, "allocation wrappers");
    *number = w->list.len - 1;
    return 0;
}

int wrapper_functions_join(struct wrapper_functions *w, const struct wrapper_functions *other,
                           struct err *e)
{
    for (size_t i = 0; i < other->list.len; i++) {
        if (add_text(w, other->list.at[i], e) != 0)
            return -1;
    }
    return 0;
}

void wrapper_functions_release(struct wrapper_functions *w)
{
    vec_release(&w->list);
    map_release(&w->numbers);
}

/* ---- what the trace shows */

#define NONE UINT32_MAX
#define SEVERAL (UINT32_MAX - 1)

/* Kinds of functions; those of the program with a name are numbered from 0. */
#define NAMELESS (UINT32_MAX - 2)
#define ALLOCATOR (UINT32_MAX - 3) /* or instrumentation */
#define MACHINERY (UINT32_MAX - 4) /* a library, or a wrapper of a known project */

/* What is directly within something, in all call stacks together. */
struct inside {
    uint32_t function; /* a function's number, NONE, SEVERAL */
    bool any;          /* it allocates: what it calls itself is not noted */
    bool allocators;
    bool nameless; /* a function without a name, and within it allocators */
    bool machinery;
};

struct function {
    struct view text;
    struct inside inside;
    bool is_wrapper;
    bool is_kept;      /* as a site: never a wrapper */
    size_t first_call; /* of it, in search.calls */
    uint32_t met;      /* the count of callers that met it last */
    uint32_t size_count;
    uint64_t sizes[WRAPPER_SIZES];
};

struct call {
    uint32_t inner, outer;
};

struct search {
    const struct trace *trace;
    const struct skiplist *skip;
    struct pageable *pageable;      /* the trace's, of all tables; NULL: the heap */
    VEC(struct callstack_sum) sums; /* by call stack */
    VEC(struct function) functions;
    struct map numbers;        /* hash of the text → number; on a collision, the next key */
    VEC(size_t) first_kind;    /* by frame: of its functions in `kinds` */
    VEC(uint32_t) kinds;       /* as above */
    VEC(struct inside) inside; /* by node */
    struct map met;            /* calls that are in the list */
    VEC(struct call) calls;
};

static int count_pool(struct search *s, struct pool *p, struct err *e)
{
    struct column_walk w = column_walk(&p->allocs);
    int status = 0;
    for (const struct memory_alloc *a; (a = column_walk_next(&w, &status, e));) {
        if (a->callstack >= s->sums.len)
            continue;
        struct callstack_sum *sum = &s->sums.at[a->callstack];
        sum->count++;
        sum->bytes = saturating_add(sum->bytes, memory_alloc_size(a));
    }
    return status;
}

/* The allocations of each call stack: as counted while they came in, else from the events. */
static int count_stacks(struct search *s, struct err *e)
{
    const struct memory *m = &s->trace->memory;
    size_t n = s->trace->callstacks.list.len + 1;
    size_t known = m->stack_sums.len < n ? m->stack_sums.len : n;
    for (size_t i = 0; i < n; i++) {
        const struct callstack_sum none = {0};
        if (!pageable_push(m->pageable, &s->sums, i < known ? m->stack_sums.at[i] : none))
            return err_no_memory(e, "allocation wrappers");
    }
    for (size_t i = 0; i < m->pools.len && !known; i++) {
        if (count_pool(s, m->pools.at[i], e) != 0)
            return -1;
    }
    return 0;
}

static int function_number(struct search *s, struct view text, bool kept, uint32_t *out,
                           struct err *e)
{
    for (uint64_t key = key_of(text);; key++) {
        bool fresh;
        uint64_t *number = map_add(&s->numbers, key, &fresh);
        if (!number)
            return err_no_memory(e, "allocation wrappers");
        if (!fresh && !view_equal(s->functions.at[*number].text, text))
            continue;
        if (fresh && (s->functions.len >= MACHINERY ||
                      !pageable_push(s->pageable, &s->functions,
                                     (struct function){.text = text, .is_kept = kept})))
            return err_no_memory(e, "allocation wrappers");
        if (fresh)
            *number = s->functions.len - 1;
        *out = (uint32_t)*number;
        return 0;
    }
}

static int kind_of(struct search *s, const struct frame_view *f, uint32_t *out, struct err *e)
{
    *out = NAMELESS;
    if (frame_name_is_cut(f->function) || (f->function.len == 0 && f->file.len == 0))
        return 0;
    struct frame_verdict v = skiplist_verdict(s->skip, f->function, f->file, f->image);
    if (v.class == FRAME_PROGRAM)
        return f->has_name ? function_number(s, f->function, v.kept, out, e) : 0;
    *out = v.allocates || v.class == FRAME_INSTRUMENTATION ? ALLOCATOR : MACHINERY;
    return 0;
}

static int classify(struct search *s, struct err *e)
{
    size_t frames = s->trace->callstacks.frames.len;
    for (uint32_t i = 0; i < frames; i++) {
        if (!pageable_push(s->pageable, &s->first_kind, s->kinds.len))
            return err_no_memory(e, "allocation wrappers");
        for (uint32_t k = 0; k < frame_depth(s->trace, i); k++) {
            struct frame_view f = frame_describe(s->trace, i, k);
            uint32_t kind;
            if (kind_of(s, &f, &kind, e) != 0)
                return -1;
            if (!pageable_push(s->pageable, &s->kinds, kind))
                return err_no_memory(e, "allocation wrappers");
        }
    }
    return 0;
}

/* ---- one search */

static const struct inside nothing = {.function = NONE};
static const struct inside allocators = {.function = NONE, .any = true, .allocators = true};
static const struct inside machinery = {.function = NONE, .any = true, .machinery = true};

static void join(struct inside *a, const struct inside *b)
{
    if (b->function != NONE && b->function != a->function)
        a->function = a->function == NONE ? b->function : SEVERAL;
    a->any |= b->any;
    a->allocators |= b->allocators;
    a->nameless |= b->nameless;
    a->machinery |= b->machinery;
}

static bool is_program(const struct search *s, uint32_t kind)
{
    return kind < MACHINERY && !s->functions.at[kind].is_wrapper;
}

/* Notes the call of a function, at that place of a call stack, by the next one with a name. */
static int note_call(struct search *s, uint32_t node, uint32_t inlined, uint32_t inner,
                     struct err *e)
{
    const struct callstack_node *nodes = s->trace->callstacks.nodes.at;
    uint32_t outer = NAMELESS;
    for (uint32_t i = inlined + 1; node && outer == NAMELESS; node = nodes[node].parent, i = 0) {
        for (; i < frame_depth(s->trace, nodes[node].frame) && outer == NAMELESS; i++)
            outer = s->kinds.at[s->first_kind.at[nodes[node].frame] + i];
    }
    bool fresh = false;
    if (!is_program(s, outer) || outer == inner)
        return 0;
    if (!map_add(&s->met, (uint64_t)inner << 32 | outer, &fresh) ||
        (fresh && !pageable_push(s->pageable, &s->calls, (struct call){inner, outer})))
        return err_no_memory(e, "allocation wrappers");
    return 0;
}

/* Goes outwards over a function of this kind: what was within it becomes what is within others. */
static void pass(struct search *s, uint32_t kind, struct inside *in)
{
    if (kind == NAMELESS) {
        in->machinery |= in->nameless;
        in->nameless = in->allocators;
        in->allocators = false;
        return;
    }
    if (kind == MACHINERY) {
        *in = machinery;
    } else if (!is_program(s, kind)) {
        *in = allocators;
    } else {
        if (in->function == kind) /* it calls itself */
            in->function = NONE;
        join(&s->functions.at[kind].inside, in);
        *in = (struct inside){.function = kind, .any = true};
    }
}

static int pass_node(struct search *s, uint32_t node, struct err *e)
{
    const struct callstack_node *at = &s->trace->callstacks.nodes.at[node];
    struct inside in = s->inside.at[node];
    for (uint32_t i = 0; i < frame_depth(s->trace, at->frame); i++) {
        uint32_t kind = s->kinds.at[s->first_kind.at[at->frame] + i];
        if (is_program(s, kind) && note_call(s, node, i, kind, e) != 0)
            return -1;
        pass(s, kind, &in);
    }
    if (at->parent == 0)
        return 0;
    uint32_t outer = s->kinds.at[s->first_kind.at[s->trace->callstacks.nodes.at[at->parent].frame]];
    if (in.function == outer)
        in.function = NONE;
    join(&s->inside.at[at->parent], &in);
    return 0;
}

/* Goes from the allocations outwards: a node comes after its caller's. */
static int pass_nodes(struct search *s, struct err *e)
{
    const struct callstacks *c = &s->trace->callstacks;
    s->inside.len = 0;
    while (s->inside.len < c->nodes.len) {
        if (!pageable_push(s->pageable, &s->inside, nothing))
            return err_no_memory(e, "allocation wrappers");
    }
    for (uint32_t id = 1; id < s->sums.len; id++) {
        if (s->sums.at[id].count)
            join(&s->inside.at[c->list.at[id - 1].node], &allocators);
    }
    for (uint32_t node = (uint32_t)c->nodes.len; node-- > 1;) {
        trace_swept_block(s->trace, c->nodes.len - node, c->nodes.len);
        if (s->inside.at[node].any && pass_node(s, node, e) != 0)
            return -1;
    }
    trace_loaded(s->trace);
    return 0;
}

static void add_size(struct function *f, uint64_t size)
{
    for (uint32_t i = 0; i < f->size_count; i++) {
        if (f->sizes[i] == size)
            return;
    }
    if (f->size_count < WRAPPER_SIZES)
        f->sizes[f->size_count++] = size;
}

/* Adds the size to the innermost functions of a call stack, as many as there may be layers. */
static void size_stack(struct search *s, uint32_t node, uint64_t size)
{
    const struct callstack_node *nodes = s->trace->callstacks.nodes.at;
    uint32_t found = 0, last = NONE;
    for (; node && found < WRAPPER_LAYERS; node = nodes[node].parent) {
        uint32_t frame = nodes[node].frame;
        for (uint32_t i = 0; i < frame_depth(s->trace, frame) && found < WRAPPER_LAYERS; i++) {
            uint32_t kind = s->kinds.at[s->first_kind.at[frame] + i];
            if (!is_program(s, kind) || kind == last)
                continue;
            add_size(&s->functions.at[kind], size);
            last = kind;
            found++;
        }
    }
}

static int by_inner(const void *a, const void *b)
{
    const struct call *x = a;
    const struct call *y = b;
    if (x->inner != y->inner)
        return x->inner < y->inner ? -1 : 1;
    return (x->outer > y->outer) - (x->outer < y->outer);
}

static void index_calls(struct search *s)
{
    if (s->calls.len)
        qsort(s->calls.at, s->calls.len, sizeof *s->calls.at, by_inner);
    for (size_t i = s->calls.len; i-- > 0;)
        s->functions.at[s->calls.at[i].inner].first_call = i;
}

/* Whether it only passes on what a function within it allocates. */
static bool is_layer(const struct function *f, uint32_t within)
{
    return f->inside.function == within && !f->inside.machinery && f->size_count >= WRAPPER_SIZES;
}

/* Adds the callers of a function to *n, or their callers if they are layers, until it suffices. */
static void count_callers(struct search *s, uint32_t of, uint32_t root, unsigned layers,
                          uint32_t *n)
{
    size_t i = s->functions.at[of].first_call;
    for (; i < s->calls.len && s->calls.at[i].inner == of && *n < WRAPPER_CALLERS; i++) {
        struct function *caller = &s->functions.at[s->calls.at[i].outer];
        if (caller->met == root + 1)
            continue;
        caller->met = root + 1;
        if (layers > 1 && is_layer(caller, of))
            count_callers(s, s->calls.at[i].outer, root, layers - 1, n);
        else
            ++*n;
    }
}

static bool is_wrapper(struct search *s, uint32_t number)
{
    const struct function *f = &s->functions.at[number];
    uint32_t callers = 0;
    if (f->is_wrapper || f->is_kept || f->inside.function != NONE || f->inside.machinery ||
        !(f->inside.allocators || f->inside.nameless) || f->size_count < WRAPPER_SIZES)
        return false;
    count_callers(s, number, number, WRAPPER_LAYERS, &callers);
    return callers >= WRAPPER_CALLERS;
}

static void begin_round(struct search *s)
{
    s->calls.len = 0;
    map_release(&s->met);
    for (size_t i = 0; i < s->functions.len; i++) {
        struct function *f = &s->functions.at[i];
        f->inside = nothing;
        f->first_call = SIZE_MAX;
        f->met = f->size_count = 0;
    }
}

/* 1: wrappers were found that were not known before. */
static int round_of(struct search *s, struct wrapper_functions *w, struct err *e)
{
    begin_round(s);
    if (pass_nodes(s, e) != 0)
        return -1;
    for (uint32_t id = 1; id < s->sums.len; id++) {
        const struct callstack_sum *sum = &s->sums.at[id];
        trace_swept_block(s->trace, id, s->sums.len);
        if (sum->count)
            size_stack(s, s->trace->callstacks.list.at[id - 1].node, sum->bytes / sum->count);
    }
    trace_loaded(s->trace);
    index_calls(s);
    size_t before = w->list.len;
    for (uint32_t i = 0; i < s->functions.len; i++) {
        if (is_wrapper(s, i) && add_text(w, s->functions.at[i].text, e) != 0)
            return -1;
    }
    for (uint32_t i = 0; i < s->functions.len && w->list.len != before; i++)
        s->functions.at[i].is_wrapper |= wrapper_functions_have(w, s->functions.at[i].text);
    return w->list.len != before;
}

int wrapper_functions_find(struct wrapper_functions *w, const struct trace *t,
                           const struct skiplist *skip, struct err *e)
{
    struct pageable *pageable = t->memory.pageable;
    static const struct skiplist built_in = {0};
    struct search s = {.trace = t, .skip = skip ? skip : &built_in, .pageable = pageable};
    s.numbers.pageable = s.met.pageable = pageable;
    int status = count_stacks(&s, e) != 0 || classify(&s, e) != 0 ? -1 : 1;
    for (unsigned i = 0; i < WRAPPER_SEARCHES && status == 1; i++)
        status = round_of(&s, w, e);
    pageable_vec_release(pageable, &s.sums);
    pageable_vec_release(pageable, &s.functions);
    pageable_vec_release(pageable, &s.first_kind);
    pageable_vec_release(pageable, &s.kinds);
    pageable_vec_release(pageable, &s.inside);
    pageable_vec_release(pageable, &s.calls);
    map_release(&s.numbers);
    map_release(&s.met);
    return status < 0 ? -1 : 0;
}
