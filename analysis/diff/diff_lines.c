#include "analysis/diff/diff_lines.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/code/module_facts.h"
#include "base/saturate.h"
#include "trace/store/frame_name.h"

/*
 * The maximum number of pairs of lines that are compared for one function; above it, lines match by
 * number only.
 */
#define CELLS_MAX ((size_t)1 << 26)

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

/* The start of a suffix such as ".isra.0" that ends at `end`; `end` if there is none. */
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

/* ---- builds */

struct module_list {
    VEC(struct module_fact) list;
};

static int take_module(void *ctx, const struct module_fact *m, struct err *e)
{
    struct module_list *to = ctx;
    return m->build_id.len == 0 || vec_push(&to->list, *m)
               ? 0
               : err_no_memory(e, "lines of the comparison");
}

static int find_builds(struct diff_lines *l, struct err *e)
{
    struct module_list modules[2] = {0};
    int status = module_facts_walk(l->trace[0], take_module, &modules[0], e);
    if (status == 0)
        status = module_facts_walk(l->trace[1], take_module, &modules[1], e);
    for (size_t i = 0; i < modules[0].list.len && status == 0; i++) {
        const struct module_fact *a = &modules[0].list.at[i];
        bool same = false;
        for (size_t k = 0; k < modules[1].list.len && !same; k++) {
            const struct module_fact *b = &modules[1].list.at[k];
            same = view_equal(a->build_id, b->build_id) &&
                   view_equal(frame_image_name(a->path), frame_image_name(b->path));
        }
        if (same && !vec_push(&l->same_builds, frame_image_name(a->path)))
            status = err_no_memory(e, "lines of the comparison");
    }
    vec_release(&modules[0].list);
    vec_release(&modules[1].list);
    return status;
}

static bool is_same_build(const struct diff_lines *l, struct view image)
{
    struct view name = frame_image_name(image);
    for (size_t i = 0; i < l->same_builds.len; i++) {
        if (view_equal(l->same_builds.at[i], name))
            return true;
    }
    return false;
}

int diff_lines_init(struct diff_lines *l, const struct trace *base, const struct trace *now,
                    struct err *e)
{
    *l = (struct diff_lines){.trace = {base, now}, .seed = map_hash(UINT64_C(0x6c696e65))};
    return find_builds(l, e);
}

void diff_lines_release(struct diff_lines *l)
{
    vec_release(&l->list);
    vec_release(&l->same_builds);
    map_release(&l->places[0]);
    map_release(&l->places[1]);
    map_release(&l->found);
    buf_release(&l->content);
}

/* ---- lines */

static void put_text(struct buf *b, struct view text)
{
    buf_u64(b, text.len);
    buf_put(b, text.p, text.len);
}

static uint64_t hash_of(struct diff_lines *l)
{
    return XXH3_64bits_withSeed(l->content.data, l->content.len, l->seed);
}

/* The number after the last "+0x" of "svc+0x2ca5"; 0 if there is none. */
static uint64_t offset_in_image(struct view text)
{
    const char *digits = "0123456789abcdef";
    uint64_t offset = 0, unit = 1;
    for (size_t at = text.len; at-- > 0 && unit; unit <<= 4) {
        const char *digit = text.p[at] ? strchr(digits, text.p[at]) : NULL;
        if (!digit)
            return text.p[at] == 'x' ? offset : 0;
        offset += (uint64_t)(digit - digits) * unit;
    }
    return 0;
}

static struct diff_line describe(struct diff_lines *l, int side, const struct frame_view *f)
{
    struct diff_line line = {.side = side,
                             .position = f->has_name ? f->line : offset_in_image(f->function),
                             .same_build = is_same_build(l, f->image),
                             .named = f->has_name,
                             .inner = UINT64_MAX};
    buf_clear(&l->content);
    buf_u8(&l->content, f->has_name);
    put_text(&l->content, f->has_name ? diff_plain_name(f->function) : frame_image_name(f->image));
    put_text(&l->content, f->has_name ? view_base_name(f->file) : (struct view){"", 0});
    line.function = hash_of(l);
    return line;
}

/* The index in the list; UINT64_MAX if memory is short. */
static uint64_t place(struct diff_lines *l, int side, uint32_t frame, uint32_t inlined)
{
    bool fresh;
    uint64_t *known = map_add(&l->places[side], (uint64_t)frame << 32 | inlined, &fresh);
    if (!known || !fresh)
        return known ? *known : UINT64_MAX;
    struct frame_view f = frame_describe(l->trace[side], frame, inlined);
    struct diff_line line = describe(l, side, &f);
    buf_clear(&l->content);
    buf_u8(&l->content, (uint8_t)side);
    buf_u64(&l->content, line.function);
    buf_u64(&l->content, line.position);
    uint64_t *index = l->content.failed ? NULL : map_add(&l->found, hash_of(l), &fresh);
    if (!index || (fresh && !vec_push(&l->list, line)))
        return UINT64_MAX;
    if (fresh)
        *index = l->list.len - 1;
    return *known = *index;
}

int diff_lines_count(struct diff_lines *l, int side, uint32_t callstack, const struct counter *c,
                     struct err *e)
{
    const struct callstacks *stacks = &l->trace[side]->callstacks;
    const struct callstack *stack = callstacks_get(stacks, callstack);
    uint64_t inner = UINT64_MAX;
    for (uint32_t node = stack ? stack->node : 0; node; node = stacks->nodes.at[node].parent) {
        uint32_t frame = stacks->nodes.at[node].frame;
        for (uint32_t i = 0; i < frame_depth(l->trace[side], frame); i++) {
            uint64_t at = place(l, side, frame, i);
            if (at == UINT64_MAX)
                return err_no_memory(e, "lines of the comparison");
            struct diff_line *line = &l->list.at[at];
            line->count = saturating_add(line->count, c->count);
            line->bytes = saturating_add(line->bytes, c->bytes);
            line->live_count = saturating_add(line->live_count, c->live_count);
            line->inner = inner < line->inner ? inner : line->inner;
            inner = line->function;
        }
    }
    return 0;
}

const struct diff_line *diff_lines_at(const struct diff_lines *l, int side, uint32_t frame,
                                      uint32_t inlined)
{
    const uint64_t *at = map_find(&l->places[side], (uint64_t)frame << 32 | inlined);
    return at ? &l->list.at[*at] : NULL;
}

/* ---- alignment */

/* The lines of one function. */
struct alignment {
    struct diff_line **at[2]; /* by position */
    size_t n[2];
    uint8_t *choices; /* of n[0] * n[1] cells */
    int *best;        /* two rows of n[1] + 1 */
    bool same_build;
};

enum choice { SKIP_BASE, SKIP_NOW, PAIR };

/* Equal block sizes are better evidence than a line number, which every edit above changes. */
static int score(const struct alignment *a, size_t i, size_t k)
{
    const struct diff_line *x = a->at[0][i], *y = a->at[1][k];
    int n = 16;
    n += x->bytes / x->count == y->bytes / y->count ? 8 : 0;
    n += x->position == y->position ? 6 : 0;
    n += x->inner == y->inner ? 4 : 0;
    n += x->count == y->count ? 3 : 0;
    n += (x->live_count == 0) == (y->live_count == 0) ? 2 : 0;
    if (i && k)
        n += x->position - a->at[0][i - 1]->position == y->position - a->at[1][k - 1]->position;
    return n;
}

static void fill(struct alignment *a)
{
    size_t width = a->n[1] + 1;
    memset(a->best, 0, width * sizeof *a->best);
    for (size_t i = 0; i < a->n[0]; i++) {
        const int *above = a->best + (i & 1) * width;
        int *row = a->best + (~i & 1) * width;
        row[0] = 0;
        for (size_t k = 0; k < a->n[1]; k++) {
            int pair = above[k] + score(a, i, k);
            enum choice c = PAIR;
            row[k + 1] = pair;
            if (above[k + 1] > row[k + 1]) {
                row[k + 1] = above[k + 1];
                c = SKIP_BASE;
            }
            if (row[k] > row[k + 1]) {
                row[k + 1] = row[k];
                c = SKIP_NOW;
            }
            a->choices[i * a->n[1] + k] = (uint8_t)c;
        }
    }
}

static void pair_up(struct alignment *a)
{
    size_t i = a->n[0], k = a->n[1];
    while (i && k) {
        switch ((enum choice)a->choices[(i - 1) * a->n[1] + k - 1]) {
        case PAIR:
            a->at[1][--k]->number = a->at[0][--i]->number;
            break;
        case SKIP_BASE:
            i--;
            break;
        case SKIP_NOW:
            k--;
            break;
        }
    }
}

static void pair_equal(struct alignment *a)
{
    for (size_t i = 0, k = 0; i < a->n[0] && k < a->n[1];) {
        uint64_t x = a->at[0][i]->position, y = a->at[1][k]->position;
        if (x == y)
            a->at[1][k]->number = a->at[0][i]->number;
        i += x <= y;
        k += y <= x;
    }
}

/* If one of the traces has no lines of a function, only the function is compared. */
static bool is_function_only(const struct alignment *a)
{
    return a->n[0] && a->n[1] &&
           (a->at[0][a->n[0] - 1]->position == 0 || a->at[1][a->n[1] - 1]->position == 0);
}

static int align(struct alignment *a, struct err *e)
{
    if (is_function_only(a)) {
        for (size_t i = 0; i < a->n[0] + a->n[1]; i++)
            a->at[0][i]->number = a->at[0][0]->number;
        return 0;
    }
    size_t cells = a->n[0] * a->n[1];
    if (cells == 0 || cells > CELLS_MAX || a->same_build) {
        pair_equal(a);
        return 0;
    }
    a->choices = malloc(cells);
    a->best = calloc(2 * (a->n[1] + 1), sizeof *a->best);
    int status = a->choices && a->best ? 0 : err_no_memory(e, "lines of the comparison");
    if (status == 0) {
        fill(a);
        pair_up(a);
    }
    free(a->choices);
    free(a->best);
    return status;
}

static int compare_lines(const void *a, const void *b)
{
    const struct diff_line *x = *(const struct diff_line *const *)a;
    const struct diff_line *y = *(const struct diff_line *const *)b;
    if (x->function != y->function)
        return x->function > y->function ? 1 : -1;
    if (x->side != y->side)
        return x->side - y->side;
    return (x->position > y->position) - (x->position < y->position);
}

int diff_lines_match(struct diff_lines *l, struct err *e)
{
    size_t n = l->list.len;
    struct diff_line **sorted = calloc(n + 1, sizeof(struct diff_line *));
    int status = sorted ? 0 : err_no_memory(e, "lines of the comparison");
    for (size_t i = 0; i < n && sorted; i++) {
        sorted[i] = &l->list.at[i];
        sorted[i]->number = (uint32_t)i;
    }
    if (n && sorted)
        qsort(sorted, n, sizeof *sorted, compare_lines);
    for (size_t i = 0, end; i < n && status == 0; i = end) {
        struct alignment a = {.at = {sorted + i}, .same_build = true};
        for (end = i; end < n && sorted[end]->function == sorted[i]->function; end++) {
            a.n[sorted[end]->side]++;
            a.same_build &= sorted[end]->same_build;
        }
        a.at[1] = sorted + i + a.n[0];
        status = align(&a, e);
    }
    free(sorted);
    return status;
}
