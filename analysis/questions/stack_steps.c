#include "analysis/questions/stack_steps.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/figure_bytes.h"
#include "analysis/questions/figure_parts.h"
#include "base/order.h"
#include "base/saturate.h"

#define SHIFT_MAX 55u /* times fit in 61 bits */

/* A call stack while steps come. Its newest step is not complete. */
struct state {
    struct stack_history history;
    uint64_t bytes;
    int64_t now; /* ns; of its newest step */
    uint32_t live;
};

#define STATES 64u /* in a page */

struct counting {
    unsigned shift;
    size_t steps;              /* of all call stacks */
    VEC(struct state *) pages; /* by call stack; NULL: without steps */
};

/* ---- two steps become one */

static void join(struct stack_step *to, const struct stack_step *next)
{
    to->low = next->low < to->low ? next->low : to->low;
    to->bytes = next->bytes;
    to->live = next->live;
    to->allocations += next->allocations;
}

static void coarsen(struct stack_history *h)
{
    uint64_t before = 0;
    size_t kept = 0;
    for (size_t i = 0; i < h->steps.len; i++) {
        struct stack_step step = h->steps.at[i];
        bool second = step.number % 2;
        step.number /= 2;
        if (second && kept && h->steps.at[kept - 1].number == step.number) {
            join(&h->steps.at[kept - 1], &step);
        } else {
            step.low = second && before < step.low ? before : step.low;
            h->steps.at[kept++] = step;
        }
        before = h->steps.at[kept - 1].bytes;
    }
    h->steps.len = kept;
}

static uint64_t coarsen_spread(uint64_t spread)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < STACK_STEPS; i++)
        out |= (spread >> i & 1) << i / 2;
    return out;
}

void stack_steps_coarsen(struct stack_steps *s, unsigned shift)
{
    for (; s->shift < shift; s->shift++) {
        for (size_t i = 0; i < s->stacks.len; i++) {
            coarsen(&s->stacks.at[i]);
            s->stacks.at[i].live.spread = coarsen_spread(s->stacks.at[i].live.spread);
        }
    }
}

/* ---- while steps come */

static void *begin(void)
{
    return calloc(1, sizeof(struct counting));
}

static void release(void *state)
{
    struct counting *c = state;
    for (size_t i = 0; i < c->pages.len; i++) {
        for (unsigned k = 0; c->pages.at[i] && k < STATES; k++)
            vec_release(&c->pages.at[i][k].history.steps);
        free(c->pages.at[i]);
    }
    vec_release(&c->pages);
    free(c);
}

static struct state *state_of(struct counting *c, uint32_t callstack)
{
    while (c->pages.len <= callstack / STATES) {
        if (!vec_push(&c->pages, NULL))
            return NULL;
    }
    struct state **page = &c->pages.at[callstack / STATES];
    if (!*page)
        *page = calloc(STATES, sizeof **page);
    return *page ? *page + callstack % STATES : NULL;
}

static void double_steps(struct counting *c)
{
    c->steps = 0;
    for (size_t i = 0; i < c->pages.len; i++) {
        for (unsigned k = 0; c->pages.at[i] && k < STATES; k++) {
            coarsen(&c->pages.at[i][k].history);
            c->steps += c->pages.at[i][k].history.steps.len;
        }
    }
    c->shift++;
}

/* The end of the newest nanosecond of a call stack is known. */
static void settle(struct state *x, struct stack_step *step)
{
    step->low = x->bytes < step->low ? x->bytes : step->low;
    step->bytes = x->bytes;
    step->live = x->live;
}

/* The step of op->time, which is after that of x->now. */
static int begin_step(struct counting *c, struct state *x, int64_t time, struct err *e)
{
    while ((uint64_t)time >> c->shift >= STACK_STEPS ||
           (c->steps >= STACK_STEPS_ROOM && c->shift < SHIFT_MAX))
        double_steps(c);
    uint32_t number = (uint32_t)((uint64_t)time >> c->shift);
    if (x->history.steps.len && x->history.steps.at[x->history.steps.len - 1].number == number)
        return 0;
    const bool at_begin = (uint64_t)time == (uint64_t)number << c->shift;
    const struct stack_step step = {.number = number, .low = at_begin ? UINT64_MAX : x->bytes};
    c->steps++;
    return vec_push(&x->history.steps, step) ? 0
                                             : err_no_memory(e, "the use of call stacks over time");
}

static int take(void *state, const struct memory_op *op, struct err *e)
{
    struct counting *c = state;
    struct state *x = state_of(c, op->block.callstack);
    const bool is_alloc = op->kind == MEMORY_ALLOC;
    if (!x)
        return err_no_memory(e, "the use of call stacks over time");
    const size_t n = x->history.steps.len;
    if (n == 0 || op->time > x->now) {
        if (n)
            settle(x, &x->history.steps.at[n - 1]);
        x->now = op->time > x->now ? op->time : x->now;
        if (begin_step(c, x, x->now, e) != 0)
            return -1;
    }
    x->bytes = is_alloc ? saturating_add(x->bytes, op->block.size)
                        : saturating_sub(x->bytes, op->block.size);
    x->live += is_alloc ? 1 : UINT32_MAX;
    x->history.steps.at[x->history.steps.len - 1].allocations += is_alloc;
    return 0;
}

/* ---- bytes */

/* A copy of what was counted so far. */
static int copy(struct stack_steps *to, const struct counting *c, struct err *e)
{
    *to = (struct stack_steps){.shift = c->shift};
    for (uint32_t id = 0; id < c->pages.len * STATES; id++) {
        const struct state *page = c->pages.at[id / STATES];
        struct state x = page ? page[id % STATES] : (struct state){0};
        struct stack_history h = {.callstack = id};
        const size_t n = x.history.steps.len;
        if (n == 0)
            continue;
        if (!vec_reserve(&h.steps, n) || !vec_push(&to->stacks, h)) {
            vec_release(&h.steps);
            return err_no_memory(e, "the use of call stacks over time");
        }
        struct stack_history *made = &to->stacks.at[to->stacks.len - 1];
        memcpy(made->steps.at, x.history.steps.at, n * sizeof *made->steps.at);
        made->steps.len = n;
        settle(&x, &made->steps.at[n - 1]);
    }
    return 0;
}

static struct stack_history *history_of(struct stack_steps *s, uint32_t callstack)
{
    size_t low = 0;
    BISECT(low, s->stacks.len, i, s->stacks.at[i].callstack < callstack);
    return low < s->stacks.len && s->stacks.at[low].callstack == callstack ? &s->stacks.at[low]
                                                                           : NULL;
}

static void note_live(struct stack_steps *s, const struct pool *pool)
{
    struct live_block block;
    size_t iter = 0;
    while (live_set_next(&pool->live, &iter, &block)) {
        struct stack_history *h = history_of(s, block.callstack);
        int64_t time = block.time > 0 ? block.time : 0;
        uint64_t step = (uint64_t)time >> s->shift;
        if (!h)
            continue;
        if (h->live.spread == 0 || time < h->live.first)
            h->live.first = time;
        if (h->live.spread == 0 || time > h->live.last)
            h->live.last = time;
        h->live.spread |= UINT64_C(1) << (step < STACK_STEPS ? step : STACK_STEPS - 1);
    }
}

/* The fields of steps and of live blocks, by which they are put in columns. */
#define STEP_COLUMNS(X) X(low) X(bytes) X(live) X(allocations)

#define PUT_COLUMN(FIELD)                                                                          \
    for (size_t i = 0; i < s->stacks.len; i++) {                                                   \
        uint64_t last_ = 0;                                                                        \
        for (size_t k = 0; k < s->stacks.at[i].steps.len; k++) {                                   \
            figures_put_signed(out, s->stacks.at[i].steps.at[k].FIELD - last_);                    \
            last_ = s->stacks.at[i].steps.at[k].FIELD;                                             \
        }                                                                                          \
    }

static void encode(const struct stack_steps *s, struct buf *out)
{
    uint32_t before = 0;
    figures_put(out, s->shift);
    figures_put(out, s->stacks.len);
    for (size_t i = 0; i < s->stacks.len; i++) {
        figures_put(out, s->stacks.at[i].callstack - before);
        before = s->stacks.at[i].callstack;
    }
    for (size_t i = 0; i < s->stacks.len; i++)
        figures_put(out, s->stacks.at[i].steps.len << 1 | (s->stacks.at[i].live.spread != 0));
    PUT_COLUMN(number)
    STEP_COLUMNS(PUT_COLUMN)
    for (size_t i = 0; i < s->stacks.len; i++) {
        const struct stack_live *live = &s->stacks.at[i].live;
        if (live->spread == 0)
            continue;
        figures_put(out, (uint64_t)live->first);
        figures_put(out, (uint64_t)live->last - (uint64_t)live->first);
        figures_put(out, live->spread);
    }
}

static int put(const void *state, const struct pool *pool, struct buf *out, struct err *e)
{
    struct stack_steps s;
    int status = copy(&s, state, e);
    if (status == 0) {
        note_live(&s, pool);
        encode(&s, out);
    }
    stack_steps_release(&s);
    return status;
}

const struct figures_part stack_steps_part = {
    .begin = begin, .take = take, .put = put, .release = release};

static int damaged(struct err *e)
{
    return err_set(e, ERR_INPUT, "figures behind the trace: the use of call stacks is damaged");
}

#define STEP_LEAST 5u /* bytes of a step */

/* The numbers of call stacks and of their steps. */
static int take_heads(struct stack_steps *s, struct cursor *in, uint64_t n, uint32_t most,
                      struct err *e)
{
    uint64_t id = 0, steps = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t step = figures_take(in);
        if (in->short_read || (i && step == 0) || step > most - id)
            return damaged(e);
        id += step;
        if (!vec_push(&s->stacks, (struct stack_history){.callstack = (uint32_t)id}))
            return err_no_memory(e, "the use of call stacks over time");
    }
    for (uint64_t i = 0; i < n; i++) {
        struct stack_history *h = &s->stacks.at[i];
        uint64_t count = figures_take(in);
        steps += count >> 1;
        if (in->short_read || count >> 1 == 0 || count >> 1 > STACK_STEPS ||
            steps > cursor_left(in) / STEP_LEAST)
            return damaged(e);
        h->live.spread = count & 1;
        if (!vec_reserve(&h->steps, count >> 1))
            return err_no_memory(e, "the use of call stacks over time");
        h->steps.len = count >> 1;
    }
    return 0;
}

#define TAKE_COLUMN(FIELD)                                                                         \
    for (size_t i = 0; i < s->stacks.len; i++) {                                                   \
        uint64_t last_ = 0;                                                                        \
        for (size_t k = 0; k < s->stacks.at[i].steps.len; k++) {                                   \
            last_ += figures_take_signed(in);                                                      \
            s->stacks.at[i].steps.at[k].FIELD =                                                    \
                (__typeof__(s->stacks.at[i].steps.at[k].FIELD))last_;                              \
        }                                                                                          \
    }

static int take_live(struct stack_live *live, struct cursor *in, unsigned shift, struct err *e)
{
    uint64_t first = figures_take(in), length = figures_take(in);
    live->spread = figures_take(in);
    if (in->short_read || live->spread == 0 || first > INT64_MAX / 4 || length > INT64_MAX / 4 ||
        (first + length) >> shift >= STACK_STEPS)
        return damaged(e);
    live->first = (int64_t)first;
    live->last = (int64_t)(first + length);
    return 0;
}

/* In ascending order, and within the steps that there may be. */
static bool are_in_order(const struct stack_history *h)
{
    for (size_t i = 0; i < h->steps.len; i++) {
        if (h->steps.at[i].number >= STACK_STEPS ||
            (i && h->steps.at[i].number <= h->steps.at[i - 1].number))
            return false;
    }
    return true;
}

static int decode(struct stack_steps *s, struct cursor *in, uint32_t most, struct err *e)
{
    uint64_t shift = figures_take(in), n = figures_take(in);
    if (in->short_read || shift > SHIFT_MAX || n > cursor_left(in) / 2)
        return damaged(e);
    s->shift = (unsigned)shift;
    if (take_heads(s, in, n, most, e) != 0)
        return -1;
    TAKE_COLUMN(number)
    STEP_COLUMNS(TAKE_COLUMN)
    for (size_t i = 0; i < n; i++) {
        struct stack_history *h = &s->stacks.at[i];
        if (!are_in_order(h))
            return damaged(e);
        if (h->live.spread && take_live(&h->live, in, s->shift, e) != 0)
            return -1;
    }
    return in->short_read || cursor_left(in) ? damaged(e) : 0;
}

int stack_steps_decode(struct stack_steps *s, struct view bytes, uint32_t most, struct err *e)
{
    struct cursor in = cursor_over(bytes.p, bytes.len);
    *s = (struct stack_steps){0};
    int status = decode(s, &in, most, e);
    if (status != 0)
        stack_steps_release(s);
    return status;
}

void stack_steps_release(struct stack_steps *s)
{
    for (size_t i = 0; i < s->stacks.len; i++)
        vec_release(&s->stacks.at[i].steps);
    vec_release(&s->stacks);
}

int stack_pools_read(struct stack_pools *p, struct selection *s, struct err *e)
{
    const uint32_t most = (uint32_t)s->trace->callstacks.list.len;
    *p = (struct stack_pools){0};
    for (uint32_t i = 0; i < s->trace->memory.pools.len; i++) {
        struct view bytes;
        struct stack_steps one;
        if (s->pool_of[i] == UINT32_MAX)
            continue;
        if (figures_only_part(s->trace, i, PART_STACKS, &bytes, e) != 0)
            return -1;
        if (bytes.len == 0)
            continue;
        if (stack_steps_decode(&one, bytes, most, e) != 0)
            return -1;
        one.pool = s->pool_of[i];
        p->shift = one.shift > p->shift ? one.shift : p->shift;
        if (!vec_push(&p->list, one)) {
            stack_steps_release(&one);
            return err_no_memory(e, "the use of call stacks over time");
        }
    }
    for (size_t i = 0; i < p->list.len; i++)
        stack_steps_coarsen(&p->list.at[i], p->shift);
    return 0;
}

void stack_pools_release(struct stack_pools *p)
{
    for (size_t i = 0; i < p->list.len; i++)
        stack_steps_release(&p->list.at[i]);
    vec_release(&p->list);
}

struct stack_step stack_history_at(const struct stack_history *h, uint64_t number)
{
    size_t low = 0;
    BISECT(low, h->steps.len, i, h->steps.at[i].number <= number);
    if (low == 0)
        return (struct stack_step){.number = (uint32_t)number};
    struct stack_step step = h->steps.at[low - 1];
    if (step.number == number)
        return step;
    return (struct stack_step){
        .low = step.bytes, .bytes = step.bytes, .live = step.live, .number = (uint32_t)number};
}
