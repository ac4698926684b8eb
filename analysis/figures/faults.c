#include "analysis/figures/faults.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/sites.h"
#include "analysis/figures/summary_parts.h"
#include "base/map.h"
#include "base/order.h"
#include "base/saturate.h"

const char *fault_cause_name(enum fault_cause cause)
{
    static const char *const names[FAULT_CAUSES] = {[FAULT_NEVER_SEEN] = "never-seen",
                                                    [FAULT_FREED_BEFORE] = "freed-before",
                                                    [FAULT_INSIDE_LIVE] = "inside-live-block",
                                                    [FAULT_INSIDE_FREED] = "inside-freed-block",
                                                    [FAULT_IN_OTHER_POOL] = "live-in-other-pool",
                                                    [FAULT_HELD] = "held"};
    return names[cause];
}

/* An address that the sweep searches, and its fault. */
struct target {
    uint64_t ptr;
    uint32_t row;
    uint32_t number; /* of the case */
};

/* A live block during the search of the history. */
struct holder {
    int64_t time;
    uint64_t size;
    uint32_t callstack;
    uint16_t thread;
};

/* The state of a pool during the search of the history. */
struct searched {
    struct map live;           /* address → slot in holders */
    struct fault_block newest; /* the most recently freed block */
    uint64_t bare, dressed;    /* frees without and with a call stack */
    uint64_t gave_way;         /* blocks that ended as a server ends them: see gave_way() */
};

struct builder {
    struct faults *f;
    struct selection *s;
    VEC(struct target) targets; /* in order of address */
    bool only_noted;
    bool in_history; /* search for addresses allocated twice */
    VEC(struct holder) holders;
    VEC(uint64_t) vacant;
    struct searched *pools; /* by number */
    struct map numbers;     /* of inferred rows: see row_key */
    struct map threads;     /* id of the operating system → number + 1 */
};

/* ---- pools */

static bool is_same_pool(const struct builder *b, uint32_t pool, const struct fault_row *r)
{
    char room[32];
    const struct trace *t = b->s->trace;
    return view_equal(trace_pool_name(t, t->memory.pools.at[pool], room), r->pool);
}

/* ---- blocks at the addresses of noted faults */

static struct fault_block block_of(const struct memory_op *op)
{
    struct fault_block b = {.is_known = true,
                            .ptr = op->block.ptr,
                            .size = op->block.size,
                            .pool = op->pool,
                            .time = op->block.time,
                            .thread = op->block.thread,
                            .callstack = op->block.callstack};
    if (op->kind == MEMORY_FREE) {
        b.is_freed = true;
        b.freed = op->time;
        b.free_thread = op->thread;
        b.free_callstack = op->callstack;
    }
    return b;
}

/* A freed block covered the address of a case. */
static void note_previous(const struct builder *b, const struct fault_row *r, struct fault_case *c,
                          const struct memory_op *op)
{
    bool begins = op->block.ptr == c->what.ptr;
    if (op->time > c->what.time || !is_same_pool(b, op->pool, r))
        return;
    /*
     * Within one nanosecond, the new block may have ended as well: it is not the one that gave way.
     */
    if (r->kind == FAULT_ALLOC_TWICE &&
        (!begins || op->time != c->what.time || op->block.callstack != c->what.other_callstack))
        return;
    /* A block that began at the address is better evidence than one around it. */
    if (!begins && c->previous.is_known && c->previous.ptr == c->what.ptr)
        return;
    c->previous = block_of(op);
}

/* An allocated block covers it. */
static void note_around(const struct builder *b, const struct fault_row *r, struct fault_case *c,
                        const struct memory_op *op)
{
    bool begins = op->block.ptr == c->what.ptr;
    bool live = !is_freed(op->freed) || op->freed > c->what.time;
    if (r->kind == FAULT_ALLOC_TWICE || op->time >= c->what.time || !live)
        return;
    /* An arena's block is usually within a block of another pool, which means nothing. */
    if (begins != is_same_pool(b, op->pool, r))
        c->around = block_of(op);
}

static void visit_targets(struct builder *b, const struct memory_op *op)
{
    uint64_t reach = op->block.size ? op->block.size - 1 : 0;
    uint64_t last = saturating_add(op->block.ptr, reach);
    size_t low = 0;
    size_t high = b->targets.len;
    if (high == 0 || last < b->targets.at[0].ptr || op->block.ptr > b->targets.at[high - 1].ptr)
        return;
    BISECT(low, high, i, b->targets.at[i].ptr < op->block.ptr);
    for (; low < b->targets.len && b->targets.at[low].ptr <= last; low++) {
        struct fault_row *r = &b->f->rows.at[b->targets.at[low].row];
        struct fault_case *c = &r->cases[b->targets.at[low].number];
        if (op->kind == MEMORY_FREE)
            note_previous(b, r, c, op);
        else
            note_around(b, r, c, op);
    }
}

static void judge(struct fault_row *r, struct fault_case *c)
{
    if (r->kind == FAULT_ALLOC_TWICE)
        c->cause = FAULT_HELD;
    else if (c->previous.is_known && c->previous.ptr == c->what.ptr)
        c->cause = FAULT_FREED_BEFORE;
    else if (c->around.is_known)
        c->cause = c->around.ptr == c->what.ptr ? FAULT_IN_OTHER_POOL : FAULT_INSIDE_LIVE;
    else
        c->cause = c->previous.is_known ? FAULT_INSIDE_FREED : FAULT_NEVER_SEEN;
}

/* ---- unnoted addresses allocated twice */

static bool is_size_wanted(const struct selection *s, uint64_t size)
{
    const struct selection_options *o = &s->options;
    return !o->has_size || (size >= o->size_min && size <= o->size_max);
}

/* Inferred faults have separate rows, since they may be withdrawn. */
static uint64_t row_key(const struct memory_op *op, bool inferred)
{
    return (uint64_t)inferred << 63 | (uint64_t)op->pool << 32 | op->callstack;
}

static int add_found(struct builder *b, const struct memory_op *op, const struct fault_block *held,
                     struct err *e)
{
    bool fresh;
    const struct trace *t = b->s->trace;
    uint32_t pool = b->s->pool_of[op->pool];
    if (!is_size_wanted(b->s, op->block.size) ||
        !selection_wants_moment(b->s, op->thread, op->callstack, op->time))
        return 0;
    uint64_t *number = map_add(&b->numbers, row_key(op, held->is_freed), &fresh);
    if (!number)
        return err_no_memory(e, "memory faults");
    if (fresh) {
        *number = b->f->rows.len;
        if (!vec_push(&b->f->rows, (struct fault_row){.kind = FAULT_ALLOC_TWICE,
                                                      .pool = b->s->pools.at[pool].name,
                                                      .callstack = op->callstack,
                                                      .from_history = true,
                                                      .gap = FAULT_SAMPLES}))
            return err_no_memory(e, "memory faults");
    }
    struct fault_row *r = &b->f->rows.at[*number];
    uint64_t id = op->thread < t->threads.list.len ? t->threads.list.at[op->thread].id : 0;
    /* The last three follow the first three: a new one replaces the oldest of them. */
    if (r->case_count == SUMMARY_FAULT_SAMPLES) {
        memmove(&r->cases[FAULT_SAMPLES], &r->cases[FAULT_SAMPLES + 1],
                (FAULT_SAMPLES - 1) * sizeof *r->cases);
        r->case_count--;
    }
    r->cases[r->case_count++] = (struct fault_case){.what = {.time = op->time,
                                                             .ptr = op->block.ptr,
                                                             .size = op->block.size,
                                                             .thread = id,
                                                             .other_callstack = held->callstack},
                                                    .previous = *held};
    r->least = ++r->count;
    b->f->from_history++;
    return 0;
}

/*
 * How an official server ends a block whose address is allocated again. With a coarse clock, a free
 * without a call stack may look the same: see is_credible.
 */
static bool gave_way(const struct fault_block *old, const struct memory_op *op)
{
    return old->is_known && old->ptr == op->block.ptr && old->freed == op->time &&
           old->free_thread == op->thread && old->free_callstack == 0 && op->callstack != 0;
}

static int search_alloc(struct builder *b, struct searched *p, const struct memory_op *op,
                        struct err *e)
{
    bool fresh;
    uint64_t *slot = map_add(&p->live, op->block.ptr, &fresh);
    if (!slot)
        return err_no_memory(e, "live blocks");
    if (!fresh) {
        const struct holder *h = &b->holders.at[*slot];
        struct fault_block held = {.is_known = true,
                                   .ptr = op->block.ptr,
                                   .size = h->size,
                                   .pool = op->pool,
                                   .time = h->time,
                                   .thread = h->thread,
                                   .callstack = h->callstack};
        if (add_found(b, op, &held, e) != 0)
            return -1;
    } else {
        if (gave_way(&p->newest, op)) {
            p->gave_way++;
            if (add_found(b, op, &p->newest, e) != 0)
                return -1;
        }
        *slot = b->vacant.len ? b->vacant.at[--b->vacant.len] : b->holders.len;
        if (*slot == b->holders.len && !vec_push(&b->holders, (struct holder){0}))
            return err_no_memory(e, "live blocks");
    }
    b->holders.at[*slot] = (struct holder){
        .time = op->time, .size = op->block.size, .callstack = op->callstack, .thread = op->thread};
    return 0;
}

static int search_history(struct builder *b, const struct memory_op *op, struct err *e)
{
    uint32_t pool = b->s->pool_of[op->pool];
    if (pool == UINT32_MAX || b->s->trace->memory.pools.at[op->pool]->key == POOL_OTHER)
        return 0;
    struct searched *p = &b->pools[op->pool];
    if (op->kind == MEMORY_ALLOC)
        return search_alloc(b, p, op, e);
    p->newest = block_of(op);
    p->dressed += op->callstack != 0;
    p->bare += op->callstack == 0;
    const uint64_t *slot = map_find(&p->live, op->block.ptr);
    /* The end of the older of two blocks does not affect the newer one. */
    if (!slot || b->holders.at[*slot].time != op->block.time)
        return 0;
    if (!vec_push(&b->vacant, *slot))
        return err_no_memory(e, "live blocks");
    map_remove(&p->live, op->block.ptr);
    return 0;
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct builder *b = ctx;
    visit_targets(b, op);
    return b->in_history ? search_history(b, op, e) : 0;
}

/* ---- all of it */

static int compare_targets(const void *a, const void *b)
{
    const struct target *x = a;
    const struct target *y = b;
    return (x->ptr > y->ptr) - (x->ptr < y->ptr);
}

static bool is_wanted(const struct selection *s, uint32_t callstack)
{
    bool known = callstacks_get(&s->trace->callstacks, callstack) != NULL;
    return !s->callstacks || s->callstacks[known ? callstack : 0];
}

static int take_noted(struct builder *b, struct err *e)
{
    struct faults *f = b->f;
    for (size_t i = 0; i < f->noted.faults.len; i++) {
        const struct summary_fault *from = &f->noted.faults.at[i];
        struct fault_row r = {.kind = from->kind,
                              .pool = from->pool,
                              .count = from->count,
                              .least = from->count,
                              .gap = FAULT_SAMPLES,
                              .callstack = from->callstack,
                              .case_count = from->sample_count};
        if (!is_wanted(b->s, from->callstack))
            continue;
        for (unsigned k = 0; k < from->sample_count; k++) {
            struct target at = {from->samples[k].ptr, (uint32_t)f->rows.len, k};
            r.cases[k].what = from->samples[k];
            if (!vec_push(&b->targets, at))
                return err_no_memory(e, "memory faults");
        }
        if (!vec_push(&f->rows, r))
            return err_no_memory(e, "memory faults");
    }
    if (b->targets.len)
        qsort(b->targets.at, b->targets.len, sizeof *b->targets.at, compare_targets);
    return 0;
}

static int sweep(struct builder *b, struct err *e)
{
    struct memory *m = &b->s->trace->memory;
    b->in_history = !b->only_noted && b->f->double_allocations == 0;
    b->pools = calloc(m->pools.len + 1, sizeof *b->pools);
    if (!b->pools)
        return err_no_memory(e, "memory pools");
    if (!b->in_history && b->targets.len == 0)
        return 0;
    if (b->only_noted && !b->s->options.has_size)
        return 0;
    /* Of all pools: a free may have meant a block of another one. */
    const struct memory_observer to = {.ctx = b, .op = take};
    return memory_sweep(m, -1, &to, e);
}

/*
 * Ends of blocks are attributed to a server only if all frees of the program have call stacks.
 * Otherwise a free may lack one for another reason.
 */
static bool is_credible(const struct builder *b, const struct fault_row *r)
{
    if (!r->from_history || !r->cases[0].previous.is_freed)
        return true;
    const struct searched *p = &b->pools[r->cases[0].previous.pool];
    return p->dressed && p->bare == p->gave_way;
}

/* ---- selection of noted faults */

static int list_threads(struct builder *b, struct err *e)
{
    const struct trace_threads *threads = &b->s->trace->threads;
    for (size_t i = 0; i < threads->list.len; i++) {
        bool fresh;
        uint64_t *at = map_add(&b->threads, threads->list.at[i].id, &fresh);
        if (!at)
            return err_no_memory(e, "threads");
        if (fresh)
            *at = i + 1;
    }
    return 0;
}

/* The block that the free probably meant; NULL: unknown. */
static const struct fault_block *meant(const struct fault_case *c)
{
    if (c->cause == FAULT_INSIDE_LIVE || c->cause == FAULT_IN_OTHER_POOL)
        return &c->around;
    return c->previous.is_known ? &c->previous : NULL;
}

static bool is_case_wanted(const struct builder *b, const struct fault_row *r,
                           const struct fault_case *c)
{
    const struct selection *s = b->s;
    const struct fault_block *block = meant(c);
    const uint64_t *thread = map_find(&b->threads, c->what.thread);
    if (s->options.has_size && r->kind != FAULT_ALLOC_TWICE && !block)
        return false;
    if (!is_size_wanted(s, r->kind == FAULT_ALLOC_TWICE ? c->what.size : block ? block->size : 0))
        return false;
    if (!thread)
        return !s->threads && !s->zones && selection_wants_moment(s, 0, r->callstack, c->what.time);
    return selection_wants_moment(s, (uint16_t)(*thread - 1), r->callstack, c->what.time);
}

/*
 * Keeps the selected cases of a noted row. Cases that were not kept happened between the first and
 * the last few, which may show whether they are selected.
 */
static void select_cases(const struct builder *b, struct fault_row *r)
{
    const struct selection *s = b->s;
    uint64_t unlisted = r->count > r->case_count ? r->count - r->case_count : 0;
    bool is_bounded = r->case_count == SUMMARY_FAULT_SAMPLES;
    int64_t from = is_bounded ? r->cases[FAULT_SAMPLES - 1].what.time : INT64_MIN;
    int64_t to = is_bounded ? r->cases[FAULT_SAMPLES].what.time : INT64_MAX;
    bool out = to < s->begin || from >= s->end;
    bool in = from >= s->begin && to < s->end && !s->threads && !s->zones && !s->options.has_size;
    unsigned kept = 0;
    unsigned gap = 0;
    for (unsigned i = 0; i < r->case_count; i++) {
        if (!is_case_wanted(b, r, &r->cases[i]))
            continue;
        gap += i < FAULT_SAMPLES;
        r->cases[kept++] = r->cases[i];
    }
    r->case_count = kept;
    r->gap = gap;
    r->count = kept + (out ? 0 : unlisted);
    r->least = kept + (in ? unlisted : 0);
}

static void select_rows(struct builder *b)
{
    struct faults *f = b->f;
    size_t kept = 0;
    for (size_t i = 0; i < f->rows.len; i++) {
        struct fault_row *r = &f->rows.at[i];
        if (!is_credible(b, r)) {
            f->from_history -= r->count;
            continue;
        }
        if (!r->from_history && selection_is_narrow(&b->s->options))
            select_cases(b, r);
        if (r->count == 0)
            continue;
        if (r->kind == FAULT_ALLOC_TWICE)
            f->selected_allocations = saturating_add(f->selected_allocations, r->count);
        else
            f->selected_frees = saturating_add(f->selected_frees, r->count);
        f->rows.at[kept++] = *r;
    }
    f->rows.len = kept;
}

static int find_sites(struct faults *f, const struct trace *t, const struct skiplist *skip,
                      struct err *e)
{
    struct sites sites;
    int status = sites_build(&sites, t, skip, SITE_BY_LINE, e);
    for (size_t i = 0; i < f->rows.len && status == 0; i++) {
        struct fault_row *r = &f->rows.at[i];
        bool known = r->callstack < sites.callstack_count;
        r->site = sites.list.at[known ? sites.of_callstack[r->callstack] : 0].frame;
    }
    sites_release(&sites);
    return status;
}

static int finish(struct builder *b, const struct skiplist *skip, struct err *e)
{
    for (size_t i = 0; i < b->f->rows.len; i++) {
        struct fault_row *r = &b->f->rows.at[i];
        for (unsigned k = 0; k < r->case_count; k++)
            judge(r, &r->cases[k]);
    }
    if (list_threads(b, e) != 0)
        return -1;
    select_rows(b);
    return b->only_noted ? 0 : find_sites(b->f, b->s->trace, skip, e);
}

/* A capture by Tidemark stores how it ended; so do recordings and imports. */
static bool is_foreign(const struct trace *t)
{
    return t->facts.file_version && !trace_fact(t, "end", 0).p && !trace_fact(t, "recorded", 0).p &&
           !trace_fact(t, "imported", 0).p;
}

static void count(struct faults *f, const struct trace *t)
{
    uint64_t known = 0;
    for (size_t i = 0; i < t->memory.pools.len; i++)
        known += t->memory.pools.at[i]->totals.frees;
    f->unknown_frees = f->noted.unknown_frees;
    f->null_frees = f->noted.null_frees;
    f->double_allocations = f->noted.double_allocations;
    f->left_out = f->noted.faults_left_out;
    f->partial = f->unknown_frees > known;
    f->is_foreign = is_foreign(t);
}

static int build(struct faults *f, struct selection *s, bool only_noted,
                 const struct skiplist *skip, struct err *e)
{
    struct builder b = {.f = f, .s = s, .only_noted = only_noted};
    *f = (struct faults){.noted = {.trace = s->trace},
                         .is_selected = s->options.pool || selection_is_narrow(&s->options)};
    int status = summary_read_faults(&f->noted, s->options.pool, e);
    count(f, s->trace);
    if (status == 0)
        status = take_noted(&b, e);
    if (status == 0)
        status = sweep(&b, e);
    if (status == 0)
        status = finish(&b, skip, e);
    for (size_t i = 0; b.pools && i < s->trace->memory.pools.len; i++)
        map_release(&b.pools[i].live);
    free(b.pools);
    vec_release(&b.targets);
    vec_release(&b.holders);
    vec_release(&b.vacant);
    map_release(&b.numbers);
    map_release(&b.threads);
    if (status != 0)
        faults_release(f);
    return status;
}

int faults_build(struct faults *f, struct selection *s, const struct skiplist *skip, struct err *e)
{
    return build(f, s, false, skip, e);
}

int faults_build_noted(struct faults *f, struct selection *s, struct err *e)
{
    return build(f, s, true, NULL, e);
}

void faults_release(struct faults *f)
{
    vec_release(&f->rows);
    summary_release(&f->noted);
    *f = (struct faults){0};
}
