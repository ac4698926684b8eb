#include "analysis/diff/diff.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/figures/figures_account.h"
#include "analysis/names/program_frames.h"
#include "analysis/diff/diff_lines.h"
#include "analysis/diff/diff_types.h"
#include "base/buf.h"
#include "base/map.h"

static const char *const metric_names[] = {
    [DIFF_BYTES] = "bytes", [DIFF_COUNT] = "count", [DIFF_LIVE] = "live", [DIFF_PEAK] = "peak"};

const char *diff_metric_name(enum diff_metric m)
{
    return metric_names[m];
}

const char *diff_kind_name(enum diff_kind k)
{
    static const char *const names[] = {[DIFF_NEW] = "new",
                                        [DIFF_GROWN] = "grown",
                                        [DIFF_SHRUNK] = "shrunk",
                                        [DIFF_GONE] = "gone",
                                        [DIFF_SAME] = "same"};
    return names[k];
}

const struct diff_figure_of_pool diff_pool_figures[DIFF_POOL_FIGURES] = {
    {"peak_bytes", "Peak", offsetof(struct pool_figures, peak_bytes), true},
    {"live_bytes", "Live at the end", offsetof(struct pool_figures, live_bytes), true},
    {"live_allocations", "Blocks live at the end", offsetof(struct pool_figures, live), false},
    {"total_bytes", "Size of all allocations", offsetof(struct pool_figures, total_bytes), true},
    {"allocations", "Allocations", offsetof(struct pool_figures, allocations), false},
    {"temporary_allocations", "Temporary", offsetof(struct pool_figures, temporary), false},
};

uint64_t diff_pool_figure(const struct pool_figures *figures, size_t which)
{
    uint64_t n;
    memcpy(&n, (const char *)figures + diff_pool_figures[which].offset, sizeof n);
    return n;
}

uint64_t diff_figure(const struct diff_side *s, enum diff_metric m)
{
    switch (m) {
    case DIFF_COUNT:
        return s->figures.count;
    case DIFF_LIVE:
        return s->figures.live_bytes;
    case DIFF_PEAK:
        return s->figures.peak_bytes;
    default:
        return s->figures.bytes;
    }
}

/* ---- signatures */

/* The identity of a call stack: 128 bits of a hash of its lines with a secret seed. */
struct signature {
    uint64_t check;
    struct frame_view frame[2]; /* the site on both sides */
    bool there[2];
    bool no_callstack;
    bool unsure; /* see struct diff_row */
};

struct builder {
    struct diff *d;
    struct selection *selection[2];
    struct program_frames program[2];
    struct accounting stacks[2]; /* by pool of the comparison and call stack */
    struct diff_lines lines;
    uint32_t *groups[2]; /* by call stack id: signature */
    uint64_t *whole[2];  /* by call stack id: hash of all its lines from the site on */
    uint32_t *pools[2];  /* by pool of the selection: diff.pools */
    struct accounting accounts[2];
    struct map numbers; /* hash → signature */
    VEC(struct signature) signatures;
    struct map rows; /* pool << 32 | signature → row */
    struct buf content;
    XXH64_hash_t seed;
};

static size_t count_stacks(const struct builder *b, int side)
{
    return b->d->trace[side]->callstacks.list.len + 1;
}

/*
 * Appends the lines of a call stack from its site on, or of the site only, to b->content. True if
 * one of them is unsure.
 */
static bool put_stack(struct builder *b, int side, struct stack_place at, bool site_only)
{
    const struct trace *t = b->d->trace[side];
    const struct callstacks *c = &t->callstacks;
    bool unsure = false;
    buf_clear(&b->content);
    for (; at.node; at = (struct stack_place){c->nodes.at[at.node].parent, 0}) {
        uint32_t frame = c->nodes.at[at.node].frame;
        for (uint32_t i = at.inlined; i < frame_depth(t, frame); i++) {
            const struct diff_line *line = diff_lines_at(&b->lines, side, frame, i);
            unsure |= line && !line->named && !line->same_build;
            buf_u32(&b->content, line ? line->number : UINT32_MAX);
            if (site_only)
                return unsure;
        }
    }
    return unsure;
}

/* Writes the identity of a call stack to b->content. *at is set to its site, if needed. */
static bool put_content(struct builder *b, int side, uint32_t callstack, struct stack_place *at)
{
    if (b->d->options.by == DIFF_TYPE) {
        const struct types *types = &b->d->types[side];
        struct view name = types->names.at[types_of(types, callstack)];
        *at = (struct stack_place){0};
        buf_clear(&b->content);
        buf_put(&b->content, name.p, name.len);
        return false;
    }
    return put_stack(b, side, *at, b->d->options.by == DIFF_SITE);
}

static const struct frame_view nowhere = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}};

static int signature_of(struct builder *b, int side, uint32_t callstack, uint32_t *number,
                        struct err *e)
{
    const struct trace *t = b->d->trace[side];
    struct stack_place at = program_frames_begin(&b->program[side], callstack);
    put_stack(b, side, at, false);
    b->whole[side][callstack] = XXH3_64bits_withSeed(b->content.data, b->content.len, b->seed);
    bool unsure = put_content(b, side, callstack, &at);
    if (b->content.failed)
        return err_no_memory(e, "the comparison");
    XXH128_hash_t hash =
        XXH3_128bits_withSeed(b->content.len ? b->content.data : NULL, b->content.len, b->seed);
    for (uint64_t key = hash.low64;; key++) {
        bool fresh;
        uint64_t *found = map_add(&b->numbers, key, &fresh);
        if (!found)
            return err_no_memory(e, "the comparison");
        if (fresh) {
            *found = b->signatures.len;
            struct signature s = {.check = hash.high64,
                                  .no_callstack = at.node == 0 && b->d->options.by != DIFF_TYPE};
            s.frame[0] = s.frame[1] = nowhere;
            if (b->signatures.len >= UINT32_MAX || !vec_push(&b->signatures, s))
                return err_no_memory(e, "the comparison");
        }
        struct signature *s = &b->signatures.at[*found];
        if (s->check != hash.high64)
            continue;
        if (!s->there[side] && at.node)
            s->frame[side] = frame_describe(t, t->callstacks.nodes.at[at.node].frame, at.inlined);
        s->there[side] = true;
        s->unsure |= unsure;
        *number = (uint32_t)*found;
        return 0;
    }
}

/* Calls `take` with each pool's call stacks that have allocations. */
static int each_stack(struct builder *b, int side,
                      int (*take)(struct builder *b, int side, uint32_t callstack,
                                  const struct counter *c, struct err *e),
                      struct err *e)
{
    for (uint32_t pool = 0; pool < b->d->pools.len; pool++) {
        uint64_t iter = 0, done = 0;
        uint32_t callstack;
        struct counter c;
        while (accounting_next(&b->stacks[side], pool, &iter, &callstack, &c)) {
            trace_swept_block(b->d->trace[side], ++done, count_stacks(b, side));
            /* A damaged file may refer to call stacks beyond the list. */
            if (c.count && callstack < count_stacks(b, side) &&
                take(b, side, callstack, &c, e) != 0)
                return -1;
        }
    }
    trace_loaded(b->d->trace[side]);
    return 0;
}

static int count_lines(struct builder *b, int side, uint32_t callstack, const struct counter *c,
                       struct err *e)
{
    return diff_lines_count(&b->lines, side, callstack, c, e);
}

static int group_stack(struct builder *b, int side, uint32_t callstack, const struct counter *c,
                       struct err *e)
{
    (void)c;
    return signature_of(b, side, callstack, &b->groups[side][callstack], e);
}

/*
 * Group 0 is for allocations without a call stack, and for call stacks without selected
 * allocations.
 */
static int group_stacks(struct builder *b, int side, struct err *e)
{
    b->groups[side] = calloc(count_stacks(b, side), sizeof *b->groups[side]);
    b->whole[side] = calloc(count_stacks(b, side), sizeof *b->whole[side]);
    if (!b->groups[side] || !b->whole[side])
        return err_no_memory(e, "the comparison");
    return signature_of(b, side, 0, &b->groups[side][0], e) == 0
               ? each_stack(b, side, group_stack, e)
               : -1;
}

/* ---- pools */

static int match_pools(struct builder *b, int side, struct err *e)
{
    const struct selection *s = b->selection[side];
    b->pools[side] = calloc(s->pools.len + 1, sizeof *b->pools[side]);
    if (!b->pools[side])
        return err_no_memory(e, "the comparison");
    for (size_t i = 0; i < s->pools.len; i++) {
        size_t at = 0;
        while (at < b->d->pools.len && !view_equal(b->d->pools.at[at].name, s->pools.at[i].name))
            at++;
        if (at == b->d->pools.len &&
            !vec_push(&b->d->pools, (struct diff_pool){.name = s->pools.at[i].name}))
            return err_no_memory(e, "the comparison");
        b->d->pools.at[at].there[side] = true;
        b->pools[side][i] = (uint32_t)at;
    }
    return 0;
}

/* ---- the sweeps, rows */

static int count(struct builder *b, int side, struct accounting *to, const uint32_t *groups,
                 struct err *e)
{
    const struct accounting_options options = {
        .pools = b->pools[side],
        .pool_count = b->selection[side]->pools.len,
        .groups = groups,
        .group_count = count_stacks(b, side),
        .judged = true,
    };
    accounting_init(to, &options);
    return figures_account(b->selection[side], to, e);
}

static int add_rows(struct builder *b, int side, struct err *e)
{
    struct diff *d = b->d;
    for (uint32_t pool = 0; pool < d->pools.len; pool++) {
        uint64_t iter = 0;
        uint32_t key;
        struct counter c;
        accounting_pool(&b->accounts[side], pool, &d->pools.at[pool].figures[side]);
        while (accounting_next(&b->accounts[side], pool, &iter, &key, &c)) {
            bool fresh;
            uint64_t *at = map_add(&b->rows, (uint64_t)pool << 32 | key, &fresh);
            if (!at)
                return err_no_memory(e, "the comparison");
            if (fresh) {
                const struct signature *s = &b->signatures.at[key];
                struct diff_row row = {.pool = d->pools.at[pool].name,
                                       .frame = s->frame[s->there[1] ? 1 : 0],
                                       .before = s->frame[0],
                                       .type = {"", 0},
                                       .no_callstack = s->no_callstack,
                                       .unsure = s->unsure};
                *at = d->rows.len;
                if (!vec_push(&d->rows, row))
                    return err_no_memory(e, "the comparison");
            }
            d->rows.at[*at].side[side].there = true;
            d->rows.at[*at].side[side].figures = c;
        }
    }
    return 0;
}

static enum diff_kind kind_of(const struct diff_row *r, enum diff_metric m)
{
    uint64_t base = diff_figure(&r->side[0], m);
    uint64_t now = diff_figure(&r->side[1], m);
    if (!r->side[0].there)
        return DIFF_NEW;
    if (!r->side[1].there)
        return DIFF_GONE;
    if (base == now)
        return DIFF_SAME;
    return now > base ? DIFF_GROWN : DIFF_SHRUNK;
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
    const struct diff_row *x = a;
    const struct diff_row *y = b;
    enum diff_metric m = *(const enum diff_metric *)ctx;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    uint64_t p[2] = {diff_figure(&x->side[0], m), diff_figure(&x->side[1], m)};
    uint64_t q[2] = {diff_figure(&y->side[0], m), diff_figure(&y->side[1], m)};
    uint64_t changes[2] = {p[0] > p[1] ? p[0] - p[1] : p[1] - p[0],
                           q[0] > q[1] ? q[0] - q[1] : q[1] - q[0]};
    if (changes[0] != changes[1])
        return changes[0] > changes[1] ? -1 : 1;
    int order = view_compare(x->pool, y->pool);
    if (order == 0)
        order = view_compare(x->frame.function, y->frame.function);
    if (order == 0)
        order = view_compare(x->frame.file, y->frame.file);
    if (order == 0)
        order = (x->frame.line > y->frame.line) - (x->frame.line < y->frame.line);
    return order ? order : view_compare(x->type, y->type);
}

static void judge_rows(struct diff *d)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->rows.len; i++) {
        struct diff_row *r = &d->rows.at[i];
        r->kind = kind_of(r, d->options.metric);
        d->count[r->kind]++;
        d->unsure += r->unsure && r->kind != DIFF_SAME;
        if (r->kind != DIFF_SAME)
            d->rows.at[kept++] = *r;
    }
    d->same = d->count[DIFF_SAME];
    d->rows.len = kept;
    if (kept)
        qsort_r(d->rows.at, kept, sizeof *d->rows.at, compare_rows, &d->options.metric);
}

/* ---- displayed call stacks */

/* The share of one call stack in a row; those that differ in addresses only are one. */
struct share {
    uint64_t row;
    uint64_t whole;
    int side;
    uint32_t callstack;
    uint64_t figure;
};

struct shares {
    VEC(struct share) list;
};

static int compare_shares(const void *a, const void *b)
{
    const struct share *x = a;
    const struct share *y = b;
    if (x->row != y->row)
        return x->row > y->row ? 1 : -1;
    if (x->whole != y->whole)
        return x->whole > y->whole ? 1 : -1;
    if (x->side != y->side)
        return x->side - y->side;
    if (x->figure != y->figure)
        return x->figure < y->figure ? 1 : -1;
    return (x->callstack > y->callstack) - (x->callstack < y->callstack);
}

static int collect_shares(struct builder *b, int side, struct shares *to, struct err *e)
{
    for (uint32_t pool = 0; pool < b->d->pools.len; pool++) {
        uint64_t iter = 0;
        struct share s = {.side = side};
        struct counter c;
        while (accounting_next(&b->stacks[side], pool, &iter, &s.callstack, &c)) {
            if (c.count == 0 || s.callstack >= count_stacks(b, side))
                continue;
            const uint64_t *row =
                map_find(&b->rows, (uint64_t)pool << 32 | b->groups[side][s.callstack]);
            const struct diff_side one = {.there = true, .figures = c};
            s.row = row ? *row : 0;
            s.whole = b->whole[side][s.callstack];
            s.figure = diff_figure(&one, b->d->options.metric);
            if (row && !vec_push(&to->list, s))
                return err_no_memory(e, "the comparison");
        }
    }
    return 0;
}

/* Whether a row displays `stack` rather than the other of equal change: the first in the files. */
static bool is_earlier(const uint32_t stack[2], const struct diff_row *row)
{
    if (stack[0] != row->side[0].callstack)
        return stack[0] < row->side[0].callstack;
    return stack[1] < row->side[1].callstack;
}

/* The shares of one row: chooses the call stack that changed most in the row's direction. */
static void choose_stack(struct diff_row *row, enum diff_metric m, const struct share *shares,
                         size_t n)
{
    bool grew = diff_figure(&row->side[1], m) >= diff_figure(&row->side[0], m);
    double most = 0;
    bool any = false;
    for (size_t i = 0, end; i < n; i = end) {
        uint32_t stack[2] = {0};
        double change = 0;
        for (end = i; end < n && shares[end].whole == shares[i].whole; end++) {
            const struct share *s = &shares[end];
            if (!stack[s->side])
                stack[s->side] = s->callstack;
            change += (s->side == 1) == grew ? (double)s->figure : -(double)s->figure;
        }
        if (any && (change < most || (change == most && !is_earlier(stack, row))))
            continue;
        any = true;
        most = change;
        row->side[0].callstack = stack[0];
        row->side[1].callstack = stack[1];
    }
}

static int attach_stacks(struct builder *b, struct err *e)
{
    struct shares all = {0};
    int status = collect_shares(b, 0, &all, e);
    if (status == 0)
        status = collect_shares(b, 1, &all, e);
    if (status == 0 && all.list.len)
        qsort(all.list.at, all.list.len, sizeof *all.list.at, compare_shares);
    for (size_t i = 0, end; i < all.list.len && status == 0; i = end) {
        for (end = i; end < all.list.len && all.list.at[end].row == all.list.at[i].row;)
            end++;
        choose_stack(&b->d->rows.at[all.list.at[i].row], b->d->options.metric, &all.list.at[i],
                     end - i);
    }
    vec_release(&all.list);
    return status;
}

/* ---- all of it */

static int prepare(struct builder *b, struct err *e)
{
    for (int side = 0; side < 2; side++) {
        if (program_frames_init(&b->program[side], b->d->trace[side], b->d->options.skip, e) != 0)
            return -1;
    }
    for (int side = 0; side < 2; side++) {
        if (program_frames_pass_over(&b->program[side], &b->program[!side].wrappers, e) != 0)
            return -1;
    }
    for (int side = 0; side < 2; side++) {
        if (types_build(&b->d->types[side], &b->program[side], e) != 0 ||
            match_pools(b, side, e) != 0)
            return -1;
    }
    return diff_lines_init(&b->lines, b->d->trace[0], b->d->trace[1], e);
}

static int build(struct builder *b, struct err *e)
{
    if (prepare(b, e) != 0)
        return -1;
    for (int side = 0; side < 2; side++) {
        if (count(b, side, &b->stacks[side], NULL, e) != 0 ||
            each_stack(b, side, count_lines, e) != 0)
            return -1;
    }
    if (diff_lines_match(&b->lines, e) != 0)
        return -1;
    for (int side = 0; side < 2; side++) {
        if (group_stacks(b, side, e) != 0 ||
            count(b, side, &b->accounts[side], b->groups[side], e) != 0)
            return -1;
    }
    /* The newer trace comes last, since its types are displayed. */
    for (int side = 0; side < 2; side++) {
        if (add_rows(b, side, e) != 0 ||
            diff_types_attach(&b->stacks[side], b->d, side, &b->rows, b->groups[side], e) != 0)
            return -1;
    }
    if (attach_stacks(b, e) != 0)
        return -1;
    judge_rows(b->d);
    return 0;
}

int diff_build(struct diff *d, struct selection *base, struct selection *now,
               const struct diff_options *options, struct err *e)
{
    *d = (struct diff){.options = *options, .trace = {base->trace, now->trace}};
    struct builder b = {.d = d, .selection = {base, now}};
    b.seed = map_hash(UINT64_C(0x64696666));
    int status = build(&b, e);
    for (int side = 0; side < 2; side++) {
        program_frames_release(&b.program[side]);
        accounting_release(&b.stacks[side]);
        accounting_release(&b.accounts[side]);
        free(b.groups[side]);
        free(b.whole[side]);
        free(b.pools[side]);
    }
    diff_lines_release(&b.lines);
    map_release(&b.numbers);
    map_release(&b.rows);
    vec_release(&b.signatures);
    buf_release(&b.content);
    if (status != 0)
        diff_release(d);
    return status;
}

void diff_release(struct diff *d)
{
    types_release(&d->types[0]);
    types_release(&d->types[1]);
    vec_release(&d->pools);
    vec_release(&d->rows);
    *d = (struct diff){0};
}
