#include "analysis/diff.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/diff_types.h"
#include "analysis/program_frames.h"
#include "base/buf.h"
#include "base/map.h"

static const char *const metric_names[] = {
    [DIFF_BYTES] = "bytes", [DIFF_COUNT] = "count", [DIFF_LIVE] = "live", [DIFF_PEAK] = "peak"};

bool diff_by_parse(const char *text, enum diff_by *by)
{
    static const char *const names[] = {
        [DIFF_SITE] = "site", [DIFF_CALLSTACK] = "callstack", [DIFF_TYPE] = "type"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *by = (enum diff_by)i;
            return true;
        }
    }
    return false;
}

bool diff_metric_parse(const char *text, enum diff_metric *m)
{
    for (size_t i = 0; i < DIFF_METRICS; i++) {
        if (strcmp(text, metric_names[i]) == 0) {
            *m = (enum diff_metric)i;
            return true;
        }
    }
    return false;
}

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

/* ---- names */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool ends_with(struct view name, size_t end, const char *suffix)
{
    size_t n = strlen(suffix);
    return end > n && memcmp(name.p + end - n, suffix, n) == 0;
}

/* Where a suffix such as ".isra.0" begins that ends at `end`, or `end`. */
static size_t cut_clone(struct view name, size_t end)
{
    static const char *const numbered[] = {".constprop", ".isra", ".part",
                                           ".lto_priv",  ".llvm", ".cold"};
    size_t digits = end;
    while (digits && is_digit(name.p[digits - 1]))
        digits--;
    size_t dot = digits < end && digits && name.p[digits - 1] == '.' ? digits - 1 : end;
    for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++) {
        if ((dot < end || strcmp(numbered[i], ".cold") == 0) && ends_with(name, dot, numbered[i]))
            return dot - strlen(numbered[i]);
    }
    return end;
}

static size_t cut_rust_hash(struct view name, size_t end)
{
    const size_t n = strlen("::h0123456789abcdef");
    if (end <= n || memcmp(name.p + end - n, "::h", 3) != 0)
        return end;
    for (size_t i = end - n + 3; i < end; i++) {
        char c = name.p[i];
        if (!is_digit(c) && !(c >= 'a' && c <= 'f'))
            return end;
    }
    return end - n;
}

struct view diff_plain_name(struct view name)
{
    static const char clone[] = " [clone ";
    size_t end = name.len;
    for (size_t before = end + 1; end < before;) {
        before = end;
        if (end && name.p[end - 1] == ']') {
            const char *at = memmem(name.p, end, clone, strlen(clone));
            if (at && at > name.p)
                end = (size_t)(at - name.p);
        }
        end = cut_clone(name, end);
        end = cut_rust_hash(name, end);
    }
    return (struct view){name.p, end};
}

static struct view base_name(struct view path)
{
    size_t at = path.len;
    while (at && path.p[at - 1] != '/' && path.p[at - 1] != '\\')
        at--;
    return (struct view){path.p + at, path.len - at};
}

/* ---- signatures */

/* What a call stack is known by: 128 bits of a hash with a secret seed stand for its text. */
struct signature {
    uint64_t check;
    struct frame_view frame[2]; /* the site on both sides */
    bool there[2];
    bool no_callstack;
};

struct builder {
    struct diff *d;
    struct selection *selection[2];
    struct program_frames program[2];
    uint32_t *groups[2]; /* by call stack id: signature */
    uint32_t *pools[2];  /* by pool of the selection: diff.pools */
    struct accounting accounts[2];
    struct diff_types types[2];
    struct map numbers; /* hash → signature */
    VEC(struct signature) signatures;
    struct map rows; /* pool << 32 | signature → row */
    struct buf content;
    XXH64_hash_t seed;
};

static int no_room(struct err *e)
{
    return err_no_memory(e, "the comparison");
}

static void put_text(struct buf *b, struct view text)
{
    buf_u64(b, text.len);
    buf_put(b, text.p, text.len);
}

static void put_frame(struct buf *b, const struct frame_view *f)
{
    put_text(b, diff_plain_name(f->function));
    put_text(b, base_name(f->function.len ? f->file : f->image));
}

/* The text of a call stack from its site on, or of the site alone, into b->content. */
static void put_stack(struct builder *b, int side, struct stack_place at)
{
    const struct trace *t = b->d->trace[side];
    const struct callstacks *c = &t->callstacks;
    buf_clear(&b->content);
    for (; at.node; at = (struct stack_place){c->nodes.at[at.node].parent, 0}) {
        uint32_t frame = c->nodes.at[at.node].frame;
        for (uint32_t i = at.inlined; i < frame_depth(t, frame); i++) {
            struct frame_view f = frame_describe(t, frame, i);
            put_frame(&b->content, &f);
            if (b->d->options.by == DIFF_SITE)
                return;
        }
    }
}

/* What a call stack is known by, into b->content. Its place is that of the site, if that matters.
 */
static void put_content(struct builder *b, int side, uint32_t callstack, struct stack_place *at)
{
    if (b->d->options.by == DIFF_TYPE) {
        const struct types *types = &b->d->types[side];
        struct view name = types->names.at[types_of(types, callstack)];
        *at = (struct stack_place){0};
        buf_clear(&b->content);
        buf_put(&b->content, name.p, name.len);
        return;
    }
    *at = program_frames_begin(&b->program[side], callstack);
    put_stack(b, side, *at);
}

static const struct frame_view nowhere = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}};

static int signature_of(struct builder *b, int side, uint32_t callstack, uint32_t *number,
                        struct err *e)
{
    const struct trace *t = b->d->trace[side];
    struct stack_place at;
    put_content(b, side, callstack, &at);
    if (b->content.failed)
        return no_room(e);
    XXH128_hash_t hash =
        XXH3_128bits_withSeed(b->content.len ? b->content.data : NULL, b->content.len, b->seed);
    for (uint64_t key = hash.low64;; key++) {
        bool fresh;
        uint64_t *found = map_add(&b->numbers, key, &fresh);
        if (!found)
            return no_room(e);
        if (fresh) {
            *found = b->signatures.len;
            struct signature s = {.check = hash.high64,
                                  .no_callstack = at.node == 0 && b->d->options.by != DIFF_TYPE};
            s.frame[0] = s.frame[1] = nowhere;
            if (b->signatures.len >= UINT32_MAX || !vec_push(&b->signatures, s))
                return no_room(e);
        }
        struct signature *s = &b->signatures.at[*found];
        if (s->check != hash.high64)
            continue;
        if (!s->there[side] && at.node)
            s->frame[side] = frame_describe(t, t->callstacks.nodes.at[at.node].frame, at.inlined);
        s->there[side] = true;
        *number = (uint32_t)*found;
        return 0;
    }
}

static int group_stacks(struct builder *b, int side, struct err *e)
{
    size_t n = b->d->trace[side]->callstacks.list.len + 1;
    b->groups[side] = calloc(n, sizeof *b->groups[side]);
    if (!b->groups[side])
        return no_room(e);
    for (size_t id = 0; id < n; id++) {
        if (signature_of(b, side, (uint32_t)id, &b->groups[side][id], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- pools */

static int match_pools(struct builder *b, int side, struct err *e)
{
    const struct selection *s = b->selection[side];
    b->pools[side] = calloc(s->pools.len + 1, sizeof *b->pools[side]);
    if (!b->pools[side])
        return no_room(e);
    for (size_t i = 0; i < s->pools.len; i++) {
        size_t at = 0;
        while (at < b->d->pools.len && !view_equal(b->d->pools.at[at].name, s->pools.at[i].name))
            at++;
        if (at == b->d->pools.len &&
            !vec_push(&b->d->pools, (struct diff_pool){.name = s->pools.at[i].name}))
            return no_room(e);
        b->d->pools.at[at].there[side] = true;
        b->pools[side][i] = (uint32_t)at;
    }
    return 0;
}

/* ---- the sweep, rows */

/* One side's sweep. */
struct counting {
    struct builder *b;
    int side;
    struct memory_observer accounting;
};

static int take_op(void *ctx, const struct memory_op *op, struct err *e)
{
    struct counting *c = ctx;
    if (op->kind == MEMORY_ALLOC &&
        diff_types_count(&c->b->types[c->side], c->b->pools[c->side][op->pool], op, e) != 0)
        return -1;
    return c->accounting.op(c->accounting.ctx, op, e);
}

static int count(struct builder *b, int side, struct err *e)
{
    const struct accounting_options options = {
        .pools = b->pools[side],
        .pool_count = b->selection[side]->pools.len,
        .groups = b->groups[side],
        .group_count = b->d->trace[side]->callstacks.list.len + 1,
        .judged = true,
    };
    accounting_init(&b->accounts[side], &options);
    struct counting counting = {b, side, accounting_observer(&b->accounts[side])};
    const struct memory_observer to = {.ctx = &counting, .op = take_op};
    return selection_sweep(b->selection[side], &to, e);
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
                return no_room(e);
            if (fresh) {
                const struct signature *s = &b->signatures.at[key];
                struct diff_row row = {.pool = d->pools.at[pool].name,
                                       .frame = s->frame[s->there[1] ? 1 : 0],
                                       .type = {"", 0},
                                       .no_callstack = s->no_callstack};
                *at = d->rows.len;
                if (!vec_push(&d->rows, row))
                    return no_room(e);
            }
            d->rows.at[*at].side[side].there = true;
            d->rows.at[*at].side[side].figures = c;
        }
    }
    return 0;
}

/* One call stack to show for each row: any that has its signature, which is all of its text. */
static void attach_stacks(struct builder *b, int side)
{
    const struct diff *d = b->d;
    size_t n = d->trace[side]->callstacks.list.len + 1;
    uint32_t *stacks = calloc(b->signatures.len + 1, sizeof *stacks);
    if (!stacks)
        return; /* shown without, that is all */
    for (size_t id = n; id-- > 1;)
        stacks[b->groups[side][id]] = (uint32_t)id;
    size_t iter = 0;
    for (const struct map_slot *s; (s = map_next(&b->rows, &iter));) {
        struct diff_side *to = &d->rows.at[s->value].side[side];
        to->callstack = to->there ? stacks[(uint32_t)s->key] : 0;
    }
    free(stacks);
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

static int compare_views(struct view a, struct view b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
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
    int order = compare_views(x->pool, y->pool);
    if (order == 0)
        order = compare_views(x->frame.function, y->frame.function);
    if (order == 0)
        order = compare_views(x->frame.file, y->frame.file);
    return order ? order : compare_views(x->type, y->type);
}

static void judge_rows(struct diff *d)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->rows.len; i++) {
        struct diff_row *r = &d->rows.at[i];
        r->kind = kind_of(r, d->options.metric);
        d->count[r->kind]++;
        if (r->kind != DIFF_SAME)
            d->rows.at[kept++] = *r;
    }
    d->same = d->count[DIFF_SAME];
    d->rows.len = kept;
    if (kept)
        qsort_r(d->rows.at, kept, sizeof *d->rows.at, compare_rows, &d->options.metric);
}

/* ---- all of it */

static int build(struct builder *b, struct err *e)
{
    for (int side = 0; side < 2; side++) {
        if (program_frames_init(&b->program[side], b->d->trace[side], b->d->options.skip, e) != 0 ||
            types_build_from(&b->d->types[side], &b->program[side], e) != 0 ||
            match_pools(b, side, e) != 0 || group_stacks(b, side, e) != 0 || count(b, side, e) != 0)
            return -1;
    }
    /* The newer one last: its types are those that are told. */
    for (int side = 0; side < 2; side++) {
        if (add_rows(b, side, e) != 0 ||
            diff_types_attach(&b->types[side], b->d, side, &b->rows, b->groups[side], e) != 0)
            return -1;
    }
    attach_stacks(b, 0);
    attach_stacks(b, 1);
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
        accounting_release(&b.accounts[side]);
        diff_types_release(&b.types[side]);
        free(b.groups[side]);
        free(b.pools[side]);
    }
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
