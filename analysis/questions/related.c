#include "analysis/questions/related.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/questions/correlation.h"
#include "base/map.h"
#include "base/order.h"
#include "base/saturate.h"

/* The use of a pool. */
struct series {
    uint64_t before; /* bytes at the start of the time */
    uint64_t *use;   /* at the end of each cell */
    double *tails;   /* of each cell: the share of all cells that rise at least as much */
    double usual;    /* mean rise */
    uint64_t now;    /* while building */
    size_t cell;
};

struct builder {
    struct related *r;
    struct selection *selection;
    struct related_input *input;
    struct series *series; /* by pool of the selection */
    size_t window;         /* cells */
    double *x, *y;         /* changes of a pool and of a plot */
};

/* ---- cells */

static size_t cell_of(const struct related *r, int64_t time)
{
    uint64_t length = (uint64_t)(r->end - r->begin);
    return (size_t)((unsigned __int128)(uint64_t)(time - r->begin) * r->cells / length);
}

static void lower(int64_t *first, struct column *c, uint64_t at, size_t time_offset, struct err *e)
{
    struct column_reader r;
    size_t n;
    column_reader_init(&r, c);
    r.next = at;
    const char *element = column_reader_next(&r, &n, e);
    int64_t time;
    if (element) {
        memcpy(&time, element + time_offset, sizeof time);
        *first = time < *first ? time : *first;
    }
    column_reader_release(&r);
}

/* The time of the first relevant event: nothing can change before it. */
static int find_first(const struct builder *b, int64_t *first, struct err *e)
{
    const struct memory *m = &b->selection->trace->memory;
    *first = INT64_MAX;
    for (size_t i = 0; i < m->pools.len; i++) {
        if (b->selection->pool_of[i] != UINT32_MAX)
            lower(first, &m->pools.at[i]->allocs, 0, offsetof(struct memory_alloc, time), e);
    }
    for (size_t i = 0; i < b->input->plots.len; i++) {
        const struct input_plot *plot = &b->input->plots.at[i];
        if (plot->n)
            lower(first, &b->input->points, plot->first, offsetof(struct input_point, time), e);
    }
    lower(first, &b->input->messages, 0, offsetof(struct input_message, time), e);
    return e->code ? -1 : 0;
}

/* The number of cells is a multiple of the steps, and at most the number of nanoseconds. */
static int choose_cells(struct builder *b, const struct related_options *o, struct err *e)
{
    struct related *r = b->r;
    const struct selection *s = b->selection;
    int64_t first;
    if (find_first(b, &first, e) != 0)
        return -1;
    r->end = selection_end(s) + 1;
    r->begin = s->begin > 0 ? s->begin : 0;
    if (first > r->begin && first < r->end)
        r->begin = first;
    if (r->end <= r->begin)
        r->end = r->begin + 1;
    uint64_t length = (uint64_t)(r->end - r->begin);
    r->steps = length < RELATED_STEPS ? (uint32_t)length : RELATED_STEPS;
    r->cells = r->steps;
    while (r->steps == RELATED_STEPS && r->cells < RELATED_CELLS &&
           UINT64_C(2) * r->cells <= length)
        r->cells *= 2;
    uint64_t window = o->window ? (uint64_t)o->window : length / 200;
    unsigned __int128 cells = ((unsigned __int128)window * r->cells + length - 1) / length;
    b->window = cells < 1 ? 1 : cells > r->cells / 2 + 1 ? r->cells / 2 + 1 : (size_t)cells;
    r->window = (int64_t)((unsigned __int128)length * b->window / r->cells);
    return 0;
}

static void fill(struct series *s, size_t until)
{
    while (s->cell < until)
        s->use[s->cell++] = s->now;
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct builder *b = ctx;
    struct series *s = &b->series[op->pool];
    (void)e;
    if (op->time >= b->r->end)
        return 0;
    if (op->time >= b->r->begin)
        fill(s, cell_of(b->r, op->time));
    uint64_t size = op->block.size;
    s->now = op->kind == MEMORY_ALLOC ? saturating_add(s->now, size) : saturating_sub(s->now, size);
    if (op->time < b->r->begin)
        s->before = s->now;
    return 0;
}

static int read_use(struct builder *b, struct err *e)
{
    size_t pools = b->selection->pools.len;
    const struct memory_observer to = {.ctx = b, .op = take, .beside = true};
    b->series = calloc(pools + 1, sizeof *b->series);
    if (!b->series)
        return err_no_memory(e, "what moved with memory");
    for (size_t i = 0; i < pools; i++) {
        b->series[i].use = calloc(b->r->cells, sizeof *b->series[i].use);
        b->series[i].tails = calloc(b->r->cells, sizeof *b->series[i].tails);
        if (!b->series[i].use || !b->series[i].tails)
            return err_no_memory(e, "what moved with memory");
    }
    if (selection_sweep(b->selection, &to, e) != 0)
        return -1;
    for (size_t i = 0; i < pools; i++)
        fill(&b->series[i], b->r->cells);
    return 0;
}

static double difference(uint64_t from, uint64_t to)
{
    return to >= from ? (double)(to - from) : -(double)(from - to);
}

/* ---- plots */

/* The change of the pool's use in each step. */
static void find_changes(const struct builder *b, const struct series *s, double *x)
{
    size_t per = b->r->cells / b->r->steps;
    uint64_t last = s->before;
    for (size_t i = 0; i < b->r->steps; i++) {
        uint64_t use = s->use[(i + 1) * per - 1];
        x[i] = difference(last, use);
        last = use;
    }
}

/* The change of the plot in each step, and the first step with an earlier value. */
struct plot_changes {
    size_t first;
    uint64_t points;
    bool any; /* there was a value */
    double value, last;
    size_t step;
};

static void end_steps(const struct builder *b, struct plot_changes *c, size_t until)
{
    for (; c->step < until; c->step++) {
        b->y[c->step] = c->value - c->last;
        c->last = c->value;
    }
}

static void take_point(const struct builder *b, struct plot_changes *c, const struct input_point *p)
{
    const struct related *r = b->r;
    bool within = p->time >= r->begin;
    if (!isfinite(p->value) || p->time >= r->end)
        return;
    if (within) {
        c->points++;
        end_steps(b, c, cell_of(r, p->time) / (r->cells / r->steps));
    }
    /* Changes begin at the first value: a plot that starts at 1000 did not rise by that. */
    if (!c->any)
        c->first = within ? c->step + 1 : 0;
    if (!c->any || !within)
        c->last = p->value;
    c->any = true;
    c->value = p->value;
}

static int read_plot(struct builder *b, const struct input_plot *plot, struct plot_changes *c,
                     struct err *e)
{
    struct column_walk w = column_walk_part(&b->input->points, plot->first, plot->n);
    int status = 0;
    *c = (struct plot_changes){.first = b->r->steps};
    for (const struct input_point *p; (p = column_walk_next(&w, &status, e));)
        take_point(b, c, p);
    end_steps(b, c, b->r->steps);
    return status;
}

static uint32_t count_moves(const double *x, size_t from, size_t n)
{
    uint32_t moves = 0;
    for (size_t i = from; i < n; i++)
        moves += x[i] < 0 || x[i] > 0;
    return moves;
}

static int compare_plot(struct builder *b, const struct input_plot *plot, struct err *e)
{
    const struct trace *t = b->selection->trace;
    struct plot_changes c;
    if (read_plot(b, plot, &c, e) != 0)
        return -1;
    struct related_plot row = {
        .name = strings_get(&t->strings, strings_at_pointer(&t->strings, plot->name)),
        .points = c.points,
        .n = c.first < b->r->steps ? b->r->steps - (uint32_t)c.first : 0,
        .moved = count_moves(b->y, c.first, b->r->steps)};
    bool finite = true;
    for (size_t i = c.first; i < b->r->steps; i++)
        finite &= isfinite(b->y[i]);
    for (size_t pool = 0; pool < b->selection->pools.len; pool++) {
        struct correlation found = {.p = -1};
        const double *x = b->x + pool * b->r->steps;
        row.pool = (uint32_t)pool;
        bool moves = finite && row.moved >= RELATED_MOVES &&
                     count_moves(x, c.first, b->r->steps) >= RELATED_MOVES;
        if (moves && correlation_find(&found, x + c.first, b->y + c.first, row.n, e) != 0)
            return -1;
        row.pearson = found.pearson;
        row.spearman = found.spearman;
        row.p = row.adjusted = found.p;
        if (!vec_push(&b->r->plots, row))
            return err_no_memory(e, "what moved with memory");
    }
    return 0;
}

static int compare_plots(struct builder *b, struct err *e)
{
    size_t pools = b->selection->pools.len;
    b->x = calloc((pools + 1) * b->r->steps, sizeof *b->x);
    b->y = calloc(b->r->steps, sizeof *b->y);
    if (!b->x || !b->y)
        return err_no_memory(e, "what moved with memory");
    for (size_t i = 0; i < pools; i++)
        find_changes(b, &b->series[i], b->x + i * b->r->steps);
    for (size_t i = 0; i < b->input->plots.len; i++) {
        if (compare_plot(b, &b->input->plots.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- messages */

static double rise_after(const struct builder *b, const struct series *s, size_t cell)
{
    size_t end = cell + b->window;
    end = end < b->r->cells ? end : b->r->cells - 1;
    return difference(cell ? s->use[cell - 1] : s->before, s->use[end]);
}

static int compare_rises(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x < *y) - (*x > *y);
}

static int find_tails(struct builder *b, struct series *s, struct err *e)
{
    size_t n = b->r->cells;
    double *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return err_no_memory(e, "what moved with memory");
    for (size_t i = 0; i < n; i++) {
        sorted[i] = rise_after(b, s, i);
        s->usual += sorted[i] / (double)n;
    }
    qsort(sorted, n, sizeof *sorted, compare_rises);
    for (size_t i = 0; i < n; i++) {
        double rise = rise_after(b, s, i);
        size_t low = 0;
        BISECT(low, n, at, sorted[at] >= rise);
        s->tails[i] = (double)low / (double)n;
    }
    free(sorted);
    return 0;
}

/* Counts of a text besides its rows, one for each pool. */
struct text {
    size_t last; /* cell of the newest counted message; `cells`: none yet */
    uint64_t count;
    uint32_t n;
};

struct texts {
    struct map numbers; /* hash of a text → number; on a collision, the next key */
    VEC(struct text) list;
    VEC(double) logs; /* by row: sum of the logarithms of shares */
    uint64_t known;   /* string number of the newest message, and its number */
    size_t known_as;
};

static int text_of(struct builder *b, struct texts *t, uint64_t number, size_t *out, struct err *e)
{
    size_t pools = b->selection->pools.len;
    struct view text = strings_get(&b->selection->trace->strings, (uint32_t)number);
    if (t->list.len && t->known == number) {
        *out = t->known_as;
        return 0;
    }
    t->known = number;
    for (uint64_t key = XXH3_64bits(text.p, text.len);; key++) {
        bool fresh;
        uint64_t *at = map_add(&t->numbers, key, &fresh);
        if (!at)
            return err_no_memory(e, "what moved with memory");
        *out = t->known_as = (size_t)*at;
        if (!fresh && view_equal(b->r->messages.at[*at * pools].text, text))
            return 0;
        if (!fresh)
            continue;
        *at = t->known_as = *out = t->list.len;
        if ((t->list.len + 1) * pools > RELATED_PAIRS_MAX)
            return err_set(e, ERR_USAGE,
                           "there are more than %zu different messages: too many to compare; "
                           "--range and --pool take fewer",
                           t->list.len);
        if (!vec_push(&t->list, (struct text){.last = SIZE_MAX}))
            return err_no_memory(e, "what moved with memory");
        for (uint32_t pool = 0; pool < pools; pool++) {
            if (!vec_push(&t->logs, 0) ||
                !vec_push(&b->r->messages, (struct related_message){.text = text, .pool = pool}))
                return err_no_memory(e, "what moved with memory");
        }
        return 0;
    }
}

static int take_message(struct builder *b, struct texts *t, const struct input_message *m,
                        struct err *e)
{
    size_t pools = b->selection->pools.len;
    size_t number;
    if (m->time < b->r->begin || m->time >= b->r->end)
        return 0;
    if (text_of(b, t, m->text, &number, e) != 0)
        return -1;
    struct text *text = &t->list.at[number];
    size_t cell = cell_of(b->r, m->time);
    size_t apart = cell > text->last ? cell - text->last : text->last - cell;
    text->count++;
    if (text->last != SIZE_MAX && apart <= b->window)
        return 0;
    text->last = cell;
    text->n++;
    for (size_t pool = 0; pool < pools; pool++) {
        struct related_message *row = &b->r->messages.at[number * pools + pool];
        double share = b->series[pool].tails[cell];
        t->logs.at[number * pools + pool] += log(share);
        row->steep += share <= RELATED_STEEP;
        row->rise += rise_after(b, &b->series[pool], cell);
    }
    return 0;
}

static int read_messages(struct builder *b, struct texts *t, struct err *e)
{
    struct column_walk w = column_walk(&b->input->messages);
    int status = 0;
    for (const struct input_message *m; (m = column_walk_next(&w, &status, e));)
        status = take_message(b, t, m, e);
    return status;
}

static double steep_share(const struct builder *b, const struct series *s)
{
    size_t steep = 0;
    for (size_t i = 0; i < b->r->cells; i++)
        steep += s->tails[i] <= RELATED_STEEP;
    return (double)steep / (double)b->r->cells;
}

static int compare_messages(struct builder *b, struct err *e)
{
    size_t pools = b->selection->pools.len;
    struct texts t = {.known = 0};
    int status = 0;
    for (size_t i = 0; i < pools && status == 0; i++)
        status = find_tails(b, &b->series[i], e);
    if (status == 0 && pools)
        status = read_messages(b, &t, e);
    for (size_t pool = 0; pool < pools && status == 0; pool++) {
        double share = steep_share(b, &b->series[pool]);
        for (size_t i = 0; i < t.list.len; i++) {
            struct related_message *row = &b->r->messages.at[i * pools + pool];
            const struct text *text = &t.list.at[i];
            row->count = text->count;
            row->n = text->n;
            row->expected = share * (double)text->n;
            row->rise /= (double)text->n;
            row->usual = b->series[pool].usual;
            row->p = combined_probability(t.logs.at[i * pools + pool], text->n);
        }
    }
    map_release(&t.numbers);
    vec_release(&t.list);
    vec_release(&t.logs);
    return status;
}

/* ---- significance */

static int compare_plot_rows(const void *a, const void *b)
{
    const struct related_plot *x = a;
    const struct related_plot *y = b;
    if ((x->p < 0) != (y->p < 0))
        return x->p < 0 ? 1 : -1;
    if (x->p < y->p || x->p > y->p)
        return x->p < y->p ? -1 : 1;
    double u = fabs(x->spearman);
    double v = fabs(y->spearman);
    if (u < v || u > v)
        return u > v ? -1 : 1;
    return (x->pool > y->pool) - (x->pool < y->pool);
}

static int compare_message_rows(const void *a, const void *b)
{
    const struct related_message *x = a;
    const struct related_message *y = b;
    if (x->p < y->p || x->p > y->p)
        return x->p < y->p ? -1 : 1;
    if (x->rise < y->rise || x->rise > y->rise)
        return x->rise > y->rise ? -1 : 1;
    return (x->pool > y->pool) - (x->pool < y->pool);
}

/* Sorts rows by rising probability; those without one come last and do not count. */
static int adjust(struct related *r, struct err *e)
{
    size_t n = r->plots.len > r->messages.len ? r->plots.len : r->messages.len;
    double *p = calloc(2 * n + 1, sizeof *p);
    size_t *order = malloc((n + 1) * sizeof *order);
    int status = p && order ? 0 : err_no_memory(e, "what moved with memory");
    size_t plots = 0;
    for (; status == 0 && plots < r->plots.len && r->plots.at[plots].p >= 0; plots++)
        p[plots] = r->plots.at[plots].p;
    if (status == 0)
        holm_adjust(p, p + n, order, plots);
    for (size_t i = 0; status == 0 && i < plots; i++)
        r->plots.at[i].adjusted = p[n + i];
    for (size_t i = 0; status == 0 && i < r->messages.len; i++)
        p[i] = r->messages.at[i].p;
    if (status == 0)
        holm_adjust(p, p + n, order, r->messages.len);
    for (size_t i = 0; status == 0 && i < r->messages.len; i++)
        r->messages.at[i].adjusted = p[n + i];
    free(p);
    free(order);
    return status;
}

static int build(struct builder *b, const struct related_options *options, struct err *e)
{
    struct related *r = b->r;
    size_t pools = b->selection->pools.len;
    if (pools > RELATED_POOLS_MAX)
        return err_set(e, ERR_USAGE,
                       "plots and messages are compared with at most %u pools: "
                       "choose one of the %zu with --pool",
                       RELATED_POOLS_MAX, pools);
    if (b->input->plots.len * pools > RELATED_PAIRS_MAX)
        return err_set(e, ERR_USAGE, "there are %zu plots: too many to compare with %zu pools",
                       b->input->plots.len, pools);
    if (choose_cells(b, options, e) != 0 || read_use(b, e) != 0 || compare_plots(b, e) != 0 ||
        compare_messages(b, e) != 0)
        return -1;
    if (r->plots.len)
        qsort(r->plots.at, r->plots.len, sizeof *r->plots.at, compare_plot_rows);
    if (r->messages.len)
        qsort(r->messages.at, r->messages.len, sizeof *r->messages.at, compare_message_rows);
    return adjust(r, e);
}

int related_build(struct related *r, struct selection *s, struct related_input *input,
                  const struct related_options *options, struct err *e)
{
    *r = (struct related){0};
    struct builder b = {.r = r, .selection = s, .input = input};
    int status = build(&b, options, e);
    for (size_t i = 0; b.series && i < s->pools.len; i++) {
        free(b.series[i].use);
        free(b.series[i].tails);
    }
    free(b.series);
    free(b.x);
    free(b.y);
    if (status != 0)
        related_release(r);
    return status;
}

void related_release(struct related *r)
{
    vec_release(&r->plots);
    vec_release(&r->messages);
    *r = (struct related){0};
}
