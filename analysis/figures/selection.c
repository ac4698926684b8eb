#include "analysis/figures/selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/figures/figures_only.h"
#include "analysis/figures/selection_parts.h"
#include "analysis/figures/stream_pipe.h"
#include "base/buf.h"
#include "base/order.h"

bool selection_is_narrow(const struct selection_options *o)
{
    return o->thread || o->has_range || o->from_message || o->has_at || o->has_size || o->match ||
           o->has_frame || o->zone;
}

void selection_until(struct selection_options *o)
{
    if (!o->has_at)
        return;
    int64_t end = o->at < INT64_MAX ? o->at + 1 : o->at;
    if (!o->has_range)
        o->begin = INT64_MIN;
    o->end = o->has_range && o->end < end ? o->end : end;
    o->has_range = true;
    o->has_at = false;
}

/* ---- pools */

static int compare_pools(const void *a, const void *b)
{
    const struct selection_pool *x = a;
    const struct selection_pool *y = b;
    bool x_default = view_equal(x->name, view_of("default"));
    bool y_default = view_equal(y->name, view_of("default"));
    if (x_default != y_default)
        return x_default ? -1 : 1;
    int order = view_compare(x->name, y->name);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* The error for a missing pool; it lists the existing names, or the first of them. */
static int no_such_pool(const struct trace *t, const char *wanted, struct err *e)
{
    struct buf names = {0};
    for (size_t i = 0; i < t->memory.pools.len && names.len < 400; i++) {
        char room[32];
        struct view name = trace_pool_name(t, t->memory.pools.at[i], room);
        buf_printf(&names, "%s%.*s", i ? ", " : "", name.len > 100 ? 100 : (int)name.len, name.p);
    }
    int status = names.failed ? err_no_memory(e, "pool names")
                              : err_set(e, ERR_USAGE, "no pool is called '%s'; the trace has: %s",
                                        wanted, names.len ? buf_str(&names) : "none");
    buf_release(&names);
    return status;
}

static struct view keep_text(struct selection *s, struct view text)
{
    char *copy = malloc(text.len + 1);
    if (copy && !vec_push(&s->texts, copy)) {
        free(copy);
        copy = NULL;
    }
    if (!copy)
        return (struct view){NULL, 0};
    memcpy(copy, text.p, text.len);
    return (struct view){copy, text.len};
}

/* The fact has the key of the pool "malloc"; a merge does not change the first input's pools. */
static bool is_contained(const struct trace *t, uint64_t key)
{
    struct view joined = trace_fact(t, "joined", 0);
    char text[24] = "";
    if (!joined.p || joined.len >= sizeof text)
        return false;
    memcpy(text, joined.p, joined.len);
    uint64_t tag = strtoull(text, NULL, 0);
    const uint64_t *number = map_find(&t->memory.pool_numbers, tag);
    return tag && !(key & tag) && number && t->memory.pools.at[*number]->totals.allocations;
}

/* The fact has the beginning of such names, and what they contain. */
static bool is_container(const struct trace *t, struct view name)
{
    struct view fact = trace_fact(t, "containers", 0);
    const char *space = fact.len ? memchr(fact.p, ' ', fact.len) : NULL;
    size_t first = space ? (size_t)(space - fact.p) : 0;
    return first && fact.len > first + 1 && name.len >= first &&
           memcmp(name.p, fact.p, first) == 0 &&
           memmem(name.p, name.len, space + 1, fact.len - first - 1);
}

/* Drops the pools that sums leave out, unless they are to be listed. */
static size_t leave_out(const struct selection *s, struct selection_pool *list, size_t n)
{
    const struct memory *m = &s->trace->memory;
    bool inner = false;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        inner |= list[i].sum != POOL_CONTAINER && m->pools.at[list[i].number]->totals.allocations;
    for (size_t i = 0; i < n; i++) {
        if (s->options.pool || (list[i].sum == POOL_CONTAINER && !inner))
            list[i].sum = POOL_COUNTS;
        if (list[i].sum == POOL_COUNTS || s->options.all_pools)
            list[kept++] = list[i];
    }
    return kept;
}

static int list_pools(struct selection *s, struct selection_pool *list, size_t *n, struct err *e)
{
    const struct memory *m = &s->trace->memory;
    const char *wanted = s->options.pool;
    *n = 0;
    for (size_t i = 0; i < m->pools.len; i++) {
        char room[32];
        const struct pool *p = m->pools.at[i];
        struct view name = trace_pool_name(s->trace, p, room);
        if (name.p == room && !(name = keep_text(s, name)).p)
            return err_no_memory(e, "pool names");
        if (wanted ? view_equal(name, view_of(wanted)) : p->totals.allocations != 0)
            list[(*n)++] =
                (struct selection_pool){.name = name,
                                        .key = p->key,
                                        .number = (uint32_t)i,
                                        .sum = is_contained(s->trace, p->key) ? POOL_CONTAINED
                                               : is_container(s->trace, name) ? POOL_CONTAINER
                                                                              : POOL_COUNTS};
    }
    *n = leave_out(s, list, *n);
    if (wanted && *n == 0)
        return no_such_pool(s->trace, wanted, e);
    if (*n)
        qsort(list, *n, sizeof *list, compare_pools);
    return 0;
}

static int choose_pools(struct selection *s, struct err *e)
{
    size_t count = s->trace->memory.pools.len;
    struct selection_pool *list = calloc(count + 1, sizeof *list);
    size_t n = 0;
    s->pool_of = malloc((count + 1) * sizeof *s->pool_of);
    if (!list || !s->pool_of) {
        free(list);
        return err_no_memory(e, "pools");
    }
    for (size_t i = 0; i < count; i++)
        s->pool_of[i] = UINT32_MAX;
    int status = list_pools(s, list, &n, e);
    for (size_t i = 0; i < n && status == 0; i++) {
        if ((i == 0 || !view_equal(list[i].name, list[i - 1].name)) &&
            !vec_push(&s->pools, list[i]))
            status = err_no_memory(e, "pools");
        else
            s->pool_of[list[i].number] = (uint32_t)s->pools.len - 1;
    }
    s->only = n == 1 ? (int64_t)list[0].number : -1;
    free(list);
    return status;
}

/* ---- threads */

static int choose_threads(struct selection *s, struct err *e)
{
    const struct trace *t = s->trace;
    const char *wanted = s->options.thread;
    char *end;
    unsigned long long id = strtoull(wanted, &end, 10);
    bool is_id = *wanted && *end == 0;
    bool any = false;
    s->threads = calloc(s->thread_count + 1, 1);
    if (!s->threads)
        return err_no_memory(e, "threads");
    for (size_t i = 0; i < t->threads.list.len; i++) {
        const struct trace_thread *thread = &t->threads.list.at[i];
        struct view name = strings_get(&t->strings, thread->name);
        s->threads[i] =
            (thread->name && view_equal(name, view_of(wanted))) || (is_id && thread->id == id);
        any |= s->threads[i] != 0;
    }
    return any ? 0 : err_set(e, ERR_USAGE, "no thread has the name or id '%s'", wanted);
}

/* ---- times */

static int choose_frame(struct selection *s, struct err *e)
{
    struct column_walk w = column_walk(&s->trace->frame_sets.marks);
    uint64_t seen = 0;
    uint64_t first = trace_frame_number(s->trace, 0);
    uint64_t wanted = s->options.frame - first;
    int64_t begin = 0;
    int64_t end = INT64_MAX;
    int status = 0;
    for (const struct frame_mark *mark; (mark = column_walk_next(&w, &status, e));) {
        if (mark->set != FRAME_SET_BASE)
            continue;
        if (seen == wanted)
            begin = mark->start;
        if (seen == wanted + 1)
            end = mark->start;
        seen++;
    }
    if (status != 0)
        return -1;
    if (wanted >= seen)
        return err_set(e, ERR_USAGE, "there is no frame %llu; the trace has %llu, from %llu on",
                       (unsigned long long)s->options.frame, (unsigned long long)seen,
                       (unsigned long long)first);
    s->begin = begin > s->begin ? begin : s->begin;
    s->end = end < s->end ? end : s->end;
    return 0;
}

static int choose_times(struct selection *s, struct err *e)
{
    const struct selection_options *o = &s->options;
    s->begin = o->has_range ? o->begin : INT64_MIN;
    s->end = o->has_range ? o->end : INT64_MAX;
    s->has_at = o->has_at;
    if (o->has_at && o->at < INT64_MAX && o->at + 1 < s->end)
        s->end = o->at + 1;
    return o->has_frame ? choose_frame(s, e) : 0;
}

/* ---- all of it */

int selection_init(struct selection *s, struct trace *t, const struct selection_options *o,
                   struct err *e)
{
    *s = (struct selection){
        .trace = t, .options = *o, .only = -1, .thread_count = t->threads.list.len};
    if (figures_only_load(t, e) != 0)
        return -1;
    s->is_narrow = selection_is_narrow(o);
    int status = choose_pools(s, e);
    if (status == 0)
        status = choose_times(s, e);
    if (status == 0 && o->thread)
        status = choose_threads(s, e);
    if (status == 0 && o->match)
        status = selection_match_callstacks(s, e);
    if (status == 0 && o->zone)
        status = selection_find_zones(s, e);
    if (status != 0)
        selection_release(s);
    return status;
}

void selection_release(struct selection *s)
{
    for (size_t i = 0; s->zones && i < s->thread_count; i++)
        vec_release(&s->zones[i].list);
    free(s->zones);
    for (size_t i = 0; i < s->texts.len; i++)
        free(s->texts.at[i]);
    vec_release(&s->texts);
    vec_release(&s->pools);
    free(s->pool_of);
    free(s->threads);
    free(s->callstacks);
    *s = (struct selection){0};
}

static bool in_zone(const struct selection *s, uint16_t thread, int64_t time)
{
    if (thread >= s->thread_count)
        return false;
    const struct zone_spans *spans = &s->zones[thread];
    size_t low = 0;
    BISECT(low, spans->list.len, i, spans->list.at[i].end < time);
    return low < spans->list.len && spans->list.at[low].begin <= time;
}

bool selection_wants_moment(const struct selection *s, uint16_t thread, uint32_t callstack,
                            int64_t time)
{
    if (time < s->begin || time >= s->end)
        return false;
    if (s->threads && (thread >= s->thread_count || !s->threads[thread]))
        return false;
    if (s->callstacks) {
        bool known = callstacks_get(&s->trace->callstacks, callstack) != NULL;
        if (!s->callstacks[known ? callstack : 0])
            return false;
    }
    return !s->zones || in_zone(s, thread, time);
}

bool selection_wants(const struct selection *s, const struct selection_block *b)
{
    const struct selection_options *o = &s->options;
    if (s->pool_of[b->pool] == UINT32_MAX)
        return false;
    if (s->has_at && !is_live_before(b->freed, s->end))
        return false;
    if (o->has_size && (b->size < o->size_min || b->size > o->size_max))
        return false;
    return selection_wants_moment(s, b->thread, b->callstack, b->time);
}

bool selection_wants_zone(const struct selection *s, uint16_t thread, int64_t begin, int64_t end)
{
    if (begin >= s->end || end < s->begin)
        return false;
    if (s->threads && (thread >= s->thread_count || !s->threads[thread]))
        return false;
    return !s->zones || in_zone(s, thread, begin);
}

int64_t selection_end(const struct selection *s)
{
    /* From the file: times of events have 48 bits, and sums of these must not overflow. */
    int64_t last = s->trace->facts.last_time;
    last = last > INT64_MAX / 4 ? INT64_MAX / 4 : last < 0 ? 0 : last;
    return s->end <= last ? s->end - 1 : last;
}

/* ---- the stream */

/* The newest two nanoseconds with a step of a thread in a pool. */
struct thread_step {
    int64_t latest;
    int64_t previous;
};

struct stream {
    struct selection *s;
    const struct memory_observer *to;
    size_t to_count;
    struct stream_pipe *pipe;
    VEC(struct thread_step *) pages; /* THREADS_PER_PAGE steps each, NULL until needed */
    size_t pages_of_pool;
    uint64_t done, of; /* steps */
};

#define THREADS_PER_PAGE 256u

/* The number of events from which observers in a separate thread are faster. */
#define EVENTS_FOR_A_THREAD 20000u

static struct thread_step *step_of(struct stream *x, uint32_t pool, uint16_t thread)
{
    size_t page = pool * x->pages_of_pool + thread / THREADS_PER_PAGE;
    struct thread_step **at = &x->pages.at[page];
    if (!*at) {
        *at = malloc(THREADS_PER_PAGE * sizeof **at);
        for (unsigned i = 0; *at && i < THREADS_PER_PAGE; i++)
            (*at)[i] = (struct thread_step){INT64_MIN, INT64_MIN};
    }
    return *at ? *at + thread % THREADS_PER_PAGE : NULL;
}

static bool stream_wants(const struct stream *x, const struct memory_op *op)
{
    struct selection_block block = {.pool = op->pool,
                                    .thread = op->block.thread,
                                    .callstack = op->block.callstack,
                                    .size = op->block.size,
                                    .time = op->block.time,
                                    .freed = op->kind == MEMORY_FREE ? op->time : op->freed};
    return !x->s->is_narrow || selection_wants(x->s, &block);
}

/* Completes a step. *wanted is false if it is not selected. */
static int judge(struct stream *x, struct memory_op *op, bool *wanted, struct err *e)
{
    uint32_t pool = x->s->pool_of[op->pool];
    *wanted = pool != UINT32_MAX && op->time < x->s->end;
    if (!*wanted)
        return 0;
    struct thread_step *step = step_of(x, pool, op->thread);
    if (!step)
        return err_no_memory(e, "threads");
    if (op->time > step->latest) {
        step->previous = step->latest;
        step->latest = op->time;
    }
    *wanted = stream_wants(x, op);
    op->pool = pool;
    op->temporary = op->kind == MEMORY_FREE && op->block.thread == op->thread &&
                    step->previous <= op->block.time;
    return 0;
}

/* Keeps the selected steps of a batch and passes it on. */
static int put_batch(void *ctx, struct memory_batch **batch, struct err *e)
{
    struct stream *x = ctx;
    struct memory_batch *b = *batch;
    const struct trace *t = x->s->trace;
    size_t n = 0;
    x->done += b->n;
    if (!t->memory.replay.run) /* that reads the file again, which reports itself */
        trace_swept(t, x->done, x->of);
    for (size_t i = 0; i < b->n; i++) {
        bool wanted;
        if (judge(x, &b->ops[i], &wanted, e) != 0)
            return -1;
        if (wanted && n != i)
            b->ops[n] = b->ops[i];
        n += wanted;
    }
    b->n = n;
    if (n && stream_pipe_put(x->pipe, e) != 0)
        return -1;
    *batch = stream_pipe_room(x->pipe);
    (*batch)->n = 0;
    return 0;
}

static int observe(void *ctx, void *portion, struct err *e)
{
    const struct stream *x = ctx;
    const struct memory_batch *b = portion;
    for (size_t i = 0; i < x->to_count; i++) {
        if (memory_observe(&x->to[i], b->ops, b->n, e) != 0)
            return -1;
    }
    return 0;
}

static bool may_use_thread(const struct stream *x)
{
    const struct memory *m = &x->s->trace->memory;
    uint64_t events = 0;
    for (size_t i = 0; i < m->pools.len; i++)
        events += x->s->pool_of[i] == UINT32_MAX ? 0 : m->pools.at[i]->totals.allocations;
    for (size_t i = 0; i < x->to_count; i++) {
        if (!x->to[i].beside)
            return false;
    }
    return events >= EVENTS_FOR_A_THREAD;
}

/* The steps of a sweep: an allocation and, unless it is live, a free of each block. */
static uint64_t steps_of(const struct selection *s)
{
    const struct memory *m = &s->trace->memory;
    uint64_t steps = 0;
    for (size_t i = 0; i < m->pools.len; i++) {
        const struct pool_totals *of = &m->pools.at[i]->totals;
        if (s->only < 0 || (size_t)s->only == i)
            steps += 2 * of->allocations - of->live;
    }
    return steps;
}

static int stream(struct stream *x, struct err *e)
{
    static const struct stream_pipe_kind kind = {.size = sizeof(struct memory_batch),
                                                 .take = observe};
    const struct memory_batch_sink sink = {.ctx = x, .put = put_batch};
    size_t pages = x->s->pools.len * x->pages_of_pool;
    if (!vec_reserve(&x->pages, pages) || !x->pages.at)
        return err_no_memory(e, "threads");
    memset(x->pages.at, 0, pages * sizeof *x->pages.at);
    x->pages.len = pages;
    if (stream_pipe_open(&x->pipe, &kind, x, e) != 0)
        return -1;
    if (may_use_thread(x))
        stream_pipe_start(x->pipe);
    if (memory_sweep_batches(&x->s->trace->memory, x->s->only, stream_pipe_room(x->pipe), &sink,
                             e) != 0)
        return -1;
    return stream_pipe_drain(x->pipe, e);
}

int selection_sweep_all(struct selection *s, const struct memory_observer *to, size_t n,
                        struct err *e)
{
    struct stream x = {
        .s = s, .to = to, .to_count = n, .pages_of_pool = THREADS_MAX / THREADS_PER_PAGE};
    if (s->pools.len == 0)
        return 0;
    x.of = steps_of(s);
    int status = stream(&x, e);
    stream_pipe_close(x.pipe);
    trace_loaded(s->trace);
    for (size_t i = 0; i < x.pages.len; i++)
        free(x.pages.at[i]);
    vec_release(&x.pages);
    return status;
}

int selection_sweep(struct selection *s, const struct memory_observer *to, struct err *e)
{
    return selection_sweep_all(s, to, 1, e);
}

int selection_figures(struct selection *s, struct err *e)
{
    if (s->is_narrow)
        return memory_refuse("they do not distinguish times, sizes, threads and zones", e);
    return figures_only_pools(s->trace, e);
}

static int take_figures(struct selection *s, const struct selection_pass *passes, size_t n,
                        struct err *e)
{
    int status = selection_figures(s, e);
    for (size_t i = 0; i < n && status == 0; i++)
        status = passes[i].figures ? passes[i].figures(passes[i].to.ctx, e)
                                   : memory_refuse("the question needs single steps", e);
    return status;
}

int selection_answer(struct selection *s, const struct selection_pass *passes, size_t n, int status,
                     struct err *e)
{
    struct memory_observer to[SELECTION_PASSES] = {{0}};
    for (size_t i = 0; i < n; i++)
        to[i] = passes[i].to;
    if (status == 0)
        status = s->trace->memory.only.is ? take_figures(s, passes, n, e)
                                          : selection_sweep_all(s, to, n, e);
    for (size_t i = 0; i < n; i++) {
        if (passes[i].end(passes[i].to.ctx, status == 0, e) != 0)
            status = -1;
    }
    return status;
}
