#include "analysis/figures/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/faults.h"
#include "analysis/figures/figures_only.h"
#include "analysis/figures/moment.h"
#include "analysis/figures/resident_fact.h"
#include "analysis/figures/sites.h"
#include "analysis/figures/stored_figures.h"
#include "analysis/figures/stream_figures.h"
#include "analysis/figures/summary_parts.h"
#include "analysis/names/permanent.h"
#include "base/buf.h"
#include "base/order.h"
#include "base/saturate.h"
#include "trace/ingest/carry.h"
#include "trace/load/load.h"

/* ---- pools */

/* The pools of the selection, with all client pointers of each. */
static int list_pools(struct summary *s, struct err *e)
{
    const struct selection *from = &s->selection;
    const struct memory *m = &s->trace->memory;
    for (uint32_t i = 0; i < from->pools.len; i++) {
        struct summary_pool p = {.name = from->pools.at[i].name,
                                 .first_key = s->pool_keys.len,
                                 .low_address = UINT64_MAX};
        for (size_t k = 0; k < m->pools.len; k++) {
            if (from->pool_of[k] != i)
                continue;
            if (!vec_push(&s->pool_keys, m->pools.at[k]->key))
                return err_no_memory(e, "pools");
            p.key_count++;
        }
        p.sum = from->pools.at[i].sum;
        if (!vec_push(&s->pools, p))
            return err_no_memory(e, "pools");
    }
    return 0;
}

/* ---- the sweep */

enum { BY_SITE, BY_CALLSTACK, BY_GROUP, ACCOUNTINGS };

#define AHEAD 16u /* steps whose memory is prefetched */

struct builder {
    struct summary *s;
    struct trace *trace;
    const struct summary_options *options;
    struct program_frames program;
    struct sites sites;
    struct sites functions;
    struct accounting accounts[ACCOUNTINGS];
    bool has_group;
    struct moments moments;
    struct zone_calls calls;
    struct map keys; /* by block that is freed later: its zone or frame */
};

static int count_step(struct builder *b, const struct memory_op *op, struct err *e)
{
    struct summary_pool *p = &b->s->pools.at[op->pool];
    if (op->kind == MEMORY_ALLOC) {
        uint64_t end = saturating_add(op->block.ptr, op->block.size);
        p->low_address = op->block.ptr < p->low_address ? op->block.ptr : p->low_address;
        p->high_address = end > p->high_address ? end : p->high_address;
    }
    if (accounting_op(&b->accounts[BY_SITE], op, e) != 0 ||
        accounting_op(&b->accounts[BY_CALLSTACK], op, e) != 0)
        return -1;
    return b->has_group ? accounting_op(&b->accounts[BY_GROUP], op, e) : 0;
}

static int take_steps(void *ctx, const struct memory_op *ops, size_t n, struct err *e)
{
    struct builder *b = ctx;
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        for (size_t k = i ? i + AHEAD : 0; k <= i + AHEAD && k < n; k++) {
            accounting_prefetch(&b->accounts[BY_SITE], &ops[k]);
            accounting_prefetch(&b->accounts[BY_CALLSTACK], &ops[k]);
            if (b->has_group)
                accounting_prefetch(&b->accounts[BY_GROUP], &ops[k]);
        }
        status = count_step(b, &ops[i], e);
    }
    return status;
}

/*
 * The zone or frame in which a block was allocated. Its free comes later: until then a map by block
 * holds the result.
 */
static int key_by_moment(void *ctx, const struct memory_op *op, uint32_t *key, struct err *e)
{
    struct builder *b = ctx;
    /* Pools of one name are one here: the index alone does not identify a block. */
    uint64_t block = op->block.ptr * UINT64_C(0x9e3779b97f4a7c15) ^
                     op->block.index * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                     (uint64_t)op->block.time * UINT64_C(0x165667b19e3779f9) ^ op->block.thread;
    uint64_t begun;
    if (op->kind == MEMORY_FREE) {
        const uint64_t *found = map_find(&b->keys, block);
        *key = found ? (uint32_t)*found : 0;
        map_remove(&b->keys, block);
        return 0;
    }
    if (b->options->by == GROUP_ZONE) {
        if (moments_zone(&b->moments, op->thread, op->time, key, e) != 0 ||
            moments_allocated(&b->moments, op->thread, op->pool, op->block.size, e) != 0)
            return -1;
    } else {
        if (moments_frame(&b->moments, op->time, &begun, e) != 0)
            return -1;
        *key = begun < UINT32_MAX ? (uint32_t)begun : UINT32_MAX;
    }
    uint64_t *waiting = !is_freed(op->freed) ? NULL : map_add(&b->keys, block, NULL);
    if (waiting)
        *waiting = *key;
    return waiting || !is_freed(op->freed) ? 0 : err_no_memory(e, "live blocks");
}

bool summary_streams(const struct summary_options *options)
{
    bool moments = options->by == GROUP_ZONE || options->by == GROUP_FRAME;
    return !moments && !(options->only && selection_is_narrow(options->only));
}

int summary_load(struct stream_figures *f, struct trace *t, const char *path,
                 struct summary_options *options, struct trace_counts *counts,
                 struct trace_info *info, struct err *e)
{
    const struct selection_options *only = options->only;
    const struct trace_load_options load = {.zones = only && only->zone,
                                            .frames = only && only->has_frame};
    stream_figures_init(f, t);
    if (!summary_streams(options))
        return trace_load_with(t, path, &load, counts, info, e);
    f->by_thread = options->by == GROUP_THREAD;
    int status = stream_figures_load(f, path, counts, info, e);
    options->stream = status == 0 && f->counted ? f : NULL;
    return status;
}

bool summary_is_stored(const struct summary_options *options)
{
    return options->by == GROUP_SITE && !options->stacks && summary_streams(options);
}

/* The pools' addresses, as a sweep would find them. */
static void take_addresses(struct builder *b)
{
    const struct selection *from = &b->s->selection;
    const struct memory *m = &b->trace->memory;
    for (size_t i = 0; i < m->pools.len; i++) {
        const struct pool_totals *totals = &m->pools.at[i]->totals;
        if (from->pool_of[i] == UINT32_MAX || !totals->allocations)
            continue;
        b->s->pools.at[from->pool_of[i]].low_address = totals->low_address;
        b->s->pools.at[from->pool_of[i]].high_address = totals->high_address;
    }
}

static struct site_map site_map_of(const struct builder *b)
{
    return (struct site_map){b->sites.of_callstack, b->sites.callstack_count};
}

static int take_stored(struct builder *b, struct err *e)
{
    const struct site_map sites = site_map_of(b);
    take_addresses(b);
    return stored_figures_give(b->options->stored, &b->s->selection, &sites, &b->accounts[BY_SITE],
                               &b->accounts[BY_CALLSTACK], e);
}

static int store(const struct builder *b, struct err *e)
{
    const struct site_map sites = site_map_of(b);
    int status = stored_figures_take(b->options->store, b->trace, &b->s->selection, &sites,
                                     &b->accounts[BY_SITE], &b->accounts[BY_CALLSTACK], e);
    *b->options->storable = status == 1;
    return status < 0 ? -1 : 0;
}

/* The figures that were counted, as a sweep would find them. */
static int take_stream(struct builder *b, struct stream_figures *stream, struct err *e)
{
    const struct selection *from = &b->s->selection;
    struct stream_grouping groupings[2];
    size_t n = 0;
    for (unsigned i = BY_SITE; i <= BY_GROUP; i++) {
        const struct accounting_options *o = &b->accounts[i].options;
        if (i == BY_SITE || (i == BY_GROUP && b->has_group && !o->by_thread))
            groupings[n++] = (struct stream_grouping){o->groups, o->group_count, &b->accounts[i]};
    }
    take_addresses(b);
    if (stream_figures_callstacks(stream, from, &b->accounts[BY_CALLSTACK], e) != 0)
        return -1;
    int status = stream_figures_group(stream, from, groupings, n, e);
    b->s->peak_bounds = stream->bounds;
    if (status == 0 && b->options->by == GROUP_THREAD)
        status = stream_figures_threads(stream, from, &b->accounts[BY_GROUP], e);
    return status;
}

static int sweep(struct builder *b, struct err *e)
{
    static const uint32_t one_group[1] = {0};
    struct accounting_options o = {.judged = true, .pageable = b->s->pageable};
    /* For call stacks that are not shown, only the one with most bytes is needed. */
    o.sums_only = !b->options->stacks && b->options->by != GROUP_CALLSTACK;
    accounting_init(&b->accounts[BY_CALLSTACK], &o);
    o.sums_only = false;
    if (program_frames_init(&b->program, b->trace, b->options->skip, e) != 0 ||
        sites_build_from(&b->sites, &b->program, SITE_BY_LINE, e) != 0 ||
        types_build(&b->s->types, &b->program, e) != 0)
        return -1;
    o.groups = b->sites.of_callstack;
    o.group_count = b->sites.callstack_count;
    accounting_init(&b->accounts[BY_SITE], &o);
    b->has_group = true;
    switch (b->options->by) {
    case GROUP_FUNCTION:
        if (sites_build_from(&b->functions, &b->program, SITE_BY_FUNCTION, e) != 0)
            return -1;
        o.groups = b->functions.of_callstack;
        o.group_count = b->functions.callstack_count;
        break;
    case GROUP_TYPE:
        o.groups = b->s->types.of_callstack;
        o.group_count = b->s->types.callstack_count;
        break;
    case GROUP_POOL:
        o.groups = one_group;
        o.group_count = 0;
        break;
    case GROUP_THREAD:
        o.by_thread = true;
        break;
    case GROUP_ZONE:
    case GROUP_FRAME:
        if (moments_init(&b->moments, b->trace, e) != 0)
            return -1;
        b->calls.selection = &b->s->selection;
        b->moments.calls = b->options->by == GROUP_ZONE ? &b->calls : NULL;
        o.key_of = key_by_moment;
        o.key_ctx = b;
        break;
    default:
        b->has_group = false;
    }
    accounting_init(&b->accounts[BY_GROUP], &o);
    if (b->options->stored)
        return take_stored(b, e);
    if (b->options->stream)
        return take_stream(b, b->options->stream, e);
    /* The sweep uses the allocator of pageable counters, and the columns of zones and frames. */
    const struct memory_observer to = {
        .ctx = b, .batch = take_steps, .beside = !o.key_of && !o.pageable};
    if (selection_sweep(&b->s->selection, &to, e) != 0)
        return -1;
    return b->moments.calls ? moments_finish_zones(&b->moments, e) : 0;
}

/* ---- rows */

static bool shares_name(const struct trace_threads *threads, uint32_t number)
{
    for (size_t i = 0; i < threads->list.len; i++)
        if (i != number && threads->list.at[i].name == threads->list.at[number].name)
            return true;
    return false;
}

/* Threads of one name, such as those that inherit the program's, are distinguished by their ids. */
static int name_thread(struct builder *b, struct summary_row *r, struct err *e)
{
    const struct trace_threads *threads = &b->trace->threads;
    bool known = r->key < threads->list.len;
    unsigned long long id = known ? threads->list.at[r->key].id : r->key;
    if (!known || !threads->list.at[r->key].name) {
        char text[48];
        snprintf(text, sizeof text, known ? "thread %llu" : "thread number %llu", id);
        r->name = summary_keep(b->s, view_of(text));
        return r->name.p ? 0 : err_no_memory(e, "thread names");
    }
    r->name = strings_get(&b->trace->strings, threads->list.at[r->key].name);
    if (!shares_name(threads, r->key))
        return 0;
    struct buf text = {0};
    buf_put(&text, r->name.p, r->name.len);
    buf_printf(&text, " (%llu)", id);
    r->name = summary_keep(b->s, (struct view){buf_str(&text), text.len});
    bool ok = !text.failed && r->name.p;
    buf_release(&text);
    return ok ? 0 : err_no_memory(e, "thread names");
}

static int name_moment(struct builder *b, enum grouping by, struct summary_row *r, struct err *e)
{
    char text[48];
    if (by == GROUP_ZONE && r->key != MOMENT_NO_ZONE) {
        r->name = b->moments.labels.at[r->key];
        return 0;
    }
    if (by == GROUP_ZONE)
        snprintf(text, sizeof text, "[no zone]");
    else if (r->key == 0)
        snprintf(text, sizeof text, "[before the first frame]");
    else
        snprintf(text, sizeof text, "frame %llu",
                 (unsigned long long)trace_frame_number(b->trace, r->key - 1));
    r->name = summary_keep(b->s, view_of(text));
    return r->name.p ? 0 : err_no_memory(e, "names");
}

static int name_row(struct builder *b, enum grouping by, struct summary_row *r, struct err *e)
{
    static const struct frame_view nowhere = {
        .function = {"", 0}, .file = {"", 0}, .image = {"", 0}};
    uint32_t site;
    r->name = (struct view){"", 0};
    r->frame = nowhere;
    switch (by) {
    case GROUP_TYPE:
        r->name = r->key ? b->s->types.names.at[r->key] : view_of("[no type]");
        return 0;
    case GROUP_POOL:
        r->name = b->s->pools.at[r->pool].name;
        return 0;
    case GROUP_THREAD:
        return name_thread(b, r, e);
    case GROUP_ZONE:
    case GROUP_FRAME:
        return name_moment(b, by, r, e);
    case GROUP_CALLSTACK:
        site = r->key < b->sites.callstack_count ? b->sites.of_callstack[r->key] : 0;
        r->callstack = r->key;
        break;
    default:
        site = r->key;
    }
    r->permanent = by == GROUP_SITE ? b->sites.list.at[site].permanent : 0;
    r->frame = (by == GROUP_FUNCTION ? &b->functions : &b->sites)->list.at[site].frame;
    r->no_callstack = site == SITE_NO_CALLSTACK;
    return 0;
}

static int cost_of_row(struct builder *b, struct summary_row *r, struct err *e)
{
    struct zone_cost cost;
    r->cost = 0;
    if (!zone_calls_cost(&b->calls, r->pool, r->key, &cost))
        return 0;
    if (!pageable_push(b->s->pageable, &b->s->zone_costs, cost))
        return err_no_memory(e, "calls of zones");
    r->cost = (uint32_t)b->s->zone_costs.len;
    return 0;
}

static int list_rows(struct builder *b, enum grouping by, const struct accounting *a,
                     struct row_list *rows, struct err *e)
{
    for (uint32_t pool = 0; pool < b->s->pools.len; pool++) {
        struct summary_row r = {.pool = pool};
        uint64_t iter = 0, done = 0;
        while (accounting_next(a, pool, &iter, &r.key, &r.figures)) {
            trace_swept_block(b->trace, ++done, b->sites.callstack_count);
            r.callstack = 0;
            r.type = (struct view){"", 0};
            if (name_row(b, by, &r, e) != 0)
                return -1;
            if (by == GROUP_ZONE && cost_of_row(b, &r, e) != 0)
                return -1;
            if (!pageable_push(b->s->pageable, rows, r))
                return err_no_memory(e, "allocation sites");
        }
    }
    trace_loaded(b->trace);
    return 0;
}

/* ---- the call stacks of rows */

/* A call stack's figures and its row. */
struct stack_of_row {
    size_t row;
    uint32_t type;
    struct summary_stack stack;
};

static int compare_stacks(const void *a, const void *b)
{
    const struct stack_of_row *x = a;
    const struct stack_of_row *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->stack.figures.bytes != y->stack.figures.bytes)
        return x->stack.figures.bytes > y->stack.figures.bytes ? -1 : 1;
    return x->stack.callstack < y->stack.callstack ? -1 : x->stack.callstack > y->stack.callstack;
}

static uint32_t key_of_callstack(const struct builder *b, enum grouping by, uint32_t callstack)
{
    const struct sites *sites = by == GROUP_FUNCTION ? &b->functions : &b->sites;
    if (by == GROUP_POOL)
        return 0;
    if (by == GROUP_TYPE)
        return types_of(&b->s->types, callstack);
    if (by == GROUP_CALLSTACK)
        return callstack;
    return callstack < sites->callstack_count ? sites->of_callstack[callstack] : 0;
}

/* Rows are in order of (pool, key), as list_rows made them. */
static size_t find_row(const struct row_list *rows, uint32_t pool, uint32_t key)
{
    size_t low = 0;
    BISECT(low, rows->len, i,
           rows->at[i].pool < pool || (rows->at[i].pool == pool && rows->at[i].key < key));
    return low;
}

struct stack_list {
    struct stack_of_row *at;
    size_t len;
    size_t cap;
};

static int collect_stacks(const struct builder *b, enum grouping by, const struct row_list *rows,
                          struct stack_list *all, struct err *e)
{
    for (uint32_t pool = 0; pool < b->s->pools.len; pool++) {
        struct stack_of_row one;
        uint64_t iter = 0, done = 0;
        while (accounting_next(&b->accounts[BY_CALLSTACK], pool, &iter, &one.stack.callstack,
                               &one.stack.figures)) {
            trace_swept_block(b->trace, ++done, b->sites.callstack_count);
            one.row = find_row(rows, pool, key_of_callstack(b, by, one.stack.callstack));
            one.type = types_of(&b->s->types, one.stack.callstack);
            if (one.row < rows->len && !pageable_push(b->s->pageable, all, one))
                return err_no_memory(e, "call stacks");
        }
    }
    trace_loaded(b->trace);
    return 0;
}

static int compare_by_type(const void *a, const void *b)
{
    const struct stack_of_row *x = a;
    const struct stack_of_row *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return (x->type > y->type) - (x->type < y->type);
}

static int compare_types(const void *a, const void *b)
{
    const struct summary_type *x = a;
    const struct summary_type *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = n ? memcmp(x->name.p, y->name.p, n) : 0;
    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

/* Sets the types of every row. Call stacks without an allocation (freed only) do not count. */
static int attach_types(struct summary *s, struct row_list *rows, struct stack_list *all,
                        struct err *e)
{
    if (all->len)
        qsort(all->at, all->len, sizeof *all->at, compare_by_type);
    for (size_t i = 0; i < all->len;) {
        struct summary_row *r = &rows->at[all->at[i].row];
        size_t row = all->at[i].row;
        r->first_type = s->row_types.len;
        while (i < all->len && all->at[i].row == row) {
            uint32_t type = all->at[i].type;
            struct summary_type sum = {.name = s->types.names.at[type]};
            for (; i < all->len && all->at[i].row == row && all->at[i].type == type; i++) {
                sum.count += all->at[i].stack.figures.count;
                sum.bytes = saturating_add(sum.bytes, all->at[i].stack.figures.bytes);
            }
            if (sum.count && !pageable_push(s->pageable, &s->row_types, sum))
                return err_no_memory(e, "types");
        }
        r->type_count = s->row_types.len - r->first_type;
        if (r->type_count == 0)
            continue;
        struct summary_type *first = &s->row_types.at[r->first_type];
        qsort(first, r->type_count, sizeof *first, compare_types);
        if (r->type_count == 1)
            r->type = first->name;
    }
    return 0;
}

static int attach_callers(struct builder *b, struct row_list *rows, const struct stack_list *all,
                          struct err *e)
{
    const size_t size = (all->len + 1) * sizeof(struct stack_share);
    struct stack_share *shares = pageable_zeroed(b->s->pageable, size);
    if (!shares)
        return err_no_memory(e, "callers");
    for (size_t i = 0; i < all->len; i++) {
        const struct summary_stack *stack = &all->at[i].stack;
        shares[i] = (struct stack_share){all->at[i].row, stack->callstack, stack->figures.count,
                                         stack->figures.bytes};
    }
    int status = summary_attach_callers(b->s, rows, &b->program, shares, all->len, e);
    pageable_free(b->s->pageable, shares, size);
    return status;
}

/* Sets the call stacks of every row: all if wanted, always the one with most bytes; and types. */
static int attach_stacks(struct builder *b, enum grouping by, struct row_list *rows, struct err *e)
{
    struct stack_list all = {0};
    struct summary *s = b->s;
    if (by == GROUP_THREAD || by == GROUP_ZONE || by == GROUP_FRAME || rows->len == 0)
        return 0;
    int status = collect_stacks(b, by, rows, &all, e);
    if (status == 0 && all.len)
        qsort(all.at, all.len, sizeof *all.at, compare_stacks);
    for (size_t i = 0; i < all.len && status == 0; i++) {
        struct summary_row *r = &rows->at[all.at[i].row];
        bool first = i == 0 || all.at[i].row != all.at[i - 1].row;
        if (first)
            r->callstack = all.at[i].stack.callstack;
        if (first)
            r->first_stack = s->stacks.len;
        if (b->options->stacks && !pageable_push(s->pageable, &s->stacks, all.at[i].stack))
            status = err_no_memory(e, "call stacks");
        r->stack_count += b->options->stacks;
    }
    if (status == 0 && b->options->callers && by <= GROUP_FUNCTION)
        status = attach_callers(b, rows, &all, e);
    if (status == 0)
        status = attach_types(s, rows, &all, e);
    pageable_vec_release(s->pageable, &all);
    return status;
}

/* ---- resident bytes */

/* The pool of the summary with this client pointer; UINT32_MAX: none. */
static uint32_t pool_with_key(const struct builder *b, uint64_t key)
{
    const struct memory *m = &b->trace->memory;
    for (size_t i = 0; i < m->pools.len; i++) {
        if (m->pools.at[i]->key == key)
            return b->s->selection.pool_of[i];
    }
    return UINT32_MAX;
}

static void find_look(struct summary *s)
{
    struct resident_shares shares;
    bool narrow = s->selection.is_narrow;
    s->has_resident = s->trace->resident.known && !narrow;
    s->has_look = !narrow && resident_fact_read(s->trace, &shares);
    s->look_bytes = s->has_look ? resident_total(&shares) : 0;
    s->look_lacking = s->has_look ? resident_lacking(&shares) : 0;
}

static void attach_resident(struct builder *b, enum grouping by, struct row_list *rows)
{
    const struct resident_stacks *from = &b->trace->resident;
    if (!b->s->has_resident || !grouping_has_resident(by))
        return;
    for (size_t i = 0; i < from->list.len; i++) {
        const struct resident_stack *one = &from->list.at[i];
        uint32_t pool = pool_with_key(b, one->pool);
        uint32_t key = key_of_callstack(b, by, one->callstack);
        size_t row = find_row(rows, pool, key);
        if (row == rows->len || rows->at[row].pool != pool || rows->at[row].key != key)
            continue;
        uint64_t *sum = &rows->at[row].resident_bytes;
        *sum = saturating_add(*sum, one->present);
    }
}

/* ---- memory faults */

static int keep_fault(struct summary *s, const struct fault_row *r, struct err *e)
{
    struct summary_fault f = {.kind = r->kind,
                              .pool = summary_keep(s, r->pool),
                              .count = r->count,
                              .least = r->least,
                              .callstack = r->callstack,
                              .sample_count = r->case_count};
    for (unsigned i = 0; i < r->case_count; i++)
        f.samples[i] = r->cases[i].what;
    return f.pool.p && vec_push(&s->faults, f) ? 0 : err_no_memory(e, "memory faults");
}

/* Keeps the selected ones only. */
static int select_faults(struct summary *s, struct err *e)
{
    struct faults selected;
    if (s->faults.len == 0 || !selection_is_narrow(&s->selection.options))
        return 0;
    if (faults_build_noted(&selected, &s->selection, e) != 0)
        return -1;
    int status = 0;
    s->faults.len = 0;
    for (size_t i = 0; i < selected.rows.len && status == 0; i++)
        status = keep_fault(s, &selected.rows.at[i], e);
    faults_release(&selected);
    return status;
}

/* ---- all of it */

static void sum_pools(struct builder *b)
{
    struct summary *s = b->s;
    for (uint32_t i = 0; i < s->pools.len; i++) {
        struct pool_figures *f = &s->pools.at[i].figures;
        accounting_pool(&b->accounts[BY_SITE], i, f);
        if (s->pools.at[i].sum != POOL_COUNTS)
            continue;
        s->allocations += f->allocations;
        s->frees += f->frees;
        s->live += f->live;
        s->live_bytes = saturating_add(s->live_bytes, f->live_bytes);
        s->total_bytes = saturating_add(s->total_bytes, f->total_bytes);
    }
}

static void sum_permanent(struct summary *s)
{
    for (size_t i = 0; i < s->sites.len; i++) {
        const struct counter *c = &s->sites.at[i].figures;
        struct summary_pool *p = &s->pools.at[s->sites.at[i].pool];
        if (s->sites.at[i].permanent == PERMANENT_NOT || !c->live_count)
            continue;
        p->permanent += c->live_count;
        p->permanent_bytes = saturating_add(p->permanent_bytes, c->live_bytes);
        if (p->sum == POOL_COUNTS) {
            s->permanent += c->live_count;
            s->permanent_bytes = saturating_add(s->permanent_bytes, c->live_bytes);
        }
    }
}

static int build(struct builder *b, struct err *e)
{
    struct summary *s = b->s;
    enum grouping by = b->options->by;
    struct selection_options all = {.pool = b->options->pool};
    const struct selection_options *only = b->options->only ? b->options->only : &all;
    all = *only;
    all.all_pools = true;
    if (selection_init(&s->selection, b->trace, &all, e) != 0)
        return -1;
    if (list_pools(s, e) != 0 || sweep(b, e) != 0)
        return -1;
    if (b->options->store && store(b, e) != 0)
        return -1;
    sum_pools(b);
    if (list_rows(b, GROUP_SITE, &b->accounts[BY_SITE], &s->sites, e) != 0 ||
        attach_stacks(b, GROUP_SITE, &s->sites, e) != 0)
        return -1;
    find_look(s);
    attach_resident(b, GROUP_SITE, &s->sites);
    sum_permanent(s);
    const struct accounting *a = &b->accounts[by == GROUP_CALLSTACK ? BY_CALLSTACK : BY_GROUP];
    if (by != GROUP_SITE &&
        (list_rows(b, by, a, &s->groups, e) != 0 || attach_stacks(b, by, &s->groups, e) != 0))
        return -1;
    attach_resident(b, by, &s->groups);
    if (by == GROUP_FRAME && summary_score_frames(s, e) != 0)
        return -1;
    if (wrapper_functions_join(&s->wrappers, &b->program.wrappers, e) != 0)
        return -1;
    if (summary_cover(s, &b->accounts[BY_CALLSTACK], e) != 0 ||
        summary_read_faults(s, only->pool, e) != 0 || select_faults(s, e) != 0)
        return -1;
    for (size_t i = 0; i < s->faults.len; i++) {
        uint32_t id = s->faults.at[i].callstack;
        uint32_t site = id < b->sites.callstack_count ? b->sites.of_callstack[id] : 0;
        s->faults.at[i].site = b->sites.list.at[site].frame;
    }
    return summary_judge(s, e) == 0 ? summary_answer(s, e) : -1;
}

/* Options for a trace of figures only: it has no events to sweep. */
static int take_only(struct summary_options *options, struct trace *t, struct err *e)
{
    if (!t->memory.only.is || options->stream || options->stored)
        return 0;
    return summary_streams(options)
               ? figures_only_find(t, &options->stream, e)
               : memory_refuse("rows by zone and frame, and selections of anything but pools, "
                               "need them",
                               e);
}

int summary_build(struct summary *s, struct trace *t, const struct summary_options *given,
                  struct err *e)
{
    struct summary_options own = *given;
    const struct summary_options *options = &own;
    if (take_only(&own, t, e) != 0)
        return -1;
    *s = (struct summary){.trace = t,
                          .pageable = t->memory.pageable,
                          .by = options->by,
                          .all_leaks = options->all_leaks};
    s->continued = view_equal(trace_fact(t, "end", 0), view_of(PART_CONTINUED));
    s->complete = !s->continued && !trace_fact(t, "incomplete", 0).p;
    if (t->facts.file_version)
        file_version_text(t->facts.file_version, s->file_version);
    struct builder b = {.s = s, .trace = t, .options = options};
    b.keys.pageable = b.calls.numbers.pageable = s->pageable;
    int status = build(&b, e);
    for (size_t i = 0; i < ACCOUNTINGS; i++)
        accounting_release(&b.accounts[i]);
    program_frames_release(&b.program);
    sites_release(&b.sites);
    sites_release(&b.functions);
    moments_release(&b.moments);
    zone_calls_release(&b.calls);
    map_release(&b.keys);
    if (status != 0 && s->pageable)
        pageable_explain(s->pageable, e);
    if (status != 0)
        summary_release(s);
    return status;
}
