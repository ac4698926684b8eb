#include "analysis/questions/tree_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/figures/figures_account.h"
#include "trace/store/frame_name.h"

#define OBSERVERS_MAX 4u

static int no_room(struct err *e)
{
    return err_no_memory(e, "the call-stack tree");
}

/* ---- figures */

static int key_by_thread(void *ctx, const struct memory_op *op, uint32_t *key, struct err *e)
{
    struct tree_stacks *s = ctx;
    bool fresh;
    uint64_t pair = (uint64_t)op->block.thread << 32 | op->block.callstack;
    uint64_t *number = map_add(&s->keys, pair, &fresh);
    if (!number)
        return no_room(e);
    if (fresh) {
        *number = s->pairs.len;
        if (s->pairs.len >= UINT32_MAX || !vec_push(&s->pairs, pair))
            return no_room(e);
    }
    *key = (uint32_t)*number;
    return 0;
}

/* All selected pools are one in `all`, so that it has one peak. */
static int count(struct tree_stacks *s, struct selection *from, const struct tree_stacks_options *o,
                 struct err *e)
{
    uint32_t *one = calloc(s->pool_count + 1, sizeof *one);
    if (!one)
        return no_room(e);
    struct accounting_options options = {.pools = one, .pool_count = s->pool_count, .judged = true};
    if (o->by_thread) {
        options.key_of = key_by_thread;
        options.key_ctx = s;
    }
    accounting_init(&s->all, &options);
    options.pools = NULL;
    options.pool_count = 0;
    accounting_init(&s->each, &options);
    struct memory_observer to[OBSERVERS_MAX] = {accounting_observer(&s->all)};
    size_t n = 1;
    if (o->each_pool)
        to[n++] = accounting_observer(&s->each);
    for (size_t i = 0; i < o->also_count && n < OBSERVERS_MAX; i++)
        to[n++] = o->also[i];
    int status = n > 1 ? selection_sweep_all(from, to, n, e) : figures_account(from, &s->all, e);
    s->all.options.pools = NULL;
    free(one);
    return status;
}

/* 0, none, if the trace has no call stack of that number. */
static uint32_t callstack_of(const struct tree_stacks *s, uint32_t key)
{
    uint32_t callstack = s->pairs.len ? (uint32_t)s->pairs.at[key] : key;
    return callstack < s->callstack_count ? callstack : 0;
}

/* ---- functions */

static int number_functions(struct tree_stacks *s, struct err *e)
{
    struct pageable *from = s->trace->memory.pageable;
    size_t frames = s->trace->callstacks.frames.len;
    uint64_t n = 0;
    s->callstack_count = s->trace->callstacks.list.len + 1;
    s->first_function = malloc((frames + 1) * sizeof *s->first_function);
    s->ways = pageable_zeroed(from, s->callstack_count * sizeof *s->ways);
    if (!s->first_function || !s->ways)
        return no_room(e);
    for (uint32_t i = 0; i < frames; i++) {
        s->first_function[i] = (uint32_t)n;
        n += frame_depth(s->trace, i);
        if (n > UINT32_MAX - 2)
            return no_room(e);
    }
    s->function_count = (uint32_t)n;
    s->functions = pageable_zeroed(from, (n + 2) * sizeof *s->functions);
    return s->functions && tree_stacks_text(s, (struct view){"", 0}) == 0 ? 0 : no_room(e);
}

uint32_t tree_stacks_text(struct tree_stacks *s, struct view text)
{
    uint64_t hash = XXH3_64bits_withSeed(text.p, text.len, map_hash(text.len));
    for (uint64_t key = hash;; key++) {
        bool fresh;
        uint64_t *number = map_add(&s->text_numbers, key, &fresh);
        if (!number)
            return UINT32_MAX;
        if (!fresh && view_equal(s->texts.at[*number].view, text))
            return (uint32_t)*number;
        if (!fresh)
            continue;
        *number = s->texts.len;
        if (s->texts.len >= TREE_TEXTS_MAX ||
            !vec_push(&s->texts, ((struct tree_text){text, hash})))
            return UINT32_MAX;
        return (uint32_t)*number;
    }
}

void owned_texts_release(struct owned_texts *t)
{
    for (size_t i = 0; i < t->list.len; i++)
        free(t->list.at[i]);
    vec_release(&t->list);
}

uint32_t tree_stacks_keep(struct tree_stacks *s, char *text)
{
    uint32_t number = tree_stacks_text(s, view_of(text));
    bool known = number != UINT32_MAX && s->texts.at[number].view.p != text;
    if (known || !vec_push(&s->owned.list, text)) {
        free(text);
        return known ? number : UINT32_MAX;
    }
    return number;
}

static bool is_equal(const struct tree_function *a, const struct tree_function *b)
{
    return a->function == b->function && a->file == b->file && a->image == b->image &&
           a->line == b->line && a->address == b->address;
}

/* The number of the first function equal to a described one; UINT32_MAX: memory is short. */
static uint32_t first_equal(struct tree_stacks *s, uint32_t number)
{
    struct tree_function *f = &s->functions[number];
    const uint64_t parts[] = {(uint64_t)f->function << 32 | f->file,
                              (uint64_t)f->image << 32 | f->line, f->address};
    for (uint64_t key = XXH3_64bits_withSeed(parts, sizeof parts, map_hash(0)); !f->first; key++) {
        bool fresh;
        uint64_t *first = map_add(&s->function_numbers, key, &fresh);
        if (!first)
            return UINT32_MAX;
        if (fresh)
            *first = number;
        if (fresh || is_equal(&s->functions[*first], f))
            f->first = (uint32_t)*first + 1;
    }
    return f->first - 1;
}

static uint32_t describe(struct tree_stacks *s, uint32_t frame, uint32_t inlined)
{
    uint32_t number = s->first_function[frame] + inlined;
    struct tree_function *f = &s->functions[number];
    if (f->first)
        return f->first - 1;
    struct frame_view v = frame_describe(s->trace, frame, inlined);
    f->is_cut = frame_name_is_cut(v.function);
    f->function = tree_stacks_text(s, v.function);
    if (!f->is_cut) {
        f->file = tree_stacks_text(s, v.file);
        f->image = tree_stacks_text(s, v.image);
        f->module = tree_stacks_text(s, view_base_name(v.image));
        f->line = v.line;
        f->address = v.function.len ? 0 : v.address;
    }
    bool failed = f->function == UINT32_MAX || f->file == UINT32_MAX || f->image == UINT32_MAX ||
                  f->module == UINT32_MAX;
    return failed ? UINT32_MAX : first_equal(s, number);
}

/* The parent of cut call stacks, if the trace has no frame for it. */
static bool describe_cut(struct tree_stacks *s)
{
    struct tree_function *f = &s->functions[tree_stacks_cut(s)];
    char *text = malloc(FRAME_CUT_SIZE);
    if (text)
        frame_name_cut(text, cut_stacks_depth(&s->cut));
    f->is_cut = true;
    f->function = text ? tree_stacks_keep(s, text) : UINT32_MAX;
    return f->function != UINT32_MAX && first_equal(s, tree_stacks_cut(s)) != UINT32_MAX;
}

/* Appends the functions of a call stack, innermost first. */
static bool push_way(struct tree_stacks *s, uint32_t callstack)
{
    const struct callstacks *c = &s->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, callstack);
    struct stack_place at = {stack ? stack->node : 0, 0};
    if (!s->options.all_frames)
        at = program_frames_begin(&s->program, callstack);
    if (at.node == 0)
        return vec_push(&s->numbers, tree_stacks_none(s));
    for (; at.node; at = (struct stack_place){c->nodes.at[at.node].parent, 0}) {
        uint32_t frame = c->nodes.at[at.node].frame;
        uint32_t depth = frame_depth(s->trace, frame);
        for (uint32_t i = s->options.no_inlines ? depth - 1 : at.inlined; i < depth; i++) {
            uint32_t number = describe(s, frame, i);
            if (number == UINT32_MAX || !vec_push(&s->numbers, number))
                return false;
        }
    }
    return !s->cut.is_bound || !cut_stacks_has(&s->cut, callstack) ||
           vec_push(&s->numbers, s->functions[tree_stacks_cut(s)].first - 1);
}

/* NULL: memory is short. */
static const struct tree_way *way_of(struct tree_stacks *s, uint32_t callstack)
{
    struct tree_way *way = &s->ways[callstack];
    if (way->len)
        return way;
    way->first = s->numbers.len;
    if (!push_way(s, callstack))
        return NULL;
    way->len = (uint32_t)(s->numbers.len - way->first);
    return way;
}

/* ---- the chosen pool */

/* A pool's number as from->pools has it; UINT32_MAX: not selected. */
static bool number_pools(const struct tree_stacks *s, struct map *numbers)
{
    const struct memory *m = &s->trace->memory;
    for (size_t i = 0; i < m->pools.len && i < s->all_pools; i++) {
        uint64_t *number = map_add(numbers, m->pools.at[i]->key, NULL);
        if (!number)
            return false;
        *number = s->pool_of[i];
    }
    return true;
}

/* Adds resident bytes. With one pool, no block lies within another. */
static bool add_resident(const struct tree_stacks *s, struct tree_stack_list *list,
                         const uint32_t *places)
{
    const struct resident_stacks *from = &s->trace->resident;
    bool once = s->pool == TREE_ALL_POOLS && s->pool_count > 1;
    struct map numbers = {0};
    bool numbered = number_pools(s, &numbers);
    for (size_t i = 0; i < from->list.len && numbered; i++) {
        const struct resident_stack *one = &from->list.at[i];
        const uint64_t *number = map_find(&numbers, one->pool);
        uint32_t place = one->callstack < s->callstack_count ? places[one->callstack] : 0;
        if (place == 0 || !number || *number == UINT32_MAX ||
            (s->pool != TREE_ALL_POOLS && *number != s->pool))
            continue;
        uint64_t *sum = &list->stacks.at[place - 1].figures.at[TREE_RESIDENT];
        *sum = saturating_add(*sum, saturating_sub(one->present, once ? one->nested : 0));
    }
    map_release(&numbers);
    return numbered;
}

/* `places`: by call stack its place in the list + 1, so that it comes once; NULL: by thread. */
static bool list_stacks(struct tree_stacks *s, struct tree_stack_list *list, uint32_t *places)
{
    bool all = s->pool == TREE_ALL_POOLS;
    uint64_t iter = 0;
    uint32_t key;
    struct counter c;
    while (accounting_next(all ? &s->all : &s->each, all ? 0 : s->pool, &iter, &key, &c)) {
        uint32_t callstack = callstack_of(s, key);
        uint32_t *place = places ? &places[callstack] : NULL;
        const struct tree_figures f = {{c.count ? c.bytes : 0, c.count, c.live_bytes, c.live_count,
                                        c.at_peak_bytes, c.at_peak_count, c.temporary}};
        if (!place || *place == 0) {
            const struct tree_way *way = way_of(s, callstack);
            struct tree_stack one = {.callstack = callstack};
            one.thread = !places && s->pairs.len ? (uint32_t)(s->pairs.at[key] >> 32) : 0;
            if (!way)
                return false;
            one.way = *way;
            if (!vec_push(&list->stacks, one))
                return false;
            if (place)
                *place = (uint32_t)list->stacks.len;
        }
        tree_figures_add(&list->stacks.at[(place ? *place : list->stacks.len) - 1].figures, &f);
        tree_stacks_step(s);
    }
    return true;
}

/* The number of the text of a thread. */
static uint32_t text_of_thread(struct tree_stacks *s, uint32_t thread)
{
    const struct trace_threads *threads = &s->trace->threads;
    bool known = thread < threads->list.len;
    struct view name = known ? strings_get(&s->trace->strings, threads->list.at[thread].name)
                             : (struct view){"", 0};
    char *text = NULL;
    if (name.len)
        return tree_stacks_text(s, name);
    if (asprintf(&text, "thread %llu",
                 (unsigned long long)(known ? threads->list.at[thread].id : thread)) < 0)
        return UINT32_MAX;
    return tree_stacks_keep(s, text);
}

/* The place in list->threads of a thread, added if new; NULL: memory is short. */
static struct tree_thread *thread_of(struct tree_stacks *s, struct tree_stack_list *list,
                                     struct map *of_texts, uint32_t thread)
{
    while (list->thread_of.len <= thread) {
        if (!vec_push(&list->thread_of, UINT32_MAX))
            return NULL;
    }
    uint32_t *place = &list->thread_of.at[thread];
    if (*place == UINT32_MAX) {
        bool fresh;
        uint32_t text = text_of_thread(s, thread);
        uint64_t *number = text != UINT32_MAX ? map_add(of_texts, text, &fresh) : NULL;
        if (number && fresh)
            *number = list->threads.len;
        if (!number || (fresh && !vec_push(&list->threads, ((struct tree_thread){.text = text}))))
            return NULL;
        *place = (uint32_t)*number;
    }
    return &list->threads.at[*place];
}

static bool group_by_thread(struct tree_stacks *s, struct tree_stack_list *list)
{
    size_t n = list->stacks.len, begin = 0;
    struct map of_texts = {0};
    struct tree_thread *thread = NULL;
    bool ok = vec_reserve(&list->order, n);
    for (size_t i = 0; i < n && ok; i++) {
        const struct tree_stack *one = &list->stacks.at[i];
        thread = thread_of(s, list, &of_texts, one->thread);
        ok = thread != NULL;
        if (ok) {
            tree_node_pass(&thread->sum, &one->figures, one->callstack,
                           one->figures.at[TREE_BYTES]);
            thread->end++;
        }
        tree_stacks_step(s);
    }
    map_release(&of_texts);
    for (size_t i = 0; i < list->threads.len && ok; i++) {
        thread = &list->threads.at[i];
        tree_node_pass(&list->sum, &thread->sum.inclusive, thread->sum.callstack,
                       thread->sum.callstack_bytes);
        thread->begin = begin;
        begin += thread->end;
        thread->end = thread->begin;
    }
    for (size_t i = 0; i < n && ok; i++) {
        thread = &list->threads.at[list->thread_of.at[list->stacks.at[i].thread]];
        list->order.at[thread->end++] = (uint32_t)i;
    }
    list->order.len = ok ? n : 0;
    return ok;
}

static bool sum_up(struct tree_stack_list *list)
{
    for (size_t i = 0; i < list->stacks.len; i++) {
        const struct tree_stack *one = &list->stacks.at[i];
        tree_node_pass(&list->sum, &one->figures, one->callstack, one->figures.at[TREE_BYTES]);
    }
    return true;
}

static void empty_list(struct tree_stack_list *list)
{
    list->made = false;
    list->stacks.len = list->threads.len = list->thread_of.len = list->order.len = 0;
    list->sum = (struct tree_node){0};
}

const struct tree_stack_list *tree_stacks_list(struct tree_stacks *s, bool by_thread)
{
    struct tree_stack_list *list = &s->lists[by_thread];
    uint32_t *places = by_thread ? NULL : calloc(s->callstack_count, sizeof *places);
    if (!list->made && (by_thread || places))
        list->made = list_stacks(s, list, places) &&
                     (by_thread || !s->has_resident || add_resident(s, list, places)) &&
                     (by_thread ? group_by_thread(s, list) : sum_up(list));
    free(places);
    return list->made ? list : NULL;
}

void tree_stacks_choose(struct tree_stacks *s, uint32_t pool)
{
    struct pool_figures figures;
    bool all = pool == TREE_ALL_POOLS;
    accounting_pool(all ? &s->all : &s->each, all ? 0 : pool, &figures);
    s->pool = pool;
    s->peak_time = figures.peak_time;
    for (size_t i = 0; i < 2; i++)
        empty_list(&s->lists[i]);
}

/* ---- all of it */

static int build(struct tree_stacks *s, struct selection *from, const struct tree_stacks_options *o,
                 struct err *e)
{
    s->pool_of = malloc((s->all_pools + 1) * sizeof *s->pool_of);
    if (!s->pool_of)
        return no_room(e);
    memcpy(s->pool_of, from->pool_of, s->all_pools * sizeof *s->pool_of);
    if (program_frames_init(&s->program, s->trace, o->tree->skip, e) != 0 ||
        (o->tree->beside &&
         program_frames_pass_over(&s->program, &o->tree->beside->wrappers, e) != 0) ||
        cut_stacks_init(&s->cut, s->trace, e) != 0 || number_functions(s, e) != 0 ||
        (o->by_type && types_build(&s->types, &s->program, e) != 0) || count(s, from, o, e) != 0)
        return -1;
    uint64_t iter = 0;
    uint32_t key;
    struct counter c;
    while (accounting_next(&s->all, 0, &iter, &key, &c))
        cut_stacks_note(&s->cut, callstack_of(s, key));
    if (s->cut.is_bound && !describe_cut(s))
        return no_room(e);
    tree_stacks_choose(s, TREE_ALL_POOLS);
    /* With each_pool, callers may show all pools by thread next. */
    if ((o->each_pool && !tree_stacks_list(s, false)) || !tree_stacks_list(s, o->by_thread))
        return no_room(e);
    if (!o->each_pool)
        accounting_release(&s->all);
    return 0;
}

int tree_stacks_init(struct tree_stacks *s, struct selection *from,
                     const struct tree_stacks_options *o, struct err *e)
{
    *s = (struct tree_stacks){.trace = from->trace,
                              .options = *o->tree,
                              .pool_count = from->pools.len,
                              .all_pools = from->trace->memory.pools.len,
                              .has_resident = from->trace->resident.known && !from->is_narrow,
                              .peak_time = -1};
    if (build(s, from, o, e) == 0)
        return 0;
    tree_stacks_release(s);
    return -1;
}

void tree_stacks_release(struct tree_stacks *s)
{
    if (!s->trace)
        return;
    accounting_release(&s->all);
    accounting_release(&s->each);
    map_release(&s->keys);
    vec_release(&s->pairs);
    program_frames_release(&s->program);
    cut_stacks_release(&s->cut);
    types_release(&s->types);
    vec_release(&s->texts);
    owned_texts_release(&s->owned);
    map_release(&s->text_numbers);
    map_release(&s->function_numbers);
    free(s->first_function);
    pageable_free(s->trace->memory.pageable, s->functions,
                  ((size_t)s->function_count + 2) * sizeof *s->functions);
    free(s->pool_of);
    pageable_free(s->trace->memory.pageable, s->ways, s->callstack_count * sizeof *s->ways);
    vec_release(&s->numbers);
    for (size_t i = 0; i < 2; i++) {
        vec_release(&s->lists[i].stacks);
        vec_release(&s->lists[i].threads);
        vec_release(&s->lists[i].thread_of);
        vec_release(&s->lists[i].order);
    }
    *s = (struct tree_stacks){0};
}
