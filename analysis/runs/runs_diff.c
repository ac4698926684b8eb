#include "analysis/runs/runs_diff.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/diff/diff_lines.h"
#include "analysis/runs/runs_budgets.h"
#include "base/map.h"

/* Of a pool's total: differences far below it matter little. See noise.h. */
#define FLOOR 0.001

struct entry {
    uint32_t row, run;
    uint64_t figure;
};

struct builder {
    struct runs_diff *d;
    size_t runs[2], total;
    struct map numbers; /* hash of a row's identity → row; on a collision, the next key */
    VEC(struct view) identities;
    VEC(struct entry) entries;
    VEC(double) totals; /* by pool, figure, run */
    struct buf content;
    XXH64_hash_t seed;
};

/* ---- rows of sites */

static struct view base_name(struct view path)
{
    const char *slash = path.len ? memrchr(path.p, '/', path.len) : NULL;
    size_t at = slash ? (size_t)(slash - path.p) + 1 : 0;
    return (struct view){path.p + at, path.len - at};
}

/* Without a name the text is the image's and an offset, "svc+0x2ca5", which every build moves. */
static bool is_offset(const struct frame_view *f)
{
    struct view image = base_name(f->image);
    static const char sign[] = "+0x";
    size_t n = image.len + sizeof sign - 1;
    return image.len && f->function.len > n && memcmp(f->function.p, image.p, image.len) == 0 &&
           memcmp(f->function.p + image.len, sign, sizeof sign - 1) == 0;
}

static void put_part(struct buf *b, struct view text)
{
    buf_u64(b, text.len);
    buf_put(b, text.p, text.len);
}

static void put_identity(struct buf *b, struct view pool, const struct frame_view *f)
{
    bool unnamed = f->function.len == 0 || is_offset(f);
    buf_clear(b);
    put_part(b, pool);
    put_part(b, unnamed ? base_name(f->image) : diff_plain_name(f->function));
    put_part(b, unnamed ? (struct view){"", 0} : base_name(f->file));
    buf_u8(b, unnamed);
}

static int add_row(struct builder *b, const struct summary *s, const struct summary_row *from,
                   struct err *e)
{
    struct runs_row row = {.pool = s->pools.at[from->pool].name,
                           .function = from->frame.function,
                           .file = from->frame.file,
                           .image = from->frame.image,
                           .no_callstack = from->no_callstack,
                           .kind = DIFF_SAME};
    if (is_offset(&from->frame))
        row.function = (struct view){"", 0};
    char *copy = malloc(b->content.len + 1);
    if (!copy || !vec_push(&b->identities, (struct view){copy, b->content.len})) {
        free(copy);
        return err_no_memory(e, "the comparison");
    }
    memcpy(copy, b->content.data, b->content.len);
    return vec_push(&b->d->rows, row) ? 0 : err_no_memory(e, "the comparison");
}

/* The row of a site, made if it is new. */
static int row_of(struct builder *b, const struct summary *s, const struct summary_row *from,
                  uint32_t *row, struct err *e)
{
    put_identity(&b->content, s->pools.at[from->pool].name, &from->frame);
    if (b->content.failed)
        return err_no_memory(e, "the comparison");
    struct view content = buf_view(&b->content);
    for (uint64_t key = XXH3_64bits_withSeed(content.p, content.len, b->seed);; key++) {
        bool fresh;
        uint64_t *number = map_add(&b->numbers, key, &fresh);
        if (!number)
            return err_no_memory(e, "the comparison");
        if (!fresh && !view_equal(b->identities.at[*number], content))
            continue;
        if (fresh)
            *number = b->d->rows.len;
        *row = (uint32_t)*number;
        return fresh ? add_row(b, s, from, e) : 0;
    }
}

static int add_site(struct builder *b, const struct run_figures *f, uint32_t run,
                    const struct summary_row *from, struct err *e)
{
    const struct diff_side side = {.there = true, .figures = from->figures};
    struct entry one = {.run = run, .figure = diff_figure(&side, b->d->options.metric)};
    if (row_of(b, &f->summary, from, &one.row, e) != 0)
        return -1;
    b->d->rows.at[one.row].there[run >= b->runs[0]] |= from->figures.count != 0;
    return vec_push(&b->entries, one) ? 0 : err_no_memory(e, "the comparison");
}

/* ---- pools */

static int pool_of(struct builder *b, struct view name, size_t *at, struct err *e)
{
    struct runs_diff *d = b->d;
    for (*at = 0; *at < d->pools.len; ++*at) {
        if (view_equal(d->pools.at[*at].name, name))
            return 0;
    }
    for (size_t i = 0; i < DIFF_POOL_FIGURES * b->total; i++) {
        if (!vec_push(&b->totals, 0))
            return err_no_memory(e, "the comparison");
    }
    return vec_push(&d->pools, (struct runs_pool){.name = name})
               ? 0
               : err_no_memory(e, "the comparison");
}

static int add_run(struct builder *b, const struct run_figures *f, uint32_t run, struct err *e)
{
    const struct summary *s = &f->summary;
    if (s->empty)
        return err_set(e, ERR_CHECK, "%.200s: %.300s", f->name, buf_str((struct buf *)&s->verdict));
    for (size_t i = 0; i < s->pools.len; i++) {
        size_t at;
        if (pool_of(b, s->pools.at[i].name, &at, e) != 0)
            return -1;
        for (size_t k = 0; k < DIFF_POOL_FIGURES && b->totals.at; k++)
            b->totals.at[(at * DIFF_POOL_FIGURES + k) * b->total + run] =
                (double)diff_pool_figure(&s->pools.at[i].figures, k);
    }
    for (size_t i = 0; i < s->sites.len; i++) {
        if (add_site(b, f, run, &s->sites.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- the test */

/* What each total is compared with for its floor: indices in diff_pool_figures. */
enum { PEAK, LIVE, LIVE_BLOCKS, BYTES, COUNT, TEMPORARY };
static const uint8_t scale_of_total[DIFF_POOL_FIGURES] = {
    [PEAK] = PEAK,   [LIVE] = PEAK,   [LIVE_BLOCKS] = COUNT,
    [BYTES] = BYTES, [COUNT] = COUNT, [TEMPORARY] = COUNT,
};
static const uint8_t scale_of_metric[DIFF_METRICS] = {
    [DIFF_BYTES] = BYTES, [DIFF_COUNT] = COUNT, [DIFF_LIVE] = PEAK, [DIFF_PEAK] = PEAK};

/* Of a total of a pool; `values` begin with the totals. */
static double floor_of(const double *values, size_t runs, size_t pool, uint8_t total)
{
    double sum = 0;
    for (size_t i = 0; i < runs; i++)
        sum += values[(pool * DIFF_POOL_FIGURES + total) * runs + i];
    return sum / (double)runs * FLOOR;
}

static bool is_muted(const struct builder *b, const struct runs_row *r)
{
    struct pattern *mute = (struct pattern *)b->d->options.mute;
    return mute && (pattern_matches(mute, r->function.p, r->function.len) ||
                    pattern_matches(mute, r->file.p, r->file.len));
}

/* All figures in one array, totals first. */
static int fill(struct builder *b, double *values, struct noise_row *rows, struct err *e)
{
    struct runs_diff *d = b->d;
    size_t totals = d->pools.len * DIFF_POOL_FIGURES, at;
    if (b->totals.len)
        memcpy(values, b->totals.at, b->totals.len * sizeof *values);
    for (size_t i = 0; i < totals; i++)
        rows[i].floor = floor_of(values, b->total, i / DIFF_POOL_FIGURES,
                                 scale_of_total[i % DIFF_POOL_FIGURES]);
    for (size_t i = 0; i < b->entries.len; i++) {
        const struct entry *one = &b->entries.at[i];
        values[(totals + one->row) * b->total + one->run] += (double)one->figure;
    }
    for (size_t i = 0; i < d->rows.len; i++) {
        if (pool_of(b, d->rows.at[i].pool, &at, e) != 0)
            return -1;
        rows[totals + i].floor = floor_of(values, b->total, at, scale_of_metric[d->options.metric]);
        rows[totals + i].muted = is_muted(b, &d->rows.at[i]);
    }
    return 0;
}

static enum diff_kind kind_of(const struct runs_row *r)
{
    if (!r->noise.changed)
        return DIFF_SAME;
    if (!r->there[0])
        return DIFF_NEW;
    if (!r->there[1])
        return DIFF_GONE;
    return r->noise.change > 0 ? DIFF_GROWN : DIFF_SHRUNK;
}

/* Without a base there is no change. */
static double weight_of(const struct noise_row *r)
{
    return isnan(r->change) ? r->mean[1] : fabs(r->change);
}

static int compare_rows(const void *a, const void *b)
{
    const struct runs_row *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    double p = weight_of(&x->noise), q = weight_of(&y->noise);
    if (p != q)
        return p > q ? -1 : 1;
    int order = view_compare(x->pool, y->pool);
    if (order == 0)
        order = view_compare(x->function, y->function);
    return order ? order : view_compare(x->file, y->file);
}

static void take_outcomes(struct runs_diff *d, const struct noise_row *rows)
{
    size_t totals = d->pools.len * DIFF_POOL_FIGURES;
    for (size_t i = 0; i < totals; i++) {
        d->pools.at[i / DIFF_POOL_FIGURES].totals[i % DIFF_POOL_FIGURES] = rows[i];
        d->tested += !rows[i].muted;
    }
    for (size_t i = 0; i < d->rows.len; i++) {
        struct runs_row *r = &d->rows.at[i];
        r->noise = rows[totals + i];
        r->kind = kind_of(r);
        d->count[r->kind]++;
        d->unstable += r->noise.unstable;
        d->muted += r->noise.muted;
        d->tested += !r->noise.muted;
    }
    if (d->rows.len)
        qsort(d->rows.at, d->rows.len, sizeof *d->rows.at, compare_rows);
}

static int test(struct builder *b, struct err *e)
{
    struct runs_diff *d = b->d;
    size_t count = d->pools.len * DIFF_POOL_FIGURES + d->rows.len;
    double *values = calloc(count * b->total + 1, sizeof *values);
    struct noise_row *rows = calloc(count + 1, sizeof *rows);
    int status = values && rows ? fill(b, values, rows, e) : err_no_memory(e, "the comparison");
    if (status == 0)
        status = noise_test(&d->noise, b->runs, values, rows, count, &d->options.noise, e);
    if (status == 0)
        take_outcomes(d, rows);
    free(values);
    free(rows);
    return status;
}

int runs_diff_build(struct runs_diff *d, const struct run_figures *runs, const size_t count[2],
                    const struct runs_diff_options *options, struct err *e)
{
    *d = (struct runs_diff){.options = *options, .runs = runs};
    struct builder b = {.d = d, .runs = {count[0], count[1]}, .total = count[0] + count[1]};
    b.seed = map_hash(UINT64_C(0x72756e73));
    int status = 0;
    for (size_t i = 0; i < b.total && status == 0; i++)
        status = add_run(&b, &runs[i], (uint32_t)i, e);
    if (status == 0)
        status = test(&b, e);
    if (status == 0 && options->budgets.len)
        status = runs_budgets_check(&d->checks, runs, count, options->budgets, &options->noise, e);
    for (size_t i = 0; i < b.identities.len; i++)
        free((char *)b.identities.at[i].p);
    vec_release(&b.identities);
    vec_release(&b.entries);
    vec_release(&b.totals);
    map_release(&b.numbers);
    buf_release(&b.content);
    if (status != 0)
        runs_diff_release(d);
    return status;
}

void runs_diff_release(struct runs_diff *d)
{
    vec_release(&d->pools);
    vec_release(&d->rows);
    vec_release(&d->checks.list);
    *d = (struct runs_diff){0};
}
